// Operators by name, one-off calls, prepared calls.
//
// Everything runs below autograd, which is the level at which steps are recorded: the recorder sees what
// autograd hands down, and the same calls are made again here.
#include "convert.h"

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/grad_mode.h>

#include <sstream>

struct RkOp {
  c10::OperatorHandle handle;
};

struct RkCall {
  c10::OperatorHandle handle;
  rk::Arguments arguments;
  std::vector<int32_t> outs;
  bool grad_mode;
};

namespace {

// The guards of one call. Both are a store to thread-local memory. Nothing is differentiated below autograd, but
// some kernels look at the grad mode to decide what to keep for their backward (oneDNN's LSTM).
struct BelowAutograd {
  explicit BelowAutograd(bool grad_mode) : mode(grad_mode) {}
  at::AutoGradMode mode;
  at::AutoDispatchBelowADInplaceOrView below;
};

thread_local torch::jit::Stack call_stack;
thread_local std::vector<RkCell> call_results;

// Empties the stack on every way out: it must not keep tensors alive between calls.
struct ClearStack {
  torch::jit::Stack& stack;
  ~ClearStack() { stack.clear(); }
};

// Appends `value` to call_results in preorder.
void push_result(const c10::IValue& value) {
  auto bits = [](double d) {
    uint64_t u = 0;
    std::memcpy(&u, &d, sizeof u);
    return u;
  };
  if (value.isTensor()) {
    const at::Tensor& tensor = value.toTensor();
    if (tensor.defined()) {
      call_results.push_back({RK_TENSOR, 0, reinterpret_cast<uint64_t>(new at::Tensor(tensor))});
    } else {
      call_results.push_back({RK_NONE, 0, 0});
    }
  } else if (value.isInt()) {
    call_results.push_back({RK_INT, 0, static_cast<uint64_t>(value.toInt())});
  } else if (value.isDouble()) {
    call_results.push_back({RK_FLOAT, 0, bits(value.toDouble())});
  } else if (value.isBool()) {
    call_results.push_back({RK_BOOL, 0, value.toBool() ? 1u : 0u});
  } else if (value.isNone()) {
    call_results.push_back({RK_NONE, 0, 0});
  } else if (value.isList()) {
    const auto items = value.toListRef();
    call_results.push_back({RK_LIST, static_cast<uint32_t>(items.size()), 0});
    for (const auto& item : items) push_result(item);
  } else {
    TORCH_CHECK(false, "a result of type ", value.tagKind(), " is not supported");
  }
}

at::Tensor& slot_at(RkSlots& slots, int32_t i) {
  TORCH_CHECK(i >= 0 && static_cast<size_t>(i) < slots.tensors.size(), "slot ", i, " does not exist");
  return slots.tensors[static_cast<size_t>(i)];
}

void fill_list(const rk::ListUse& use, RkSlots& slots, c10::IValue& into) {
  if (!use.optional) {
    c10::List<at::Tensor> list;
    list.reserve(use.items.size());
    for (const auto& item : use.items) list.push_back(item.slot < 0 ? at::Tensor() : slot_at(slots, item.slot));
    into = std::move(list);
    return;
  }
  c10::List<std::optional<at::Tensor>> list;
  list.reserve(use.items.size());
  for (const auto& item : use.items) {
    std::optional<at::Tensor> tensor;
    if (item.slot >= 0 && slot_at(slots, item.slot).defined()) tensor = slot_at(slots, item.slot);
    list.push_back(std::move(tensor));
  }
  into = std::move(list);
}

void store(at::Tensor&& tensor, const RkCall& call, size_t& next, RkSlots& slots) {
  TORCH_CHECK(next < call.outs.size(), "more results than the ", call.outs.size(), " expected");
  const int32_t slot = call.outs[next++];
  if (slot >= 0) slot_at(slots, slot) = std::move(tensor);
}

} // namespace

extern "C" {

const char* rk_op_find(const char* name, const char* overload, RkOp** out) {
  return rk::guarded([&] {
    auto handle = c10::Dispatcher::singleton().findSchema({name, overload});
    TORCH_CHECK(handle.has_value(), "no operator ", name, ".", *overload ? overload : "default", " in this libtorch");
    *out = new RkOp{*handle};
  });
}

const char* rk_op_schema(const RkOp* op, const char** out) {
  return rk::guarded([&] {
    std::ostringstream text;
    text << op->handle.schema();
    *out = rk::heap_string(text.str());
  });
}

const char* rk_op_call(const RkOp* op, const RkCell* args, size_t n, const RkCell** out, size_t* out_n) {
  return rk::guarded([&] {
    call_results.clear();
    BelowAutograd guards(false);
    auto arguments = rk::convert_arguments(op->handle.schema(), args, n, false);
    op->handle.callBoxed(arguments.stack);
    for (const auto& value : arguments.stack) push_result(value);
    *out = call_results.data();
    *out_n = call_results.size();
  });
}

const char* rk_call_new(const RkOp* op, const RkCell* args, size_t n, const int32_t* outs, size_t n_outs, bool grad_mode, RkCall** out) {
  return rk::guarded([&] {
    *out = new RkCall{op->handle, rk::convert_arguments(op->handle.schema(), args, n, true), {outs, outs + n_outs}, grad_mode};
  });
}

const char* rk_call_run(const RkCall* call, RkSlots* slots) {
  return rk::guarded([&] {
    BelowAutograd guards(call->grad_mode);
    auto& stack = call_stack;
    ClearStack clear{stack};
    stack.assign(call->arguments.stack.begin(), call->arguments.stack.end());
    for (const auto& use : call->arguments.tensors) {
      const at::Tensor& tensor = slot_at(*slots, use.slot);
      if (tensor.defined() || !use.optional) stack[use.argument] = tensor;
      else stack[use.argument] = c10::IValue();
    }
    for (const auto& use : call->arguments.lists) fill_list(use, *slots, stack[use.argument]);
    call->handle.callBoxed(stack);
    size_t next = 0;
    for (auto& value : stack) {
      if (value.isTensor()) {
        store(std::move(value).toTensor(), *call, next, *slots);
      } else if (value.isTensorList()) {
        for (const auto& item : value.toTensorVector()) store(at::Tensor(item), *call, next, *slots);
      }
    }
  });
}

void rk_call_free(RkCall* call) { delete call; }

RkSlots* rk_slots_new(size_t n) {
  try {
    return new RkSlots{std::vector<at::Tensor>(n)};
  } catch (...) {
    return nullptr;
  }
}

void rk_slots_free(RkSlots* slots) { delete slots; }

const char* rk_slots_set(RkSlots* slots, size_t i, const at::Tensor* tensor) {
  return rk::guarded([&] { slot_at(*slots, static_cast<int32_t>(i)) = tensor == nullptr ? at::Tensor() : *tensor; });
}

const char* rk_slots_get(const RkSlots* slots, size_t i, at::Tensor** out) {
  return rk::guarded([&] {
    const at::Tensor& tensor = slot_at(*const_cast<RkSlots*>(slots), static_cast<int32_t>(i));
    *out = tensor.defined() ? new at::Tensor(tensor) : nullptr;
  });
}

const char* rk_slots_clear(RkSlots* slots, size_t i) {
  return rk::guarded([&] { slot_at(*slots, static_cast<int32_t>(i)).reset(); });
}

const char* rk_slots_copy(RkSlots* slots, size_t from, size_t to) {
  return rk::guarded([&] { slot_at(*slots, static_cast<int32_t>(to)) = slot_at(*slots, static_cast<int32_t>(from)); });
}

} // extern "C"
