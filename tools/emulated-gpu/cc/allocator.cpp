// A caching allocator with the statistics that rk reads, and torch's pluggable one in front of it.
//
// As in torch a block that was given back belongs to the stream that it was made for, and is handed out again there at once. It is
// filled with NaN in the order of that stream, so that whoever reads it later sees that it is gone.
#include "emulated.h"

#include <ATen/Context.h>

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <unordered_map>

// Virtual functions in the order of torch's: those of c10::DeviceAllocator first.
struct CUDAAllocator : c10::DeviceAllocator {
  virtual void init(int devices) = 0;
};

extern "C" const std::atomic<CUDAAllocator*>* rk_torch_current();

namespace emulated {
namespace {

using c10::CachingDeviceAllocator::DeviceStats;

std::atomic<CUDAAllocator*>& current() { return const_cast<std::atomic<CUDAAllocator*>&>(*rk_torch_current()); }

struct Block {
  size_t bytes;
  size_t requested;
  c10::DeviceIndex device;
  void* stream;
};

// The driver's memory is asked for in the middle of a capture, too.
struct Relaxed {
  Relaxed() { cuThreadExchangeStreamCaptureMode(&mode); }
  ~Relaxed() { cuThreadExchangeStreamCaptureMode(&mode); }
  unsigned mode = 2;
};

struct Caching final : CUDAAllocator {
  c10::DataPtr allocate(size_t bytes) override {
    const auto device = current_device();
    void* made = bytes == 0 ? nullptr : take(bytes, device, current_stream(device));
    return {made, made, &give, c10::Device(c10::DeviceType::CUDA, device)};
  }
  c10::DeleterFnPtr raw_deleter() const override { return &give; }
  void copy_data(void* to, const void* from, size_t bytes) const override {
    queue("copy", [=] { std::memcpy(to, from, bytes); });
    check(cuCtxSynchronize(), "copying");
  }
  void init(int) override { initialized_ = true; }
  bool initialized() override { return initialized_; }
  void emptyCache(c10::MempoolId_t) override {
    const std::lock_guard<std::mutex> guard(lock_);
    release_cached();
  }
  void recordStream(const c10::DataPtr&, c10::Stream) override {}
  DeviceStats getDeviceStats(c10::DeviceIndex device) override {
    const std::lock_guard<std::mutex> guard(lock_);
    return stats_[device];
  }
  void resetAccumulatedStats(c10::DeviceIndex) override {}
  void resetPeakStats(c10::DeviceIndex device) override {
    const std::lock_guard<std::mutex> guard(lock_);
    for (auto* stat : {&stats_[device].requested_bytes[0], &stats_[device].allocated_bytes[0], &stats_[device].reserved_bytes[0], &stats_[device].active_bytes[0]}) stat->peak = stat->current;
  }

  void* take(size_t bytes, c10::DeviceIndex device, void* stream) {
    need_context();
    const size_t rounded = (bytes + 511) / 512 * 512;
    const std::lock_guard<std::mutex> guard(lock_);
    auto& free = free_[{device, stream}];
    const auto found = free.lower_bound(rounded);
    void* made = nullptr;
    size_t size = rounded;
    if (found != free.end() && found->first <= 2 * rounded) {
      std::tie(size, made) = *found;
      free.erase(found);
      queue("poison", [=] { std::memset(made, 0xff, size); }, 0); // there is none on a GPU
    } else {
      made = fresh(rounded);
      stats_[device].reserved_bytes[0].increase(rounded);
    }
    blocks_[made] = {size, bytes, device, stream};
    stats_[device].requested_bytes[0].increase(bytes);
    for (auto* stat : {&stats_[device].allocated_bytes[0], &stats_[device].active_bytes[0]}) stat->increase(size);
    return made;
  }

  static void give(void* data);

 private:
  void* fresh(size_t bytes) {
    const Relaxed relaxed;
    void* made = nullptr;
    if (cuMemAlloc_v2(&made, bytes) == 0) return made;
    release_cached();
    TORCH_CHECK_WITH(OutOfMemoryError, cuMemAlloc_v2(&made, bytes) == 0, "CUDA out of memory. Tried to allocate ", bytes, " bytes.");
    return made;
  }
  void release_cached() {
    const auto device = current_device();
    for (auto& [of, blocks] : free_) {
      if (of.first != device) continue;
      for (const auto& [bytes, data] : blocks) {
        check(cuMemFree_v2(data), "freeing memory");
        stats_[device].reserved_bytes[0].decrease(bytes);
      }
      blocks.clear();
    }
  }

  std::mutex lock_;
  bool initialized_ = false;
  std::unordered_map<void*, Block> blocks_;
  std::map<std::pair<c10::DeviceIndex, void*>, std::multimap<size_t, void*>> free_;
  std::map<c10::DeviceIndex, DeviceStats> stats_;

  friend void give_back(Caching&, void*);
};

Caching& caching() {
  static auto* the = new Caching; // tensors may outlive static objects
  return *the;
}

void give_back(Caching& from, void* data) {
  const std::lock_guard<std::mutex> guard(from.lock_);
  const auto found = from.blocks_.find(data);
  TORCH_CHECK(found != from.blocks_.end(), "invalid device pointer: ", data);
  const Block block = found->second;
  from.blocks_.erase(found);
  auto& stats = from.stats_[block.device];
  stats.requested_bytes[0].decrease(block.requested);
  for (auto* stat : {&stats.allocated_bytes[0], &stats.active_bytes[0]}) stat->decrease(block.bytes);
  from.free_[{block.device, block.stream}].emplace(block.bytes, data);
}

void Caching::give(void* data) {
  if (data != nullptr) give_back(caching(), data);
}

// torch's CUDAPluggableAllocator, as far as it can be seen from outside: it remembers what it handed out, and is initialized from birth.
struct Pluggable final : CUDAAllocator {
  using Allocate = std::function<void*(size_t, int, struct CUstream_st*)>;
  using Release = std::function<void(void*, size_t, int, struct CUstream_st*)>;

  Pluggable(Allocate allocate, Release release) : allocate_(std::move(allocate)), release_(std::move(release)) {}

  c10::DataPtr allocate(size_t bytes) override {
    const auto device = current_device();
    auto* stream = static_cast<struct CUstream_st*>(current_stream(device));
    void* made = allocate_(bytes, device, stream);
    {
      const std::lock_guard<std::mutex> guard(lock_);
      known_.emplace(made, std::make_tuple(bytes, device, stream));
    }
    return {made, made, raw_deleter(), c10::Device(c10::DeviceType::CUDA, device)};
  }
  c10::DeleterFnPtr raw_deleter() const override;
  void copy_data(void* to, const void* from, size_t bytes) const override { caching().copy_data(to, from, bytes); }
  void init(int) override { initialized_ = true; }
  bool initialized() override { return initialized_; }
  void emptyCache(c10::MempoolId_t) override {}
  void recordStream(const c10::DataPtr&, c10::Stream) override {}
  DeviceStats getDeviceStats(c10::DeviceIndex) override { TORCH_CHECK(false, "CUDAPluggableAllocator does not yet support getDeviceStats."); }
  void resetAccumulatedStats(c10::DeviceIndex) override { TORCH_CHECK(false, "CUDAPluggableAllocator does not yet support resetAccumulatedStats."); }
  void resetPeakStats(c10::DeviceIndex) override { TORCH_CHECK(false, "CUDAPluggableAllocator does not yet support resetPeakStats."); }

  void release(void* data) {
    std::tuple<size_t, c10::DeviceIndex, struct CUstream_st*> block;
    {
      const std::lock_guard<std::mutex> guard(lock_);
      const auto found = known_.find(data);
      TORCH_CHECK(found != known_.end(), "Trying to free a pointer not allocated here");
      block = found->second;
      known_.erase(found);
    }
    const auto [bytes, device, stream] = block;
    release_(data, bytes, device, stream);
  }

 private:
  Allocate allocate_;
  Release release_;
  std::mutex lock_;
  bool initialized_ = false;
  std::unordered_map<void*, std::tuple<size_t, c10::DeviceIndex, struct CUstream_st*>> known_;
};

std::shared_ptr<CUDAAllocator>& plugged() {
  static auto* the = new std::shared_ptr<CUDAAllocator>;
  return *the;
}

c10::DeleterFnPtr Pluggable::raw_deleter() const {
  return [](void* data) { static_cast<Pluggable*>(plugged().get())->release(data); };
}

[[maybe_unused]] const bool registered = [] {
  current().store(&caching());
  c10::SetAllocator(c10::DeviceType::CUDA, &caching());
  // A program that has cuDNN choose by a race.
  if (std::getenv("RK_EMULATED_BENCHMARK") != nullptr) at::globalContext().setBenchmarkCuDNN(true);
  return true;
}();

} // namespace

c10::Allocator* allocator() {
  caching().init(0);
  return current().load();
}

c10::DataPtr allocate(size_t bytes) { return allocator()->allocate(bytes); }

} // namespace emulated

extern "C" {

void* rk_torch_create(void* out, emulated::Pluggable::Allocate* allocate, emulated::Pluggable::Release* release) {
  auto made = std::make_shared<emulated::Pluggable>(std::move(*allocate), std::move(*release));
  made->init(0); // so does torch
  return new (out) std::shared_ptr<CUDAAllocator>(std::move(made));
}

void rk_torch_change(const std::shared_ptr<CUDAAllocator>* allocator) {
  TORCH_CHECK(!emulated::current().load()->initialized(), "Can't swap an already initialized allocator");
  emulated::current().store(allocator->get());
  emulated::plugged() = *allocator;
}
}
