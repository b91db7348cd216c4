// The dialect object and the hand-written part of its attributes. Everything else is generated from dialect/td.

#include "Dialect.h"

#include "mlir/CAPI/Registration.h"
#include "mlir/IR/DialectImplementation.h"
#include "llvm/ADT/TypeSwitch.h"

#include "shim.h"

using namespace mlir;

#include "Dialect.cpp.inc"
#include "Enums.cpp.inc"

#define GET_ATTRDEF_CLASSES
#include "Attributes.cpp.inc"

#define GET_TYPEDEF_CLASSES
#include "Types.cpp.inc"

#define GET_OP_CLASSES
#include "Ops.cpp.inc"

void rk::RkDialect::initialize() {
  addAttributes<
#define GET_ATTRDEF_LIST
#include "Attributes.cpp.inc"
      >();
  addTypes<
#define GET_TYPEDEF_LIST
#include "Types.cpp.inc"
      >();
  addOperations<
#define GET_OP_LIST
#include "Ops.cpp.inc"
      >();
}

LogicalResult rk::CostAttr::verify(function_ref<InFlightDiagnostic()> emitError, int64_t time, int64_t workspace) {
  if (time < 0 || workspace < 0)
    return emitError() << "a cost is not negative: " << time << " ns, workspace " << workspace << " B";
  return success();
}

// `<` `[` strides `]` (`,` `storage` bytes)? `>`
Attribute rk::StridedAttr::parse(AsmParser &parser, Type) {
  SmallVector<int64_t> strides;
  std::optional<int64_t> storage;
  auto stride = [&]() { return parser.parseInteger(strides.emplace_back()); };
  if (parser.parseLess() || parser.parseCommaSeparatedList(AsmParser::Delimiter::Square, stride))
    return {};
  if (succeeded(parser.parseOptionalComma())) {
    int64_t bytes = 0;
    if (parser.parseKeyword("storage") || parser.parseInteger(bytes))
      return {};
    storage = bytes;
  }
  if (parser.parseGreater())
    return {};
  return parser.getChecked<StridedAttr>(parser.getContext(), strides, storage);
}

void rk::StridedAttr::print(AsmPrinter &printer) const {
  printer << "<[";
  llvm::interleaveComma(getStrides(), printer);
  printer << "]";
  if (std::optional<int64_t> storage = getStorage())
    printer << ", storage " << *storage;
  printer << ">";
}

LogicalResult rk::StridedAttr::verify(function_ref<InFlightDiagnostic()> emitError, ArrayRef<int64_t> strides,
                                      std::optional<int64_t> storage) {
  for (int64_t stride : strides)
    if (stride < 0)
      return emitError() << "a stride is not negative: " << stride;
  if (storage && *storage < 0)
    return emitError() << "a storage is not negative: " << *storage << " B";
  return success();
}

LogicalResult rk::HostType::verify(function_ref<InFlightDiagnostic()> emitError, Type held) {
  auto tensor = dyn_cast<RankedTensorType>(held);
  if (!tensor || !tensor.hasStaticShape())
    return emitError() << "host memory holds tensors of static shape, not " << held;
  return success();
}

// Bytes of one element, 0 for a type that no tensor of a step has.
static int64_t elementBytes(Type type) {
  if (auto complex = dyn_cast<ComplexType>(type))
    return 2 * elementBytes(complex.getElementType());
  if (auto integer = dyn_cast<IntegerType>(type))
    return (integer.getWidth() + 7) / 8;
  if (auto real = dyn_cast<FloatType>(type))
    return (real.getWidth() + 7) / 8;
  return 0;
}

LogicalResult rk::StridedAttr::verifyEncoding(ArrayRef<int64_t> shape, Type elementType,
                                              function_ref<InFlightDiagnostic()> emitError) const {
  if (shape.size() != getStrides().size())
    return emitError() << "the tensor has " << shape.size() << " dimensions and " << getStrides().size()
                       << " strides";
  int64_t last = 0;
  for (auto [size, stride] : llvm::zip(shape, getStrides())) {
    int64_t step = 0;
    if (ShapedType::isDynamic(size) || size == 0)
      return success();
    if (llvm::MulOverflow<int64_t>(size - 1, stride, step) || llvm::AddOverflow<int64_t>(last, step, last))
      return emitError() << "shape and strides span more than 2^63 elements";
  }
  int64_t span = 0;
  if (llvm::AddOverflow<int64_t>(last, 1, span) ||
      llvm::MulOverflow<int64_t>(span, elementBytes(elementType), span))
    return emitError() << "shape and strides span more than 2^63 bytes";
  if (getStorage() && *getStorage() < span)
    return emitError() << "shape and strides span " << span << " B, the storage has only " << *getStorage();
  return success();
}

MLIR_DEFINE_CAPI_DIALECT_REGISTRATION(Rk, rk, ::rk::RkDialect)
