// A CPU allocator that counts requested bytes exactly, made of nothing but c10.
//
// It stands in front of the allocator that was there before. Each block carries its size in a header of 64 bytes, the
// alignment that torch promises; the context of the DataPtr is the data pointer itself, because parts of torch
// (the oneDNN glue) call raw_allocate and assert this.
//
// In a program that is profiled, PyTorch's own allocator tells the profiler of each block. It would tell of blocks with headers, at
// addresses that no tensor has, so where it is the one that was there before, memory comes from what it stands on itself, and the profiler
// is told from here: of what was requested, and of no release whose request it has not seen.
#pragma once
#include <c10/core/Allocator.h>
#include <c10/core/CPUAllocator.h>
#include <c10/core/impl/alloc_cpu.h>

#include <atomic>
#include <cstdint>
#include <new>

namespace rk {

// What a counting allocator asks before it takes a block from the heap, and tells afterwards; these ask and tell nobody.
struct NoHooks {
  // A place for this request that is not on the heap, or null. `leaves`: it is null because the result leaves a step.
  static void* take(size_t, bool& /*leaves*/) { return nullptr; }
  // Whether the address is such a place, which is given back then; `bytes` is what was requested.
  static bool give(void*, int64_t& /*bytes*/) { return false; }
  // A block of the heap was made, or freed, at this address; whether it is for a result that leaves a step.
  static void made(void*, int64_t, bool /*leaves*/) {}
  static void freed(void*) {}
  // A block with room for a header and this many bytes that was kept, or null; whether a block is kept instead of freed.
  static char* spare(int64_t) { return nullptr; }
  static bool keep(char*, int64_t) { return false; }
};

// One per process and set of hooks: all that it counts is static.
template <class Hooks>
class Counting final : public c10::Allocator {
 public:
  // Makes it PyTorch's allocator on the CPU, once.
  static void install() {
    static const bool installed = [] {
      auto* before = c10::GetAllocator(c10::DeviceType::CPU);
      inner_ = before == c10::GetDefaultCPUAllocator() ? nullptr : before;
      static Counting counting;
      c10::SetAllocator(c10::DeviceType::CPU, &counting, 255);
      return true;
    }();
    (void)installed;
  }

  // Bytes now, and the most since the last reset_peak.
  static int64_t current() { return current_.load(std::memory_order_relaxed); }
  static int64_t peak() { return peak_.load(std::memory_order_relaxed); }
  static int64_t count() { return count_.load(std::memory_order_relaxed); }
  // `leaving`: of what is there now, bytes that are about to be given back.
  static void reset_peak(int64_t leaving = 0) { peak_.store(current() - leaving, std::memory_order_relaxed); }

  // Counts bytes that were not asked for here.
  static void add(int64_t bytes) {
    raise(current_.fetch_add(bytes, std::memory_order_relaxed) + bytes);
    count_.fetch_add(1, std::memory_order_relaxed);
  }

  // Gives a block, header and all, back to the heap.
  static void free_block(char* block) {
    if (inner_ == nullptr) c10::free_cpu(block);
    else inner_->raw_deallocate(block);
  }

  c10::DataPtr allocate(size_t n) override {
    const c10::Device cpu(c10::DeviceType::CPU);
    if (n == 0) return {nullptr, nullptr, &release, cpu};
    const auto bytes = static_cast<int64_t>(n);
    bool leaves = false;
    if (void* place = Hooks::take(n, leaves)) {
      add(bytes);
      return {place, place, &release, cpu};
    }
    void* data = make(bytes);
    add(bytes);
    Hooks::made(data, bytes, leaves);
    return {data, data, &release, cpu};
  }
  c10::DeleterFnPtr raw_deleter() const override { return &release; }
  void copy_data(void* to, const void* from, size_t n) const override { default_copy_data(to, from, n); }

 private:
  // What stands in front of a block on the heap.
  struct Header {
    int64_t bytes;
    bool reported;
  };
  static constexpr size_t kHeader = 64;
  static_assert(sizeof(Header) <= kHeader);

  static void report(void* data, int64_t bytes) {
    const int64_t total = reported_.fetch_add(bytes, std::memory_order_relaxed) + bytes;
    c10::reportMemoryUsageToProfiler(data, bytes, static_cast<size_t>(total), 0, c10::Device(c10::DeviceType::CPU));
  }

  // A block with its header; gives the data.
  static void* make(int64_t bytes) {
    const size_t whole = static_cast<size_t>(bytes) + kHeader;
    char* block = Hooks::spare(bytes);
    if (block == nullptr) block = static_cast<char*>(inner_ == nullptr ? c10::alloc_cpu(whole) : inner_->raw_allocate(whole));
    const bool watched = inner_ == nullptr && c10::memoryProfilingEnabled();
    new (block) Header{bytes, watched};
    if (watched) report(block + kHeader, bytes);
    return block + kHeader;
  }

  // Gives a block back; its bytes.
  static int64_t give_back(void* data) {
    char* block = static_cast<char*>(data) - kHeader;
    const Header header = *reinterpret_cast<const Header*>(block);
    if (header.reported && c10::memoryProfilingEnabled()) report(data, -header.bytes);
    else if (header.reported) reported_.fetch_sub(header.bytes, std::memory_order_relaxed);
    if (!Hooks::keep(block, header.bytes)) free_block(block);
    return header.bytes;
  }

  static void release(void* data) {
    if (data == nullptr) return;
    int64_t bytes = 0;
    const bool placed = Hooks::give(data, bytes);
    Hooks::freed(data);
    if (!placed) bytes = give_back(data);
    current_.fetch_sub(bytes, std::memory_order_relaxed);
  }

  static void raise(int64_t level) {
    int64_t seen = peak_.load(std::memory_order_relaxed);
    while (seen < level && !peak_.compare_exchange_weak(seen, level, std::memory_order_relaxed)) {
    }
  }

  static inline std::atomic<int64_t> current_{0};
  static inline std::atomic<int64_t> peak_{0};
  static inline std::atomic<int64_t> count_{0};
  static inline std::atomic<int64_t> reported_{0};
  static inline c10::Allocator* inner_ = nullptr; // null: PyTorch's own
};

} // namespace rk
