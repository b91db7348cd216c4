// Every symbol that crosses the border between Rust and libtorch, one comment each.
//
// Conventions. A function returns NULL when it succeeded, else an error text to be freed with rk_string_free;
// nothing ever throws across the border. `at::Tensor*` is the handle of the tch crate (C_tensor*). A tensor
// handed *in* is borrowed; a tensor handed *out* is a new handle that the caller owns.
#pragma once
#include <cstddef>
#include <cstdint>

namespace at {
class Tensor;
}

extern "C" {

// One argument or result in preorder: a list is followed by its `len` elements.
struct RkCell {
  uint32_t tag;     // RkTag
  uint32_t len;     // elements of a list, bytes of a string
  uint64_t payload; // pointer, slot index, integer, bits of a double, 0 or 1
};
enum RkTag : uint32_t {
  RK_NONE = 0,   // none, or an undefined tensor
  RK_TENSOR = 1, // at::Tensor*
  RK_SLOT = 2,   // index into RkSlots (prepared calls only)
  RK_INT = 3,
  RK_FLOAT = 4,
  RK_BOOL = 5,
  RK_STR = 6, // const char*, not terminated
  RK_LIST = 7,
};

struct RkOp;       // an operator handle
struct RkCall;     // a call whose arguments have been converted once
struct RkSlots;    // the tensors of a running step, by index
struct RkArchive;  // a loaded torch.jit archive
struct RkParked;   // a generator's state, kept aside
struct RkStep;     // an archive with inputs and a loss: one training step

// Error texts of these kinds start with the byte given here, which the Rust side takes off.
enum RkKind : char {
  RK_ARCHIVE = 1, // not an archive that we can read
  RK_INPUTS = 2,  // the forward failed on these inputs, or they do not fit its arguments
  RK_REFUSED = 3, // an operator that cannot be imported
  RK_LOSS = 4,    // the loss specification does not fit the outputs
};

// ---- common.cpp
// Frees an error text or a string result.
void rk_string_free(const char* text);
// Frees a byte buffer handed out by this library.
void rk_bytes_free(uint8_t* bytes);

// The version of the headers, "2.11.0"; static.
const char* rk_torch_version(void);

// ---- dispatch.cpp
// Finds `name` ("aten::add") with `overload` ("Tensor", "" for default). Handles live for ever.
const char* rk_op_find(const char* name, const char* overload, RkOp** out);
// The schema as text, e.g. "aten::relu(Tensor self) -> Tensor".
const char* rk_op_schema(const RkOp* op, const char** out);
// Calls `op` below autograd. Results stay in a buffer of the calling thread until its next call; tensors in it
// are owned by the caller.
const char* rk_op_call(const RkOp* op, const RkCell* args, size_t n, const RkCell** out, size_t* out_n);
// Converts the arguments once. `outs[i]` is the slot of the i-th tensor result (lists flattened), -1 to discard it.
// `grad_mode` is what kernels see that ask for it: on for forward operators of a training step, else off.
const char* rk_call_new(const RkOp* op, const RkCell* args, size_t n, const int32_t* outs, size_t n_outs, bool grad_mode, RkCall** out);
// Runs a prepared call on the tensors in `slots`, below autograd.
const char* rk_call_run(const RkCall* call, RkSlots* slots);
void rk_call_free(RkCall* call);

RkSlots* rk_slots_new(size_t n);
void rk_slots_free(RkSlots* slots);
// Puts another reference to `tensor` into slot i (NULL: undefined).
const char* rk_slots_set(RkSlots* slots, size_t i, const at::Tensor* tensor);
// A new handle to the tensor in slot i; NULL when undefined.
const char* rk_slots_get(const RkSlots* slots, size_t i, at::Tensor** out);
// Drops the reference in slot i.
const char* rk_slots_clear(RkSlots* slots, size_t i);
// Lets slot `to` share what slot `from` holds.
const char* rk_slots_copy(RkSlots* slots, size_t from, size_t to);

// ---- launch.cpp
// A generated kernel: rows [begin, end) of its outermost dimension, on the storages at these addresses.
typedef void (*RkKernel)(void* const* buffers, int64_t begin, int64_t end);
// Runs a kernel on the tensors in `slots[buffers[0..n]]`, its rows divided among libtorch's threads in parts of at least
// `grain` rows. `layouts` has for each buffer: element type, number of dimensions, sizes, strides; another layout is refused.
const char* rk_launch(RkKernel kernel, const RkSlots* slots, const int32_t* buffers, size_t n, const int64_t* layouts, int64_t rows, int64_t grain);
// The addresses of these tensors, whose layouts are checked likewise.
const char* rk_addresses(const RkSlots* slots, const int32_t* buffers, size_t n, const int64_t* layouts, void** out);

// ---- memory.cpp
// Makes the counting allocator torch's CPU allocator; idempotent. Earlier tensors keep their own allocator.
const char* rk_memory_install(void);
// Bytes requested and not yet freed; their maximum since the last reset; the number of allocations ever made.
void rk_memory_read(int64_t* current, int64_t* peak, int64_t* count);
// Sets the peak to the current level, less the bytes that are about to be given back.
void rk_memory_reset_peak(int64_t leaving);

// ---- arena.cpp
// The place of one result of a launch: bytes, offset in the arena (-1: it leaves the step, and is made on the heap), slot that holds
// it afterwards.
struct RkPlace {
  int64_t bytes;
  int64_t offset;
  int32_t slot;
};
// Bytes [from, to) of an arena.
struct RkGap {
  int64_t from;
  int64_t to;
};
struct RkArena; // memory of a lowered step, and what its launches may do with it
// Maps `bytes` bytes on the CPU (type 0), or makes one allocation of a GPU (type 1). The gradients lie behind the arena proper.
const char* rk_arena_new(size_t bytes, int32_t type, int32_t index, RkArena** out);
// Its first byte.
void* rk_arena_base(const RkArena* arena);
// Lets the arena go, once the last tensor in it has gone.
void rk_arena_free(RkArena* arena);
// Declares the next launch: its results, and what is free while it runs, its workspace first.
const char* rk_arena_run(RkArena* arena, const RkPlace* outputs, size_t n, const RkGap* gaps, size_t m);
// From now on requests of this thread are served here; with `rehearse` they only are watched.
const char* rk_arena_enter(RkArena* arena, bool rehearse);
void rk_arena_leave(RkArena* arena);
// Launch number `run` begins, and ends: then its results are in their places.
const char* rk_arena_begin(RkArena* arena, size_t run);
const char* rk_arena_end(RkArena* arena, RkSlots* slots);
// Since it was entered: requests that were placed, requests of the process that were not, results that were moved, and that left.
void rk_arena_counts(RkArena* arena, int64_t* placed, int64_t* outside, int64_t* moved, int64_t* left);
// Another tensor over the bytes of one in the arena. One that does not own holds nothing: it is valid as long as the arena. A tensor
// that lies elsewhere is given back as it is.
const char* rk_arena_handle(RkArena* arena, const at::Tensor* of, bool owns, at::Tensor** out);

// ---- workspace.cpp
struct RkWatch; // listens to the CPU's allocator
const char* rk_watch_new(RkWatch** out);
// Stops, and gives the bytes of the temporaries beside the `kept` results; those that are `leaving` are not counted.
const char* rk_watch_workspace(RkWatch* watch, const at::Tensor* const* kept, size_t n, const at::Tensor* const* leaving, size_t m, int64_t* out);
void rk_watch_free(RkWatch* watch);

// ---- device.cpp
// Seeds the default generator of the device (type 0 cpu, 1 cuda).
const char* rk_seed(int32_t type, int32_t index, uint64_t seed);
// A copy of the generator's state as a byte tensor (CPU: 5056 bytes), and back.
const char* rk_generator_get(int32_t type, int32_t index, at::Tensor** out);
const char* rk_generator_set(int32_t type, int32_t index, const at::Tensor* state);
// The generator's state kept aside without a tensor, and put back.
const char* rk_generator_park(int32_t type, int32_t index, RkParked** out);
const char* rk_generator_unpark(int32_t type, int32_t index, const RkParked* parked);
void rk_parked_free(RkParked* parked);
// Waits for everything queued on the device.
const char* rk_device_synchronize(int32_t type, int32_t index);
// The caching allocator's requested bytes: now, and at most since the last reset.
const char* rk_cuda_memory(int32_t index, int64_t* current, int64_t* peak);
const char* rk_cuda_reset_peak(int32_t index);
// Bytes that it holds and nobody uses.
const char* rk_cuda_cached(int32_t index, int64_t* out);
// Number of threads that operators use; 0 asks only.
const char* rk_threads(int32_t set, int32_t* out);

// ---- settings.cpp
// What of torch's global state decides which kernels run on this device, as `name=value` with blanks between; rk_string_free.
const char* rk_settings_read(int32_t type, int32_t index, const char** out);
// Sets those that are named in such a text and can be set.
const char* rk_settings_apply(int32_t type, int32_t index, const char* wanted);

// ---- cuda.cpp
// Loads libtorch_cuda from `folder` unless the process has one, makes its allocator one that places, and says how many devices there are.
const char* rk_cuda_load(const char* folder, int32_t* devices);
struct RkStreams; // streams of a GPU
// `n` streams of this GPU, from torch's pool.
const char* rk_streams_new(int32_t index, size_t n, RkStreams** out);
void rk_streams_free(RkStreams* streams);
// The driver's handle of a stream.
const char* rk_streams_handle(const RkStreams* streams, size_t i, void** out);
// From now on the first of them is the stream that is current in this thread.
const char* rk_streams_follow(RkStreams* streams);
// Makes one of them torch's current stream; -1: the one that was current when they were made, or followed.
const char* rk_streams_use(RkStreams* streams, int32_t i);

// ---- archive.cpp
// Loads what torch.jit.trace(...).save wrote, onto the device.
const char* rk_archive_load(const char* path, int32_t type, int32_t index, RkArchive** out);
void rk_archive_free(RkArchive* archive);
// Arguments of forward, traced inputs, parameters and buffers, encoded as src/archive.rs decodes it.
const char* rk_archive_describe(const RkArchive* archive, uint8_t** out, size_t* n);
// The tensor of the i-th parameter or buffer; the model's own, not a copy.
const char* rk_archive_tensor(const RkArchive* archive, size_t i, at::Tensor** out);
// Reads a file of torch.save: one tensor, or a nest of tuples, lists and dicts of tensors. Names are paths.
// Both arrays and all their entries belong to the caller (rk_string_free, tensor handles, rk_bytes_free).
const char* rk_pickle_load(const char* path, const char*** names, at::Tensor*** tensors, size_t* n);

// ---- step.cpp
// A step of `archive` on flat `inputs`, in the order of the leaves of forward's arguments.
// loss: 0 none, 1 sum, 2 mean, 3 output number `output`.
const char* rk_step_new(RkArchive* archive, at::Tensor* const* inputs, size_t n, int32_t loss, int64_t output, RkStep** out);
void rk_step_free(RkStep* step);
// Runs forward, loss and backward as eager PyTorch does. Results of the run before are let go first.
const char* rk_step_run(RkStep* step, bool accumulate);
// The i-th result of the last run: role 0 loss, 1 output, 2 gradient. A null name: there are no more.
const char* rk_step_result(const RkStep* step, size_t i, int32_t* role, const char** name, at::Tensor** out);
// Lets the results and the gradients of the last run go.
const char* rk_step_clear(RkStep* step);
// Runs the step once under the recorder; gives the recording, encoded as src/recording.rs decodes it. When `repeats` > 0,
// the first of each class of equal calls is made `repeats` times more and timed; with `every_call` instead the whole step
// is run `repeats` + 1 times more, the first time as a warm-up, and every call is timed.
const char* rk_step_record(RkStep* step, int32_t repeats, bool every_call, uint8_t** out, size_t* n);
}
