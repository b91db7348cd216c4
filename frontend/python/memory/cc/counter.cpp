// The counting allocator (counting.h) for Python, without hooks.
//
// Nothing that is called here may throw: there is nobody to catch it.
#include "counting.h"

using Memory = rk::Counting<rk::NoHooks>;

extern "C" {

void rk_counter_install(void) noexcept { Memory::install(); }

// The bytes now and the most since the last call of this; `leaving` as in `reset_peak`.
void rk_counter_read(int64_t* now, int64_t* most, int64_t leaving) noexcept {
  *now = Memory::current();
  *most = Memory::peak();
  Memory::reset_peak(leaving);
}

} // extern "C"
