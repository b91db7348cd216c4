// Shapes of results: torch's kernels for meta tensors are written in Python, so the CPU's kernel is run on zeros.
#include "operands.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Context.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <mutex>
#include <sstream>

namespace emulated {

Operand Operand::of(const at::Tensor& tensor) {
  const auto& storage = tensor.storage();
  auto* base = static_cast<char*>(const_cast<void*>(storage.data()));
  return {base, storage.nbytes(), tensor.sizes().vec(), tensor.strides().vec(), tensor.storage_offset(), tensor.dtype()};
}

namespace {

at::Tensor in(const c10::Storage& storage, const Operand& operand) {
  auto tensor = at::detail::make_tensor<c10::TensorImpl>(c10::Storage(storage), c10::DispatchKeySet(c10::DispatchKey::CPU), operand.dtype);
  tensor.unsafeGetTensorImpl()->set_sizes_and_strides(operand.sizes, operand.strides, operand.offset);
  return tensor;
}

} // namespace

at::Tensor Storages::over(const Operand& operand) {
  auto found = storages_.find(operand.base);
  if (found == storages_.end()) {
    c10::DataPtr data(operand.base, c10::Device(c10::DeviceType::CPU));
    c10::Storage storage(c10::Storage::use_byte_size_t(), operand.bytes, std::move(data), nullptr, false);
    found = storages_.emplace(operand.base, std::move(storage)).first;
  }
  return in(found->second, operand);
}

at::Tensor Storages::shadow(const Operand& operand) {
  auto found = storages_.find(operand.base);
  if (found == storages_.end()) {
    auto zeros = at::zeros({static_cast<int64_t>(operand.bytes)}, at::TensorOptions().dtype(at::kByte).device(at::kCPU));
    found = storages_.emplace(operand.base, zeros.storage()).first;
  }
  return in(found->second, operand);
}

char* Storages::shadowed(const c10::StorageImpl* storage) const {
  for (const auto& [base, own] : storages_) {
    if (own.unsafeGetStorageImpl() == storage) return base;
  }
  return nullptr;
}

void replace(c10::IValue& value, const std::function<at::Tensor(const at::Tensor&)>& with) {
  if (value.isTensor()) {
    if (value.toTensor().defined()) value = with(value.toTensor());
  } else if (value.isList()) {
    const auto before = value.toList();
    const bool tensors = std::any_of(before.begin(), before.end(), [](const c10::IValue& item) { return item.isTensor(); });
    if (!tensors) return;
    c10::impl::GenericList list(before.elementType());
    for (c10::IValue item : before) {
      if (item.isTensor() && item.toTensor().defined()) item = with(item.toTensor());
      list.push_back(std::move(item));
    }
    value = std::move(list);
  }
}

void each(const c10::IValue& value, const std::function<void(const at::Tensor&)>& visit) {
  c10::IValue copy = value;
  replace(copy, [&](const at::Tensor& tensor) {
    visit(tensor);
    return tensor;
  });
}

void settle(c10::IValue& value) {
  if (value.isDevice()) value = c10::Device(c10::DeviceType::CPU);
  else if (value.isGenerator()) value = c10::IValue();
}

struct KeepGenerator::State {
  at::mt19937 engine;
  std::optional<float> next_float;
  std::optional<double> next_double;
};

KeepGenerator::KeepGenerator() {
  auto generator = at::globalContext().defaultGenerator(c10::Device(c10::DeviceType::CPU));
  const std::lock_guard<std::mutex> lock(generator.mutex());
  auto* cpu = at::check_generator<at::CPUGeneratorImpl>(generator);
  state = std::make_unique<State>(State{cpu->engine(), cpu->next_float_normal_sample(), cpu->next_double_normal_sample()});
}

KeepGenerator::~KeepGenerator() {
  auto generator = at::globalContext().defaultGenerator(c10::Device(c10::DeviceType::CPU));
  const std::lock_guard<std::mutex> lock(generator.mutex());
  auto* cpu = at::check_generator<at::CPUGeneratorImpl>(generator);
  cpu->set_engine(state->engine);
  cpu->set_next_float_normal_sample(state->next_float);
  cpu->set_next_double_normal_sample(state->next_double);
}

namespace {

// All that decides the shapes of results, and which of them lie where.
std::string key_of(const c10::OperatorHandle& op, const torch::jit::Stack& arguments) {
  std::ostringstream key;
  key << op.operator_name();
  std::map<const void*, size_t> known;
  for (const auto& argument : arguments) {
    bool tensors = false;
    each(argument, [&](const at::Tensor& tensor) {
      tensors = true;
      const auto storage = known.emplace(tensor.storage().unsafeGetStorageImpl(), known.size()).first->second;
      key << '|' << tensor.device() << tensor.dtype() << tensor.sizes() << tensor.strides() << tensor.storage_offset() << '@' << storage << ':' << tensor.storage().nbytes();
    });
    if (!tensors && argument.isGenerator()) key << "|generator";
    else if (!tensors) key << '|' << argument;
    else key << ';';
  }
  return key.str();
}

Metadata find(const c10::OperatorHandle& op, torch::jit::Stack stack) {
  std::vector<at::Tensor> originals, shadows;
  Storages storages;
  for (auto& value : stack) {
    replace(value, [&](const at::Tensor& tensor) {
      originals.push_back(tensor);
      shadows.push_back(tensor.is_cuda() ? storages.shadow(Operand::of(tensor)) : tensor.clone());
      return shadows.back();
    });
    settle(value);
  }
  const KeepGenerator keep;
  const at::AutoDispatchBelowADInplaceOrView below;
  op.callBoxed(&stack);

  Metadata found;
  auto describe = [&](const at::Tensor& tensor) {
    Result result{Result::kUndefined, 0, {}, {}, 0, {}};
    if (!tensor.defined()) return result;
    result = {Result::kFresh, 0, tensor.sizes().vec(), tensor.strides().vec(), tensor.storage_offset(), tensor.dtype()};
    for (size_t i = 0; i < shadows.size(); ++i) {
      if (!tensor.is_same(shadows[i])) continue;
      result.kind = Result::kArgument;
      result.of = i;
      return result;
    }
    for (size_t i = 0; i < shadows.size(); ++i) {
      if (!tensor.is_alias_of(shadows[i])) continue;
      result.kind = Result::kView;
      result.of = i;
      return result;
    }
    return result;
  };
  std::vector<c10::StorageImpl*> fresh;
  auto add = [&](const at::Tensor& tensor) {
    Result result = describe(tensor);
    if (result.kind == Result::kFresh) {
      auto* storage = tensor.storage().unsafeGetStorageImpl();
      const auto known = std::find(fresh.begin(), fresh.end(), storage);
      result.of = static_cast<size_t>(known - fresh.begin());
      if (known == fresh.end()) {
        fresh.push_back(storage);
        found.storages.push_back(storage->nbytes());
      }
    }
    found.results.push_back(std::move(result));
  };
  for (const auto& value : stack) {
    if (value.isTensorList()) {
      const auto list = value.toTensorVector();
      found.returns.emplace_back(true, list.size());
      for (const auto& tensor : list) add(tensor);
    } else {
      TORCH_CHECK(value.isTensor() || value.isNone(), "the emulated GPU cannot run ", op.operator_name(), ": it gives a ", value.tagKind());
      found.returns.emplace_back(false, 1);
      add(value.isNone() ? at::Tensor() : value.toTensor());
    }
  }
  for (size_t i = 0; i < originals.size(); ++i) {
    if (!originals[i].is_cuda() || shadows[i].sizes() == originals[i].sizes()) continue;
    found.resized.emplace_back(i, describe(shadows[i]));
    found.resized_bytes.push_back(shadows[i].storage().nbytes());
  }
  return found;
}

} // namespace

const Metadata& metadata(const c10::OperatorHandle& op, const torch::jit::Stack& arguments) {
  static auto* known = new std::map<std::string, Metadata>;
  static std::mutex lock;
  const std::string key = key_of(op, arguments);
  {
    const std::lock_guard<std::mutex> guard(lock);
    const auto found = known->find(key);
    if (found != known->end()) return found->second;
  }
  Metadata made = find(op, arguments);
  const std::lock_guard<std::mutex> guard(lock);
  return known->emplace(key, std::move(made)).first->second;
}

} // namespace emulated
