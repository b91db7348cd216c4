// The generated C++ of the dialect rk (from dialect/td), and the two resources that its effects name.

#ifndef RK_DIALECT_H
#define RK_DIALECT_H

#include "mlir/Bytecode/BytecodeOpInterface.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Dialect.h"
#include "mlir/IR/OpDefinition.h"
#include "mlir/IR/OpImplementation.h"
#include "mlir/IR/SymbolTable.h"
#include "mlir/IR/TensorEncoding.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

#include <optional>

#include "Dialect.h.inc"
#include "Enums.h.inc"

#define GET_ATTRDEF_CLASSES
#include "Attributes.h.inc"

#define GET_TYPEDEF_CLASSES
#include "Types.h.inc"

#define GET_OP_CLASSES
#include "Ops.h.inc"

namespace rk {

/// The device's default random generator: random calls keep their order.
struct RandomState : mlir::SideEffects::Resource::Base<RandomState> {
  llvm::StringRef getName() final { return "rk.random"; }
};

/// The order of runs itself: what makes a schedule exact.
struct Schedule : mlir::SideEffects::Resource::Base<Schedule> {
  llvm::StringRef getName() final { return "rk.schedule"; }
};

/// Diagnostics at recorded ops name a line of `file` (Lines.cpp). The other registry is to parse it with; it must outlive the contexts.
void placeDiagnostics(mlir::DialectRegistry &registry, const mlir::DialectRegistry &parsing, llvm::StringRef file);

} // namespace rk

#endif // RK_DIALECT_H
