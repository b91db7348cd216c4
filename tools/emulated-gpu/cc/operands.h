// Tensors of the emulated device as the CPU's kernels see them.
#pragma once
#include "emulated.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>

#include <map>
#include <vector>

namespace emulated {

// Where a tensor lies: all that work needs of it. It owns nothing.
struct Operand {
  char* base;
  size_t bytes; // of the storage
  std::vector<int64_t> sizes, strides;
  int64_t offset;
  caffe2::TypeMeta dtype;

  static Operand of(const at::Tensor& tensor);
};

// Tensors over storages that are looked up by their addresses: two operands in one storage stay so.
class Storages {
 public:
  // Over the memory itself.
  at::Tensor over(const Operand& operand);
  // Over zeros of the same size, of its own.
  at::Tensor shadow(const Operand& operand);
  // The address whose shadow lies in this storage; null when none does.
  char* shadowed(const c10::StorageImpl* storage) const;

 private:
  std::map<char*, c10::Storage> storages_;
};

// Replaces every tensor among the arguments, also in lists.
void replace(c10::IValue& value, const std::function<at::Tensor(const at::Tensor&)>& with);
// Visits every tensor.
void each(const c10::IValue& value, const std::function<void(const at::Tensor&)>& visit);

// What becomes of a result.
struct Result {
  enum Kind { kUndefined, kArgument, kView, kFresh } kind;
  size_t of; // number of the tensor among the arguments: itself, or one whose storage is viewed; of a fresh one, its storage
  std::vector<int64_t> sizes, strides;
  int64_t offset;
  caffe2::TypeMeta dtype;
};

// What an operator gives for arguments of these shapes.
struct Metadata {
  std::vector<Result> results; // lists flattened
  std::vector<std::pair<bool, size_t>> returns; // whether it is a list, and of how many results
  std::vector<size_t> storages; // bytes of fresh ones
  // Arguments that were resized: out= of another size.
  std::vector<std::pair<size_t, Result>> resized;
  std::vector<size_t> resized_bytes;
};

// Found by running the CPU's kernel on zeros, once per operator and shapes.
const Metadata& metadata(const c10::OperatorHandle& op, const torch::jit::Stack& arguments);

// The arguments that the CPU's kernel gets besides tensors: no other device, no generator of another device.
void settle(c10::IValue& value);

// Puts the CPU's generator back on the way out.
struct KeepGenerator {
  KeepGenerator();
  ~KeepGenerator();
  struct State;
  std::unique_ptr<State> state;
};

} // namespace emulated
