// What comes of a launch: its results in their places, and handles on what lies there.
//
// A result that a kernel made elsewhere is moved to its place after the run. A launch that is replayed makes no tensors, so whoever
// reads its results needs handles on the bytes.
#include "arena.h"
#include "arena_state.h"
#include "common.h"

#include <algorithm>

namespace {

using rk::rounded;

at::Tensor& tensor_at(RkSlots& slots, int32_t slot) {
  TORCH_CHECK(slot >= 0 && static_cast<size_t>(slot) < slots.tensors.size(), "slot ", slot, " does not exist");
  return slots.tensors[static_cast<size_t>(slot)];
}

// A result that lies elsewhere: all that is needed to make it anew at its place.
struct Misplaced {
  const rk::Output* output;
  std::vector<char> content;
  std::vector<int64_t> sizes, strides;
  int64_t offset;
  int64_t first; // byte of the storage at which the content begins
  c10::DispatchKeySet keys;
  caffe2::TypeMeta dtype;
};

// Bytes from the first element of a tensor to the end of its last one.
int64_t spanned(const at::Tensor& tensor) {
  int64_t last = 0;
  for (int64_t d = 0; d < tensor.dim(); ++d) {
    if (tensor.size(d) == 0) return 0;
    last += (tensor.size(d) - 1) * tensor.stride(d);
  }
  return (last + 1) * static_cast<int64_t>(tensor.element_size());
}

// A result that is a part of a storage of another size than planned (a kernel clones all of what it was shown a part of), as it will be
// put into its own place: with its strides, and if it fits with its offset.
Misplaced cut_out(const rk::Output& output, const at::Tensor& tensor) {
  const int64_t bytes = spanned(tensor), size = static_cast<int64_t>(tensor.element_size());
  int64_t offset = tensor.storage_offset();
  if (offset * size + bytes > output.bytes) offset = 0;
  TORCH_CHECK(bytes <= output.bytes, "a result takes ", tensor.storage().nbytes(), " bytes instead of the planned ", output.bytes, ", and is not laid out as PyTorch's tracing says");
  const auto* from = static_cast<const char*>(tensor.data_ptr());
  return {&output, {from, from + bytes}, tensor.sizes().vec(), tensor.strides().vec(), offset, offset * size, tensor.key_set(), tensor.dtype()};
}

Misplaced taken_whole(const rk::Output& output, const at::Tensor& tensor) {
  const auto* from = static_cast<const char*>(tensor.storage().data());
  return {&output, {from, from + output.bytes}, tensor.sizes().vec(), tensor.strides().vec(), tensor.storage_offset(), 0, tensor.key_set(), tensor.dtype()};
}


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

void note_moved(RkArena& arena, const rk::Output& output) {
  std::lock_guard<std::mutex> guard(arena.lock);
  arena.moved += 1;
  if (output.place == nullptr) {
    arena.leaving = true;
    return;
  }
  arena.live[output.place] = output.bytes;
  arena.held += 1;
}

// The result in memory of the CPU's allocator, which has this size.
at::Tensor made_on_the_heap(const Misplaced& from) {
  c10::DataPtr data = c10::GetAllocator(c10::DeviceType::CPU)->allocate(static_cast<size_t>(from.output->bytes));
  std::copy(from.content.begin(), from.content.end(), static_cast<char*>(data.get()) + from.first);
  return over(std::move(data), from.output->bytes, from.keys, from.dtype, from.sizes, from.strides, from.offset);
}

at::Tensor made_at(RkArena& arena, const Misplaced& from) {
  char* place = from.output->place;
  std::copy(from.content.begin(), from.content.end(), place + from.first);
  note_moved(arena, *from.output);
  rk::memory_add(from.output->bytes);
  auto* allocator = c10::GetAllocator(c10::DeviceType::CPU);
  c10::DataPtr data(place, place, allocator->raw_deleter(), c10::Device(c10::DeviceType::CPU));
  return over(std::move(data), from.output->bytes, from.keys, from.dtype, from.sizes, from.strides, from.offset);
}

// Whether the launch that is on has made this on the CPU, and not at the place of a result.
bool is_temporary(RkArena& arena, const void* data) {
  if (!arena.device.is_cpu()) return false;
  std::lock_guard<std::mutex> guard(arena.lock);
  return std::any_of(arena.taken.begin(), arena.taken.end(), [&](const RkGap& taken) { return arena.base + taken.from == data; });
}

// The deleter of a tensor that was put into the arena without a request.
void leave(void* place) {
  int64_t bytes = 0;
  rk::arena_give(place, bytes);
}

// On a GPU the bytes are copied there on the stream of the launch. Where the two overlap the order of the copy matters, so such a
// step is refused.
at::Tensor moved_to(RkArena& arena, const rk::Output& output, const at::Tensor& from) {
  const auto* source = static_cast<const char*>(from.storage().data());
  TORCH_CHECK(source + output.bytes <= output.place || output.place + output.bytes <= source, "a result of ", output.bytes, " bytes was made over a part of its own place");
  note_moved(arena, output);
  c10::DataPtr data(output.place, output.place, &leave, arena.device);
  auto tensor = over(std::move(data), output.bytes, from);
  tensor.copy_(from);
  return tensor;
}

// A result that was made in the arena by chance and leaves the step: a copy on the heap, with the same sizes and strides. On a GPU it is
// torch's caching allocator that is asked, and the copy is queued behind the launch.
at::Tensor taken_out(RkArena& arena, const rk::Output& output, const at::Tensor& from) {
  if (arena.device.is_cuda()) {
    {
      std::lock_guard<std::mutex> guard(arena.lock);
      arena.moved += 1;
      arena.left += 1;
    }
    auto tensor = over(c10::GetAllocator(arena.device.type())->allocate(static_cast<size_t>(output.bytes)), output.bytes, from);
    tensor.copy_(from);
    return tensor;
  }
  note_moved(arena, output);
  auto* allocator = c10::GetAllocator(arena.device.type());
  c10::DataPtr data = allocator->allocate(static_cast<size_t>(output.bytes));
  allocator->copy_data(data.get(), from.storage().data(), static_cast<size_t>(output.bytes));
  return over(std::move(data), output.bytes, from);
}

} // namespace

void rk::learn(RkArena& arena, RkSlots& slots) {
  rk::Run& run = *arena.run;
  const auto& blocks = arena.watch->blocks;
  std::vector<bool> cut(blocks.size(), false);
  run.requests.clear();
  for (const auto& block : blocks) run.requests.push_back({block.bytes, -1, -1});
  std::vector<rk::Fixed> results;
  for (size_t j = 0; j < run.outputs.size(); ++j) {
    const rk::Output& output = run.outputs[j];
    const at::Tensor& tensor = tensor_at(slots, output.slot);
    if (!tensor.defined() || output.bytes == 0 || tensor.device().type() != arena.device.type()) continue;
    const int64_t block = arena.watch->last_at(tensor.storage().data());
    if (block < 0) continue;
    const int64_t made = blocks[static_cast<size_t>(block)].bytes;
    if (arena.device.is_cpu() && made != output.bytes) {
      // In a step that runs it is made among the temporaries. Whoever reads it in this one must see the same storage.
      cut[static_cast<size_t>(block)] = true;
      tensor_at(slots, output.slot) = made_on_the_heap(cut_out(output, tensor));
      continue;
    }
    TORCH_CHECK(made == output.bytes, "a result takes ", made, " bytes instead of the planned ", output.bytes);
    rk::Request& request = run.requests[static_cast<size_t>(block)];
    if (request.output >= 0) continue; // two results in one storage
    request.output = static_cast<int32_t>(j);
    if (output.place == nullptr) continue;
    const int64_t at = output.place - arena.base;
    results.push_back({{at, at + rounded(output.bytes)}, blocks[static_cast<size_t>(block)].from});
  }
  std::vector<rk::Block> temporaries;
  std::vector<rk::Request*> theirs;
  for (size_t k = 0; k < blocks.size(); ++k) {
    if (run.requests[k].output >= 0 || (blocks[k].to == rk::kNever && !cut[k])) continue;
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

void rk::settle(RkArena& arena, RkSlots& slots) {
  std::vector<Misplaced> misplaced;
  for (const rk::Output& output : arena.run->outputs) {
    at::Tensor& tensor = tensor_at(slots, output.slot);
    if (output.bytes == 0 || !tensor.defined() || tensor.device().type() != arena.device.type()) continue;
    const auto& storage = tensor.storage();
    const auto made = static_cast<int64_t>(storage.nbytes());
    const bool cut = made != output.bytes;
    TORCH_CHECK(!cut || is_temporary(arena, storage.data()), "a result takes ", made, " bytes instead of the planned ", output.bytes);
    if (storage.data() == output.place && !cut) continue;
    const auto* from = static_cast<const char*>(storage.data());
    if (output.place == nullptr) {
      if (cut) {
        note_moved(arena, output);
        tensor = made_on_the_heap(cut_out(output, tensor));
      } else if (from >= arena.base && from < arena.base + arena.bytes) {
        tensor = taken_out(arena, output, tensor);
      }
      continue;
    }
    if (arena.device.is_cuda()) {
      tensor = moved_to(arena, output, tensor);
      continue;
    }
    misplaced.push_back(cut ? cut_out(output, tensor) : taken_whole(output, tensor));
  }
  // All are taken out before any is put in its place: two may have changed places.
  for (const auto& one : misplaced) tensor_at(slots, one.output->slot).reset();
  for (const auto& one : misplaced) tensor_at(slots, one.output->slot) = made_at(arena, one);
  std::lock_guard<std::mutex> guard(arena.lock);
  for (const RkGap& taken : arena.taken) {
    const auto* at = arena.base + taken.from;
    const bool result = std::any_of(arena.run->outputs.begin(), arena.run->outputs.end(), [&](const rk::Output& output) { return output.place == at; });
    TORCH_CHECK(result, "it keeps a temporary of ", taken.to - taken.from, " bytes beyond its end, in bytes that others will use");
  }
}

extern "C" const char* rk_arena_handle(RkArena* arena, const at::Tensor* of, bool owns, at::Tensor** out) {
  return rk::guarded([&] {
    auto* place = static_cast<char*>(const_cast<void*>(of->storage().data()));
    if (place < arena->base || place >= arena->base + arena->bytes) {
      *out = new at::Tensor(*of);
      return;
    }
    c10::DataPtr data(place, arena->device);
    if (owns) {
      const std::lock_guard<std::mutex> guard(arena->lock);
      arena->held += 1;
      data = c10::DataPtr(place, place, &leave, arena->device);
    }
    *out = new at::Tensor(over(std::move(data), static_cast<int64_t>(of->storage().nbytes()), *of));
  });
}
