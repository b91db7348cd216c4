// The interpreter of traced graphs.
//
// Why not module.forward(): libtorch's executor would rewrite the graph (constant pooling, fusion, derivatives
// of its own), and forgets which module a node belongs to. Node by node we get what eager PyTorch runs.
#include "interpret.h"

#include <ATen/SequenceNumber.h>
#include <torch/csrc/jit/api/function_impl.h>
#include <torch/csrc/jit/ir/constants.h>
#include <torch/csrc/jit/runtime/operator.h>

namespace rk {

namespace jit = torch::jit;
namespace prim = c10::prim;

c10::IValue Interpreter::forward(const jit::Module& module, std::vector<c10::IValue> inputs) {
  path_.clear();
  auto& graph = *jit::toGraphFunction(module.get_method("forward").function()).graph();
  inputs.insert(inputs.begin(), module._ivalue());
  TORCH_CHECK(inputs.size() == graph.inputs().size(), "forward takes ", graph.inputs().size() - 1, " inputs, not ", inputs.size() - 1);
  auto outputs = call(graph, std::move(inputs), {""});
  path_.clear();
  TORCH_CHECK(outputs.size() == 1, "forward has ", outputs.size(), " results");
  return std::move(outputs[0]);
}

std::vector<c10::IValue> Interpreter::call(Graph& graph, std::vector<c10::IValue> inputs, std::vector<std::string> paths) {
  Frame frame;
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (inputs[i].isObject() && i < paths.size()) frame.modules[graph.inputs()[i]] = paths[i];
    frame.values[graph.inputs()[i]] = std::move(inputs[i]);
  }
  run(*graph.block(), frame);
  std::vector<c10::IValue> outputs;
  for (const auto* value : graph.outputs()) outputs.push_back(get(value, frame));
  return outputs;
}

c10::IValue& Interpreter::get(const JitValue* value, Frame& frame) {
  const auto found = frame.values.find(value);
  TORCH_CHECK(found != frame.values.end(), "value %", value->debugName(), " of the trace has not been computed");
  return found->second;
}

void Interpreter::set(const JitValue* value, c10::IValue result, Frame& frame) {
  frame.values[value] = std::move(result);
}

// Values die at their last use, as the temporaries of Python do; a value used inside a nested block lives until
// the whole node is done, because the block may run again.
const std::vector<std::vector<const jit::Value*>>& Interpreter::deaths(Block& block) {
  const auto found = deaths_.find(&block);
  if (found != deaths_.end()) return found->second;
  std::vector<Node*> nodes(block.nodes().begin(), block.nodes().end());
  std::vector<std::vector<const JitValue*>> out(nodes.size());
  std::unordered_set<const JitValue*> own(block.inputs().begin(), block.inputs().end());
  for (auto* node : nodes) own.insert(node->outputs().begin(), node->outputs().end());
  std::unordered_set<const JitValue*> alive(block.outputs().begin(), block.outputs().end());
  std::function<void(Node*, std::vector<const JitValue*>&)> uses = [&](Node* node, std::vector<const JitValue*>& into) {
    into.insert(into.end(), node->inputs().begin(), node->inputs().end());
    for (auto* inner : node->blocks()) {
      for (auto* nested : inner->nodes()) uses(nested, into);
      into.insert(into.end(), inner->outputs().begin(), inner->outputs().end());
    }
  };
  for (size_t i = nodes.size(); i-- > 0;) {
    std::vector<const JitValue*> used;
    uses(nodes[i], used);
    used.insert(used.end(), nodes[i]->outputs().begin(), nodes[i]->outputs().end());
    for (const auto* value : used) {
      if (own.count(value) != 0 && alive.insert(value).second) out[i].push_back(value);
    }
  }
  return deaths_.emplace(&block, std::move(out)).first->second;
}

void Interpreter::run(Block& block, Frame& frame) {
  const auto& dying = deaths(block);
  size_t i = 0;
  for (auto* node : block.nodes()) {
    run(*node, frame);
    for (const auto* value : dying[i]) frame.values.erase(value);
    ++i;
  }
}

void Interpreter::run(Node& node, Frame& frame) {
  const uint64_t before = at::sequence_number::peek();
  try {
    if (run_structural(node, frame)) return;
    auto found = operations_.find(&node);
    if (found == operations_.end()) found = operations_.emplace(&node, node.getOperation()).first;
    jit::Stack stack;
    for (const auto* input : node.inputs()) stack.push_back(get(input, frame));
    found->second(stack);
    TORCH_CHECK(stack.size() == node.outputs().size(), "unexpected number of results");
    for (size_t i = 0; i < stack.size(); ++i) set(node.outputs()[i], std::move(stack[i]), frame);
  } catch (const KindError&) {
    throw; // knows its place already
  } catch (const std::exception& e) {
    const std::string where = path_.empty() ? "the root" : path_;
    throw KindError(RK_INPUTS, std::string(node.kind().toQualString()) + " at " + where + ": " + told(e));
  }
  const uint64_t after = at::sequence_number::peek();
  if (ranges == nullptr || after == before) return;
  if (!ranges->empty() && ranges->back().to == before && ranges->back().path == path_) {
    ranges->back().to = after;
  } else {
    ranges->push_back({before, after, path_});
  }
}

// Nodes that the executor of libtorch implements itself. Returns false for all others.
bool Interpreter::run_structural(Node& node, Frame& frame) {
  jit::Stack stack;
  auto push_inputs = [&] {
    for (const auto* input : node.inputs()) stack.push_back(get(input, frame));
  };
  switch (node.kind()) {
    case prim::Constant: {
      if (node.output()->type()->kind() == c10::TypeKind::FunctionType) return true; // looked at by its caller
      auto value = *jit::toIValue(node.output());
      if (value.isDevice()) value = device_;
      if (value.isTensor() && on_constant && seen_constants_.insert(&node).second) on_constant(value.toTensor());
      stack.push_back(std::move(value));
      break;
    }
    case prim::GetAttr: {
      const auto object = get(node.input(), frame).toObject();
      stack.push_back(object->getAttr(node.s(c10::attr::name)));
      const auto parent = frame.modules.find(node.input());
      if (stack.back().isObject() && parent != frame.modules.end()) {
        const auto& name = node.s(c10::attr::name);
        frame.modules[node.output()] = parent->second.empty() ? name : parent->second + "." + name;
      }
      break;
    }
    case prim::SetAttr: {
      if (refuse_assignment) {
        throw KindError(RK_REFUSED, "assignment to attribute '" + node.s(c10::attr::name) + "' at '" + path_ +
                            "': a step can only change buffers in place");
      }
      get(node.input(0), frame).toObject()->setAttr(node.s(c10::attr::name), get(node.input(1), frame));
      return true;
    }
    case prim::CallMethod: {
      const auto type = node.input(0)->type()->expect<c10::ClassType>();
      auto& graph = *jit::toGraphFunction(type->getMethod(node.s(c10::attr::name))).graph();
      const auto found = frame.modules.find(node.input(0));
      run_call(node, frame, graph, 0, found == frame.modules.end() ? path_ : found->second);
      return true;
    }
    case prim::CallFunction: {
      const auto type = node.input(0)->type()->expect<c10::FunctionType>();
      run_call(node, frame, *jit::toGraphFunction(*type->function()).graph(), 1, path_);
      return true;
    }
    case prim::If: run_if(node, frame); return true;
    case prim::Loop: run_loop(node, frame); return true;
    case prim::TupleConstruct: {
      push_inputs();
      const auto type = node.output()->type()->cast<c10::TupleType>();
      auto items = std::exchange(stack, {});
      if (type && type->name()) {
        stack.emplace_back(c10::ivalue::Tuple::createNamed(std::move(items), type));
      } else {
        stack.emplace_back(c10::ivalue::Tuple::create(std::move(items)));
      }
      break;
    }
    case prim::ListConstruct: {
      // Typed lists (int[], Tensor[]) and generic ones share one representation.
      c10::impl::GenericList list(node.output()->type()->expect<c10::ListType>()->getElementType());
      for (const auto* input : node.inputs()) list.push_back(get(input, frame));
      stack.emplace_back(std::move(list));
      break;
    }
    case prim::DictConstruct: {
      const auto type = node.output()->type()->expect<c10::DictType>();
      c10::impl::GenericDict dict(type->getKeyType(), type->getValueType());
      for (size_t i = 0; i + 1 < node.inputs().size(); i += 2) {
        dict.insert_or_assign(get(node.inputs()[i], frame), get(node.inputs()[i + 1], frame));
      }
      stack.emplace_back(std::move(dict));
      break;
    }
    case prim::TupleUnpack: {
      const auto tuple = get(node.input(), frame).toTuple();
      stack.assign(tuple->elements().begin(), tuple->elements().end());
      break;
    }
    case prim::ListUnpack: {
      const auto list = get(node.input(), frame).toList();
      for (const c10::IValue& item : list) stack.push_back(item);
      break;
    }
    case prim::TupleSlice: {
      const auto tuple = get(node.input(), frame).toTuple();
      const auto begin = tuple->elements().begin();
      const int64_t first = node.i(c10::attr::beg), last = node.i(c10::attr::end);
      stack.emplace_back(c10::ivalue::Tuple::create(std::vector<c10::IValue>(begin + first, begin + last)));
      break;
    }
    default: return false;
  }
  TORCH_CHECK(stack.size() == node.outputs().size(), "unexpected number of results");
  for (size_t i = 0; i < stack.size(); ++i) set(node.outputs()[i], std::move(stack[i]), frame);
  return true;
}

void Interpreter::run_call(Node& node, Frame& frame, Graph& graph, size_t first, const std::string& path) {
  std::vector<c10::IValue> inputs;
  std::vector<std::string> paths;
  for (size_t i = first; i < node.inputs().size(); ++i) {
    inputs.push_back(get(node.inputs()[i], frame));
    const auto found = frame.modules.find(node.inputs()[i]);
    paths.push_back(found == frame.modules.end() ? std::string() : found->second);
  }
  const std::string caller = std::exchange(path_, path);
  auto outputs = call(graph, std::move(inputs), std::move(paths));
  path_ = caller;
  for (size_t i = 0; i < outputs.size(); ++i) set(node.outputs()[i], std::move(outputs[i]), frame);
}

void Interpreter::run_if(Node& node, Frame& frame) {
  auto* block = node.blocks()[get(node.input(), frame).toBool() ? 0 : 1];
  run(*block, frame);
  for (size_t i = 0; i < node.outputs().size(); ++i) set(node.outputs()[i], get(block->outputs()[i], frame), frame);
}

// prim::Loop(max trip count, condition, carried...): the block takes (trip, carried...) and gives (condition, carried...).
void Interpreter::run_loop(Node& node, Frame& frame) {
  auto* block = node.blocks()[0];
  const int64_t most = get(node.input(0), frame).toInt();
  bool again = get(node.input(1), frame).toBool();
  std::vector<c10::IValue> carried;
  for (size_t i = 2; i < node.inputs().size(); ++i) carried.push_back(get(node.input(i), frame));
  for (int64_t trip = 0; trip < most && again; ++trip) {
    set(block->inputs()[0], trip, frame);
    for (size_t i = 0; i < carried.size(); ++i) set(block->inputs()[i + 1], std::move(carried[i]), frame);
    run(*block, frame);
    again = get(block->outputs()[0], frame).toBool();
    for (size_t i = 0; i < carried.size(); ++i) carried[i] = get(block->outputs()[i + 1], frame);
  }
  for (size_t i = 0; i < carried.size(); ++i) set(node.outputs()[i], std::move(carried[i]), frame);
}

} // namespace rk
