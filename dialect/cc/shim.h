// Every symbol that crosses the border between the C++ of the dialect and Rust, one comment each.
//
// Naming rule: `rkX` is C++ called by Rust; `rkCallX` is Rust called by C++. Types are those of MLIR's C API. No exception
// crosses (the shim is compiled without them), and no panic does (every rkCall function catches).

#ifndef RK_SHIM_H
#define RK_SHIM_H

#include "mlir-c/IR.h"
#include "mlir-c/Support.h"

#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

//===- Attributes and types (Access.cpp) --------------------------------------------------------------------------===//

/// The dialect, for registries and contexts.
MlirDialectHandle mlirGetDialectHandle__rk__(void);

/// `#rk.stage<...>` by its number in Attributes.td. The number must be one of those.
MlirAttribute rkStageGet(MlirContext context, uint32_t stage);
/// The number of a stage attribute, or -1 for any other attribute.
int32_t rkStageRead(MlirAttribute attribute);

/// `#rk.cost<time ns, workspace B>`.
MlirAttribute rkCostGet(MlirContext context, int64_t time, int64_t workspace);
/// Reads a cost; false for any other attribute.
bool rkCostRead(MlirAttribute attribute, int64_t *time, int64_t *workspace);

/// `#rk.strided<[...], storage N>`; a negative `storage` leaves it out.
MlirAttribute rkStridedGet(MlirContext context, intptr_t count, const int64_t *strides, int64_t storage);
/// The number of strides, or -1 for any other attribute. `strides` lives as long as the context; `storage` is -1 when absent.
intptr_t rkStridedRead(MlirAttribute attribute, const int64_t **strides, int64_t *storage);

/// `#rk.none`.
MlirAttribute rkNoneGet(MlirContext context);
/// Whether the attribute is `#rk.none`.
bool rkNoneIs(MlirAttribute attribute);

/// `!rk.generator`.
MlirType rkGeneratorGet(MlirContext context);
/// Whether the type is `!rk.generator`.
bool rkGeneratorIs(MlirType type);

/// `!rk.host<...>` of a tensor of static shape.
MlirType rkHostGet(MlirType held);
/// Whether the type is `!rk.host<...>`.
bool rkHostIs(MlirType type);

/// The op with this symbol name nearest to `from`, looked up through enclosing symbol tables; null when there is none.
MlirOperation rkLookupSymbol(MlirOperation from, MlirStringRef name);
/// Whether MLIR would erase the op: unused, and without an effect that matters.
bool rkIsTriviallyDead(MlirOperation op);
// Takes the op out of its block, and lets it and everything below it use nothing any more; it stays alive.
void rkUnlink(MlirOperation op);

/// Parses and verifies text or bytecode as a module, which is made around the ops when the source has none. `name` is the
/// file name in messages. Null after errors were reported.
MlirModule rkParseModule(MlirContext context, MlirStringRef source, MlirStringRef name);

//===- Diagnostics (Access.cpp) -----------------------------------------------------------------------------------===//

/// Emits a diagnostic with notes. Severity: 0 error, 1 warning, 2 remark.
void rkEmit(MlirLocation location, uint32_t severity, MlirStringRef message, intptr_t count,
            const MlirLocation *noteLocations, const MlirStringRef *noteMessages);
/// Emits an optimization remark (MLIR's --remarks-filter, --remark-format) with key/value pairs.
/// Kind: 0 passed, 1 missed, 2 failed, 3 analysis.
void rkRemark(MlirLocation location, uint32_t kind, MlirStringRef category, MlirStringRef name, MlirStringRef message,
              intptr_t count, const MlirStringRef *keys, const MlirStringRef *values);

//===- Passes (Pass.cpp) ------------------------------------------------------------------------------------------===//

/// One option of a pass. The strings live for ever.
typedef struct RkOptionSpec {
  MlirStringRef name;
  MlirStringRef initial;
  MlirStringRef help;
} RkOptionSpec;

/// A running pass, valid only during the callback that receives it.
typedef struct RkPass {
  void *pointer;
} RkPass;

/// A pass anchored on builtin.module whose body is Rust. Everything that it points to lives for ever.
typedef struct RkPassSpec {
  MlirStringRef name;
  MlirStringRef argument;
  MlirStringRef description;
  intptr_t optionCount;
  const RkOptionSpec *options;
  /// An address of its own, 8-aligned: the TypeID of the pass.
  const void *identity;
  /// Runs the pass; false means that it failed and has said so.
  bool (*run)(RkPass pass, MlirOperation module, const void *data);
  const void *data;
} RkPassSpec;

/// Registers the pass with its command-line argument, help and options. Once per argument and process.
void rkRegisterPass(const RkPassSpec *spec);
/// The value of the i-th option of the pass.
MlirStringRef rkPassOption(RkPass pass, intptr_t index);
/// Runs a textual pipeline such as `builtin.module(rk-dataflow,rk-simplify)` on the op, which is the pass's own or below it.
bool rkPassRunPipeline(RkPass pass, MlirOperation op, MlirStringRef pipeline);
/// What the option `option` of every rk pass created from now on holds unless it is given.
void rkSetOptionDefault(MlirStringRef option, MlirStringRef value);

//===- Generated kernels (Kernels.cpp) ----------------------------------------------------------------------------===//

/// Puts into a registry the dialects that kernels are generated with, and their translations; registers the passes.
void rkRegisterForKernels(MlirDialectRegistry registry);

//===- Tools (Tools.cpp) ------------------------------------------------------------------------------------------===//

/// rk-opt: MlirOptMain with every upstream dialect, extension, pass and GPU translation; linked to archives of LLVM, with a few
/// dialects and the general passes. Returns the exit code.
/// `version` is a line for --version. The passes of rk must be registered before.
int rkOptMain(int argc, char **argv, const char *version);
/// rk-lsp-server: MlirLspServerMain with the same dialects. Returns the exit code.
int rkLspServerMain(int argc, char **argv);

//===- Rust, called by C++ (dialect/src/raw/callbacks.rs) ---------------------------------------------------------===//

/// Verifies one op of the dialect by what the op itself shows. False after an error was emitted.
bool rkCallVerifyOp(MlirOperation op);
/// Verifies a run against the node that it names; `node` is null when there is none.
bool rkCallVerifyCallee(MlirOperation run, MlirOperation node);
/// Verifies a discardable attribute of the dialect. Where: 0 on an op, 1 on an argument, 2 on a result (then `index`).
/// For `rk.stage` = scheduled on a function this checks the laws S1 to S6 and S9 to S11.
bool rkCallVerifyAttribute(MlirOperation op, uint32_t where, intptr_t index, MlirStringRef name,
                           MlirAttribute attribute);

#ifdef __cplusplus
}
#endif

#endif // RK_SHIM_H
