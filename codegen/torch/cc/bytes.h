// A byte buffer that Rust decodes: little-endian numbers, strings and lists with their length in front.
#pragma once
#include "common.h"

#include <cstdlib>
#include <vector>

namespace rk {

class Bytes {
 public:
  template <class T>
  void number(T value) {
    const auto* raw = reinterpret_cast<const uint8_t*>(&value);
    data_.insert(data_.end(), raw, raw + sizeof value);
  }
  void u8(uint8_t v) { number(v); }
  void u32(size_t v) { number(static_cast<uint32_t>(v)); }
  void i32(int32_t v) { number(v); }
  void u64(uint64_t v) { number(v); }
  void i64(int64_t v) { number(v); }
  void text(const std::string& v) {
    u32(v.size());
    data_.insert(data_.end(), v.begin(), v.end());
  }
  void raw(const void* bytes, size_t n) {
    u64(n);
    const auto* from = static_cast<const uint8_t*>(bytes);
    data_.insert(data_.end(), from, from + n);
  }
  template <class List>
  void longs(const List& values) {
    u32(values.size());
    for (int64_t v : values) i64(v);
  }
  // A copy on the C heap, freed by rk_bytes_free.
  void give(uint8_t** out, size_t* n) const {
    *out = static_cast<uint8_t*>(std::malloc(data_.size() + 1));
    TORCH_CHECK(*out != nullptr, "out of memory");
    std::memcpy(*out, data_.data(), data_.size());
    *n = data_.size();
  }

 private:
  std::vector<uint8_t> data_;
};

} // namespace rk
