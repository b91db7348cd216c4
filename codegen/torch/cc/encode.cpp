// A recording as bytes; src/recording.rs is the other side.
#include "record.h"

#include <algorithm>

namespace rk {
namespace {

void encode_arg(const Arg& arg, Bytes& out) {
  out.u8(arg.kind);
  switch (arg.kind) {
    case Arg::kNone: break;
    case Arg::kValue: out.u32(arg.value); break;
    case Arg::kInt: case Arg::kBool: out.i64(arg.integer); break;
    case Arg::kFloat: out.number(arg.real); break;
    case Arg::kString: out.text(arg.string); break;
    case Arg::kList:
      out.u32(arg.items.size());
      for (const auto& item : arg.items) encode_arg(item, out);
      break;
  }
}

void encode_value(const Meta& meta, Bytes& out) {
  out.u8(meta.defined);
  if (!meta.defined) return;
  out.i32(static_cast<int32_t>(meta.dtype));
  out.longs(meta.sizes);
  out.longs(meta.strides);
  out.u64(meta.storage_bytes);
}

template <class T>
void encode_list(const std::vector<T>& items, Bytes& out) {
  out.u32(items.size());
  for (const T item : items) out.number(item);
}

// Median of the timed runs; all ones when the operator was not timed.
uint64_t median(std::vector<uint64_t> times) {
  if (times.empty()) return ~uint64_t{0};
  std::sort(times.begin(), times.end());
  const size_t mid = times.size() / 2;
  return times.size() % 2 == 1 ? times[mid] : (times[mid - 1] + times[mid]) / 2;
}

} // namespace

void Recorder::encode(Bytes& out) const {
  out.u32(values_.size());
  for (const auto& meta : values_) encode_value(meta, out);
  out.u32(arguments_.size());
  for (const auto& argument : arguments_) {
    out.u32(argument.value);
    out.u8(argument.role);
    out.u8(argument.trainable);
    out.text(argument.name);
    out.u32(argument.aliases.size());
    for (const auto& alias : argument.aliases) out.text(alias);
  }
  out.u32(constants_.size());
  for (const auto& constant : constants_) {
    out.u32(constant.value);
    out.raw(constant.bytes.data(), constant.bytes.size());
  }
  out.u32(ops_.size());
  uint32_t timed = 0;
  for (const auto& op : ops_) {
    out.text(op.name);
    out.text(op.path);
    out.u32(op.args.size());
    for (const auto& arg : op.args) encode_arg(arg, out);
    encode_list(op.operands, out);
    encode_list(op.results, out);
    encode_list(op.writes, out);
    encode_list(op.aliases, out);
    out.u8(op.random);
    out.u8(op.backward);
    out.u64(op.workspace);
    out.u64(median(ops_[op.measured].times));
    timed += op.times.empty() ? 0 : 1;
  }
  out.u32(results_.size());
  for (const auto& result : results_) {
    out.u32(result.value);
    out.u8(result.role);
    out.text(result.name);
  }
  out.u32(timed);
  out.u64(static_cast<uint64_t>(measuring_.count()));
}

} // namespace rk
