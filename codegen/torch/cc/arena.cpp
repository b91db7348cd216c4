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
#include "arena_state.h"
#include "common.h"

#include <ATen/Parallel.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <dlfcn.h>
#include <sys/mman.h>

#include <algorithm>
#include <atomic>

namespace {

constexpr size_t kHugePage = size_t{2} << 20;

using rk::rounded;

thread_local uint64_t team = 0; // the thread for whose step this one works

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

} // namespace

RkArena::~RkArena() {
  if (mapping != nullptr) munmap(mapping, mapped);
}

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
const rk::Request* RkArena::expected(int64_t size) {
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
  const rk::Request* request = arena->leaving ? nullptr : arena->expected(size);
  const rk::Output* output = request == nullptr || request->output < 0 ? nullptr : &arena->run->outputs[static_cast<size_t>(request->output)];
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
  arena->held += 1;
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
    arena->held -= 1;
    last = arena->orphan && arena->held == 0;
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
    if (arena->held > 0) return; // the last result frees it
  }
  unregister(arena);
  delete arena;
}

const char* rk_arena_run(RkArena* arena, const RkPlace* outputs, size_t n, const RkGap* gaps, size_t m) {
  return rk::guarded([&] {
    rk::Run run;
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
      rk::learn(*arena, *slots);
      arena->watch.reset();
    } else {
      rk::settle(*arena, *slots);
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
