// A placing allocator: while a lowered step runs, torch's requests are served at planned addresses.
//
// Why not the out= variants of operators? Half of what a training step calls has none (convolution_backward,
// native_batch_norm_backward, every fused attention), those that have one still ask for workspace through the allocator,
// and `out` may resize and copy. Every kernel asks the allocator, so that is where its results are put.
//
// A request has a size and no name. What becomes of it is learned once, when the step is rehearsed on the heap: the order of
// the requests of a run, when each was given back, and the pointers that its results have in the end. Temporaries are then
// packed into what is free while the run is on, its results' own places included until they are asked for. From then on a
// request is recognized by its size, in that order. Should one come that was not rehearsed, or find its place taken, it goes to
// the lowest free hole; a result that ends up elsewhere (it shares storage with another, or threads changed the order) is moved to its
// place after the run.
//
// A result that leaves the step for good has no place here: its request goes to the heap, and the caller owns what comes of it.
//
// Threads: requests of the thread that runs the step are placed, and those of its OpenMP team, whose threads are marked when the
// step is entered. Anybody else's go to the heap and are counted. One step runs at a time in a process.
#include "arena.h"
#include "common.h"
#include "convert.h"
#include "watch.h"

#include <ATen/Parallel.h>
#include <c10/core/Allocator.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <dlfcn.h>
#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <mutex>
#include <optional>
#include <unordered_map>
#include <vector>

namespace {

constexpr size_t kHugePage = size_t{2} << 20;

using rk::rounded;

struct Output {
  int64_t bytes;
  char* place; // null: it leaves the step, and is made on the heap
  int32_t slot;
};
struct Request {
  int64_t bytes;
  int32_t output; // -1: a temporary
  int64_t offset; // of a temporary; -1: it outlived the rehearsed run, and is not expected to come again
};
struct Run {
  std::vector<Output> outputs;
  std::vector<RkGap> gaps; // free while it runs, its workspace first
  std::vector<Request> requests;
};

thread_local uint64_t team = 0; // the thread for whose step this one works

} // namespace

struct RkArena {
  char* base = nullptr;
  size_t bytes = 0;
  c10::Device device{c10::DeviceType::CPU};
  void* mapping = nullptr; // on the CPU
  size_t mapped = 0;
  c10::DataPtr block; // on a GPU: one allocation
  std::vector<Run> runs;

  std::mutex lock; // guards all below
  Run* run = nullptr;
  bool rehearsing = false;
  std::vector<bool> claimed;                     // requests of the run that came
  std::vector<RkGap> taken;                      // by address: temporaries, and results that were asked for
  std::optional<rk::Watch> watch;                // over a rehearsed run
  std::unordered_map<char*, int64_t> live;       // what was requested, by address
  int64_t placed = 0, moved = 0, left = 0;
  bool leaving = false; // what is asked for now leaves the step
  bool orphan = false; // the step is gone, its results are not

  ~RkArena() {
    if (mapping != nullptr) munmap(mapping, mapped);
  }
  bool is_free(const RkGap& place) const;
  void take(const RkGap& place);
  int64_t hole(int64_t bytes) const;
  const Request* expected(int64_t bytes);
};

namespace {

// The arena of the step that runs. Only threads that work for the step may look into it: any other may find it freed.
std::atomic<RkArena*> active{nullptr};
// The owner of that step, 0 while none runs.
std::atomic<uint64_t> at_work{0};
// What was allocated elsewhere since the step began, by whatever thread.
std::atomic<int64_t> missed{0};
std::atomic<c10::DeviceType> counted{c10::DeviceType::CPU};

// All arenas by their addresses. Few, and looked up for every block that is freed while there are any.
std::mutex registry_lock;
std::vector<RkArena*> registry;
std::atomic<size_t> registered{0};

RkArena* arena_of(const void* data) {
  if (registered.load(std::memory_order_acquire) == 0) return nullptr;
  const auto* byte = static_cast<const char*>(data);
  std::lock_guard<std::mutex> guard(registry_lock);
  for (RkArena* arena : registry) {
    if (byte >= arena->base && byte < arena->base + arena->bytes) return arena;
  }
  return nullptr;
}

void unregister(RkArena* arena) {
  std::lock_guard<std::mutex> guard(registry_lock);
  registry.erase(std::remove(registry.begin(), registry.end(), arena), registry.end());
  registered.store(registry.size(), std::memory_order_release);
}

// Whether this thread works for the step that runs. Others may be busy with tensors of their own meanwhile.
bool works_for_the_step() { return team != 0 && team == at_work.load(std::memory_order_acquire); }

// Marks the threads that operators of this thread run on. They are those of the OpenMP library that libtorch brings, which
// must be asked itself: a second one would have threads of its own.
void enroll(uint64_t owner) {
  using Parallel = void (*)(void (*)(void*), void*, unsigned, unsigned);
  static const auto parallel = [] {
    void* torch = dlopen("libtorch_cpu.so", RTLD_LAZY | RTLD_NOLOAD);
    return reinterpret_cast<Parallel>(torch == nullptr ? nullptr : dlsym(torch, "GOMP_parallel"));
  }();
  thread_local int enrolled = 0;
  team = owner;
  const int threads = at::get_num_threads();
  if (enrolled == threads || parallel == nullptr) return;
  parallel([](void* mark) { team = *static_cast<uint64_t*>(mark); }, &owner, static_cast<unsigned>(threads), 0);
  enrolled = threads;
}

at::Tensor& tensor_at(RkSlots& slots, int32_t slot) {
  TORCH_CHECK(slot >= 0 && static_cast<size_t>(slot) < slots.tensors.size(), "slot ", slot, " does not exist");
  return slots.tensors[static_cast<size_t>(slot)];
}

// What became of the requests of a rehearsed run, and where its temporaries fit.
void learn(RkArena& arena, RkSlots& slots) {
  Run& run = *arena.run;
  const auto& blocks = arena.watch->blocks;
  run.requests.clear();
  for (const auto& block : blocks) run.requests.push_back({block.bytes, -1, -1});
  std::vector<rk::Fixed> results;
  for (size_t j = 0; j < run.outputs.size(); ++j) {
    const Output& output = run.outputs[j];
    const at::Tensor& tensor = tensor_at(slots, output.slot);
    if (!tensor.defined() || output.bytes == 0 || tensor.device().type() != arena.device.type()) continue;
    const int64_t block = arena.watch->last_at(tensor.storage().data());
    if (block < 0) continue;
    const int64_t made = blocks[static_cast<size_t>(block)].bytes;
    TORCH_CHECK(made == output.bytes, "a result takes ", made, " bytes instead of the planned ", output.bytes);
    Request& request = run.requests[static_cast<size_t>(block)];
    if (request.output >= 0) continue; // two results in one storage
    request.output = static_cast<int32_t>(j);
    if (output.place == nullptr) continue;
    const int64_t at = output.place - arena.base;
    results.push_back({{at, at + rounded(output.bytes)}, blocks[static_cast<size_t>(block)].from});
  }
  std::vector<rk::Block> temporaries;
  std::vector<Request*> theirs;
  for (size_t k = 0; k < blocks.size(); ++k) {
    if (run.requests[k].output >= 0 || blocks[k].to == rk::kNever) continue;
    temporaries.push_back(blocks[k]);
    theirs.push_back(&run.requests[k]);
  }
  const auto offsets = rk::pack(temporaries, run.gaps, results);
  if (offsets.size() != temporaries.size()) {
    int64_t free = 0, most = 0;
    for (const RkGap& gap : run.gaps) free += gap.to - gap.from;
    for (const auto& block : temporaries) most = std::max(most, block.bytes);
    TORCH_CHECK(false, "its ", temporaries.size(), " temporaries, up to ", most, " bytes each, do not fit into the ", free, " bytes that the plan has for them. It was planned for other kernels or another number of threads: import the step again on this machine");
  }
  for (size_t i = 0; i < offsets.size(); ++i) theirs[i]->offset = offsets[i];
}

// A result that lies elsewhere: all that is needed to make it anew at its place.
struct Misplaced {
  const Output* output;
  std::vector<char> content;
  std::vector<int64_t> sizes, strides;
  int64_t offset;
  c10::DispatchKeySet keys;
  caffe2::TypeMeta dtype;
};

// A tensor over these bytes.
at::Tensor over(c10::DataPtr data, int64_t bytes, c10::DispatchKeySet keys, caffe2::TypeMeta dtype, at::IntArrayRef sizes, at::IntArrayRef strides, int64_t offset) {
  auto storage = c10::make_intrusive<c10::StorageImpl>(c10::StorageImpl::use_byte_size_t(), bytes, std::move(data), nullptr, false);
  auto tensor = at::detail::make_tensor<c10::TensorImpl>(c10::Storage(std::move(storage)), keys, dtype);
  tensor.unsafeGetTensorImpl()->set_sizes_and_strides(sizes, strides, offset);
  return tensor;
}

at::Tensor over(c10::DataPtr data, int64_t bytes, const at::Tensor& as) {
  return over(std::move(data), bytes, as.key_set(), as.dtype(), as.sizes(), as.strides(), as.storage_offset());
}

void note_moved(RkArena& arena, const Output& output) {
  std::lock_guard<std::mutex> guard(arena.lock);
  arena.moved += 1;
  if (output.place == nullptr) arena.leaving = true;
  else arena.live[output.place] = output.bytes;
}

at::Tensor made_at(RkArena& arena, const Misplaced& from) {
  char* place = from.output->place;
  std::copy(from.content.begin(), from.content.end(), place);
  note_moved(arena, *from.output);
  rk::memory_add(from.output->bytes);
  auto* allocator = c10::GetAllocator(c10::DeviceType::CPU);
  c10::DataPtr data(place, place, allocator->raw_deleter(), c10::Device(c10::DeviceType::CPU));
  return over(std::move(data), from.output->bytes, from.keys, from.dtype, from.sizes, from.strides, from.offset);
}

// The deleter of a tensor that was put into the arena without a request.
void leave(void* place) {
  int64_t bytes = 0;
  rk::arena_give(place, bytes);
}

// On a GPU the bytes are copied there on the stream of the launch. Where the two overlap the order of the copy matters, so such a
// step is refused.
at::Tensor moved_to(RkArena& arena, const Output& output, const at::Tensor& from) {
  const auto* source = static_cast<const char*>(from.storage().data());
  TORCH_CHECK(source + output.bytes <= output.place || output.place + output.bytes <= source, "a result of ", output.bytes, " bytes was made over a part of its own place");
  note_moved(arena, output);
  c10::DataPtr data(output.place, output.place, &leave, arena.device);
  auto tensor = over(std::move(data), output.bytes, from);
  tensor.copy_(from);
  return tensor;
}

// A result that was made in the arena by chance and leaves the step: a copy on the heap, with the same sizes and strides.
at::Tensor taken_out(RkArena& arena, const Output& output, const at::Tensor& from) {
  note_moved(arena, output);
  auto* allocator = c10::GetAllocator(arena.device.type());
  c10::DataPtr data = allocator->allocate(static_cast<size_t>(output.bytes));
  allocator->copy_data(data.get(), from.storage().data(), static_cast<size_t>(output.bytes));
  return over(std::move(data), output.bytes, from);
}

void settle(RkArena& arena, RkSlots& slots) {
  std::vector<Misplaced> misplaced;
  for (const Output& output : arena.run->outputs) {
    at::Tensor& tensor = tensor_at(slots, output.slot);
    if (output.bytes == 0 || !tensor.defined() || tensor.device().type() != arena.device.type()) continue;
    const auto& storage = tensor.storage();
    const auto made = static_cast<int64_t>(storage.nbytes());
    TORCH_CHECK(made == output.bytes, "a result takes ", made, " bytes instead of the planned ", output.bytes);
    if (storage.data() == output.place) continue;
    const auto* from = static_cast<const char*>(storage.data());
    if (output.place == nullptr) {
      if (from >= arena.base && from < arena.base + arena.bytes) tensor = taken_out(arena, output, tensor);
      continue;
    }
    if (arena.device.is_cuda()) {
      tensor = moved_to(arena, output, tensor);
      continue;
    }
    misplaced.push_back({&output, {from, from + made}, tensor.sizes().vec(), tensor.strides().vec(), tensor.storage_offset(), tensor.key_set(), tensor.dtype()});
  }
  // All are taken out before any is put in its place: two may have changed places.
  for (const auto& one : misplaced) tensor_at(slots, one.output->slot).reset();
  for (const auto& one : misplaced) tensor_at(slots, one.output->slot) = made_at(arena, one);
  std::lock_guard<std::mutex> guard(arena.lock);
  for (const RkGap& taken : arena.taken) {
    const auto* at = arena.base + taken.from;
    const bool result = std::any_of(arena.run->outputs.begin(), arena.run->outputs.end(), [&](const Output& output) { return output.place == at; });
    TORCH_CHECK(result, "it keeps a temporary of ", taken.to - taken.from, " bytes beyond its end, in bytes that others will use");
  }
}

} // namespace

bool RkArena::is_free(const RkGap& place) const {
  return std::none_of(taken.begin(), taken.end(), [&](const RkGap& other) { return other.from < place.to && place.from < other.to; });
}

void RkArena::take(const RkGap& place) {
  const auto behind = std::find_if(taken.begin(), taken.end(), [&](const RkGap& other) { return other.from > place.from; });
  taken.insert(behind, place);
}

// The lowest hole of the free bytes that takes `size`; -1 when there is none.
int64_t RkArena::hole(int64_t size) const {
  for (const RkGap& gap : run->gaps) {
    int64_t at = gap.from;
    for (const RkGap& other : taken) {
      if (other.to <= at || other.from >= gap.to) continue;
      if (other.from - at >= size) break;
      at = std::max(at, other.to);
    }
    if (gap.to - at >= size) return at;
  }
  return -1;
}

// The rehearsed request that this one is; null when there is none of its size left.
const Request* RkArena::expected(int64_t size) {
  for (size_t k = 0; k < run->requests.size(); ++k) {
    if (claimed[k] || run->requests[k].bytes != size) continue;
    claimed[k] = true;
    return &run->requests[k];
  }
  return nullptr;
}

namespace rk {

void* arena_take(size_t bytes, c10::DeviceType device, bool& leaves) {
  leaves = false;
  if (!works_for_the_step()) return nullptr;
  RkArena* arena = active.load(std::memory_order_acquire);
  if (arena->rehearsing || arena->device.type() != device) return nullptr;
  std::lock_guard<std::mutex> guard(arena->lock);
  TORCH_CHECK(arena->run != nullptr, "asks for ", bytes, " bytes outside of a launch");
  const auto size = static_cast<int64_t>(bytes);
  const Request* request = arena->leaving ? nullptr : arena->expected(size);
  const Output* output = request == nullptr || request->output < 0 ? nullptr : &arena->run->outputs[static_cast<size_t>(request->output)];
  if (arena->leaving || (output != nullptr && output->place == nullptr)) {
    arena->leaving = false;
    arena->left += 1;
    leaves = true;
    return nullptr;
  }
  int64_t at = -1;
  if (request != nullptr) at = output == nullptr ? request->offset : output->place - arena->base;
  if (at < 0 || !arena->is_free({at, at + rounded(size)})) at = arena->hole(rounded(size));
  if (at < 0) {
    int64_t used = 0, free = 0;
    for (const RkGap& other : arena->taken) used += other.to - other.from;
    for (const RkGap& gap : arena->run->gaps) free += gap.to - gap.from;
    TORCH_CHECK(false, "needs ", bytes, " bytes of workspace beside ", used, " in use, and the plan has ", free, " in all for it. It was planned for other kernels or another number of threads: import the step again on this machine");
  }
  arena->take({at, at + rounded(size)});
  char* place = arena->base + at;
  arena->live[place] = size;
  arena->placed += 1;
  return place;
}

void arena_missed(c10::DeviceType device) {
  // What a step on a GPU allocates on the CPU (numbers, states of the generator) is no memory of the device.
  if (device == counted.load(std::memory_order_relaxed)) missed.fetch_add(1, std::memory_order_relaxed);
}

bool arena_give(void* data, int64_t& bytes) {
  RkArena* arena = arena_of(data);
  if (arena == nullptr) return false;
  bool last = false;
  {
    std::lock_guard<std::mutex> guard(arena->lock);
    const auto found = arena->live.find(static_cast<char*>(data));
    bytes = found == arena->live.end() ? 0 : found->second;
    if (found != arena->live.end()) arena->live.erase(found);
    const int64_t at = static_cast<char*>(data) - arena->base;
    auto& all = arena->taken;
    all.erase(std::remove_if(all.begin(), all.end(), [&](const RkGap& place) { return place.from == at; }), all.end());
    last = arena->orphan && arena->live.empty();
  }
  if (last) {
    unregister(arena);
    delete arena;
  }
  return true;
}

} // namespace rk

extern "C" {

const char* rk_arena_new(size_t bytes, int32_t type, int32_t index, RkArena** out) {
  return rk::guarded([&] {
    auto arena = std::make_unique<RkArena>();
    arena->bytes = std::max<size_t>(bytes, 1);
    if (type == 1) {
      arena->device = c10::Device(c10::DeviceType::CUDA, static_cast<c10::DeviceIndex>(index));
      const c10::impl::VirtualGuardImpl guard(arena->device.type());
      guard.setDevice(arena->device);
      arena->block = c10::GetAllocator(arena->device.type())->allocate(arena->bytes);
      arena->base = static_cast<char*>(arena->block.get());
      std::lock_guard<std::mutex> lock(registry_lock);
      registry.push_back(arena.get());
      registered.store(registry.size(), std::memory_order_release);
      *out = arena.release();
      return;
    }
    // Room to start at a huge page: a large arena is walked all over, and small pages cost misses of the TLB.
    const bool huge = bytes >= 2 * kHugePage;
    arena->mapped = arena->bytes + (huge ? kHugePage : 0);
    void* memory = mmap(nullptr, arena->mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    TORCH_CHECK(memory != MAP_FAILED, "too little memory: the step needs ", bytes, " bytes for its arena and gradients");
    arena->mapping = memory;
    auto start = reinterpret_cast<uintptr_t>(memory);
    if (huge) start = (start + kHugePage - 1) / kHugePage * kHugePage;
    arena->base = reinterpret_cast<char*>(start);
    if (huge) madvise(arena->base, arena->bytes, MADV_HUGEPAGE);
    std::lock_guard<std::mutex> guard(registry_lock);
    registry.push_back(arena.get());
    registered.store(registry.size(), std::memory_order_release);
    *out = arena.release();
  });
}

void* rk_arena_base(const RkArena* arena) { return arena->base; }

void rk_arena_free(RkArena* arena) {
  {
    std::lock_guard<std::mutex> guard(arena->lock);
    arena->orphan = true;
    if (!arena->live.empty()) return; // the last result frees it
  }
  unregister(arena);
  delete arena;
}

const char* rk_arena_run(RkArena* arena, const RkPlace* outputs, size_t n, const RkGap* gaps, size_t m) {
  return rk::guarded([&] {
    Run run;
    for (size_t i = 0; i < n; ++i) run.outputs.push_back({outputs[i].bytes, outputs[i].offset < 0 ? nullptr : arena->base + outputs[i].offset, outputs[i].slot});
    run.gaps.assign(gaps, gaps + m);
    arena->runs.push_back(std::move(run));
  });
}

const char* rk_arena_enter(RkArena* arena, bool rehearse) {
  return rk::guarded([&] {
    static std::atomic<uint64_t> next{1};
    thread_local const uint64_t own = next.fetch_add(1);
    TORCH_CHECK(active.load() == nullptr, "another step is running in this process");
    enroll(own);
    std::lock_guard<std::mutex> guard(arena->lock);
    arena->rehearsing = rehearse;
    arena->run = nullptr;
    arena->taken.clear();
    arena->watch.reset();
    arena->placed = arena->moved = arena->left = 0;
    arena->leaving = false;
    missed.store(0, std::memory_order_relaxed);
    counted.store(arena->device.type(), std::memory_order_relaxed);
    active.store(arena, std::memory_order_release);
    at_work.store(own, std::memory_order_release);
  });
}

void rk_arena_leave(RkArena* arena) {
  at_work.store(0, std::memory_order_release);
  active.store(nullptr, std::memory_order_release);
  std::lock_guard<std::mutex> guard(arena->lock);
  arena->watch.reset();
  arena->run = nullptr;
}

const char* rk_arena_begin(RkArena* arena, size_t run) {
  return rk::guarded([&] {
    std::lock_guard<std::mutex> guard(arena->lock);
    TORCH_CHECK(run < arena->runs.size(), "launch ", run, " does not exist");
    arena->run = &arena->runs[run];
    arena->claimed.assign(arena->run->requests.size(), false);
    arena->taken.clear();
    if (arena->rehearsing) arena->watch.emplace(&works_for_the_step, arena->device.type());
  });
}

const char* rk_arena_end(RkArena* arena, RkSlots* slots) {
  return rk::guarded([&] {
    TORCH_CHECK(arena->run != nullptr, "no launch is on");
    if (arena->rehearsing) {
      arena->watch->stop();
      learn(*arena, *slots);
      arena->watch.reset();
    } else {
      settle(*arena, *slots);
    }
    std::lock_guard<std::mutex> guard(arena->lock);
    arena->run = nullptr;
  });
}

void rk_arena_counts(RkArena* arena, int64_t* placed, int64_t* outside, int64_t* moved, int64_t* left) {
  std::lock_guard<std::mutex> guard(arena->lock);
  *placed = arena->placed;
  *outside = arena->rehearsing ? 0 : missed.load(std::memory_order_relaxed);
  *moved = arena->moved;
  *left = arena->left;
}

} // extern "C"
