// What the settings need of libtorch_cuda.
#pragma once
#include <cstdint>

namespace rk {

// The name of a GPU; null until libtorch_cuda is loaded (cuda.cpp).
extern const char* (*gpu_name)(int8_t device);

} // namespace rk
