// What queued work takes on a GPU.
#pragma once
#include <c10/core/Event.h>

#include <cstdint>
#include <functional>

namespace rk {

// `at::cuda::sleep`, which keeps the current stream busy for some cycles; null until libtorch_cuda is loaded (cuda.cpp).
extern void (*spin)(int64_t cycles);

// Measures on one GPU, by its own clock: from one event to another on the stream that is current, with the work between them.
//
// The host queues a short operator more slowly than the GPU runs it, and the GPU would wait for it between the events. So the stream is kept
// busy first, until the host has queued all of it. Whether that was long enough is seen from the first event: it must not have come when
// the second has been queued. If it has, the time is too long, and the next measurement stalls twice as long. Work that waits for the
// host itself never succeeds in this, and is measured with its waiting.
class Timer {
 public:
  // Stalls for at most `most` nanoseconds.
  Timer(c10::Device device, int64_t most);

  // Nanoseconds of what `work` queues, which is called once; waits for it.
  double once(const std::function<void()>& work);
  // The same of work that may be called more than once: until a stall was long enough, or can be no longer.
  double of(const std::function<void()>& work);

 private:
  c10::Device device_;
  int64_t most_;
  int64_t stall_ = 100'000;
  bool in_time_ = false; // whether the host was, the last time
};

} // namespace rk
