// Tensors to numbered values: by address, then by storage and layout, else derived from the storage's base.
#include "record.h"

#include <c10/util/strides.h>

namespace rk {
namespace {

// Operators that change an argument without saying so in their schema: running statistics in training.
// `training` is the place of the flag that switches the mutation on, -1 when it always happens.
struct Undeclared {
  const char* name;
  int training;
  std::vector<int> written;
};
const Undeclared kUndeclared[] = {
    {"aten.native_batch_norm.default", 5, {3, 4}},
    {"aten.cudnn_batch_norm.default", 5, {3, 4}},
    {"aten.miopen_batch_norm.default", 5, {3, 4}},
    {"aten.batch_norm_update_stats.default", -1, {1, 2}},
    {"aten.batch_norm_gather_stats.default", -1, {3, 4}},
    {"aten.batch_norm_gather_stats_with_counts.default", -1, {3, 4}},
};

// Operators that change the layout of the tensor itself are recorded as the view they make.
const std::pair<const char*, const char*> kViews[] = {
    {"aten.t_.default", "aten.t.default"},
    {"aten.transpose_.default", "aten.transpose.int"},
    {"aten.squeeze_.default", "aten.squeeze.default"},
    {"aten.squeeze_.dim", "aten.squeeze.dim"},
    {"aten.squeeze_.dims", "aten.squeeze.dims"},
    {"aten.unsqueeze_.default", "aten.unsqueeze.default"},
    {"aten.as_strided_.default", "aten.as_strided.default"},
    {"aten.detach_.default", "aten.detach.default"},
};

bool is_view_in_place(std::string& name) {
  for (const auto& [in_place, view] : kViews) {
    if (name == in_place) {
      name = view;
      return true;
    }
  }
  return false;
}

bool known_dtype(at::ScalarType dtype) {
  switch (dtype) {
    case at::kDouble: case at::kFloat: case at::kHalf: case at::kBFloat16: case at::kLong: case at::kInt:
    case at::kShort: case at::kChar: case at::kByte: case at::kBool: case at::kComplexFloat: case at::kComplexDouble:
      return true;
    default: return false;
  }
}

} // namespace

Recorder::Storage& Recorder::storage_of(const at::Tensor& tensor, bool& fresh) {
  if (tensor.layout() != at::kStrided || tensor.is_quantized()) refuse(std::string("a tensor of layout ") + c10::str(tensor.layout()) + " and type " + c10::toString(tensor.scalar_type()) + " is not supported");
  if (!known_dtype(tensor.scalar_type())) refuse(std::string("tensors of type ") + c10::toString(tensor.scalar_type()) + " are not supported");
  auto* impl = tensor.storage().unsafeGetStorageImpl();
  const auto found = storages_.find(impl);
  fresh = found == storages_.end();
  if (!fresh) return found->second;
  const auto strong = c10::intrusive_ptr<c10::StorageImpl>::reclaim_copy(impl);
  storage_order_.push_back(impl);
  const auto id = static_cast<uint32_t>(storage_order_.size() - 1);
  return storages_.emplace(impl, Storage{c10::weak_intrusive_ptr<c10::StorageImpl>(strong), id, false, false, {}, {}}).first->second;
}

Meta Recorder::meta_of(const at::Tensor& tensor, uint32_t storage) const {
  return {true, tensor.scalar_type(), tensor.sizes().vec(), tensor.strides().vec(), tensor.storage_offset(), tensor.storage().nbytes(), storage};
}

uint32_t Recorder::new_value(const at::Tensor& tensor, Storage& storage) {
  const auto id = static_cast<uint32_t>(values_.size());
  values_.push_back(meta_of(tensor, storage.id));
  storage.values.push_back(id);
  auto* impl = tensor.unsafeGetTensorImpl();
  if (tensors_.find(impl) == tensors_.end()) {
    weak_tensors_.emplace_back(c10::intrusive_ptr<c10::TensorImpl, c10::UndefinedTensorImpl>::reclaim_copy(impl));
  }
  tensors_[impl] = id;
  return id;
}

void Recorder::argument(const at::Tensor& tensor, uint8_t role, const std::string& name, bool trainable, const std::vector<std::string>& aliases) {
  bool fresh = false;
  auto& storage = storage_of(tensor, fresh);
  if (!fresh) return; // an input that is a view of another argument: derived where it is used
  // An archive's buffers, and parameters that are not trained, are the same in every step unless the step writes to them.
  const bool input = role == 0;
  if (input || trainable) storage.tainted = true;
  else storage.settled = {storage.id};
  arguments_.push_back({new_value(tensor, storage), role, trainable, name, aliases});
}

void Recorder::constant(const at::Tensor& tensor) {
  if (mode_ == Mode::kTime) return;
  current_ = "constant";
  bool fresh = false;
  auto& storage = storage_of(tensor, fresh);
  if (!fresh) return;
  storage.constant = true;
  c10::impl::ExcludeDispatchKeyGuard exclude(c10::DispatchKey::Fake);
  const auto value = new_value(tensor, storage);
  const at::Tensor flat = tensor.detach().to(at::kCPU).contiguous();
  const auto* from = static_cast<const char*>(flat.data_ptr());
  constants_.push_back({value, std::vector<char>(from, from + flat.nbytes())});
  // The constant is printed contiguous, whatever it was in the archive.
  values_[value].strides = flat.strides().vec();
  values_[value].offset = 0;
  values_[value].storage_bytes = flat.nbytes();
}

void Recorder::result(const at::Tensor& tensor, uint8_t role, const std::string& name) {
  if (mode_ == Mode::kTime) return;
  current_ = "return";
  results_.push_back({value_of(tensor), role, name});
}

uint32_t Recorder::value_of(const at::Tensor& tensor) {
  bool fresh = false;
  auto& storage = storage_of(tensor, fresh);
  if (fresh) {
    // Numbers that libtorch makes without the dispatcher (a size as a tensor) are constants of the trace.
    if (tensor.dim() != 0) refuse("it reads a tensor that no recorded operator made");
    storages_.erase(tensor.storage().unsafeGetStorageImpl());
    storage_order_.pop_back();
    constant(tensor);
    return values_.size() - 1;
  }
  const auto meta = meta_of(tensor, storage.id);
  const auto known = tensors_.find(tensor.unsafeGetTensorImpl());
  if (known != tensors_.end() && (storage.constant || values_[known->second].same_view(meta))) return known->second;
  for (auto it = storage.values.rbegin(); it != storage.values.rend(); ++it) {
    if (values_[*it].same_view(meta)) return *it;
  }
  return derive(tensor, storage);
}

// A view that was made out of our sight: the same bytes through as_strided of the storage's first value.
uint32_t Recorder::derive(const at::Tensor& tensor, Storage& storage) {
  const uint32_t base = storage.values.front();
  if (values_[base].dtype != tensor.scalar_type()) refuse("it reads a view of another type that no recorded operator made");
  if (storage.constant) refuse("it reads a view of a constant that no recorded operator made");
  RecordedOp op;
  op.name = "aten.as_strided.default";
  op.path = where_();
  op.backward = backward;
  auto longs = [](c10::IntArrayRef from) {
    Arg list;
    list.kind = Arg::kList;
    for (const int64_t i : from) {
      Arg item;
      item.kind = Arg::kInt;
      item.integer = i;
      list.items.push_back(item);
    }
    return list;
  };
  Arg self, offset;
  self.kind = Arg::kValue;
  self.value = base;
  offset.kind = Arg::kInt;
  offset.integer = tensor.storage_offset();
  op.args = {self, longs(tensor.sizes()), longs(tensor.strides()), offset};
  op.operands = {base};
  op.results = {new_value(tensor, storage)};
  op.aliases = {0};
  op.measured = ops_.size();
  ops_.push_back(std::move(op));
  return values_.size() - 1;
}

Arg Recorder::arg_of(const c10::IValue& value, std::vector<uint32_t>& operands) {
  Arg out;
  if (value.isTensor()) {
    const auto& tensor = value.toTensor();
    if (!tensor.defined()) return out;
    if (tensor.unsafeGetTensorImpl()->is_wrapped_number()) return arg_of(tensor.item(), operands);
    out.kind = Arg::kValue;
    out.value = value_of(tensor);
    operands.push_back(out.value);
  } else if (value.isInt()) {
    out.kind = Arg::kInt;
    out.integer = value.toInt();
  } else if (value.isDouble()) {
    out.kind = Arg::kFloat;
    out.real = value.toDouble();
  } else if (value.isBool()) {
    out.kind = Arg::kBool;
    out.integer = value.toBool();
  } else if (value.isString()) {
    out.kind = Arg::kString;
    out.string = value.toStringRef();
  } else if (value.isDevice()) {
    out.kind = Arg::kString;
    out.string = value.toDevice().str();
  } else if (value.isList()) {
    out.kind = Arg::kList;
    for (const auto& item : value.toListRef()) out.items.push_back(arg_of(item, operands));
  } else if (value.isSymInt() || value.isSymFloat() || value.isSymBool()) {
    refuse("it has a symbolic size");
  } else if (!value.isNone()) {
    refuse("an argument of type " + value.tagKind() + " is not supported");
  }
  return out;
}

void Recorder::read_arguments(const c10::OperatorHandle& op, const torch::jit::Stack& stack, RecordedOp& out) {
  const auto& arguments = op.schema().arguments();
  const size_t first = stack.size() - arguments.size();
  std::vector<std::pair<size_t, size_t>> spans; // operands of each argument
  for (size_t i = 0; i < arguments.size(); ++i) {
    const size_t from = out.operands.size();
    out.args.push_back(arg_of(stack[first + i], out.operands));
    spans.emplace_back(from, out.operands.size());
  }
  auto writes = [&](size_t argument) {
    for (size_t k = spans[argument].first; k < spans[argument].second; ++k) out.writes.push_back(static_cast<uint32_t>(k));
  };
  if (is_view_in_place(out.name)) return;
  if (op.hasTag(at::Tag::inplace_view) || out.name == "aten.resize_.default") refuse("it changes the storage or the layout of its argument");
  for (size_t i = 0; i < arguments.size(); ++i) {
    if (arguments[i].alias_info() != nullptr && arguments[i].alias_info()->isWrite()) writes(i);
  }
  for (const auto& undeclared : kUndeclared) {
    if (out.name != undeclared.name) continue;
    if (undeclared.training >= 0 && out.args[undeclared.training].integer == 0) continue;
    for (const int argument : undeclared.written) writes(argument);
  }
}

void Recorder::read_results(const c10::OperatorHandle& op, const torch::jit::Stack& stack, RecordedOp& out) {
  std::vector<at::Tensor> tensors;
  const size_t count = op.schema().returns().size();
  for (size_t i = stack.size() - count; i < stack.size(); ++i) {
    if (stack[i].isTensor()) {
      tensors.push_back(stack[i].toTensor());
    } else if (stack[i].isTensorList()) {
      for (const auto& item : stack[i].toTensorVector()) tensors.push_back(item);
    } else if (!stack[i].isNone()) {
      // A number besides tensors (a seed, a length): baked in where it is used.
      continue;
    }
  }
  const size_t known = storage_order_.size();
  for (const auto& tensor : tensors) {
    if (!tensor.defined()) {
      out.results.push_back(static_cast<uint32_t>(values_.size()));
      out.aliases.push_back(-1);
      values_.emplace_back();
      continue;
    }
    bool fresh = false;
    auto& storage = storage_of(tensor, fresh);
    int32_t alias = -1;
    for (size_t k = 0; !fresh && alias < 0 && k < out.operands.size(); ++k) {
      if (values_[out.operands[k]].defined && values_[out.operands[k]].storage == storage.id) alias = static_cast<int32_t>(k);
    }
    if (!fresh && alias < 0) {
      refuse(storage.id >= known ? "two of its results share one storage" : "its result shares the storage of a tensor that it was not given");
    }
    out.results.push_back(new_value(tensor, storage));
    out.aliases.push_back(alias);
  }
}

} // namespace rk
