// What every file of the shim needs: the catch-all, and the guard under which recorded operators run.
#pragma once
#include "shim.h"

#include <c10/util/Exception.h>
#include <cstring>
#include <exception>
#include <stdexcept>
#include <string>

namespace rk {

// A copy of `text` on the C heap, freed by rk_string_free.
const char* heap_string(const std::string& text);

// An error whose kind decides the exit code of the tools.
struct KindError : std::runtime_error {
  KindError(RkKind kind, const std::string& text) : std::runtime_error(text), kind(kind) {}
  RkKind kind;
};

// What an exception says, and its type when it says nothing: a caller can name the operator, and must not have to guess the rest.
std::string told(const std::exception& error);

// Runs `body`; turns whatever it throws into an error text. An exception that crossed into Rust would abort.
template <class F>
const char* guarded(F&& body) noexcept {
  try {
    body();
    return nullptr;
  } catch (const KindError& e) {
    return heap_string(std::string(1, e.kind) + e.what());
  } catch (const std::exception& e) {
    return heap_string(told(e));
  } catch (...) {
    return heap_string("an exception of unknown type");
  }
}

} // namespace rk
