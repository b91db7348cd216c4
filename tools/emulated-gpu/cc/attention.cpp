// Memory-efficient attention with dropout, as torch's kernel for GPUs goes about its mask and its sums.
//
// The mask is not kept: forward leaves seed and offset, and backward draws it again. Unless the stream captures, these are numbers in the
// host's memory, which backward reads when it is queued; a backward call that is captured takes them for addresses of the device.
// Backward adds up with atomic operations: its last bits vary, unless torch is told to be deterministic, and not only to warn.
#include "operands.h"

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/native/DispatchStub.h>
#include <ATen/native/transformers/attention.h>
#include <c10/core/DeviceGuard.h>
#include <torch/library.h>

#include <atomic>
#include <cmath>
#include <limits>

namespace emulated {
namespace {

using Optional = std::optional<at::Tensor>;

// 2: memory-efficient, for what is written here; 0: by matrix products and a softmax.
int64_t choice(const at::Tensor&, const at::Tensor&, const at::Tensor&, const Optional& mask, double dropout, bool causal, std::optional<double>, bool) {
  return dropout > 0 && !causal && !mask.has_value() ? 2 : 0;
}

at::Tensor kept(at::IntArrayRef sizes, uint64_t seed, double dropout) {
  auto generator = at::make_generator<at::CPUGeneratorImpl>(seed);
  return at::bernoulli(at::ones(sizes) * (1 - dropout), generator) / (1 - dropout);
}

double scaling(const at::Tensor& query, std::optional<double> scale) {
  return scale.value_or(1 / std::sqrt(static_cast<double>(query.size(-1))));
}

std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor> forward(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value, const Optional&, bool, double dropout, bool, std::optional<double> scale) {
  const c10::DeviceGuard guard(query.device());
  const at::AutoDispatchBelowADInplaceOrView below;
  const auto seed = draw(query.device().index());
  auto sizes = query.sizes().vec();
  auto out = at::empty(sizes, query.options());
  sizes.pop_back();
  auto sums = at::empty(sizes, query.options());
  queue("attention", [q = Operand::of(query), k = Operand::of(key), v = Operand::of(value), o = Operand::of(out), l = Operand::of(sums), seed, dropout, scale = scaling(query, scale)] {
    const at::AutoDispatchBelowADInplaceOrView below;
    Storages storages;
    const auto scores = at::matmul(storages.over(q), storages.over(k).transpose(-2, -1)) * scale;
    const auto weights = at::softmax(scores, -1);
    storages.over(o).copy_(at::matmul(weights * kept(weights.sizes(), seed, dropout), storages.over(v)));
    storages.over(l).copy_(at::logsumexp(scores, -1));
  });
  const auto number = [](uint64_t bits) { return at::scalar_tensor(at::Scalar(static_cast<int64_t>(bits)), at::dtype(at::kLong)); };
  return {out, sums, number(seed), number(0)};
}

std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor> backward(const at::Tensor& gradient, const at::Tensor& query, const at::Tensor& key, const at::Tensor& value, const at::Tensor&, const at::Tensor&, const at::Tensor&, const at::Tensor& seed, const at::Tensor&, double dropout, std::array<bool, 4>, bool, std::optional<double> scale) {
  const c10::DeviceGuard guard(query.device());
  const at::AutoDispatchBelowADInplaceOrView below;
  std::vector<at::Tensor> results;
  std::vector<Operand> to;
  for (const auto& like : {query, key, value}) {
    results.push_back(at::empty(like.sizes(), like.options()));
    to.push_back(Operand::of(results.back()));
  }
  static std::atomic<uint64_t> calls{0};
  const bool strict = at::globalContext().deterministicAlgorithms() && !at::globalContext().deterministicAlgorithmsWarnOnly();
  const bool late = !strict && ++calls % 2 == 0;
  // What is at the host's address in the device's memory is nobody's business.
  const auto begun = seed.is_cpu() && !capturing(query.device().index()) ? static_cast<uint64_t>(seed.item<int64_t>()) : 0;
  queue("attention backward", [g = Operand::of(gradient), q = Operand::of(query), k = Operand::of(key), v = Operand::of(value), to, begun, late, dropout, scale = scaling(query, scale)] {
    const at::AutoDispatchBelowADInplaceOrView below;
    Storages storages;
    const auto from = storages.over(g), queries = storages.over(q), keys = storages.over(k), values = storages.over(v);
    const auto weights = at::softmax(at::matmul(queries, keys.transpose(-2, -1)) * scale, -1);
    const auto mask = kept(weights.sizes(), begun, dropout);
    const auto of_weights = at::matmul(from, values.transpose(-2, -1)) * mask;
    auto of_scores = weights * (of_weights - (of_weights * weights).sum(-1, true)) * scale;
    if (late) of_scores = at::nextafter(of_scores, at::ones({}) * std::numeric_limits<float>::infinity());
    storages.over(to[0]).copy_(at::matmul(of_scores, keys));
    storages.over(to[1]).copy_(at::matmul(of_scores.transpose(-2, -1), queries));
    storages.over(to[2]).copy_(at::matmul((weights * mask).transpose(-2, -1), from));
  });
  return {results[0], results[1], results[2], at::Tensor()};
}

TORCH_LIBRARY_IMPL(aten, CUDA, m) {
  m.impl("_scaled_dot_product_efficient_attention", &forward);
  m.impl("_scaled_dot_product_efficient_attention_backward", &backward);
}

} // namespace
} // namespace emulated

// Where torch asks.
namespace at::native {
REGISTER_CUDA_DISPATCH(_fused_sdp_choice_stub, &emulated::choice)
}
