// Tagged cells to IValues by schema, and back.
#pragma once
#include "common.h"

#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/ivalue.h>
#include <ATen/core/stack.h>

#include <vector>

struct RkSlots {
  std::vector<at::Tensor> tensors;
};

namespace rk {

// Where a prepared call takes a tensor from a slot.
struct SlotUse {
  int32_t argument; // place in the schema, or in the list
  int32_t slot;     // -1: nothing (an undefined tensor, or none)
  bool optional;    // Tensor?: an undefined tensor is passed as none
};
struct ListUse {
  int32_t argument;
  bool optional; // Tensor?[] rather than Tensor[]
  std::vector<SlotUse> items;
};

// Arguments in schema order; slots are left to be filled in at each run.
struct Arguments {
  torch::jit::Stack stack;
  std::vector<SlotUse> tensors;
  std::vector<ListUse> lists;
};

// Converts `n` cells to the arguments of `schema`; missing trailing ones take their defaults. Throws with the
// name of the argument that does not fit. `slots` says whether RK_SLOT cells are allowed.
Arguments convert_arguments(const c10::FunctionSchema& schema, const RkCell* cells, size_t n, bool slots);

} // namespace rk
