// What a call takes: one of each class of equal calls, or every call.
//
// Calls are equal when nothing that decides their time differs: operator, all arguments that are not tensors, and of each
// tensor its type, sizes, strides and storage, and which of them share one. Names, module paths and numbers do not count.
// This is what the classes of `--rk-anonymize` look at too, minus what these know to cost the same (floats that only scale,
// commuted operands, spellings of a view): nodes of equal calls, wired alike, are of one class there, and a class there may
// hold several classes of calls. `--rk-annotate-cost` evens out what remains within a class of nodes.
//
// The first call of a class is repeated on the spot, after the recorded call as its warm-up, and so are the second, the fourth, the
// eighth ... of it: a class of one member has the samples that were asked for, and a class of many is measured all over the step. The
// recorded calls themselves are no samples: their results lie in new memory, whose pages are faulted in while they are written, which
// can take ten times as long as the operator. A lowered step runs in one arena whose pages are there; timed calls get the blocks of those
// before them (`Spares`).
//
// On a GPU the time is that between two events (timer.h), of as many calls one behind the other as make it long beside the resolution of
// an event. Memory is that of the calls before there, too: torch's allocator hands a block out again as soon as it was given back.
//
// Where the time depends on the numbers in the operands, a call is equal to none but itself.
#include "record.h"
#include "timer.h"

#include <ATen/ops/empty_strided.h>
#include <ATen/core/LegacyTypeDispatch.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <string_view>

namespace rk {
namespace {

// Of a sample on a GPU: two events are never nearer than half a microsecond (cuEventElapsedTime), and the host has to queue all calls
// while the stream is kept busy.
constexpr double kSample = 100e3; // nanoseconds
constexpr int32_t kMostCalls = 32;
constexpr int64_t kMostStall = 10'000'000, kMostStallOfOne = 1'000'000; // nanoseconds

uint64_t nanoseconds(std::chrono::steady_clock::duration time) {
  return static_cast<uint64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(time).count());
}

// Sorting and selection compare until they are done, and iterative decompositions converge when they do.
constexpr std::array<std::string_view, 14> kByTheNumbers = {
    "aten.sort", "aten.argsort", "aten.msort", "aten.topk", "aten.kthvalue", "aten.median", "aten.nanmedian",
    "aten.mode", "aten.multinomial", "aten.histc", "aten.linalg_", "aten._linalg_", "aten.svd", "aten.searchsorted",
};

template <class T>
void add(std::string& key, const T& number) {
  key.append(reinterpret_cast<const char*>(&number), sizeof number);
}

void add_list(std::string& key, const std::vector<int64_t>& numbers) {
  add(key, numbers.size());
  for (const int64_t number : numbers) add(key, number);
}

void add_argument(std::string& key, const Arg& arg) {
  add(key, arg.kind);
  add(key, arg.integer); // of a value nothing: its type follows
  add(key, arg.real);
  add(key, arg.string.size());
  key += arg.string;
  add(key, arg.items.size());
  for (const auto& item : arg.items) add_argument(key, item);
}

// Memory of its own, laid out as the tensor is.
at::Tensor copy_of(const at::Tensor& tensor) {
  auto copy = at::empty_strided(tensor.sizes(), tensor.strides(), tensor.options());
  copy.copy_(tensor);
  return copy;
}

} // namespace

std::string Recorder::call_class(const c10::OperatorHandle& op, const RecordedOp& entry) const {
  std::string key = entry.name;
  key += entry.backward ? " backward " : " forward "; // kernels may look at the grad mode
  for (const auto& arg : entry.args) add_argument(key, arg);
  bool own = op.hasTag(at::Tag::dynamic_output_shape);
  for (const auto name : kByTheNumbers) own = own || entry.name.compare(0, name.size(), name) == 0;
  std::vector<uint32_t> storages;
  for (const uint32_t operand : entry.operands) {
    const auto& meta = values_[operand];
    add(key, meta.defined);
    if (!meta.defined) continue;
    add(key, meta.dtype);
    add_list(key, meta.sizes);
    add_list(key, meta.strides);
    add(key, meta.storage_bytes);
    const auto shared = std::find(storages.begin(), storages.end(), meta.storage);
    add(key, shared - storages.begin());
    if (shared == storages.end()) storages.push_back(meta.storage);
    // Indices decide which memory is touched, and whether updates collide.
    int64_t elements = 1;
    for (const int64_t size : meta.sizes) elements *= size;
    own = own || (at::isIntegralType(meta.dtype, false) && elements > 1);
  }
  if (own) add(key, ops_.size());
  return key;
}

// The call has been made once, which is the warm-up. What it writes is written in copies, and what it draws is drawn again.
void Recorder::repeat(const c10::OperatorHandle& op, c10::DispatchKeySet below, const torch::jit::Stack& inputs, const RecordedOp& entry,
                      std::vector<uint64_t>& times) {
  if (op.hasTag(at::Tag::inplace_view)) return; // once more would turn it back; a view takes no time
  const auto begin = std::chrono::steady_clock::now();
  at::AutoDispatchBelowAutograd no_autograd;
  Probe probe(device_);
  const auto generator = entry.random ? probe.generator_state() : at::Tensor();
  // Operands by their place among the tensors, as `writes` counts them.
  uint32_t place = 0;
  const auto writes = [&](uint32_t operand) { return std::find(entry.writes.begin(), entry.writes.end(), operand) != entry.writes.end(); };
  const auto prepared = [&](const c10::IValue& input, const auto& self) -> c10::IValue {
    if (input.isTensor()) {
      const auto& tensor = input.toTensor();
      if (!tensor.defined() || tensor.unsafeGetTensorImpl()->is_wrapped_number() || !writes(place++)) return input;
      return copy_of(tensor);
    }
    if (input.isTensorList()) {
      c10::List<at::Tensor> list;
      for (const auto& item : input.toListRef()) list.push_back(self(item, self).toTensor());
      return list;
    }
    if (input.isList()) { // of optional tensors
      for (const auto& item : input.toListRef()) place += item.isTensor() && item.toTensor().defined() ? 1 : 0;
    }
    return input;
  };
  const auto ready = [&] {
    torch::jit::Stack stack;
    place = 0;
    for (const auto& input : inputs) stack.push_back(prepared(input, prepared));
    return stack;
  };
  if (device_.is_cuda()) {
    Timer timer(device_, kMostStall);
    int32_t calls = 1;
    // One after the other, on the same operands; what they write, they write again.
    const auto sample = [&](double (Timer::*measure)(const std::function<void()>&)) {
      const auto operands = ready();
      return (timer.*measure)([&] {
        for (int32_t i = 0; i < calls; ++i) {
          auto stack = operands;
          op.redispatchBoxed(below, &stack);
        }
      }) / calls;
    };
    sample(&Timer::once); // finds no memory yet
    const double one = sample(&Timer::of);
    calls = static_cast<int32_t>(std::clamp(std::ceil(kSample / std::max(one, 1.0)), 1.0, double{kMostCalls}));
    if (calls > 1) sample(&Timer::of); // finds out how long the host needs for so many
    for (int32_t i = 0; i < repeats_; ++i) times.push_back(static_cast<uint64_t>(std::llround(sample(&Timer::of))));
  } else {
    const Spares spares;
    for (int32_t i = -1; i < repeats_; ++i) { // the first finds no spare blocks yet
      const auto operands = ready(); // boxed kernels that return references to them do not keep them
      auto stack = operands;
      const auto start = std::chrono::steady_clock::now();
      op.redispatchBoxed(below, &stack);
      const auto taken = std::chrono::steady_clock::now() - start;
      if (i >= 0) times.push_back(nanoseconds(taken));
    }
  }
  if (generator.defined()) probe.set_generator_state(generator);
  measuring_ += std::chrono::steady_clock::now() - begin;
}

void Recorder::start_timing(bool fresh) {
  spares_.emplace();
  if (device_.is_cuda() && !timer_.has_value()) timer_.emplace(device_, kMostStallOfOne);
  mode_ = Mode::kTime;
  next_call_ = 0;
  run_started_ = std::chrono::steady_clock::now();
  if (!fresh) return;
  for (auto& op : ops_) op.times.clear();
}

void Recorder::end_run() {
  TORCH_CHECK(mode_ != Mode::kTime || next_call_ == calls_.size(), "the step made ", next_call_, " calls after ", calls_.size(), " in the recording");
  next_call_ = 0;
  measuring_ += std::chrono::steady_clock::now() - run_started_;
}

void Recorder::time(const c10::OperatorHandle& op, c10::DispatchKeySet below, torch::jit::Stack* stack) {
  TORCH_CHECK(next_call_ < calls_.size(), "the step makes more calls than in the recording, the first at ", current_);
  const size_t at = calls_[next_call_++];
  uint64_t taken = 0;
  if (device_.is_cuda()) {
    taken = static_cast<uint64_t>(std::llround(timer_->once([&] { op.redispatchBoxed(below, stack); })));
  } else {
    const auto start = std::chrono::steady_clock::now();
    op.redispatchBoxed(below, stack);
    taken = nanoseconds(std::chrono::steady_clock::now() - start);
  }
  if (at != std::string::npos) ops_[at].times.push_back(taken);
}

} // namespace rk
