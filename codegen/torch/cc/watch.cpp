// The watch on the allocator, and the packer of temporaries: first fit, in a few orders.
#include "watch.h"

#include <algorithm>
#include <atomic>
#include <map>
#include <numeric>

namespace rk {
namespace {

std::atomic<Watch*> current{nullptr};
// Held while the current watch hears something and while it ends: other threads may be allocating then.
std::mutex gate;

// Beyond any arena: where the recorder pretends that results lie.
constexpr int64_t kElsewhere = int64_t{1} << 50;

struct Placed {
  RkGap place;
  int64_t from, to;
};

// The lowest offset in `region` for `bytes` over a lifetime; -1 when there is none.
int64_t fit(const RkGap& region, int64_t bytes, const Block& block, const std::vector<Placed>& placed) {
  int64_t at = region.from;
  for (bool moved = true; moved;) {
    moved = false;
    for (const Placed& other : placed) {
      const bool apart_in_time = other.to < block.from || block.to < other.from;
      if (apart_in_time || other.place.to <= at || at + bytes <= other.place.from) continue;
      at = other.place.to;
      moved = true;
    }
  }
  return at + bytes <= region.to ? at : -1;
}

std::vector<int64_t> pack_in_order(const std::vector<Block>& blocks, const std::vector<RkGap>& free, const std::vector<Fixed>& results, const std::vector<size_t>& order) {
  std::vector<int64_t> offsets(blocks.size(), -1);
  std::vector<Placed> placed;
  for (const size_t index : order) {
    const Block& block = blocks[index];
    const int64_t bytes = rounded(block.bytes);
    int64_t at = -1;
    for (const Fixed& result : results) {
      if (at < 0 && block.to < result.from) at = fit(result.place, bytes, block, placed);
    }
    for (const RkGap& gap : free) {
      if (at < 0) at = fit(gap, bytes, block, placed);
    }
    if (at < 0) return {};
    offsets[index] = at;
    placed.push_back({{at, at + bytes}, block.from, block.to});
  }
  return offsets;
}

int64_t top(const std::vector<Block>& blocks, const std::vector<int64_t>& offsets) {
  int64_t most = 0;
  for (size_t i = 0; i < blocks.size(); ++i) {
    if (offsets[i] < kElsewhere) most = std::max(most, offsets[i] + rounded(blocks[i].bytes));
  }
  return most;
}

} // namespace

Watch::Watch(bool (*concerns)(), c10::DeviceType device) : concerns_(concerns), device_(device) {
  std::lock_guard<std::mutex> guard(gate);
  current.store(this, std::memory_order_release);
}

void Watch::stop() {
  std::lock_guard<std::mutex> guard(gate);
  Watch* self = this;
  current.compare_exchange_strong(self, nullptr);
}

void Watch::made(void* data, int64_t bytes, c10::DeviceType device) {
  if (device != device_) return;
  if (concerns_ != nullptr && !concerns_()) return;
  blocks.push_back({data, bytes, now_++, kNever, std::this_thread::get_id()});
}

void Watch::freed(void* data) {
  const int64_t index = last_at(data);
  if (index >= 0 && blocks[static_cast<size_t>(index)].to == kNever) blocks[static_cast<size_t>(index)].to = now_++;
}

int64_t Watch::last_at(const void* data) const {
  for (size_t i = blocks.size(); i-- > 0;) {
    if (blocks[i].data == data) return static_cast<int64_t>(i);
  }
  return -1;
}

void watch_made(void* data, int64_t bytes, c10::DeviceType device) {
  if (current.load(std::memory_order_acquire) == nullptr) return;
  std::lock_guard<std::mutex> guard(gate);
  if (Watch* watch = current.load(std::memory_order_acquire)) watch->made(data, bytes, device);
}

void watch_freed(void* data) {
  if (current.load(std::memory_order_acquire) == nullptr) return;
  std::lock_guard<std::mutex> guard(gate);
  if (Watch* watch = current.load(std::memory_order_acquire)) watch->freed(data);
}

std::vector<int64_t> pack(const std::vector<Block>& blocks, const std::vector<RkGap>& free, const std::vector<Fixed>& results) {
  std::vector<size_t> order(blocks.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::vector<int64_t> best = pack_in_order(blocks, free, results, order);
  auto also = [&](auto before) {
    std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return before(blocks[a], blocks[b]); });
    auto other = pack_in_order(blocks, free, results, order);
    if (other.empty()) return;
    if (best.empty() || top(blocks, other) < top(blocks, best)) best = std::move(other);
  };
  if (blocks.size() > 1) {
    also([](const Block& a, const Block& b) { return a.bytes > b.bytes; });
    also([](const Block& a, const Block& b) { return (a.to == kNever) > (b.to == kNever); });
    also([](const Block& a, const Block& b) { return a.to > b.to; });
  }
  return best;
}

int64_t workspace(const Watch& watch, const std::vector<int64_t>& results) {
  std::vector<Block> own;
  std::vector<Fixed> fixed;
  std::map<std::thread::id, std::pair<int64_t, int64_t>> others; // level and peak, by thread
  int64_t elsewhere = kElsewhere;
  const auto me = std::this_thread::get_id();
  std::vector<std::pair<int64_t, std::pair<const Block*, int64_t>>> events;
  for (size_t i = 0; i < watch.blocks.size(); ++i) {
    const Block& block = watch.blocks[i];
    if (block.bytes == 0) continue;
    if (std::find(results.begin(), results.end(), static_cast<int64_t>(i)) != results.end()) {
      fixed.push_back({{elsewhere, elsewhere + rounded(block.bytes)}, block.from});
      elsewhere += rounded(block.bytes);
    } else if (block.thread == me) {
      own.push_back(block);
    } else {
      events.push_back({block.from, {&block, rounded(block.bytes)}});
      if (block.to != kNever) events.push_back({block.to, {&block, -rounded(block.bytes)}});
    }
  }
  std::sort(events.begin(), events.end());
  for (const auto& [time, change] : events) {
    auto& [level, peak] = others[change.first->thread];
    level += change.second;
    peak = std::max(peak, level);
  }
  int64_t sum = own.empty() ? 0 : top(own, pack(own, {{0, kElsewhere}}, fixed));
  for (const auto& [thread, levels] : others) sum += levels.second;
  return sum;
}

} // namespace rk
