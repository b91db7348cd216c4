// What the parts of the emulated device share: the driver, and how work is queued on it.
#pragma once
#include <ATen/core/Tensor.h>
#include <c10/core/CachingDeviceAllocator.h>
#include <c10/core/Stream.h>

#include <functional>
#include <utility>

extern "C" {
unsigned cuInit(unsigned flags);
unsigned cuDeviceGetCount(int* out);
unsigned cuDevicePrimaryCtxRetain(void** out, int device);
unsigned cuCtxSetCurrent(void* context);
unsigned cuCtxGetCurrent(void** out);
unsigned cuCtxGetDevice(int* out);
unsigned cuCtxSynchronize();
unsigned cuMemGetInfo_v2(size_t* free, size_t* total);
unsigned cuMemAlloc_v2(void** out, size_t bytes);
unsigned cuMemFree_v2(void* address);
unsigned cuStreamCreateWithPriority(void** out, unsigned flags, int priority);
unsigned cuStreamSynchronize(void* stream);
unsigned cuStreamQuery(void* stream);
unsigned cuStreamWaitEvent(void* stream, void* event, unsigned flags);
unsigned cuStreamIsCapturing(void* stream, unsigned* out);
unsigned cuThreadExchangeStreamCaptureMode(unsigned* mode);
unsigned cuEventCreate(void** out, unsigned flags);
unsigned cuEventRecord(void* event, void* stream);
unsigned cuEventQuery(void* event);
unsigned cuEventSynchronize(void* event);
unsigned cuEventElapsedTime(float* milliseconds, void* from, void* to);
unsigned cuEventDestroy_v2(void* event);
unsigned cuGetErrorName(unsigned code, const char** out);
unsigned rk_emulated_queue(void* stream, const char* what, uint64_t nanoseconds, const char* (*run)(void*), void (*free)(void*), void* data);
}

namespace emulated {

// A refusal of the driver is an exception, as in torch.
void check(unsigned code, const char* what);

// The current device of this thread, and the context that calls to the driver need.
c10::DeviceIndex current_device();
void set_device(c10::DeviceIndex device);
void need_context();

// The driver's handles of a stream, and of this thread's current one.
void* handle(const c10::Stream& stream);
void* current_stream(c10::DeviceIndex device);
bool capturing(c10::DeviceIndex device);

// Queues `work` on the current stream of the current device. It owns what it needs, but no memory of the device: that may be given to
// others before it runs, if they come behind it. On the device it takes this long.
constexpr uint64_t kOperator = 2000, kPerByte = 1; // nanoseconds; and per byte that it reads or makes
void queue(const char* what, std::function<void()> work, uint64_t nanoseconds = kOperator);
// Waits for that stream.
void synchronize();

// Numbers for one random operator, which become a seed of the CPU's generator.
uint64_t draw(c10::DeviceIndex device);

// Memory from the allocator that is current.
c10::DataPtr allocate(size_t bytes);
c10::Allocator* allocator();

} // namespace emulated
