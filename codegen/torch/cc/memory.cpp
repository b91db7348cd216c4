// The counting allocator (counting.h) with the hooks of lowered steps.
//
// While a lowered step runs, its requests are served in its arena (arena.cpp) and counted all the same.
//
// While calls are timed, blocks that are given back are spare blocks for the next requests of their size (`Spares`).
#include "arena.h"
#include "common.h"
#include "counting.h"
#include "spares.h"
#include "watch.h"

#include <atomic>
#include <mutex>
#include <unordered_map>
#include <vector>

namespace {

// Blocks by the bytes that were requested.
struct Shelf {
  std::mutex mutex;
  std::atomic<int> users{0};
  std::unordered_map<int64_t, std::vector<char*>> blocks;
};
Shelf shelf;

struct StepHooks {
  static void* take(size_t bytes, bool& leaves) { return rk::arena_take(bytes, c10::DeviceType::CPU, leaves); }
  static bool give(void* data, int64_t& bytes) { return rk::arena_give(data, bytes); }

  static void made(void* data, int64_t bytes, bool leaves) {
    if (!leaves) rk::arena_missed(c10::DeviceType::CPU);
    rk::watch_made(data, bytes, c10::DeviceType::CPU);
  }
  static void freed(void* data) { rk::watch_freed(data); }

  static char* spare(int64_t bytes) {
    if (shelf.users.load(std::memory_order_relaxed) == 0) return nullptr;
    const std::lock_guard<std::mutex> lock(shelf.mutex);
    const auto found = shelf.blocks.find(bytes);
    if (found == shelf.blocks.end() || found->second.empty()) return nullptr;
    char* block = found->second.back();
    found->second.pop_back();
    return block;
  }
  static bool keep(char* block, int64_t bytes) {
    if (shelf.users.load(std::memory_order_relaxed) == 0) return false;
    const std::lock_guard<std::mutex> lock(shelf.mutex);
    if (shelf.users.load(std::memory_order_relaxed) == 0) return false;
    shelf.blocks[bytes].push_back(block);
    return true;
  }
};

using Memory = rk::Counting<StepHooks>;

} // namespace

rk::Spares::Spares() { shelf.users.fetch_add(1); }

rk::Spares::~Spares() {
  const std::lock_guard<std::mutex> lock(shelf.mutex);
  if (shelf.users.fetch_sub(1) > 1) return;
  for (auto& [bytes, blocks] : shelf.blocks) {
    for (char* block : blocks) Memory::free_block(block);
  }
  shelf.blocks.clear();
}

void rk::memory_add(int64_t bytes) { Memory::add(bytes); }

extern "C" {

const char* rk_memory_install(void) {
  return rk::guarded([] { Memory::install(); });
}

void rk_memory_read(int64_t* now, int64_t* most, int64_t* allocations) {
  *now = Memory::current();
  *most = Memory::peak();
  *allocations = Memory::count();
}

void rk_memory_reset_peak(int64_t leaving) { Memory::reset_peak(leaving); }

} // extern "C"
