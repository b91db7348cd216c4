// A CPU allocator that counts requested bytes exactly.
//
// While a lowered step runs, its requests are served in its arena (arena.cpp) and counted all the same.
//
// It wraps the allocator that was there before. Each block carries its size in a header of 64 bytes, the
// alignment that torch promises; the context of the DataPtr is the data pointer itself, because parts of torch
// (the oneDNN glue) call raw_allocate and assert this.
#include "arena.h"
#include "common.h"
#include "watch.h"

#include <c10/core/Allocator.h>

#include <atomic>

namespace {

constexpr size_t kHeader = 64;

std::atomic<int64_t> current{0};
std::atomic<int64_t> peak{0};
std::atomic<int64_t> count{0};
c10::Allocator* inner = nullptr;

void raise(std::atomic<int64_t>& peak, int64_t level) {
  int64_t seen = peak.load(std::memory_order_relaxed);
  while (seen < level && !peak.compare_exchange_weak(seen, level, std::memory_order_relaxed)) {
  }
}

void add(int64_t bytes) {
  raise(peak, current.fetch_add(bytes, std::memory_order_relaxed) + bytes);
  count.fetch_add(1, std::memory_order_relaxed);
}

void release(void* data) {
  if (data == nullptr) return;
  int64_t bytes = 0;
  const bool placed = rk::arena_give(data, bytes);
  void* block = static_cast<char*>(data) - kHeader;
  if (!placed) std::memcpy(&bytes, block, sizeof bytes);
  current.fetch_sub(bytes, std::memory_order_relaxed);
  rk::watch_freed(data);
  if (!placed) inner->raw_deallocate(block);
}

struct Counting final : c10::Allocator {
  c10::DataPtr allocate(size_t n) override {
    const c10::Device cpu(c10::DeviceType::CPU);
    if (n == 0) return {nullptr, nullptr, &release, cpu};
    const auto bytes = static_cast<int64_t>(n);
    bool leaves = false;
    if (void* place = rk::arena_take(n, c10::DeviceType::CPU, leaves)) {
      add(bytes);
      return {place, place, &release, cpu};
    }
    char* block = static_cast<char*>(inner->raw_allocate(n + kHeader));
    std::memcpy(block, &bytes, sizeof bytes);
    add(bytes);
    if (!leaves) rk::arena_missed(c10::DeviceType::CPU);
    rk::watch_made(block + kHeader, bytes, c10::DeviceType::CPU);
    return {block + kHeader, block + kHeader, &release, cpu};
  }
  c10::DeleterFnPtr raw_deleter() const override { return &release; }
  void copy_data(void* to, const void* from, size_t n) const override { default_copy_data(to, from, n); }
};

} // namespace

void rk::memory_add(int64_t bytes) { add(bytes); }

extern "C" {

const char* rk_memory_install(void) {
  return rk::guarded([] {
    static const bool installed = [] {
      inner = c10::GetAllocator(c10::DeviceType::CPU);
      static Counting counting;
      c10::SetAllocator(c10::DeviceType::CPU, &counting, 255);
      return true;
    }();
    (void)installed;
  });
}

void rk_memory_read(int64_t* now, int64_t* most, int64_t* allocations) {
  *now = current.load(std::memory_order_relaxed);
  *most = peak.load(std::memory_order_relaxed);
  *allocations = count.load(std::memory_order_relaxed);
}

void rk_memory_reset_peak(void) {
  peak.store(current.load(std::memory_order_relaxed), std::memory_order_relaxed);
}

} // extern "C"
