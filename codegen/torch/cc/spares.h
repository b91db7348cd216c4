// Memory that has been written before, for calls that are timed (memory.cpp).
#pragma once

namespace rk {

// While one lives, blocks of the CPU that are given back are kept by their size and handed out again.
class Spares {
 public:
  Spares();
  ~Spares();
  Spares(const Spares&) = delete;
  Spares& operator=(const Spares&) = delete;
};

} // namespace rk
