// One training step of an archive: forward, loss, backward, as eager PyTorch runs it; plain or recorded.
#include "archive.h"
#include "interpret.h"
#include "record.h"

#include <ATen/SequenceNumber.h>
#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/functions/accumulate_grad.h>

#include <algorithm>

namespace {

enum Loss : int32_t { kNone = 0, kSum = 1, kMean = 2, kOutput = 3 };
enum Role : int32_t { kLossResult = 0, kOutputResult = 1, kGradientResult = 2 };
// Roles of arguments in a recording.
enum ArgumentRole : uint8_t { kInput = 0, kParameter = 1, kBuffer = 2 };

struct Result {
  Role role;
  std::string name;
  at::Tensor tensor;
};

// Builds an argument of forward from flat tensors: shaped like the traced input, else like the declared type.
c10::IValue build(const c10::IValue* traced, const c10::TypePtr& type, const std::vector<at::Tensor>& leaves, size_t& next) {
  auto take = [&]() -> const at::Tensor& {
    if (next == leaves.size()) throw rk::KindError(RK_INPUTS, "too few inputs: " + std::to_string(leaves.size()) + " given");
    return leaves[next++];
  };
  if (type->kind() == c10::TypeKind::TensorType) return take();
  if (const auto tuple = type->cast<c10::TupleType>()) {
    std::vector<c10::IValue> items;
    for (size_t i = 0; i < tuple->elements().size(); ++i) {
      const bool known = traced != nullptr && traced->isTuple() && i < traced->toTupleRef().elements().size();
      items.push_back(build(known ? &traced->toTupleRef().elements()[i] : nullptr, tuple->elements()[i], leaves, next));
    }
    return c10::ivalue::Tuple::create(std::move(items));
  }
  if (const auto list = type->cast<c10::ListType>(); list && traced != nullptr && traced->isList()) {
    c10::impl::GenericList out(list->getElementType());
    for (const auto& item : traced->toListRef()) out.push_back(build(&item, list->getElementType(), leaves, next));
    return out;
  }
  if (const auto dict = type->cast<c10::DictType>(); dict && traced != nullptr && traced->isGenericDict()) {
    c10::impl::GenericDict out(dict->getKeyType(), dict->getValueType());
    for (const auto& item : traced->toGenericDict()) {
      const auto value = item.value();
      out.insert(item.key(), build(&value, dict->getValueType(), leaves, next));
    }
    return out;
  }
  throw rk::KindError(RK_INPUTS, "an argument of type " + type->annotation_str() + " cannot be made from tensors");
}

std::string parent(const std::string& name) {
  const auto dot = name.rfind('.');
  return dot == std::string::npos ? std::string() : name.substr(0, dot);
}

} // namespace

struct RkStep {
  RkArchive& archive;
  std::vector<at::Tensor> leaves;
  std::vector<c10::IValue> arguments;
  int32_t loss;
  int64_t output;
  rk::Interpreter interpreter;
  std::vector<Result> results;
  std::vector<rk::PathRange> ranges;
  bool in_backward = false;

  void clear();
  // `accumulate`: gradients are added to those that are there.
  void run(rk::Recorder* recorder, bool accumulate = false);
  void declare(rk::Recorder& recorder);
  at::Tensor loss_of(const std::vector<rk::Leaf>& outputs) const;
  std::string where() const;
};

void RkStep::clear() {
  results.clear();
  for (auto& attribute : archive.attributes) attribute.tensor.mutable_grad().reset();
}

at::Tensor RkStep::loss_of(const std::vector<rk::Leaf>& outputs) const {
  auto floating = [](const rk::Leaf& leaf) { return at::isFloatingType(leaf.tensor.scalar_type()); };
  if (loss == kOutput) {
    if (output < 0 || static_cast<size_t>(output) >= outputs.size()) {
      throw rk::KindError(RK_LOSS, "output:" + std::to_string(output) + " does not exist: the model has " + std::to_string(outputs.size()) + " outputs");
    }
    const auto& chosen = outputs[static_cast<size_t>(output)];
    if (!floating(chosen)) throw rk::KindError(RK_LOSS, "output:" + std::to_string(output) + " is not a floating tensor");
    return chosen.tensor.dim() == 0 ? chosen.tensor : chosen.tensor.sum();
  }
  at::Tensor total;
  for (const auto& leaf : outputs) {
    if (!floating(leaf)) continue;
    const at::Tensor term = loss == kMean ? leaf.tensor.mean() : leaf.tensor.sum();
    total = total.defined() ? total + term : term;
  }
  if (!total.defined()) throw rk::KindError(RK_LOSS, "the model has no floating output to take a loss of; use --loss none");
  return total;
}

// The module path of what runs: in backward that of the forward node behind the autograd node.
std::string RkStep::where() const {
  if (!in_backward) return interpreter.path();
  const auto node = torch::autograd::get_current_node();
  if (node == nullptr) return "loss";
  if (const auto* leaf = dynamic_cast<const torch::autograd::AccumulateGrad*>(node.get())) {
    for (const auto& attribute : archive.attributes) {
      if (attribute.tensor.is_same(leaf->variable)) return parent(attribute.name);
    }
    return "";
  }
  const uint64_t number = node->sequence_nr();
  const auto after = std::upper_bound(ranges.begin(), ranges.end(), number, [](uint64_t n, const rk::PathRange& r) { return n < r.from; });
  if (after == ranges.begin() || std::prev(after)->to <= number) return "";
  return std::prev(after)->path;
}

void RkStep::declare(rk::Recorder& recorder) {
  const auto schema = archive.module.get_method("forward").function().getSchema();
  for (size_t i = 0; i < arguments.size(); ++i) {
    std::vector<rk::Leaf> parts;
    rk::flatten(arguments[i], schema.arguments()[i + 1].name(), parts);
    for (const auto& part : parts) recorder.argument(part.tensor, kInput, part.name, false, {});
  }
  for (const auto& attribute : archive.attributes) {
    recorder.argument(attribute.tensor, attribute.parameter ? kParameter : kBuffer, attribute.name, attribute.tensor.requires_grad(), attribute.aliases);
  }
}

void RkStep::run(rk::Recorder* recorder, bool accumulate) {
  if (accumulate) results.clear();
  else clear();
  in_backward = false;
  ranges.clear();
  std::vector<rk::Leaf> outputs;
  at::Tensor total;
  at::AutoGradMode grad_mode(loss != kNone);
  {
    std::optional<rk::Recorder::Session> session;
    if (recorder != nullptr) session.emplace(*recorder);
    rk::flatten(interpreter.forward(archive.module, arguments), "", outputs);
    if (loss != kNone) {
      interpreter.set_path("loss");
      const uint64_t before = at::sequence_number::peek();
      total = loss_of(outputs);
      if (recorder != nullptr) ranges.push_back({before, at::sequence_number::peek(), "loss"});
      if (!total.requires_grad()) throw rk::KindError(RK_LOSS, "the loss does not depend on any trainable parameter; use --loss none");
      in_backward = true;
      if (recorder != nullptr) recorder->backward = true;
      total.backward();
      if (recorder != nullptr) recorder->backward = false;
      in_backward = false;
    }
  }
  auto give = [&](Role role, const std::string& name, const at::Tensor& tensor) {
    if (recorder != nullptr) recorder->result(tensor, static_cast<uint8_t>(role), name);
    results.push_back({role, name, tensor.detach()}); // without the graph, which holds saved tensors
  };
  if (total.defined()) give(kLossResult, "loss", total);
  for (const auto& leaf : outputs) give(kOutputResult, leaf.name, leaf.tensor);
  for (const auto& attribute : archive.attributes) {
    if (attribute.tensor.grad().defined()) give(kGradientResult, attribute.name, attribute.tensor.grad());
  }
}

extern "C" {

const char* rk_step_new(RkArchive* archive, at::Tensor* const* inputs, size_t n, int32_t loss, int64_t output, RkStep** out) {
  return rk::guarded([&] {
    auto step = std::make_unique<RkStep>(RkStep{*archive, {}, {}, loss, output, rk::Interpreter(archive->device), {}, {}});
    for (size_t i = 0; i < n; ++i) step->leaves.push_back(*inputs[i]);
    const auto schema = archive->module.get_method("forward").function().getSchema();
    size_t next = 0;
    for (size_t i = 1; i < schema.arguments().size(); ++i) {
      const auto* traced = i - 1 < archive->traced.size() ? &archive->traced[i - 1] : nullptr;
      step->arguments.push_back(build(traced, schema.arguments()[i].type(), step->leaves, next));
    }
    if (next != n) throw rk::KindError(RK_INPUTS, "too many inputs: forward takes " + std::to_string(next) + ", " + std::to_string(n) + " given");
    *out = step.release();
  });
}

void rk_step_free(RkStep* step) { delete step; }

const char* rk_step_run(RkStep* step, bool accumulate) {
  return rk::guarded([&] { step->run(nullptr, accumulate); });
}

const char* rk_step_result(const RkStep* step, size_t i, int32_t* role, const char** name, at::Tensor** out) {
  return rk::guarded([&] {
    *name = nullptr;
    if (i >= step->results.size()) return;
    const auto& result = step->results[i];
    *role = result.role;
    *name = rk::heap_string(result.name);
    *out = new at::Tensor(result.tensor);
  });
}

const char* rk_step_clear(RkStep* step) {
  return rk::guarded([&] { step->clear(); });
}

const char* rk_step_record(RkStep* step, int32_t repeats, bool every_call, uint8_t** out, size_t* n) {
  return rk::guarded([&] {
    rk::Recorder recorder(step->archive.device, [step] { return step->where(); });
    step->declare(recorder);
    step->interpreter.ranges = &step->ranges;
    step->interpreter.forget_constants();
    step->interpreter.on_constant = [&](const at::Tensor& tensor) { recorder.constant(tensor); };
    step->interpreter.refuse_assignment = true;
    struct Reset {
      rk::Interpreter& interpreter;
      ~Reset() {
        interpreter.ranges = nullptr;
        interpreter.on_constant = nullptr;
        interpreter.refuse_assignment = false;
      }
    } reset{step->interpreter};
    if (!every_call) recorder.time_classes(repeats);
    step->run(&recorder);
    step->interpreter.ranges = nullptr;
    for (int32_t i = 0; every_call && repeats > 0 && i <= repeats; ++i) {
      recorder.start_timing(i == 1); // the first is the warm-up
      step->run(&recorder);
      recorder.end_run();
    }
    rk::Bytes bytes;
    recorder.encode(bytes);
    bytes.give(out, n);
  });
}

} // extern "C"
