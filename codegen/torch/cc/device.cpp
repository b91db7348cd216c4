// Generators and devices. CUDA is never linked: libtorch_cuda is loaded by name (cuda.cpp), and all later calls go through
// the registries of libc10 and libtorch_cpu.
#include "common.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Context.h>
#include <ATen/Parallel.h>
#include <ATen/core/Tensor.h>
#include <c10/core/CachingDeviceAllocator.h>
#include <c10/core/impl/VirtualGuardImpl.h>

namespace {

c10::Device device_of(int32_t type, int32_t index) {
  TORCH_CHECK(type == 0 || type == 1, "device type ", type, " is unknown");
  if (type == 0) return c10::Device(c10::DeviceType::CPU);
  TORCH_CHECK(c10::GetAllocator(c10::DeviceType::CUDA) != nullptr, "CUDA is not loaded");
  return c10::Device(c10::DeviceType::CUDA, static_cast<c10::DeviceIndex>(index));
}

c10::DeviceAllocator& cuda_allocator() {
  // getDeviceAllocator asserts when there is none.
  TORCH_CHECK(c10::GetAllocator(c10::DeviceType::CUDA) != nullptr, "CUDA is not loaded");
  return *c10::getDeviceAllocator(c10::DeviceType::CUDA);
}

} // namespace

// On the CPU the members of the generator, because its own get_state makes a tensor; elsewhere that tensor.
struct RkParked {
  std::optional<at::mt19937> engine;
  std::optional<float> next_float;
  std::optional<double> next_double;
  at::Tensor state;
};

extern "C" {

const char* rk_seed(int32_t type, int32_t index, uint64_t seed) {
  return rk::guarded([&] {
    auto generator = at::globalContext().defaultGenerator(device_of(type, index));
    std::lock_guard<std::mutex> lock(generator.mutex());
    generator.set_current_seed(seed);
  });
}

const char* rk_generator_get(int32_t type, int32_t index, at::Tensor** out) {
  return rk::guarded([&] {
    auto generator = at::globalContext().defaultGenerator(device_of(type, index));
    std::lock_guard<std::mutex> lock(generator.mutex());
    *out = new at::Tensor(generator.get_state());
  });
}

const char* rk_generator_set(int32_t type, int32_t index, const at::Tensor* state) {
  return rk::guarded([&] {
    auto generator = at::globalContext().defaultGenerator(device_of(type, index));
    std::lock_guard<std::mutex> lock(generator.mutex());
    generator.set_state(*state);
  });
}

const char* rk_generator_park(int32_t type, int32_t index, RkParked** out) {
  return rk::guarded([&] {
    auto generator = at::globalContext().defaultGenerator(device_of(type, index));
    std::lock_guard<std::mutex> lock(generator.mutex());
    auto parked = std::make_unique<RkParked>();
    if (type == 0) {
      auto* cpu = at::check_generator<at::CPUGeneratorImpl>(generator);
      parked->engine = cpu->engine();
      parked->next_float = cpu->next_float_normal_sample();
      parked->next_double = cpu->next_double_normal_sample();
    } else {
      parked->state = generator.get_state();
    }
    *out = parked.release();
  });
}

const char* rk_generator_unpark(int32_t type, int32_t index, const RkParked* parked) {
  return rk::guarded([&] {
    auto generator = at::globalContext().defaultGenerator(device_of(type, index));
    std::lock_guard<std::mutex> lock(generator.mutex());
    if (type != 0) {
      generator.set_state(parked->state);
      return;
    }
    auto* cpu = at::check_generator<at::CPUGeneratorImpl>(generator);
    cpu->set_engine(*parked->engine);
    cpu->set_next_float_normal_sample(parked->next_float);
    cpu->set_next_double_normal_sample(parked->next_double);
  });
}

void rk_parked_free(RkParked* parked) { delete parked; }

const char* rk_device_synchronize(int32_t type, int32_t index) {
  return rk::guarded([&] {
    const auto device = device_of(type, index);
    if (!device.is_cuda()) return;
    c10::impl::VirtualGuardImpl(device.type()).synchronizeDevice(device.index());
  });
}

const char* rk_cuda_memory(int32_t index, int64_t* current, int64_t* peak) {
  return rk::guarded([&] {
    const auto stats = cuda_allocator().getDeviceStats(static_cast<c10::DeviceIndex>(index));
    // Index 0 of each array is the sum over the pools.
    *current = stats.requested_bytes[0].current;
    *peak = stats.requested_bytes[0].peak;
  });
}

const char* rk_cuda_cached(int32_t index, int64_t* out) {
  return rk::guarded([&] {
    const auto stats = cuda_allocator().getDeviceStats(static_cast<c10::DeviceIndex>(index));
    *out = stats.reserved_bytes[0].current - stats.active_bytes[0].current;
  });
}

const char* rk_cuda_reset_peak(int32_t index) {
  return rk::guarded([&] { cuda_allocator().resetPeakStats(static_cast<c10::DeviceIndex>(index)); });
}

const char* rk_threads(int32_t set, int32_t* out) {
  return rk::guarded([&] {
    if (set > 0) at::set_num_threads(set);
    *out = at::get_num_threads();
  });
}

} // extern "C"
