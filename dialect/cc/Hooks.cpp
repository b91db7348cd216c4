// Verifier hooks of MLIR, handed to Rust (dialect/src/verify.rs and verify_ops.rs).

#include "Dialect.h"
#include "shim.h"

#include "mlir/CAPI/IR.h"
#include "mlir/CAPI/Support.h"

using namespace mlir;

LogicalResult rk::AtenOp::verify() { return success(rkCallVerifyOp(wrap(getOperation()))); }
LogicalResult rk::BufferOp::verify() { return success(rkCallVerifyOp(wrap(getOperation()))); }
LogicalResult rk::LaunchOp::verify() { return success(rkCallVerifyOp(wrap(getOperation()))); }
// After the ops of the body.
LogicalResult rk::WriteOp::verifyRegions() { return success(rkCallVerifyOp(wrap(getOperation()))); }
LogicalResult rk::NodeOp::verifyRegions() { return success(rkCallVerifyOp(wrap(getOperation()))); }

// Called once for the whole module, with cached symbol tables.
LogicalResult rk::RunOp::verifySymbolUses(SymbolTableCollection &tables) {
  auto node = tables.lookupNearestSymbolFrom<NodeOp>(*this, getNodeAttr());
  return success(rkCallVerifyCallee(wrap(getOperation()), wrap(node ? node.getOperation() : nullptr)));
}

LogicalResult rk::LaunchOp::verifySymbolUses(SymbolTableCollection &tables) {
  auto node = tables.lookupNearestSymbolFrom<NodeOp>(*this, getKernelAttr());
  return success(rkCallVerifyCallee(wrap(getOperation()), wrap(node ? node.getOperation() : nullptr)));
}

static LogicalResult verifyAttribute(Operation *op, uint32_t where, unsigned index, NamedAttribute attribute) {
  StringRef name = attribute.getName().getValue();
  return success(rkCallVerifyAttribute(wrap(op), where, index, wrap(name), wrap(attribute.getValue())));
}

LogicalResult rk::RkDialect::verifyOperationAttribute(Operation *op, NamedAttribute attribute) {
  return verifyAttribute(op, 0, 0, attribute);
}

LogicalResult rk::RkDialect::verifyRegionArgAttribute(Operation *op, unsigned, unsigned index,
                                                      NamedAttribute attribute) {
  return verifyAttribute(op, 1, index, attribute);
}

LogicalResult rk::RkDialect::verifyRegionResultAttribute(Operation *op, unsigned, unsigned index,
                                                         NamedAttribute attribute) {
  return verifyAttribute(op, 2, index, attribute);
}
