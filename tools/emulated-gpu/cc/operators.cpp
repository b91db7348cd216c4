// What the fallback cannot do: memory that nobody fills, copies from and to the host, and decisions that torch leaves to the device.
#include "operands.h"

#include <ATen/EmptyTensor.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <c10/core/DeviceGuard.h>
#include <torch/library.h>

#include <cstring>

namespace emulated {
namespace {

c10::Device device_or_current(std::optional<c10::Device> device) {
  const auto index = device.has_value() && device->has_index() ? device->index() : current_device();
  return c10::Device(c10::DeviceType::CUDA, index);
}

at::Tensor empty(c10::IntArrayRef size, std::optional<at::ScalarType> dtype, std::optional<at::Layout>, std::optional<c10::Device> device, std::optional<bool>, std::optional<at::MemoryFormat> format) {
  const c10::DeviceGuard guard(device_or_current(device));
  return at::detail::empty_generic(size, allocator(), c10::DispatchKeySet(c10::DispatchKey::CUDA), c10::dtype_or_default(dtype), format);
}

at::Tensor empty_strided(c10::IntArrayRef size, c10::IntArrayRef stride, std::optional<at::ScalarType> dtype, std::optional<at::Layout>, std::optional<c10::Device> device, std::optional<bool>) {
  const c10::DeviceGuard guard(device_or_current(device));
  return at::detail::empty_strided_generic(size, stride, allocator(), c10::DispatchKeySet(c10::DispatchKey::CUDA), c10::dtype_or_default(dtype));
}

// From and to the host the bytes go by a copy of the device, and the host waits: such memory is pageable.
at::Tensor& copy_(at::Tensor& self, const at::Tensor& src, bool non_blocking) {
  if (self.numel() == 0) return self;
  const c10::DeviceGuard guard(self.is_cuda() ? self.device() : src.device());
  const at::AutoDispatchBelowADInplaceOrView below;
  if (self.is_cuda() && src.is_cuda()) {
    if (self.device() != src.device()) {
      // Through the host, between two waits.
      self.copy_(src.cpu());
      return self;
    }
    queue("copy_", [to = Operand::of(self), from = Operand::of(src)] {
      const at::AutoDispatchBelowADInplaceOrView below;
      Storages storages;
      auto out = storages.over(to);
      out.copy_(storages.over(from));
    });
    return self;
  }
  if (self.is_cuda()) {
    // A copy of its own: the caller may change it as soon as this is over.
    queue("copy from host", [to = Operand::of(self), from = src.clone()] {
      const at::AutoDispatchBelowADInplaceOrView below;
      Storages storages;
      auto out = storages.over(to);
      out.copy_(from);
    });
    synchronize();
    return self;
  }
  queue("copy to host", [to = self, from = Operand::of(src)]() mutable {
    const at::AutoDispatchBelowADInplaceOrView below;
    Storages storages;
    to.copy_(storages.over(from));
  });
  synchronize();
  return self;
}

at::Scalar local_scalar(const at::Tensor& self) {
  at::Scalar out;
  const c10::DeviceGuard guard(self.device());
  queue("copy to host", [&out, from = Operand::of(self)] {
    Storages storages;
    out = storages.over(from).item();
  });
  synchronize();
  return out;
}

TORCH_LIBRARY_IMPL(aten, CUDA, m) {
  m.impl("empty.memory_format", &empty);
  m.impl("empty_strided", &empty_strided);
  m.impl("copy_", &copy_);
  m.impl("_local_scalar_dense", &local_scalar);
}

} // namespace
} // namespace emulated
