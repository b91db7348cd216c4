// What a call that is made elsewhere (in Python) asks of the CPU's allocator beside its results, as an arena would have to place it.
#include "common.h"
#include "watch.h"

#include <ATen/core/Tensor.h>

#include <memory>

struct RkWatch {
  rk::Watch watch;
};

extern "C" {

const char* rk_watch_new(RkWatch** out) {
  return rk::guarded([&] { *out = std::make_unique<RkWatch>().release(); });
}

const char* rk_watch_workspace(RkWatch* watch, const at::Tensor* const* kept, size_t n, const at::Tensor* const* leaving, size_t m, int64_t* out) {
  return rk::guarded([&] {
    watch->watch.stop();
    auto block_of = [&](const at::Tensor* tensor) { return tensor->has_storage() ? watch->watch.last_at(tensor->storage().data()) : -1; };
    // What leaves is nobody's workspace, and nothing may lie in its place before it is there.
    for (size_t i = 0; i < m; ++i) {
      const int64_t block = block_of(leaving[i]);
      if (block >= 0) watch->watch.blocks[static_cast<size_t>(block)].bytes = 0;
    }
    std::vector<int64_t> results;
    for (size_t i = 0; i < n; ++i) {
      const int64_t block = block_of(kept[i]);
      if (block >= 0) results.push_back(block);
    }
    *out = rk::workspace(watch->watch, results);
  });
}

void rk_watch_free(RkWatch* watch) { delete watch; }

} // extern "C"
