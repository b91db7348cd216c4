// Strings and buffers that change hands.
#include "common.h"

#include <torch/version.h>

#include <cstdlib>

namespace rk {

const char* heap_string(const std::string& text) {
  char* copy = static_cast<char*>(std::malloc(text.size() + 1));
  if (copy != nullptr) std::memcpy(copy, text.c_str(), text.size() + 1);
  return copy;
}

} // namespace rk

extern "C" void rk_string_free(const char* text) {
  std::free(const_cast<char*>(text));
}

extern "C" void rk_bytes_free(uint8_t* bytes) {
  std::free(bytes);
}

extern "C" const char* rk_torch_version(void) {
  return TORCH_VERSION;
}
