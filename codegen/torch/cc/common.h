// What every file of the shim needs: the catch-all, and the guard under which recorded operators run.
#pragma once
#include "shim.h"

#include <c10/util/Exception.h>
#include <cstring>
#include <exception>
#include <string>

namespace rk {

// A copy of `text` on the C heap, freed by rk_string_free.
const char* heap_string(const std::string& text);

// Runs `body`; turns whatever it throws into an error text. An exception that crossed into Rust would abort.
template <class F>
const char* guarded(F&& body) noexcept {
  try {
    body();
    return nullptr;
  } catch (const c10::Error& e) {
    return heap_string(e.what_without_backtrace());
  } catch (const std::exception& e) {
    return heap_string(e.what());
  } catch (...) {
    return heap_string("an exception of unknown type");
  }
}

} // namespace rk
