// A loaded archive: the module, its parameters and buffers by name, the inputs it was traced with.
#pragma once
#include "common.h"

#include <ATen/core/Tensor.h>
#include <torch/csrc/jit/api/module.h>

#include <string>
#include <vector>

namespace rk {

struct Attribute {
  std::string name; // path of the first slot that holds it
  at::Tensor tensor;
  bool parameter;
  std::vector<std::string> aliases; // other slots of the same tensor, or of views of it
};

// A leaf of a nest of tuples, lists and dicts.
struct Leaf {
  std::string name; // path: "0", "logits", "1.hidden.2"
  at::Tensor tensor;
};

// Appends the tensors inside `value` with their paths; other leaves (numbers, None) are passed over.
void flatten(const c10::IValue& value, const std::string& path, std::vector<Leaf>& out);

} // namespace rk

struct RkArchive {
  torch::jit::Module module;
  c10::Device device;
  std::vector<rk::Attribute> attributes;
  std::vector<c10::IValue> traced; // arguments of forward as traced, shapes and dtypes without data; may be empty
};
