// What MLIR's C API lacks for this dialect: its attributes and types, symbol look-up from an op, diagnostics with notes.

#include "Dialect.h"
#include "shim.h"

#include "mlir/CAPI/IR.h"
#include "mlir/CAPI/Support.h"
#include "mlir/IR/Remarks.h"
#include "mlir/Parser/Parser.h"

using namespace mlir;

MlirAttribute rkStageGet(MlirContext context, uint32_t stage) {
  return wrap(static_cast<Attribute>(rk::StageAttr::get(unwrap(context), static_cast<rk::Stage>(stage))));
}

int32_t rkStageRead(MlirAttribute attribute) {
  auto stage = dyn_cast_if_present<rk::StageAttr>(unwrap(attribute));
  return stage ? static_cast<int32_t>(stage.getValue()) : -1;
}

MlirAttribute rkCostGet(MlirContext context, int64_t time, int64_t workspace) {
  return wrap(static_cast<Attribute>(rk::CostAttr::get(unwrap(context), time, workspace)));
}

bool rkCostRead(MlirAttribute attribute, int64_t *time, int64_t *workspace) {
  auto cost = dyn_cast_if_present<rk::CostAttr>(unwrap(attribute));
  if (!cost)
    return false;
  *time = cost.getTime();
  *workspace = cost.getWorkspace();
  return true;
}

MlirAttribute rkStridedGet(MlirContext context, intptr_t count, const int64_t *strides, int64_t storage) {
  std::optional<int64_t> bytes;
  if (storage >= 0)
    bytes = storage;
  return wrap(static_cast<Attribute>(
      rk::StridedAttr::get(unwrap(context), ArrayRef<int64_t>(strides, count), bytes)));
}

intptr_t rkStridedRead(MlirAttribute attribute, const int64_t **strides, int64_t *storage) {
  auto strided = dyn_cast_if_present<rk::StridedAttr>(unwrap(attribute));
  if (!strided)
    return -1;
  *strides = strided.getStrides().data();
  *storage = strided.getStorage().value_or(-1);
  return strided.getStrides().size();
}

MlirAttribute rkNoneGet(MlirContext context) {
  return wrap(static_cast<Attribute>(rk::NoneAttr::get(unwrap(context))));
}

bool rkNoneIs(MlirAttribute attribute) { return isa_and_present<rk::NoneAttr>(unwrap(attribute)); }

MlirType rkGeneratorGet(MlirContext context) {
  return wrap(static_cast<Type>(rk::GeneratorType::get(unwrap(context))));
}

bool rkGeneratorIs(MlirType type) { return isa_and_present<rk::GeneratorType>(unwrap(type)); }

MlirType rkHostGet(MlirType held) {
  Type type = unwrap(held);
  return wrap(static_cast<Type>(rk::HostType::get(type.getContext(), type)));
}

bool rkHostIs(MlirType type) { return isa_and_present<rk::HostType>(unwrap(type)); }

MlirOperation rkLookupSymbol(MlirOperation from, MlirStringRef name) {
  auto symbol = StringAttr::get(unwrap(from)->getContext(), unwrap(name));
  return wrap(SymbolTable::lookupNearestSymbolFrom(unwrap(from), symbol));
}

bool rkIsTriviallyDead(MlirOperation op) { return isOpTriviallyDead(unwrap(op)); }

void rkUnlink(MlirOperation op) {
  unwrap(op)->remove();
  unwrap(op)->dropAllReferences();
}

MlirModule rkParseModule(MlirContext context, MlirStringRef source, MlirStringRef name) {
  return wrap(parseSourceString<ModuleOp>(unwrap(source), unwrap(context), unwrap(name)).release());
}

void rkEmit(MlirLocation location, uint32_t severity, MlirStringRef message, intptr_t count,
            const MlirLocation *noteLocations, const MlirStringRef *noteMessages) {
  Location at = unwrap(location);
  InFlightDiagnostic diagnostic = severity == 0   ? emitError(at)
                                  : severity == 1 ? emitWarning(at)
                                                  : emitRemark(at);
  diagnostic << unwrap(message);
  for (intptr_t i = 0; i < count; ++i)
    diagnostic.attachNote(unwrap(noteLocations[i])) << unwrap(noteMessages[i]);
}

void rkRemark(MlirLocation location, uint32_t kind, MlirStringRef category, MlirStringRef name, MlirStringRef message,
              intptr_t count, const MlirStringRef *keys, const MlirStringRef *values) {
  auto options = remark::RemarkOpts::name(unwrap(name)).category(unwrap(category));
  Location at = unwrap(location);
  remark::detail::InFlightRemark remark = kind == 0   ? remark::passed(at, options)
                                          : kind == 1 ? remark::missed(at, options)
                                          : kind == 2 ? remark::failed(at, options)
                                                      : remark::analysis(at, options);
  std::string text = unwrap(message).str();
  remark << remark::add("{0}", text);
  for (intptr_t i = 0; i < count; ++i)
    remark << remark::metric(unwrap(keys[i]), unwrap(values[i]).str());
}
