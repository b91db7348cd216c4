// Archives of torch.jit.trace, and files of torch.save.
#include "archive.h"
#include "bytes.h"

#include <caffe2/serialize/inline_container.h>
#include <torch/csrc/jit/serialization/import.h>
#include <torch/csrc/jit/serialization/import_read.h>
#include <torch/csrc/jit/serialization/pickle.h>

#include <fstream>
#include <unordered_map>
#include <unordered_set>

namespace rk {

void flatten(const c10::IValue& value, const std::string& path, std::vector<Leaf>& out) {
  const std::string prefix = path.empty() ? "" : path + ".";
  if (value.isTensor()) {
    if (value.toTensor().defined()) out.push_back({path.empty() ? "0" : path, value.toTensor()});
  } else if (value.isTuple()) {
    const auto& items = value.toTupleRef().elements();
    for (size_t i = 0; i < items.size(); ++i) flatten(items[i], prefix + std::to_string(i), out);
  } else if (value.isList()) {
    const auto items = value.toListRef();
    for (size_t i = 0; i < items.size(); ++i) flatten(items[i], prefix + std::to_string(i), out);
  } else if (value.isGenericDict()) {
    for (const auto& item : value.toGenericDict()) {
      const std::string key = item.key().isString() ? item.key().toStringRef() : c10::str(item.key());
      flatten(item.value(), prefix + key, out);
    }
  }
}

namespace {

std::string first_line(const std::string& text) {
  const auto end = text.find('\n');
  return end == std::string::npos ? text : text.substr(0, end);
}

// Slots in pre-order; a module that hangs in two places is visited twice, and its tensors get aliases.
struct Slot {
  std::string name;
  c10::intrusive_ptr<c10::ivalue::Object> object;
  size_t index;
  bool parameter;
};

void collect(const c10::intrusive_ptr<c10::ivalue::Object>& object, const std::string& path, std::vector<Slot>& out) {
  const auto type = object->type();
  std::vector<std::pair<std::string, c10::IValue>> children;
  for (size_t i = 0; i < type->numAttributes(); ++i) {
    const auto value = object->getSlot(i);
    const auto name = path.empty() ? type->getAttributeName(i) : path + "." + type->getAttributeName(i);
    if (value.isTensor() && value.toTensor().defined()) {
      out.push_back({name, object, i, type->is_parameter(i)});
    } else if (value.isObject() && type->getAttribute(i)->is_module()) {
      children.emplace_back(name, value);
    }
  }
  for (const auto& [name, child] : children) collect(child.toObject(), name, out);
}

bool same_tensor(const at::Tensor& a, const at::Tensor& b) {
  return a.scalar_type() == b.scalar_type() && a.sizes() == b.sizes() && a.strides() == b.strides() &&
      a.storage_offset() == b.storage_offset();
}

// One attribute per storage. Slots with the same tensor get one handle, so that gradients of tied weights
// accumulate as in eager; slots with a view of it become aliases and keep their own handle.
std::vector<Attribute> attributes_of(const torch::jit::Module& module) {
  std::vector<Slot> slots;
  collect(module._ivalue(), "", slots);
  std::unordered_map<const void*, size_t> widest; // storage -> slot with the most elements
  for (size_t i = 0; i < slots.size(); ++i) {
    const auto tensor = slots[i].object->getSlot(slots[i].index).toTensor();
    const auto [it, fresh] = widest.emplace(tensor.storage().unsafeGetStorageImpl(), i);
    const auto& best = slots[it->second];
    if (!fresh && tensor.numel() > best.object->getSlot(best.index).toTensor().numel()) it->second = i;
  }
  std::vector<Attribute> out;
  std::unordered_map<size_t, size_t> place; // base slot -> attribute
  for (size_t i = 0; i < slots.size(); ++i) {
    const auto tensor = slots[i].object->getSlot(slots[i].index).toTensor();
    if (widest[tensor.storage().unsafeGetStorageImpl()] != i) continue;
    place[i] = out.size();
    out.push_back({slots[i].name, tensor, slots[i].parameter, {}});
  }
  for (size_t i = 0; i < slots.size(); ++i) {
    const auto tensor = slots[i].object->getSlot(slots[i].index).toTensor();
    const size_t base = widest[tensor.storage().unsafeGetStorageImpl()];
    if (base == i) continue;
    auto& attribute = out[place[base]];
    attribute.aliases.push_back(slots[i].name);
    if (same_tensor(tensor, attribute.tensor)) slots[i].object->setSlot(slots[i].index, attribute.tensor);
  }
  return out;
}

std::vector<c10::IValue> traced_inputs(const std::string& path) {
  caffe2::serialize::PyTorchStreamReader reader(path);
  if (!reader.hasRecord("traced_inputs.pkl")) return {};
  // On the CPU: only types and shapes are wanted, and the archive has no data of theirs that could be copied to a GPU.
  const auto all = torch::jit::readArchiveAndTensors(
      "traced_inputs", "", "traced_inputs/", std::nullopt, std::nullopt, c10::Device(c10::DeviceType::CPU), reader);
  if (!all.isGenericDict()) return {};
  const auto dict = all.toGenericDict();
  const auto found = dict.find("forward");
  if (found == dict.end() || !found->value().isList()) return {};
  const auto items = found->value().toListRef();
  return items.vec();
}

void describe_leaf(const Leaf& leaf, Bytes& out) {
  out.text(leaf.name);
  out.i32(static_cast<int32_t>(leaf.tensor.scalar_type()));
  out.longs(leaf.tensor.sizes());
}

} // namespace
} // namespace rk

extern "C" {

const char* rk_archive_load(const char* path, int32_t type, int32_t index, RkArchive** out) {
  return rk::guarded([&] {
    const c10::Device device = type == 0 ? c10::Device(c10::DeviceType::CPU)
                                         : c10::Device(c10::DeviceType::CUDA, static_cast<c10::DeviceIndex>(index));
    try {
      torch::jit::Module module = torch::jit::load(std::string(path), device);
      TORCH_CHECK(module.find_method("forward").has_value(), "it has no method 'forward'");
      auto attributes = rk::attributes_of(module);
      *out = new RkArchive{std::move(module), device, std::move(attributes), rk::traced_inputs(path)};
    } catch (const std::exception& e) {
      throw rk::KindError(RK_ARCHIVE, rk::first_line(rk::told(e)));
    }
  });
}

void rk_archive_free(RkArchive* archive) { delete archive; }

const char* rk_archive_describe(const RkArchive* archive, uint8_t** out, size_t* n) {
  return rk::guarded([&] {
    rk::Bytes bytes;
    const auto schema = archive->module.get_method("forward").function().getSchema();
    bytes.u32(schema.arguments().size() - 1); // without self
    for (size_t i = 1; i < schema.arguments().size(); ++i) {
      bytes.text(schema.arguments()[i].name());
      bytes.text(schema.arguments()[i].type()->annotation_str());
    }
    std::vector<rk::Leaf> leaves;
    for (size_t i = 0; i < archive->traced.size(); ++i) rk::flatten(archive->traced[i], std::to_string(i), leaves);
    bytes.u32(leaves.size());
    for (const auto& leaf : leaves) rk::describe_leaf(leaf, bytes);
    bytes.u32(archive->attributes.size());
    for (const auto& attribute : archive->attributes) {
      rk::describe_leaf({attribute.name, attribute.tensor}, bytes);
      bytes.u8(attribute.parameter);
      bytes.u8(attribute.tensor.requires_grad());
      bytes.u32(attribute.aliases.size());
      for (const auto& alias : attribute.aliases) bytes.text(alias);
    }
    bytes.give(out, n);
  });
}

const char* rk_archive_tensor(const RkArchive* archive, size_t i, at::Tensor** out) {
  return rk::guarded([&] { *out = new at::Tensor(archive->attributes.at(i).tensor); });
}

const char* rk_pickle_load(const char* path, const char*** names, at::Tensor*** tensors, size_t* n) {
  return rk::guarded([&] {
    std::ifstream file(path, std::ios::binary);
    if (!file) throw rk::KindError(RK_INPUTS, "cannot read the file");
    const std::vector<char> data((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
    std::vector<rk::Leaf> leaves;
    try {
      rk::flatten(torch::jit::pickle_load(data), "", leaves);
    } catch (const std::exception& e) {
      throw rk::KindError(RK_INPUTS, "not a file of torch.save with tensors, tuples, lists and dicts: " + rk::first_line(rk::told(e)));
    }
    *n = leaves.size();
    *names = static_cast<const char**>(std::calloc(leaves.size() + 1, sizeof(char*)));
    *tensors = static_cast<at::Tensor**>(std::calloc(leaves.size() + 1, sizeof(at::Tensor*)));
    TORCH_CHECK(*names != nullptr && *tensors != nullptr, "out of memory");
    for (size_t i = 0; i < leaves.size(); ++i) {
      (*names)[i] = rk::heap_string(leaves[i].name);
      (*tensors)[i] = new at::Tensor(leaves[i].tensor);
    }
  });
}

} // extern "C"
