// CUDA without linking it: streams through c10's registry, and torch's CUDA allocator replaced by one that places.
//
// The allocator is torch's own CUDAPluggableAllocator, found by name in libtorch_cuda, in front of the caching allocator: what
// does not belong to a lowered step goes on to it. No header of CUDA is needed, and the wheels bring an incomplete set of them:
// torch's allocators are passed on by pointer, and called through c10::Allocator, which the caching allocator is registered as.
//
// All of this runs in the tests on an emulated GPU (tools/emulated-gpu), whose allocators do what torch's were seen to do.
#include "arena.h"
#include "common.h"
#include "settings.h"
#include "timer.h"
#include "watch.h"

#include <ATen/Context.h>
#include <ATen/core/Tensor.h>
#include <c10/core/Allocator.h>
#include <c10/core/CachingDeviceAllocator.h>
#include <c10/core/Stream.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <dlfcn.h>

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

struct CUstream_st; // a stream of the driver

namespace c10::cuda::CUDACachingAllocator {
class CUDAAllocator;
}

struct RkStreams {
  std::vector<c10::Stream> all;
  c10::Stream before;
};

namespace {

using c10::cuda::CUDACachingAllocator::CUDAAllocator;
using Stream = CUstream_st*;

template <class F>
F symbol(void* library, const char* name) {
  void* found = dlsym(library, name);
  TORCH_CHECK(found != nullptr, "libtorch_cuda.so has no ", name, ": it is not the version that rk was built for");
  return reinterpret_cast<F>(found);
}

// The caching allocator. It stays the one that statistics are asked of.
c10::Allocator* inner = nullptr;

// torch calls it on the stream that the memory is for, which is also what the caching allocator looks up.
void* allocate(size_t bytes, int /*device*/, Stream /*stream*/) {
  if (bytes == 0) return nullptr;
  bool leaves = false;
  if (void* place = rk::arena_take(bytes, c10::DeviceType::CUDA, leaves)) return place;
  void* block = inner->raw_allocate(bytes);
  if (!leaves) rk::arena_missed(c10::DeviceType::CUDA);
  rk::watch_made(block, static_cast<int64_t>(bytes), c10::DeviceType::CUDA);
  return block;
}

void release(void* data, size_t /*bytes*/, int /*device*/, Stream /*stream*/) {
  int64_t bytes = 0;
  if (data == nullptr || rk::arena_give(data, bytes)) return;
  rk::watch_freed(data);
  inner->raw_deallocate(data);
}

using Shared = std::shared_ptr<CUDAAllocator>;

// What is needed of libtorch_cuda. It is looked up on every machine, so that a version without it is noticed without a GPU, too.
struct Symbols {
  explicit Symbols(void* library)
      : create(symbol<decltype(create)>(library, "_ZN5torch4cuda22CUDAPluggableAllocator21createCustomAllocatorESt8functionIFPvmiP11CUstream_stEES2_IFvS3_miS5_EE")),
        change(symbol<decltype(change)>(library, "_ZN5torch4cuda22CUDAPluggableAllocator22changeCurrentAllocatorERKSt10shared_ptrIN3c104cuda20CUDACachingAllocator13CUDAAllocatorEE")),
        current(symbol<decltype(current)>(library, "_ZN3c104cuda20CUDACachingAllocator9allocatorE")),
        sleep(symbol<decltype(sleep)>(library, "_ZN2at4cuda5sleepEl")),
        properties(symbol<decltype(properties)>(library, "_ZN2at4cuda19getDevicePropertiesEa")) {}

  Shared (*create)(std::function<void*(size_t, int, Stream)>, std::function<void(void*, size_t, int, Stream)>);
  void (*change)(const Shared&);
  std::atomic<CUDAAllocator*>* current;
  void (*sleep)(int64_t);
  // cudaDeviceProp, which begins with the name of the GPU.
  const char* (*properties)(int8_t);
};

// An allocator that was never initialized, and is asked for nothing else. torch's CUDAAllocator is a DeviceAllocator first.
struct Uninitialized final : c10::DeviceAllocator {
  c10::DataPtr allocate(size_t) override { TORCH_CHECK(false, "this allocator has no memory"); }
  c10::DeleterFnPtr raw_deleter() const override { return nullptr; }
  void copy_data(void* to, const void* from, size_t n) const override { default_copy_data(to, from, n); }
  bool initialized() override { return false; }
  void emptyCache(c10::MempoolId_t) override {}
  void recordStream(const c10::DataPtr&, c10::Stream) override {}
  c10::CachingDeviceAllocator::DeviceStats getDeviceStats(c10::DeviceIndex) override { return {}; }
  void resetAccumulatedStats(c10::DeviceIndex) override {}
  void resetPeakStats(c10::DeviceIndex) override {}
};

// CUDA is initialized, and with it the caching allocator, which must stay so. torch changes its allocator only while the current one is
// not initialized, and the placing one is from birth; so one that is not is made the current one first.
void replace_allocator(const Symbols& torch) {
  inner = c10::GetAllocator(c10::DeviceType::CUDA);
  const Shared placing = torch.create(&allocate, &release);
  static Uninitialized nobody;
  torch.current->store(reinterpret_cast<CUDAAllocator*>(static_cast<c10::DeviceAllocator*>(&nobody)));
  torch.change(placing); // which holds it to the end of the process
}

// libtorch_cuda: the one that this process has loaded, or else that of the folder.
void* library_in(const std::string& folder) {
  if (void* loaded = dlopen("libtorch_cuda.so", RTLD_NOW | RTLD_GLOBAL | RTLD_NOLOAD)) return loaded;
  // Global, because its own registration code and later libraries look symbols up by name.
  void* library = dlopen((folder + "/libtorch_cuda.so").c_str(), RTLD_NOW | RTLD_GLOBAL);
  if (library == nullptr) {
    const char* why = dlerror();
    TORCH_CHECK(false, "cannot load libtorch_cuda.so: ", why == nullptr ? "unknown reason" : why);
  }
  return library;
}

} // namespace

extern "C" {

const char* rk_cuda_load(const char* folder, int32_t* devices) {
  return rk::guarded([&] {
    const Symbols torch(library_in(folder));
    *devices = static_cast<int32_t>(at::globalContext().hasCUDA() ? at::detail::getCUDAHooks().deviceCount() : 0);
    if (*devices == 0) return;
    at::globalContext().lazyInitDevice(c10::DeviceType::CUDA);
    static const bool replaced = [&] {
      replace_allocator(torch);
      rk::spin = torch.sleep;
      rk::gpu_name = torch.properties;
      return true;
    }();
    (void)replaced;
  });
}

const char* rk_streams_new(int32_t index, size_t n, RkStreams** out) {
  return rk::guarded([&] {
    const c10::Device device(c10::DeviceType::CUDA, static_cast<c10::DeviceIndex>(index));
    const c10::impl::VirtualGuardImpl guard(device.type());
    // The same for every step: one runs at a time, and cuBLAS keeps a workspace for each stream that it was called on.
    static std::mutex lock;
    static std::map<int32_t, std::vector<c10::Stream>> known;
    const std::lock_guard<std::mutex> alone(lock);
    auto& ours = known[index];
    // The pool is a ring: neighbours differ.
    while (ours.size() < n) ours.push_back(guard.getStreamFromGlobalPool(device));
    auto streams = std::make_unique<RkStreams>(RkStreams{{ours.begin(), ours.begin() + static_cast<std::ptrdiff_t>(n)}, guard.getStream(device)});
    *out = streams.release();
  });
}

void rk_streams_free(RkStreams* streams) { delete streams; }

const char* rk_streams_handle(const RkStreams* streams, size_t i, void** out) {
  return rk::guarded([&] { *out = c10::impl::VirtualGuardImpl(c10::DeviceType::CUDA).getStreamNativeHandle(streams->all.at(i)); });
}

const char* rk_streams_follow(RkStreams* streams) {
  return rk::guarded([&] {
    streams->before = c10::impl::VirtualGuardImpl(c10::DeviceType::CUDA).getStream(streams->before.device());
    streams->all.at(0) = streams->before;
  });
}

const char* rk_streams_use(RkStreams* streams, int32_t i) {
  return rk::guarded([&] {
    const c10::impl::VirtualGuardImpl guard(c10::DeviceType::CUDA);
    guard.exchangeStream(i < 0 ? streams->before : streams->all.at(static_cast<size_t>(i)));
  });
}

} // extern "C"
