// Every operator that the CPU has, on the emulated device: results are allocated now, the CPU's kernel is queued on the addresses.
//
// A queued kernel sees memory as it is when it runs, and so does every replay of a captured one. What comes from the host (numbers,
// tensors of the CPU) it sees as it was when it was queued.
#include "operands.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Context.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/grad_mode.h>
#include <c10/core/DeviceGuard.h>
#include <torch/library.h>

#include <cstring>
#include <mutex>

namespace emulated {
namespace {

c10::Device device_of(const c10::OperatorHandle& op, const torch::jit::Stack& arguments) {
  std::optional<c10::Device> found;
  for (const auto& argument : arguments) {
    each(argument, [&](const at::Tensor& tensor) {
      if (!tensor.is_cuda()) return;
      TORCH_CHECK(!found.has_value() || *found == tensor.device(), "Expected all tensors to be on the same device, but found at least two devices, ", *found, " and ", tensor.device(), "! (", op.operator_name(), ")");
      found = tensor.device();
    });
    if (argument.isDevice() && !found.has_value()) found = argument.toDevice();
  }
  const auto device = found.value_or(c10::Device(c10::DeviceType::CUDA, -1));
  return device.has_index() ? device : c10::Device(c10::DeviceType::CUDA, current_device());
}

// Numbers may come as tensors of the CPU; and indices, which torch brings to the device itself.
void check_host_tensor(const c10::OperatorHandle& op, const at::Tensor& tensor) {
  const auto& name = op.operator_name().name;
  TORCH_CHECK(tensor.dim() == 0 || name.find("index") != std::string::npos, "Expected all tensors to be on the same device, but found at least two devices, cuda and ", tensor.device(), "! (", op.operator_name(), ")");
}

// An operator whose result the host must see.
bool needs_data(const c10::OperatorHandle& op, const torch::jit::Stack& arguments) {
  if (op.operator_name().name == "aten::index") {
    bool mask = false;
    each(arguments[1], [&](const at::Tensor& index) { mask = mask || index.scalar_type() == at::kBool || index.scalar_type() == at::kByte; });
    return mask;
  }
  return op.hasTag(at::Tag::dynamic_output_shape) || op.hasTag(at::Tag::data_dependent_output);
}

// As cuBLAS does on the first call on a stream, and keeps it.
void need_blas_workspace(const c10::OperatorHandle& op, c10::DeviceIndex device) {
  static const std::vector<std::string> names = {"aten::mm", "aten::addmm", "aten::bmm", "aten::baddbmm", "aten::addmv", "aten::mv", "aten::dot"};
  if (std::find(names.begin(), names.end(), op.operator_name().name) == names.end()) return;
  static std::mutex lock;
  static auto* workspaces = new std::map<std::pair<c10::DeviceIndex, void*>, c10::DataPtr>;
  const std::lock_guard<std::mutex> guard(lock);
  auto& workspace = (*workspaces)[{device, current_stream(device)}];
  constexpr size_t kBytes = size_t{1} << 16;
  if (workspace.get() == nullptr) workspace = allocate(kBytes);
}

// Two temporaries of odd sizes for kernels that would have some: what lies there is lost when they run.
std::vector<c10::DataPtr> scratch(const c10::OperatorHandle& op, const std::vector<at::Tensor>& tensors) {
  std::vector<c10::DataPtr> made;
  if (op.operator_name().name.find("backward") == std::string::npos || tensors.empty()) return made;
  for (const size_t bytes : {static_cast<size_t>(tensors.front().nbytes()) + 4, size_t{36}}) {
    made.push_back(allocate(bytes));
    queue("scratch", [at = made.back().get(), bytes] { std::memset(at, 0xff, bytes); });
  }
  return made;
}

// As cuDNN: an algorithm is chosen by torch's settings, and has its workspace. A race tries another one first.
std::vector<c10::DataPtr> convolution_workspace(const c10::OperatorHandle& op, const std::vector<at::Tensor>& tensors) {
  std::vector<c10::DataPtr> made;
  if (op.operator_name().name.find("conv") == std::string::npos || tensors.empty()) return made;
  const auto& torch = at::globalContext();
  const size_t bytes = tensors.front().nbytes();
  if (torch.benchmarkCuDNN()) allocate(4 * bytes);
  made.push_back(allocate(torch.benchmarkCuDNN() ? 3 * bytes : torch.deterministicCuDNN() ? bytes : 2 * bytes));
  return made;
}

struct Call {
  c10::OperatorHandle op;
  torch::jit::Stack arguments; // tensors of the device are left out
  std::vector<std::optional<Operand>> operands; // in their order; none: a tensor of the host stays
  std::optional<uint64_t> seed;
  bool grad_mode;

  // Runs the CPU's kernel on memory of the device.
  torch::jit::Stack run() const {
    torch::jit::Stack stack = arguments;
    Storages storages;
    size_t next = 0;
    for (auto& value : stack) {
      replace(value, [&](const at::Tensor& tensor) {
        const auto& operand = operands.at(next++);
        return operand.has_value() ? storages.over(*operand) : tensor;
      });
    }
    const at::AutoDispatchBelowADInplaceOrView below;
    const at::AutoGradMode mode(grad_mode);
    std::optional<KeepGenerator> keep;
    if (seed.has_value()) {
      keep.emplace();
      auto generator = at::globalContext().defaultGenerator(c10::Device(c10::DeviceType::CPU));
      const std::lock_guard<std::mutex> lock(generator.mutex());
      generator.set_current_seed(*seed);
    }
    // PyTorch's boxed kernels drop their arguments and only then read results that are references to them.
    const torch::jit::Stack kept = stack;
    op.callBoxed(&stack);
    return stack;
  }
};

Call call_of(const c10::OperatorHandle& op, const torch::jit::Stack& arguments, c10::DeviceIndex device) {
  Call call{op, arguments, {}, {}, at::GradMode::is_enabled()};
  for (auto& value : call.arguments) {
    replace(value, [&](const at::Tensor& tensor) {
      if (!tensor.is_cuda()) {
        check_host_tensor(op, tensor);
        call.operands.emplace_back();
        return tensor.clone();
      }
      call.operands.emplace_back(Operand::of(tensor));
      // A placeholder, so that nothing of the device is held.
      static const at::Tensor placeholder = at::detail::make_tensor<c10::TensorImpl>(c10::Storage(c10::Storage::use_byte_size_t(), 0, c10::DataPtr(nullptr, c10::Device(c10::DeviceType::CPU)), nullptr, false), c10::DispatchKeySet(c10::DispatchKey::CPU), caffe2::TypeMeta::Make<float>());
      return placeholder;
    });
    settle(value);
  }
  if (op.hasTag(at::Tag::nondeterministic_seeded)) call.seed = draw(device);
  return call;
}

c10::Storage storage_of(size_t bytes) {
  auto* from = allocator();
  return c10::Storage(c10::Storage::use_byte_size_t(), bytes, from->allocate(bytes), from, true);
}

at::Tensor tensor_in(c10::Storage storage, const Result& like) {
  auto tensor = at::detail::make_tensor<c10::TensorImpl>(std::move(storage), c10::DispatchKeySet(c10::DispatchKey::CUDA), like.dtype);
  tensor.unsafeGetTensorImpl()->set_sizes_and_strides(like.sizes, like.strides, like.offset);
  return tensor;
}

// Numbers come back at once, tensors are made anew on the device.
void run_now(const c10::OperatorHandle& op, torch::jit::Stack* stack, size_t count, c10::DeviceIndex device) {
  torch::jit::Stack arguments(stack->end() - static_cast<std::ptrdiff_t>(count), stack->end());
  const Call call = call_of(op, arguments, device);
  synchronize();
  auto results = std::make_shared<torch::jit::Stack>();
  queue(toString(op.operator_name()).c_str(), [=] { *results = call.run(); });
  synchronize();
  torch::jit::drop(*stack, count);
  for (auto& value : *results) {
    replace(value, [&](const at::Tensor& tensor) {
      const auto made = Operand::of(tensor);
      auto storage = storage_of(made.bytes);
      auto* to = static_cast<char*>(const_cast<void*>(storage.data()));
      queue("copy", [to, tensor, bytes = made.bytes] { std::memcpy(to, tensor.storage().data(), bytes); });
      return tensor_in(std::move(storage), {Result::kFresh, 0, made.sizes, made.strides, made.offset, made.dtype});
    });
    stack->push_back(value);
  }
}

void resize(const at::Tensor& tensor, const Result& to, size_t bytes) {
  auto* storage = tensor.storage().unsafeGetStorageImpl();
  if (storage->nbytes() < bytes) {
    storage->set_data_ptr_noswap(allocate(bytes));
    storage->set_nbytes(bytes);
  }
  tensor.unsafeGetTensorImpl()->set_sizes_and_strides(to.sizes, to.strides, to.offset);
}

void run_queued(const c10::OperatorHandle& op, torch::jit::Stack* stack, size_t count, c10::DeviceIndex device) {
  const torch::jit::Stack arguments(stack->end() - static_cast<std::ptrdiff_t>(count), stack->end());
  const Metadata& known = metadata(op, arguments);
  std::vector<at::Tensor> tensors;
  for (const auto& argument : arguments) each(argument, [&](const at::Tensor& tensor) { tensors.push_back(tensor); });
  for (size_t i = 0; i < known.resized.size(); ++i) resize(tensors.at(known.resized[i].first), known.resized[i].second, known.resized_bytes[i]);
  need_blas_workspace(op, device);

  std::vector<c10::Storage> storages;
  for (const size_t bytes : known.storages) storages.push_back(storage_of(bytes));
  const auto temporaries = scratch(op, tensors);
  const auto workspace = convolution_workspace(op, tensors);
  std::vector<at::Tensor> results;
  bool views = true;
  for (const auto& result : known.results) {
    views = views && result.kind == Result::kView;
    if (result.kind == Result::kUndefined) results.emplace_back();
    else if (result.kind == Result::kArgument) results.push_back(tensors.at(result.of));
    else if (result.kind == Result::kView) results.push_back(tensor_in(tensors.at(result.of).storage(), result));
    else results.push_back(tensor_in(storages.at(result.of), result));
  }
  if (!views || op.schema().is_mutable()) {
    std::vector<std::pair<char*, size_t>> places;
    for (const auto& storage : storages) places.emplace_back(static_cast<char*>(const_cast<void*>(storage.data())), storage.nbytes());
    size_t touched = 0;
    for (const auto& tensor : tensors) touched += tensor.is_cuda() ? tensor.nbytes() : 0;
    for (const auto& storage : storages) touched += storage.nbytes();
    const auto work = [call = call_of(op, arguments, device), places, &known] {
      const auto made = call.run();
      size_t next = 0;
      for (const auto& value : made) {
        auto put = [&](const at::Tensor& tensor) {
          const Result& result = known.results.at(next++);
          if (result.kind != Result::kFresh) return;
          const auto [to, bytes] = places.at(result.of);
          TORCH_CHECK(tensor.storage().nbytes() == bytes, "a result of another size than its shape has");
          std::memcpy(to, tensor.storage().data(), bytes);
        };
        if (value.isTensorList()) for (const auto& tensor : value.toTensorVector()) put(tensor);
        else put(value.isNone() ? at::Tensor() : value.toTensor());
      }
    };
    queue(toString(op.operator_name()).c_str(), work, kOperator + touched * kPerByte);
  }
  torch::jit::drop(*stack, count);
  size_t next = 0;
  for (const auto& [list, length] : known.returns) {
    if (!list) {
      stack->push_back(results.at(next++));
      continue;
    }
    c10::List<at::Tensor> items;
    for (size_t i = 0; i < length; ++i) items.push_back(results.at(next++));
    stack->push_back(std::move(items));
  }
}

void fallback(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  const size_t count = op.schema().arguments().size();
  const torch::jit::Stack arguments(stack->end() - static_cast<std::ptrdiff_t>(count), stack->end());
  const auto device = device_of(op, arguments);
  const c10::DeviceGuard guard(device);
  if (needs_data(op, arguments)) run_now(op, stack, count, device.index());
  else run_queued(op, stack, count, device.index());
}

TORCH_LIBRARY_IMPL(_, CUDA, m) { m.fallback(torch::CppFunction::makeFromBoxedFunction<&fallback>()); }

} // namespace
} // namespace emulated
