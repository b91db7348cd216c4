// The fallback, and what it does around a call.
#include "record.h"
#include "watch.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/library.h>

#include <algorithm>
#include <atomic>
#include <optional>

namespace rk {
namespace {

std::atomic<Recorder*> active{nullptr};

void fallback(const c10::OperatorHandle& op, c10::DispatchKeySet keys, torch::jit::Stack* stack) {
  Recorder* recorder = active.load();
  // A composite without tensor arguments arrives here undecomposed.
  if (op.hasKernelForDispatchKey(c10::DispatchKey::CompositeImplicitAutograd) && !op.hasKernelForDispatchKey(c10::DispatchKey::CPU)) {
    op.callBoxedForDispatchKey(c10::DispatchKey::CompositeImplicitAutograd, *stack);
    return;
  }
  c10::impl::ExcludeDispatchKeyGuard exclude(c10::DispatchKey::Fake);
  const auto below = keys & c10::DispatchKeySet(c10::DispatchKeySet::FULL_AFTER, c10::DispatchKey::Fake);
  if (recorder == nullptr) {
    op.redispatchBoxed(below, stack);
  } else {
    recorder->call(op, below, stack);
  }
}

void register_fallback() {
  static torch::Library library(torch::Library::IMPL, "_", c10::DispatchKey::Fake, __FILE__, __LINE__);
  static const bool done = [] {
    library.fallback(torch::CppFunction::makeFromBoxedFunction<&fallback>());
    return true;
  }();
  (void)done;
}

std::string ir_name(const c10::OperatorHandle& op) {
  const auto& name = op.operator_name();
  std::string base = name.name;
  if (const auto colons = base.find("::"); colons != std::string::npos) base.replace(colons, 2, ".");
  return base + "." + (name.overload_name.empty() ? "default" : name.overload_name);
}

} // namespace

Recorder::Session::Session(Recorder& recorder)
    : include_((register_fallback(), c10::DispatchKeySet(c10::DispatchKey::Fake))) {
  active.store(&recorder);
}

Recorder::Session::~Session() { active.store(nullptr); }

Recorder::Recorder(c10::Device device, std::function<std::string()> where) : device_(device), where_(std::move(where)) {}
Recorder::~Recorder() = default;

void Recorder::refuse(const std::string& reason) const {
  const auto path = where_();
  throw KindError(RK_REFUSED, "operator " + current_ + " at '" + (path.empty() ? "<root>" : path) + "': " + reason);
}

void Recorder::call(const c10::OperatorHandle& op, c10::DispatchKeySet below, torch::jit::Stack* stack) {
  current_ = ir_name(op);
  if (mode_ == Mode::kTime) {
    time(op, below, stack);
  } else {
    record(op, below, stack);
  }
}

// Whether numbers that it looks at may be others in the next step. Those of literals (shape arithmetic that the trace left) and of
// buffers that no operator writes are not.
bool Recorder::reads_data(const RecordedOp& op) const {
  for (const uint32_t operand : op.operands) {
    if (!values_[operand].defined) continue;
    const auto& storage = storages_.at(storage_order_[values_[operand].storage]);
    const auto written = [&](uint32_t buffer) { return storages_.at(storage_order_[buffer]).tainted; };
    if (storage.tainted || std::any_of(storage.settled.begin(), storage.settled.end(), written)) return true;
  }
  return false;
}

// What it has answered is baked in: from here on the buffers behind it must stay as they are.
void Recorder::read_by_the_host(const RecordedOp& op) {
  for (const uint32_t operand : op.operands) {
    if (!values_[operand].defined) continue;
    const auto& storage = storages_.at(storage_order_[values_[operand].storage]);
    for (const uint32_t buffer : storage.settled) settled_.try_emplace(buffer, current_);
  }
}

void Recorder::check_storages(const RecordedOp& op) const {
  for (const uint32_t index : op.writes) {
    const auto& meta = values_[op.operands[index]];
    if (!meta.defined) continue;
    const auto& storage = storages_.at(storage_order_[meta.storage]);
    if (storage.constant) refuse("it writes to a tensor that is baked into the trace");
    if (const auto reader = settled_.find(meta.storage); reader != settled_.end()) {
      refuse("it writes to a buffer whose numbers " + reader->second + " has read to decide what is recorded");
    }
    if (const auto strong = storage.weak.lock(); strong && strong->nbytes() != meta.storage_bytes) {
      refuse("it changes the size of the storage of its argument");
    }
  }
}

// Of results and of what was overwritten: whether their numbers may differ from step to step, and which buffers they come from.
void Recorder::note_sources(const RecordedOp& op) {
  const bool tainted = op.random || reads_data(op);
  std::set<uint32_t> settled;
  for (const uint32_t operand : op.operands) {
    if (tainted || !values_[operand].defined) continue;
    const auto& storage = storages_.at(storage_order_[values_[operand].storage]);
    settled.insert(storage.settled.begin(), storage.settled.end());
  }
  auto note = [&](uint32_t value, bool written) {
    if (!values_[value].defined) return;
    auto& storage = storages_.at(storage_order_[values_[value].storage]);
    // A buffer that is written has other numbers in the next step, whatever they come from.
    storage.tainted |= tainted || (written && storage.settled.count(storage.id) != 0);
    storage.settled.insert(settled.begin(), settled.end());
  };
  for (const uint32_t value : op.results) note(value, false);
  for (const uint32_t index : op.writes) note(op.operands[index], true);
}

void Recorder::record(const c10::OperatorHandle& op, c10::DispatchKeySet below, torch::jit::Stack* stack) {
  RecordedOp entry;
  entry.name = current_;
  entry.path = where_();
  entry.backward = backward;
  read_arguments(op, *stack, entry);
  if (op.hasTag(at::Tag::data_dependent_output) || current_ == "aten._local_scalar_dense.default") {
    if (reads_data(entry)) refuse("its result is a number that depends on the data of the step. It may read constants, and buffers that the step does not write");
    read_by_the_host(entry);
    op.redispatchBoxed(below, stack); // shape arithmetic: the number is baked in, like every size of a trace
    calls_.push_back(std::string::npos);
    return;
  }
  bool masks = false; // indexing by a mask: the shape of the result depends on it
  if (current_ == "aten.index.Tensor") {
    for (size_t i = 1; i < entry.operands.size(); ++i) {
      const auto dtype = values_[entry.operands[i]].dtype;
      masks = masks || dtype == at::kBool || dtype == at::kByte;
    }
  }
  const bool dynamic = op.hasTag(at::Tag::dynamic_output_shape) && current_ != "aten.index.Tensor";
  if (dynamic || masks) {
    if (reads_data(entry)) refuse("the shape of its result depends on the data of the step. It may read constants, and buffers that the step does not write");
    read_by_the_host(entry);
  }

  auto* known_class = repeats_ > 0 ? &classes_.try_emplace(call_class(op, entry), Class{ops_.size()}).first->second : nullptr;
  const size_t calls = known_class ? ++known_class->calls : 0;
  const bool repeated = calls > 0 && (calls & (calls - 1)) == 0;
  torch::jit::Stack inputs; // references for the repeats: the call itself consumes the stack
  if (repeated) inputs.assign(stack->end() - static_cast<std::ptrdiff_t>(op.schema().arguments().size()), stack->end());
  Probe probe(device_);
  const bool watch = !device_.is_cuda() || op.hasTag(at::Tag::nondeterministic_seeded);
  const auto generator = watch ? probe.generator() : std::vector<uint8_t>();
  Watch watch_memory(nullptr, device_.type());
  op.redispatchBoxed(below, stack);
  probe.synchronize();
  watch_memory.stop();
  entry.random = watch && probe.generator() != generator;
  const size_t known = storage_order_.size();
  read_results(op, *stack, entry);
  std::vector<int64_t> results;
  for (size_t i = known; i < storage_order_.size(); ++i) {
    const auto& storage = storages_.at(storage_order_[i]);
    const auto strong = storage.weak.lock();
    if (strong) results.push_back(watch_memory.last_at(strong->data()));
  }
  // On a GPU what stays beside the results is the library's: cuBLAS allocates its workspace on the first call, and keeps it.
  for (size_t i = 0; device_.is_cuda() && i < watch_memory.blocks.size(); ++i) {
    auto& block = watch_memory.blocks[i];
    const bool result = std::find(results.begin(), results.end(), static_cast<int64_t>(i)) != results.end();
    if (block.to == kNever && !result) block.bytes = 0;
  }
  entry.workspace = static_cast<uint64_t>(workspace(watch_memory, results));
  check_storages(entry);
  note_sources(entry);
  entry.measured = known_class ? known_class->first : ops_.size();
  if (repeated) {
    std::vector<uint64_t> times;
    repeat(op, below, inputs, entry, times);
    auto& all = calls == 1 ? entry.times : ops_[entry.measured].times;
    all.insert(all.end(), times.begin(), times.end());
  }
  calls_.push_back(ops_.size());
  ops_.push_back(std::move(entry));
}

} // namespace rk
