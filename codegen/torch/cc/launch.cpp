// Generated kernels on the tensors of a running step.
#include "common.h"
#include "convert.h"
#include "shim.h"

#include <ATen/Parallel.h>

#include <vector>

namespace {

// Machine code believes its addresses, so the layouts are looked at before every launch.
void addresses(const RkSlots& slots, const int32_t* buffers, size_t n, const int64_t* layouts, void** out) {
  for (size_t i = 0; i < n; ++i) {
    const at::Tensor& tensor = slots.tensors.at(static_cast<size_t>(buffers[i]));
    const auto type = static_cast<at::ScalarType>(*layouts++);
    const auto dims = static_cast<size_t>(*layouts++);
    const at::IntArrayRef sizes(layouts, dims), strides(layouts + dims, dims);
    layouts += 2 * dims;
    TORCH_CHECK(tensor.defined() && tensor.scalar_type() == type && tensor.sizes() == sizes &&
                    (tensor.strides() == strides || tensor.numel() == 0),
                "the kernel was made for ", type, sizes, " with strides ", strides, ", buffer ", i, " is ",
                tensor.defined() ? tensor.toString() : "undefined", tensor.defined() ? tensor.sizes() : at::IntArrayRef(),
                " with strides ", tensor.defined() ? tensor.strides() : at::IntArrayRef());
    out[i] = tensor.data_ptr();
  }
}

} // namespace

extern "C" {

const char* rk_launch(RkKernel kernel, const RkSlots* slots, const int32_t* buffers, size_t n, const int64_t* layouts, int64_t rows, int64_t grain) {
  return rk::guarded([&] {
    std::vector<void*> at(n);
    addresses(*slots, buffers, n, layouts, at.data());
    at::parallel_for(0, rows, grain, [&](int64_t begin, int64_t end) { kernel(at.data(), begin, end); });
  });
}

const char* rk_addresses(const RkSlots* slots, const int32_t* buffers, size_t n, const int64_t* layouts, void** out) {
  return rk::guarded([&] { addresses(*slots, buffers, n, layouts, out); });
}

} // extern "C"
