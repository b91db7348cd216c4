// A CPU allocator that counts requested bytes exactly.
//
// While a lowered step runs, its requests are served in its arena (arena.cpp) and counted all the same.
//
// It stands in front of the allocator that was there before. Each block carries its size in a header of 64 bytes, the
// alignment that torch promises; the context of the DataPtr is the data pointer itself, because parts of torch
// (the oneDNN glue) call raw_allocate and assert this.
//
// While calls are timed, blocks that are given back are spare blocks for the next requests of their size (`Spares`).
//
// In a program that is profiled, PyTorch's own allocator tells the profiler of each block. It would tell of blocks with headers, at
// addresses that no tensor has, so where it is the one that was there before, memory comes from what it stands on itself, and the profiler
// is told from here: of what was requested, and of no release whose request it has not seen.
#include "arena.h"
#include "common.h"
#include "spares.h"
#include "watch.h"

#include <c10/core/Allocator.h>
#include <c10/core/CPUAllocator.h>
#include <c10/core/impl/alloc_cpu.h>

#include <atomic>
#include <mutex>
#include <new>
#include <unordered_map>
#include <vector>

namespace {

constexpr size_t kHeader = 64;

std::atomic<int64_t> current{0};
std::atomic<int64_t> peak{0};
std::atomic<int64_t> count{0};
std::atomic<int64_t> reported{0};
c10::Allocator* inner = nullptr; // null: PyTorch's own

// What stands in front of a block on the heap.
struct Header {
  int64_t bytes;
  bool reported;
};
static_assert(sizeof(Header) <= kHeader);

void report(void* data, int64_t bytes) {
  const int64_t total = reported.fetch_add(bytes, std::memory_order_relaxed) + bytes;
  c10::reportMemoryUsageToProfiler(data, bytes, static_cast<size_t>(total), 0, c10::Device(c10::DeviceType::CPU));
}

// Blocks by the bytes that were requested.
struct Shelf {
  std::mutex mutex;
  std::atomic<int> users{0};
  std::unordered_map<int64_t, std::vector<char*>> blocks;
};
Shelf shelf;

char* spare(int64_t bytes) {
  if (shelf.users.load(std::memory_order_relaxed) == 0) return nullptr;
  const std::lock_guard<std::mutex> lock(shelf.mutex);
  const auto found = shelf.blocks.find(bytes);
  if (found == shelf.blocks.end() || found->second.empty()) return nullptr;
  char* block = found->second.back();
  found->second.pop_back();
  return block;
}

bool spared(char* block, int64_t bytes) {
  if (shelf.users.load(std::memory_order_relaxed) == 0) return false;
  const std::lock_guard<std::mutex> lock(shelf.mutex);
  if (shelf.users.load(std::memory_order_relaxed) == 0) return false;
  shelf.blocks[bytes].push_back(block);
  return true;
}

void free_block(char* block) {
  if (inner == nullptr) c10::free_cpu(block);
  else inner->raw_deallocate(block);
}

// A block with its header; gives the data.
void* made(int64_t bytes) {
  const size_t whole = static_cast<size_t>(bytes) + kHeader;
  char* block = spare(bytes);
  if (block == nullptr) block = static_cast<char*>(inner == nullptr ? c10::alloc_cpu(whole) : inner->raw_allocate(whole));
  const bool watched = inner == nullptr && c10::memoryProfilingEnabled();
  new (block) Header{bytes, watched};
  if (watched) report(block + kHeader, bytes);
  return block + kHeader;
}

// Gives a block back; its bytes.
int64_t given_back(void* data) {
  char* block = static_cast<char*>(data) - kHeader;
  const Header header = *reinterpret_cast<const Header*>(block);
  if (header.reported && c10::memoryProfilingEnabled()) report(data, -header.bytes);
  else if (header.reported) reported.fetch_sub(header.bytes, std::memory_order_relaxed);
  if (!spared(block, header.bytes)) free_block(block);
  return header.bytes;
}

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
  rk::watch_freed(data);
  if (!placed) bytes = given_back(data);
  current.fetch_sub(bytes, std::memory_order_relaxed);
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
    void* data = made(bytes);
    add(bytes);
    if (!leaves) rk::arena_missed(c10::DeviceType::CPU);
    rk::watch_made(data, bytes, c10::DeviceType::CPU);
    return {data, data, &release, cpu};
  }
  c10::DeleterFnPtr raw_deleter() const override { return &release; }
  void copy_data(void* to, const void* from, size_t n) const override { default_copy_data(to, from, n); }
};

} // namespace

rk::Spares::Spares() { shelf.users.fetch_add(1); }

rk::Spares::~Spares() {
  const std::lock_guard<std::mutex> lock(shelf.mutex);
  if (shelf.users.fetch_sub(1) > 1) return;
  for (auto& [bytes, blocks] : shelf.blocks) {
    for (char* block : blocks) free_block(block);
  }
  shelf.blocks.clear();
}

void rk::memory_add(int64_t bytes) { add(bytes); }

extern "C" {

const char* rk_memory_install(void) {
  return rk::guarded([] {
    static const bool installed = [] {
      auto* before = c10::GetAllocator(c10::DeviceType::CPU);
      inner = before == c10::GetDefaultCPUAllocator() ? nullptr : before;
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
