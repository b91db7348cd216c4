// Strings and buffers that change hands.
#include "common.h"

#include <c10/util/Type.h>
#include <torch/version.h>

#include <cstdlib>

namespace rk {

const char* heap_string(const std::string& text) {
  char* copy = static_cast<char*>(std::malloc(text.size() + 1));
  if (copy != nullptr) std::memcpy(copy, text.c_str(), text.size() + 1);
  return copy;
}

std::string told(const std::exception& error) {
  const auto* torch = dynamic_cast<const c10::Error*>(&error);
  const std::string text = torch == nullptr ? error.what() : torch->what_without_backtrace();
  const auto first = text.find_first_not_of(" \t\r\n");
  if (first != std::string::npos) return text.substr(first);
  const std::string type = c10::demangle(typeid(error).name());
  // Its text is still where Python keeps it.
  if (type == "python_error") return "an exception of Python";
  return "an error without a message, of type " + type;
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
