// The recorder: what one run of a step did, operator by operator, as plain data.
//
// Mechanism. A boxed fallback on the dispatch key Fake, which libtorch reserves for out-of-tree use, sees every
// operator below autograd and above the backends, in the forward and in the engine's backward alike. What is
// composite has been decomposed by then; what autograd does on its own behalf (the clone that an in-place
// operator saves, the accumulation of gradients) passes through as well.
//
// The recorder owns no tensor: an owner would keep the engine from stealing gradients and so change the step.
// Weak pointers keep addresses from being reused, so storages and tensors are known by address.
#pragma once
#include "bytes.h"
#include "spares.h"
#include "timer.h"

#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

namespace rk {

// Type and layout of a tensor at one moment.
struct Meta {
  bool defined = false;
  at::ScalarType dtype = at::ScalarType::Undefined;
  std::vector<int64_t> sizes, strides;
  int64_t offset = 0;
  uint64_t storage_bytes = 0;
  uint32_t storage = 0; // number of the storage in order of appearance

  bool same_view(const Meta& other) const {
    return storage == other.storage && dtype == other.dtype && offset == other.offset && sizes == other.sizes &&
        strides == other.strides;
  }
};

// An argument as text-free data: a number, a string, a value, or a list.
struct Arg {
  enum Kind : uint8_t { kNone, kValue, kInt, kFloat, kBool, kString, kList } kind = kNone;
  uint32_t value = 0;
  int64_t integer = 0;
  double real = 0;
  std::string string;
  std::vector<Arg> items;
};

struct RecordedOp {
  std::string name, path;
  std::vector<Arg> args;
  std::vector<uint32_t> operands, results, writes;
  std::vector<int32_t> aliases;
  bool random = false, backward = false;
  uint64_t workspace = 0;
  std::vector<uint64_t> times; // nanoseconds of each timed run
  size_t measured = 0;         // the operator that was timed for it: itself, or an equal call before it
};

class Recorder {
 public:
  enum class Mode { kRecord, kTime };

  // Memory and time are read on `device`; `where` gives the module path of the operator that is running.
  Recorder(c10::Device device, std::function<std::string()> where);
  ~Recorder();

  // Declares what is there before the step. Each storage once; a later view of it is derived from it.
  void argument(const at::Tensor& tensor, uint8_t role, const std::string& name, bool trainable, const std::vector<std::string>& aliases);
  // Declares a tensor that is baked into the trace.
  void constant(const at::Tensor& tensor);
  // Names a result of the step.
  void result(const at::Tensor& tensor, uint8_t role, const std::string& name);

  // Switches the recording on for this thread, and for threads that the autograd engine starts from it.
  class Session {
   public:
    explicit Session(Recorder& recorder);
    ~Session();

   private:
    c10::impl::IncludeDispatchKeyGuard include_;
  };

  // From now on the first, second, fourth, eighth ... of each class of equal calls is made `repeats` times more, right after itself, and
  // timed; all take the median of these times (measure.cpp).
  void time_classes(int32_t repeats) { repeats_ = repeats; }
  // Later runs of the step are timed and must make the same calls; `fresh` forgets the times so far.
  void start_timing(bool fresh);
  void end_run();      // in timing mode: all calls have been made
  bool backward = false;

  void encode(Bytes& out) const;
  // Called by the fallback.
  void call(const c10::OperatorHandle& op, c10::DispatchKeySet below, torch::jit::Stack* stack);

 private:
  struct Storage {
    c10::weak_intrusive_ptr<c10::StorageImpl> weak;
    uint32_t id;
    bool tainted;  // its numbers may differ from step to step: derived from inputs, trainable parameters or random numbers, or written
    bool constant; // baked into the trace: must not be written
    std::vector<uint32_t> values;
    std::set<uint32_t> settled; // unless tainted: the buffers that it is derived from, by their storages
  };
  struct Argument {
    uint32_t value;
    uint8_t role;
    bool trainable;
    std::string name;
    std::vector<std::string> aliases;
  };
  struct Constant {
    uint32_t value;
    std::vector<char> bytes;
  };
  struct Result {
    uint32_t value;
    uint8_t role;
    std::string name;
  };

  Storage& storage_of(const at::Tensor& tensor, bool& fresh);
  Meta meta_of(const at::Tensor& tensor, uint32_t storage) const;
  uint32_t new_value(const at::Tensor& tensor, Storage& storage);
  uint32_t value_of(const at::Tensor& tensor);
  uint32_t derive(const at::Tensor& tensor, Storage& storage);
  Arg arg_of(const c10::IValue& value, std::vector<uint32_t>& operands);
  void read_arguments(const c10::OperatorHandle& op, const torch::jit::Stack& stack, RecordedOp& out);
  void read_results(const c10::OperatorHandle& op, const torch::jit::Stack& stack, RecordedOp& out);
  bool reads_data(const RecordedOp& op) const;
  void read_by_the_host(const RecordedOp& op);
  void note_sources(const RecordedOp& op);
  void check_storages(const RecordedOp& op) const;
  void record(const c10::OperatorHandle& op, c10::DispatchKeySet below, torch::jit::Stack* stack);
  void time(const c10::OperatorHandle& op, c10::DispatchKeySet below, torch::jit::Stack* stack);
  std::string call_class(const c10::OperatorHandle& op, const RecordedOp& entry) const;
  void repeat(const c10::OperatorHandle& op, c10::DispatchKeySet below, const torch::jit::Stack& inputs, const RecordedOp& entry,
              std::vector<uint64_t>& times);
  [[noreturn]] void refuse(const std::string& reason) const;

  c10::Device device_;
  std::function<std::string()> where_;
  Mode mode_ = Mode::kRecord;
  std::string current_; // name of the operator that is running, for messages
  std::vector<Meta> values_;
  std::unordered_map<c10::StorageImpl*, Storage> storages_;
  std::vector<c10::StorageImpl*> storage_order_;
  std::unordered_map<c10::TensorImpl*, uint32_t> tensors_;
  std::vector<c10::weak_intrusive_ptr<c10::TensorImpl, c10::UndefinedTensorImpl>> weak_tensors_;
  std::vector<Argument> arguments_;
  std::vector<Constant> constants_;
  std::vector<RecordedOp> ops_;
  std::vector<size_t> calls_; // the operator of each intercepted call that is in ops_; npos: not recorded
  size_t next_call_ = 0;
  std::optional<Spares> spares_;                    // while whole runs are timed
  std::optional<Timer> timer_;                      // of calls in them, on a GPU
  int32_t repeats_ = 0;                             // timed repeats of the first call of a class
  struct Class {
    size_t first;     // the operator that has the times
    size_t calls = 0; // so far
  };
  std::unordered_map<std::string, Class> classes_;
  std::unordered_map<uint32_t, std::string> settled_; // buffers whose numbers the recording rests on, and which operator read them
  std::chrono::nanoseconds measuring_{0};           // time that went into repeats and timed runs
  std::chrono::steady_clock::time_point run_started_; // of a timed run
  std::vector<Result> results_;
};

// Waits for a device, and its generator.
struct Probe {
  explicit Probe(c10::Device device) : device(device) {}
  c10::Device device;
  void synchronize() const;
  std::vector<uint8_t> generator() const; // enough of its state to see whether something was drawn
  at::Tensor generator_state() const;     // all of it
  void set_generator_state(const at::Tensor& state) const;
};

} // namespace rk
