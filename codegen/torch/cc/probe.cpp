// What the recorder measures around a call.
#include "record.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Context.h>
#include <c10/core/impl/VirtualGuardImpl.h>

namespace rk {

void Probe::synchronize() const {
  if (device.is_cuda()) c10::impl::VirtualGuardImpl(device.type()).synchronizeDevice(device.index());
}

std::vector<uint8_t> Probe::generator() const {
  auto generator = at::globalContext().defaultGenerator(device);
  std::lock_guard<std::mutex> lock(generator.mutex());
  std::vector<uint8_t> out;
  auto add = [&](const void* bytes, size_t n) {
    const auto* from = static_cast<const uint8_t*>(bytes);
    out.insert(out.end(), from, from + n);
  };
  if (device.is_cuda()) {
    const auto state = generator.get_state(); // 16 bytes: seed and offset
    add(state.data_ptr(), state.nbytes());
    return out;
  }
  auto* cpu = at::check_generator<at::CPUGeneratorImpl>(generator);
  const auto engine = cpu->engine().data();
  add(&engine.left_, sizeof engine.left_);
  add(&engine.next_, sizeof engine.next_);
  add(engine.state_.data(), sizeof(engine.state_[0]) * engine.state_.size());
  out.push_back(cpu->next_float_normal_sample().has_value());
  out.push_back(cpu->next_double_normal_sample().has_value());
  return out;
}

at::Tensor Probe::generator_state() const {
  auto generator = at::globalContext().defaultGenerator(device);
  std::lock_guard<std::mutex> lock(generator.mutex());
  return generator.get_state();
}

void Probe::set_generator_state(const at::Tensor& state) const {
  auto generator = at::globalContext().defaultGenerator(device);
  std::lock_guard<std::mutex> lock(generator.mutex());
  generator.set_state(state);
}

} // namespace rk
