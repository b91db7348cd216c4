// Two functions that Debian's archives of LLVM take in versions of glibc 2.36 and of GCC 12. With these in their place, what
// is linked to the archives runs with glibc 2.34 and GCC 11's libstdc++, as manylinux_2_34 has it. Where LLVM is a shared
// library, the linker leaves this file out.

#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <sys/random.h>

extern "C" uint32_t arc4random() noexcept {
  uint32_t number = 0;
  // So few bytes come whole, or the call is interrupted before any.
  while (getrandom(&number, sizeof number, 0) != static_cast<ssize_t>(sizeof number)) {
  }
  return number;
}

void std::condition_variable::wait(std::unique_lock<std::mutex> &lock) { _M_cond.wait(*lock.mutex()); }
