// What an arena knows of its launches and of what lies in it; arena.cpp serves requests by it, settle.cpp puts results in their places.
#pragma once
#include "convert.h"
#include "watch.h"

#include <c10/core/Allocator.h>

#include <mutex>
#include <optional>
#include <unordered_map>
#include <vector>

namespace rk {

// Where a result of a launch goes.
struct Output {
  int64_t bytes;
  char* place; // null: it leaves the step, and is made on the heap
  int32_t slot;
};
// What a launch asks the allocator for.
struct Request {
  int64_t bytes;
  int32_t output; // -1: a temporary
  int64_t offset; // of a temporary; -1: it outlived the rehearsed run, and is not expected to come again
};
// A launch.
struct Run {
  std::vector<Output> outputs;
  std::vector<RkGap> gaps; // free while it runs, its workspace first
  std::vector<Request> requests;
};

} // namespace rk

struct RkArena {
  char* base = nullptr;
  size_t bytes = 0;
  c10::Device device{c10::DeviceType::CPU};
  void* mapping = nullptr; // on the CPU
  size_t mapped = 0;
  c10::DataPtr block; // on a GPU: one allocation
  std::vector<rk::Run> runs;

  std::mutex lock; // guards all below
  rk::Run* run = nullptr;
  bool rehearsing = false;
  std::vector<bool> claimed;                     // requests of the run that came
  std::vector<RkGap> taken;                      // by address: temporaries, and results that were asked for
  std::optional<rk::Watch> watch;                // over a rehearsed run
  std::unordered_map<char*, int64_t> live;       // what was requested last, by address
  int64_t held = 0;                              // tensors in it
  int64_t placed = 0, moved = 0, left = 0;
  bool leaving = false; // what is asked for now leaves the step
  bool orphan = false; // the step is gone, its results are not

  ~RkArena();
  bool is_free(const RkGap& place) const;
  void take(const RkGap& place);
  int64_t hole(int64_t bytes) const;
  const rk::Request* expected(int64_t bytes);
};

namespace rk {

// Learns from a rehearsed run what became of its requests, and where its temporaries fit.
void learn(RkArena& arena, RkSlots& slots);
// Moves the results of a run that are elsewhere to their places.
void settle(RkArena& arena, RkSlots& slots);

} // namespace rk
