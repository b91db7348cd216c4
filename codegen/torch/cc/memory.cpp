// A CPU allocator that counts requested bytes exactly.
//
// Besides the level and the peak of the process it keeps both per thread. The peak of an operator that allocates
// in several threads depends on who meets whom; the sum of the threads' own peaks does not, and bounds it from
// above: at any moment the level is the sum of the threads' levels, each at most that thread's peak. (A thread's
// level goes down when it frees what another allocated; only the sum means anything.)
//
// It wraps the allocator that was there before. Each block carries its size in a header of 64 bytes, the
// alignment that torch promises; the context of the DataPtr is the data pointer itself, because parts of torch
// (the oneDNN glue) call raw_allocate and assert this.
#include "common.h"

#include <c10/core/Allocator.h>

#include <atomic>
#include <mutex>
#include <vector>

namespace {

constexpr size_t kHeader = 64;

std::atomic<int64_t> current{0};
std::atomic<int64_t> peak{0};
std::atomic<int64_t> count{0};
c10::Allocator* inner = nullptr;

struct Thread {
  std::atomic<int64_t> current{0};
  std::atomic<int64_t> peak{0};
};
std::mutex threads_lock;
std::vector<Thread*> threads; // never freed: a thread's blocks outlive it

Thread& this_thread() {
  thread_local Thread* mine = [] {
    auto* thread = new Thread();
    std::lock_guard<std::mutex> lock(threads_lock);
    threads.push_back(thread);
    return thread;
  }();
  return *mine;
}

void raise(std::atomic<int64_t>& peak, int64_t level) {
  int64_t seen = peak.load(std::memory_order_relaxed);
  while (seen < level && !peak.compare_exchange_weak(seen, level, std::memory_order_relaxed)) {
  }
}

void add(int64_t bytes) {
  raise(peak, current.fetch_add(bytes, std::memory_order_relaxed) + bytes);
  Thread& thread = this_thread();
  raise(thread.peak, thread.current.fetch_add(bytes, std::memory_order_relaxed) + bytes);
  count.fetch_add(1, std::memory_order_relaxed);
}

void release(void* data) {
  if (data == nullptr) return;
  void* block = static_cast<char*>(data) - kHeader;
  int64_t bytes = 0;
  std::memcpy(&bytes, block, sizeof bytes);
  current.fetch_sub(bytes, std::memory_order_relaxed);
  this_thread().current.fetch_sub(bytes, std::memory_order_relaxed);
  inner->raw_deallocate(block);
}

struct Counting final : c10::Allocator {
  c10::DataPtr allocate(size_t n) override {
    const c10::Device cpu(c10::DeviceType::CPU);
    if (n == 0) return {nullptr, nullptr, &release, cpu};
    char* block = static_cast<char*>(inner->raw_allocate(n + kHeader));
    const auto bytes = static_cast<int64_t>(n);
    std::memcpy(block, &bytes, sizeof bytes);
    add(bytes);
    return {block + kHeader, block + kHeader, &release, cpu};
  }
  c10::DeleterFnPtr raw_deleter() const override { return &release; }
  void copy_data(void* to, const void* from, size_t n) const override { default_copy_data(to, from, n); }
};

} // namespace

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
  std::lock_guard<std::mutex> lock(threads_lock);
  for (Thread* thread : threads) {
    thread->peak.store(thread->current.load(std::memory_order_relaxed), std::memory_order_relaxed);
  }
}

int64_t rk_memory_thread_peaks(void) {
  int64_t sum = 0;
  std::lock_guard<std::mutex> lock(threads_lock);
  for (Thread* thread : threads) sum += thread->peak.load(std::memory_order_relaxed);
  return sum;
}

} // extern "C"
