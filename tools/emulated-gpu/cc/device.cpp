// Devices, streams, events, generators and hooks: what torch asks of a GPU beside operators.
//
// As with CUDA's runtime a thread has a current device, and its context is made current when something needs it; torch leaves out the
// change to the device that is current already, so a fresh thread has none.
#include "emulated.h"

#include <ATen/detail/CUDAHooksInterface.h>
#include <ATen/ops/empty.h>
#include <c10/core/DeviceGuard.h>
#include <c10/core/GeneratorImpl.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>

#include <array>
#include <atomic>
#include <mutex>

namespace emulated {
namespace {

constexpr int kDevices = 2;
constexpr int kPool = 32;

void initialize() {
  static const unsigned done = cuInit(0);
  (void)done;
}

thread_local c10::DeviceIndex wanted = 0;
thread_local std::array<c10::StreamId, kDevices> streams{};

struct Pool {
  std::array<void*, kPool> handles{};
  std::atomic<unsigned> next{0};
  std::once_flag made;
};
std::array<Pool, kDevices> pools;

} // namespace

void check(unsigned code, const char* what) {
  if (code == 0) return;
  const char* name = "unknown";
  cuGetErrorName(code, &name);
  TORCH_CHECK(false, "CUDA error: ", name, " (", what, ")");
}

c10::DeviceIndex current_device() {
  initialize();
  void* context = nullptr;
  check(cuCtxGetCurrent(&context), "current context");
  if (context == nullptr) return wanted;
  int device = 0;
  check(cuCtxGetDevice(&device), "current device");
  return static_cast<c10::DeviceIndex>(device);
}

void need_context() {
  initialize();
  void* context = nullptr;
  check(cuCtxGetCurrent(&context), "current context");
  if (context != nullptr) return;
  check(cuDevicePrimaryCtxRetain(&context, wanted), "primary context");
  check(cuCtxSetCurrent(context), "making a context current");
}

void set_device(c10::DeviceIndex device) {
  if (device < 0 || device == current_device()) return;
  void* context = nullptr;
  check(cuDevicePrimaryCtxRetain(&context, device), "primary context");
  check(cuCtxSetCurrent(context), "making a context current");
  wanted = device;
}

void* handle(const c10::Stream& stream) {
  const auto device = static_cast<size_t>(stream.device_index());
  return stream.id() == 0 ? nullptr : pools.at(device).handles.at(static_cast<size_t>(stream.id() - 1));
}

void* current_stream(c10::DeviceIndex device) {
  return handle(c10::Stream(c10::Stream::UNSAFE, c10::Device(c10::DeviceType::CUDA, device), streams.at(static_cast<size_t>(device))));
}

bool capturing(c10::DeviceIndex device) {
  unsigned state = 0;
  void* stream = current_stream(device);
  if (stream != nullptr) check(cuStreamIsCapturing(stream, &state), "asking for a capture");
  return state != 0;
}

void queue(const char* what, std::function<void()> work, uint64_t nanoseconds) {
  need_context();
  const auto run = [](void* data) -> const char* {
    thread_local std::string text;
    try {
      (*static_cast<std::function<void()>*>(data))();
      return nullptr;
    } catch (const std::exception& error) {
      text = error.what();
    } catch (...) {
      text = "an exception of unknown type";
    }
    return text.c_str();
  };
  const auto free = [](void* data) { delete static_cast<std::function<void()>*>(data); };
  auto* held = new std::function<void()>(std::move(work));
  check(rk_emulated_queue(current_stream(current_device()), what, nanoseconds, run, free, held), what);
}

void synchronize() { check(cuStreamSynchronize(current_stream(current_device())), "waiting for a stream"); }

namespace {

using c10::Device;
using c10::DeviceIndex;
using c10::DeviceType;
using c10::Stream;

struct Guard final : c10::impl::DeviceGuardImplInterface {
  DeviceType type() const override { return DeviceType::CUDA; }
  Device exchangeDevice(Device device) const override {
    const Device before = getDevice();
    set_device(device.index());
    return before;
  }
  Device getDevice() const override { return Device(DeviceType::CUDA, current_device()); }
  void setDevice(Device device) const override { set_device(device.index()); }
  void uncheckedSetDevice(Device device) const noexcept override { set_device(device.index()); }
  Stream getStream(Device device) const override {
    const DeviceIndex index = device.index() < 0 ? current_device() : device.index();
    return Stream(Stream::UNSAFE, Device(DeviceType::CUDA, index), streams.at(static_cast<size_t>(index)));
  }
  Stream getDefaultStream(Device device) const override {
    return Stream(Stream::UNSAFE, Device(DeviceType::CUDA, device.index() < 0 ? current_device() : device.index()), 0);
  }
  Stream getStreamFromGlobalPool(Device device, bool) const override {
    const c10::DeviceGuard guard(device);
    need_context();
    Pool& pool = pools.at(static_cast<size_t>(device.index()));
    std::call_once(pool.made, [&] {
      for (void*& made : pool.handles) check(cuStreamCreateWithPriority(&made, 1, 0), "making a stream");
    });
    return Stream(Stream::UNSAFE, device, 1 + static_cast<c10::StreamId>(pool.next++ % kPool));
  }
  Stream getNewStream(Device device, int) const override { return getStreamFromGlobalPool(device, false); }
  Stream exchangeStream(Stream stream) const override {
    const Stream before = getStream(stream.device());
    streams.at(static_cast<size_t>(stream.device_index())) = stream.id();
    return before;
  }
  void* getStreamNativeHandle(const Stream stream) const override { return handle(stream); }
  void destroyEvent(void* event, const DeviceIndex) const noexcept override {
    if (event != nullptr) cuEventDestroy_v2(event);
  }
  void record(void** event, const Stream& stream, const DeviceIndex, const c10::EventFlag flag) const override {
    const c10::DeviceGuard guard(stream.device());
    need_context();
    if (*event == nullptr) check(cuEventCreate(event, flag == c10::EventFlag::BACKEND_DEFAULT ? 0 : 2), "making an event");
    check(cuEventRecord(*event, handle(stream)), "recording an event");
  }
  void block(void* event, const Stream& stream) const override {
    if (event == nullptr) return;
    const c10::DeviceGuard guard(stream.device());
    need_context();
    check(cuStreamWaitEvent(handle(stream), event, 0), "waiting for an event");
  }
  bool queryEvent(void* event) const override { return event == nullptr || cuEventQuery(event) == 0; }
  DeviceIndex deviceCount() const noexcept override { return kDevices; }
  bool queryStream(const Stream& stream) const override {
    const c10::DeviceGuard guard(stream.device());
    need_context();
    return cuStreamQuery(handle(stream)) == 0;
  }
  void synchronizeStream(const Stream& stream) const override {
    const c10::DeviceGuard guard(stream.device());
    need_context();
    check(cuStreamSynchronize(handle(stream)), "waiting for a stream");
  }
  void synchronizeEvent(void* event) const override {
    if (event != nullptr) check(cuEventSynchronize(event), "waiting for an event");
  }
  double elapsedTime(void* from, void* to, const DeviceIndex device) const override {
    const c10::DeviceGuard guard(Device(DeviceType::CUDA, device));
    need_context();
    float milliseconds = 0;
    check(cuEventElapsedTime(&milliseconds, from, to), "measuring time");
    return milliseconds;
  }
  void synchronizeDevice(const DeviceIndex device) const override {
    const c10::DeviceGuard guard(Device(DeviceType::CUDA, device));
    need_context();
    check(cuCtxSynchronize(), "waiting for the device");
  }
};

C10_REGISTER_GUARD_IMPL(CUDA, Guard)

// Seed and offset, as torch's Philox generator has them: its state can be neither read nor set while a stream captures.
struct Generator final : c10::GeneratorImpl {
  explicit Generator(DeviceIndex index)
      : c10::GeneratorImpl(Device(DeviceType::CUDA, index), c10::DispatchKeySet(c10::DispatchKey::CUDA)) {}

  void free_of_capture(const char* what) const {
    TORCH_CHECK(!capturing(device_.index()), "Cannot call CUDAGeneratorImpl::", what, " during CUDA graph capture.");
  }
  void set_current_seed(uint64_t seed) override {
    free_of_capture("set_current_seed");
    seed_ = seed;
    offset_ = 0;
  }
  void set_offset(uint64_t offset) override {
    free_of_capture("set_offset");
    offset_ = offset;
  }
  uint64_t get_offset() const override {
    free_of_capture("get_offset");
    return offset_;
  }
  uint64_t current_seed() const override {
    free_of_capture("current_seed");
    return seed_;
  }
  uint64_t seed() override {
    set_current_seed(c10::detail::getNonDeterministicRandom());
    return seed_;
  }
  c10::intrusive_ptr<c10::TensorImpl> get_state() const override {
    free_of_capture("get_state");
    auto state = at::empty({16}, at::TensorOptions().dtype(at::kByte).device(at::kCPU));
    auto* bytes = static_cast<uint64_t*>(state.mutable_data_ptr());
    bytes[0] = seed_;
    bytes[1] = offset_;
    return state.getIntrusivePtr();
  }
  void set_state(const c10::TensorImpl& state) override {
    free_of_capture("set_state");
    TORCH_CHECK(state.device().is_cpu() && state.numel() == 16, "RNG state is wrong size");
    const auto* bytes = static_cast<const uint64_t*>(state.data());
    seed_ = bytes[0];
    offset_ = bytes[1];
  }
  Generator* clone_impl() const override {
    auto* copy = new Generator(device_.index());
    copy->seed_ = seed_;
    copy->offset_ = offset_;
    return copy;
  }

  uint64_t seed_ = c10::default_rng_seed_val;
  uint64_t offset_ = 0;
};

const at::Generator& generator(DeviceIndex device) {
  static const std::array<at::Generator, kDevices> all = {at::make_generator<Generator>(0), at::make_generator<Generator>(1)};
  return all.at(static_cast<size_t>(device < 0 ? current_device() : device));
}

struct Hooks final : at::CUDAHooksInterface {
  explicit Hooks(at::CUDAHooksArgs) {}
  void init() const override { initialize(); }
  const at::Generator& getDefaultGenerator(DeviceIndex device) const override { return generator(device); }
  at::Generator getNewGenerator(DeviceIndex device) const override {
    return at::make_generator<Generator>(device < 0 ? current_device() : device);
  }
  Device getDeviceFromPtr(void*) const override { return Device(DeviceType::CUDA, current_device()); }
  bool isBuilt() const override { return true; }
  bool isAvailable() const override { return true; }
  bool hasCUDA() const override { return true; }
  bool hasCUDART() const override { return true; }
  bool hasPrimaryContext(DeviceIndex) const override { return true; }
  DeviceIndex current_device() const override { return emulated::current_device(); }
  DeviceIndex getCurrentDevice() const override { return emulated::current_device(); }
  void setCurrentDevice(DeviceIndex device) const override { set_device(device); }
  c10::Allocator* getCUDADeviceAllocator() const override { return allocator(); }
  int getNumGPUs() const override { return kDevices; }
  DeviceIndex deviceCount() const override { return kDevices; }
  void deviceSynchronize(DeviceIndex device) const override { Guard().synchronizeDevice(device); }
};

} // namespace

uint64_t draw(c10::DeviceIndex device) {
  auto* own = static_cast<Generator*>(generator(device).unsafeGetGeneratorImpl());
  const std::lock_guard<std::mutex> lock(own->mutex_);
  TORCH_CHECK(!capturing(device), "Offset increment outside graph capture encountered unexpectedly.");
  own->offset_ += 4;
  // Mixed, so that neighbouring offsets give seeds far apart.
  uint64_t mixed = own->seed_ ^ (own->offset_ * 0x9e3779b97f4a7c15ull);
  mixed = (mixed ^ (mixed >> 30)) * 0xbf58476d1ce4e5b9ull;
  return mixed ^ (mixed >> 27);
}

} // namespace emulated

// A clock of 2 GHz.
extern "C" void rk_torch_sleep(int64_t cycles) {
  emulated::queue("sleep", [] {}, static_cast<uint64_t>(cycles) / 2);
}

namespace at {
using EmulatedHooks = emulated::Hooks;
C10_REGISTER_TYPED_CLASS(CUDAHooksRegistry, "CUDAHooks", EmulatedHooks)
} // namespace at
