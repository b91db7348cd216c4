// What the allocator asks the arena (arena.cpp).
#pragma once
#include <c10/core/DeviceType.h>

#include <cstddef>
#include <cstdint>

namespace rk {

// The place of the next request of the running step, or null when it is not a placed request: no step runs in an arena, it
// is being rehearsed, the arena is on another device, or the thread does not work for it. Throws when the request does not fit.
// `leaves`: it is null because the result leaves the step.
void* arena_take(size_t bytes, c10::DeviceType device, bool& leaves);
// Says that a request went to the heap of this device instead.
void arena_missed(c10::DeviceType device);
// Gives a place back; false when the address is not in an arena. `bytes` is what was requested.
bool arena_give(void* data, int64_t& bytes);
// Counts bytes that were not asked for (memory.cpp).
void memory_add(int64_t bytes);

} // namespace rk
