// What a piece of code asks of the allocator, in order, and where its temporaries would fit.
//
// Two ask: the recorder, for the workspace that an operator needs, and the arena, for the places of a launch's
// temporaries. Both use the same packer, so that what the one found enough is enough for the other.
#pragma once
#include "shim.h"

#include <c10/core/DeviceType.h>

#include <limits>
#include <mutex>
#include <thread>
#include <vector>

namespace rk {

constexpr int64_t kNever = std::numeric_limits<int64_t>::max();
constexpr int64_t kAlignment = 64; // what torch promises of every allocation on the CPU

inline int64_t rounded(int64_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

// A block that was asked for; times count requests and releases.
struct Block {
  void* data;
  int64_t bytes;
  int64_t from;
  int64_t to; // kNever: it outlived the watch
  std::thread::id thread;
};

// Sees every block of a device that is asked for and given back between construction and stop(), by threads for which `concerns` is
// true, if it is given. One at a time in a process.
class Watch {
 public:
  explicit Watch(bool (*concerns)() = nullptr, c10::DeviceType device = c10::DeviceType::CPU);
  ~Watch() { stop(); }
  void stop();
  // The block at this address that was asked for last; its index, or -1.
  int64_t last_at(const void* data) const;

  std::vector<Block> blocks; // by time; read it after stop()

  void made(void* data, int64_t bytes, c10::DeviceType device);
  void freed(void* data);

 private:
  bool (*concerns_)();
  c10::DeviceType device_;
  int64_t now_ = 0;
};

// The allocator says what it does; the watch that is on, if any, hears it.
void watch_made(void* data, int64_t bytes, c10::DeviceType device);
void watch_freed(void* data);

// A result of the code: its own place is free for temporaries until it is asked for.
struct Fixed {
  RkGap place;
  int64_t from;
};

// Places temporaries (rounded up) in the free bytes and in the places of results that are not there yet. Gives an offset
// for each, or nothing when they do not fit. Several orders are tried; the lowest top wins.
std::vector<int64_t> pack(const std::vector<Block>& temporaries, const std::vector<RkGap>& free, const std::vector<Fixed>& results);

// Bytes that the temporaries of `watch` need at least beside its results, given by their index in its blocks. What other
// threads asked for is timed by nobody, so the most that each of them held at once is added up.
int64_t workspace(const Watch& watch, const std::vector<int64_t>& results);

} // namespace rk
