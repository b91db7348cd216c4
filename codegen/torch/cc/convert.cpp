// Tagged cells to IValues. The schema decides: an integer may become a Scalar, a dtype or a double.
#include "convert.h"

#include <ATen/ScalarOps.h>
#include <ATen/core/List.h>
#include <ATen/core/jit_type.h>
#include <c10/core/Device.h>

namespace rk {
namespace {

class Reader {
 public:
  Reader(const RkCell* cells, size_t n, bool slots, Arguments& out) : cells_(cells), n_(n), slots_(slots), out_(out) {}

  bool empty() const { return at_ == n_; }

  c10::IValue read(const c10::TypePtr& type, int32_t argument, bool optional = false) {
    const RkCell& cell = next();
    switch (type->kind()) {
      case c10::TypeKind::OptionalType:
        if (cell.tag == RK_NONE) return {};
        --at_;
        return read(type->castRaw<c10::OptionalType>()->getElementType(), argument, true);
      case c10::TypeKind::TensorType:
        return tensor(cell, argument, optional);
      case c10::TypeKind::ListType:
        return list(cell, type->castRaw<c10::ListType>()->getElementType(), argument);
      case c10::TypeKind::IntType:
      case c10::TypeKind::SymIntType:
      case c10::TypeKind::ScalarTypeType:
      case c10::TypeKind::LayoutType:
      case c10::TypeKind::MemoryFormatType:
        return integer(cell);
      case c10::TypeKind::FloatType:
      case c10::TypeKind::SymFloatType:
        return floating(cell);
      case c10::TypeKind::BoolType:
      case c10::TypeKind::SymBoolType:
        TORCH_CHECK(cell.tag == RK_BOOL, "expected true or false");
        return cell.payload != 0;
      case c10::TypeKind::NumberType:
        if (cell.tag == RK_FLOAT) return floating(cell);
        if (cell.tag == RK_BOOL) return cell.payload != 0;
        return integer(cell);
      case c10::TypeKind::StringType:
        return text(cell);
      case c10::TypeKind::DeviceObjType:
        return c10::Device(text(cell));
      default:
        TORCH_CHECK(cell.tag == RK_NONE, "an argument of type ", type->str(), " can only be none");
        return {};
    }
  }

 private:
  const RkCell& next() {
    TORCH_CHECK(at_ < n_, "too few arguments");
    return cells_[at_++];
  }

  static std::string text(const RkCell& cell) {
    TORCH_CHECK(cell.tag == RK_STR, "expected a string");
    return {reinterpret_cast<const char*>(cell.payload), cell.len};
  }
  static int64_t integer(const RkCell& cell) {
    TORCH_CHECK(cell.tag == RK_INT || cell.tag == RK_BOOL, "expected an integer");
    return static_cast<int64_t>(cell.payload);
  }
  static double floating(const RkCell& cell) {
    if (cell.tag == RK_INT) return static_cast<double>(static_cast<int64_t>(cell.payload));
    TORCH_CHECK(cell.tag == RK_FLOAT, "expected a number");
    double value = 0;
    std::memcpy(&value, &cell.payload, sizeof value);
    return value;
  }
  int32_t slot(const RkCell& cell) const {
    TORCH_CHECK(slots_, "a slot is allowed in prepared calls only");
    return static_cast<int32_t>(cell.payload);
  }

  // A number in the place of a tensor is a "wrapped number": it does not take part in type promotion.
  static at::Tensor wrapped(const c10::Scalar& number) {
    at::Tensor tensor = c10::scalar_to_tensor(number);
    tensor.unsafeGetTensorImpl()->set_wrapped_number(true);
    return tensor;
  }

  c10::IValue tensor(const RkCell& cell, int32_t argument, bool optional) {
    switch (cell.tag) {
      case RK_NONE: return at::Tensor();
      case RK_TENSOR: return *reinterpret_cast<const at::Tensor*>(cell.payload);
      case RK_SLOT: out_.tensors.push_back({argument, slot(cell), optional}); return at::Tensor();
      case RK_INT: return wrapped(integer(cell));
      case RK_FLOAT: return wrapped(floating(cell));
      case RK_BOOL: return wrapped(cell.payload != 0);
      default: TORCH_CHECK(false, "expected a tensor");
    }
  }

  c10::IValue list(const RkCell& cell, const c10::TypePtr& element, int32_t argument) {
    // One integer may stand for int[1], as in the schema language.
    if (cell.tag == RK_INT && element->kind() == c10::TypeKind::IntType) return c10::List<int64_t>({integer(cell)});
    TORCH_CHECK(cell.tag == RK_LIST, "expected a list");
    const bool optional = element->kind() == c10::TypeKind::OptionalType;
    const auto inner = optional ? element->castRaw<c10::OptionalType>()->getElementType() : element;
    if (inner->kind() == c10::TypeKind::TensorType) return tensors(cell.len, optional, argument);
    c10::impl::GenericList out(element);
    for (uint32_t i = 0; i < cell.len; ++i) out.push_back(read(element, argument));
    // Typed lists (int[], bool[], float[]) and generic ones share one representation.
    return out;
  }

  c10::IValue tensors(uint32_t count, bool optional, int32_t argument) {
    std::vector<at::Tensor> items;
    ListUse use{argument, optional, {}};
    for (uint32_t i = 0; i < count; ++i) {
      const RkCell& cell = next();
      if (cell.tag == RK_SLOT || cell.tag == RK_NONE) {
        use.items.push_back({static_cast<int32_t>(i), cell.tag == RK_SLOT ? slot(cell) : -1, optional});
        items.emplace_back();
      } else {
        items.push_back(tensor(cell, argument, optional).toTensor());
      }
    }
    if (!slots_ || use.items.empty()) {
      if (!optional) return c10::List<at::Tensor>(items);
      c10::List<std::optional<at::Tensor>> out;
      for (auto& item : items) out.push_back(item.defined() ? std::make_optional(item) : std::nullopt);
      return out;
    }
    TORCH_CHECK(use.items.size() == items.size(), "a list of tensors must be all slots");
    out_.lists.push_back(std::move(use));
    return {};
  }

  const RkCell* cells_;
  size_t n_;
  size_t at_ = 0;
  bool slots_;
  Arguments& out_;
};

} // namespace

Arguments convert_arguments(const c10::FunctionSchema& schema, const RkCell* cells, size_t n, bool slots) {
  Arguments out;
  Reader reader(cells, n, slots, out);
  const auto& arguments = schema.arguments();
  out.stack.reserve(arguments.size());
  for (size_t i = 0; i < arguments.size(); ++i) {
    const auto& argument = arguments[i];
    if (reader.empty()) {
      TORCH_CHECK(argument.default_value().has_value(), schema.operator_name(), ": argument '", argument.name(), "' is missing");
      out.stack.push_back(*argument.default_value());
      continue;
    }
    try {
      out.stack.push_back(reader.read(argument.type(), static_cast<int32_t>(i)));
    } catch (const std::exception& e) {
      TORCH_CHECK(false, schema.operator_name(), ": argument '", argument.name(), "': ", told(e));
    }
  }
  TORCH_CHECK(reader.empty(), schema.operator_name(), ": more than ", arguments.size(), " arguments");
  return out;
}

} // namespace rk
