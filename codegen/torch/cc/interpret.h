// Runs a traced forward node by node, keeping the module path.
#pragma once
#include "common.h"

#include <ATen/core/ivalue.h>
#include <torch/csrc/jit/api/module.h>
#include <torch/csrc/jit/ir/ir.h>

#include <functional>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

namespace rk {

// Forward nodes of autograd by the module that made them: numbers in [from, to) belong to `path`.
struct PathRange {
  uint64_t from, to;
  std::string path;
};

class Interpreter {
 public:
  // Constants that name a device are moved to `device`: a trace bakes in the one it was made on.
  explicit Interpreter(c10::Device device) : device_(device) {}

  // Calls forward of `module`; `inputs` without self.
  c10::IValue forward(const torch::jit::Module& module, std::vector<c10::IValue> inputs);

  // The path of the node that is running ("" at the root).
  const std::string& path() const { return path_; }
  // Sets the path for work outside the module, such as the loss.
  void set_path(std::string path) { path_ = std::move(path); }
  // When set, forward() notes which autograd nodes each module makes.
  std::vector<PathRange>* ranges = nullptr;
  // When set, called once with each tensor that is baked into the trace, before its first use.
  std::function<void(const at::Tensor&)> on_constant;
  void forget_constants() { seen_constants_.clear(); }
  // When set, assignments to attributes are refused: a recording cannot express them.
  bool refuse_assignment = false;

 private:
  using Graph = torch::jit::Graph;
  using Node = torch::jit::Node;
  using Block = torch::jit::Block;
  using JitValue = torch::jit::Value;
  struct Frame {
    std::unordered_map<const JitValue*, c10::IValue> values;
    std::unordered_map<const JitValue*, std::string> modules; // paths of values that are modules
  };

  std::vector<c10::IValue> call(Graph& graph, std::vector<c10::IValue> inputs, std::vector<std::string> paths);
  void run(Block& block, Frame& frame);
  void run(Node& node, Frame& frame);
  bool run_structural(Node& node, Frame& frame);
  void run_if(Node& node, Frame& frame);
  void run_loop(Node& node, Frame& frame);
  void run_call(Node& node, Frame& frame, Graph& graph, size_t first_input, const std::string& path);
  c10::IValue& get(const JitValue* value, Frame& frame);
  void set(const JitValue* value, c10::IValue result, Frame& frame);
  const std::vector<std::vector<const JitValue*>>& deaths(Block& block);

  c10::Device device_;
  std::string path_;
  std::unordered_map<Block*, std::vector<std::vector<const JitValue*>>> deaths_; // per node: values used last there
  std::unordered_map<Node*, torch::jit::Operation> operations_;
  std::unordered_set<const void*> seen_constants_;
};

} // namespace rk
