// The main functions of rk-opt and rk-lsp-server. A file of its own, because the headers that register everything are
// the slowest to compile, and because a plugin must not contain it.

#include "Dialect.h"
#include "shim.h"

#include "mlir/CAPI/Support.h"
#ifdef RK_STANDALONE
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/ControlFlow/IR/ControlFlow.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/Transforms/Passes.h"
#else
#include "mlir/InitAllDialects.h"
#include "mlir/InitAllExtensions.h"
#include "mlir/InitAllPasses.h"
#include "mlir/Target/LLVMIR/Dialect/All.h"
#endif
#include "mlir/Tools/mlir-lsp-server/MlirLspServerMain.h"
#include "mlir/Tools/mlir-opt/MlirOptMain.h"
#include "llvm/Support/CommandLine.h"
#include "llvm/Support/ErrorHandling.h"
#include "llvm/Support/Signals.h"

#include <cstdlib>
#include <system_error>

using namespace mlir;

#ifdef RK_STANDALONE
// All of MLIR, with all targets of LLVM, would be 170 MB here. A program of one file has what stands beside a step.
static void registerDialects(DialectRegistry &registry) {
  registry.insert<arith::ArithDialect, cf::ControlFlowDialect, func::FuncDialect, rk::RkDialect, scf::SCFDialect,
                  tensor::TensorDialect>();
}
static void registerPasses() { registerTransformsPasses(); }
#else
static void registerDialects(DialectRegistry &registry) {
  registerAllDialects(registry);
  registerAllExtensions(registry);
  // Without these, gpu-module-to-binary finds no translation for gpu.module.
  registerAllGPUToLLVMIRTranslations(registry);
  registry.insert<rk::RkDialect>();
}
static void registerPasses() { registerAllPasses(); }
#endif

// Exit code of rk-opt: the output cannot be written.
static constexpr int kCannotWrite = 6;

static void tellUnwritten(StringRef why) { llvm::errs() << "error: cannot write the output: " << why << "\n"; }

// LLVM finds out that a file cannot be written when it closes it, too late for an error of a pass.
static void fileFailed(void *, const char *reason, bool) {
  StringRef text(reason);
  if (!text.consume_front("IO failure on output stream: ")) {
    llvm::errs() << "LLVM ERROR: " << reason << "\n";
    return;
  }
  // They remove the file that was begun.
  llvm::sys::RunInterruptHandlers();
  tellUnwritten(text);
  std::_Exit(kCannotWrite);
}

// Standard output is written out here, and not when the process ends. That whoever reads it has seen enough is no failure.
static bool standardOutputFailed() {
  llvm::outs().flush();
  const std::error_code error = llvm::outs().error();
  llvm::outs().clear_error();
  if (!error || error == std::errc::broken_pipe)
    return false;
  tellUnwritten(error.message());
  return true;
}

int rkOptMain(int argc, char **argv, const char *version) {
  DialectRegistry registry;
  registerDialects(registry);
  registerPasses();
  // Only here, so that the plugin adds no flag to mlir-opt.
  static llvm::cl::opt<std::string> budget(
      "budget", llvm::cl::value_desc("bytes, 2GiB, 60%"),
      llvm::cl::desc("What the option 'budget' of every rk pass holds unless it is given"));
  llvm::cl::AddExtraVersionPrinter([version](raw_ostream &stream) { stream << version << "\n"; });
  auto [input, output] = registerAndParseCLIOptions(argc, argv, "rk-opt: MLIR's optimizer driver with the passes of rk\n",
                                                    registry);
  if (budget.getNumOccurrences() > 0)
    rkSetOptionDefault(wrap(StringRef("budget")), wrap(StringRef(budget.getValue())));
  llvm::install_fatal_error_handler(fileFailed);
  DialectRegistry parsing;
  registerDialects(parsing);
  rk::placeDiagnostics(registry, parsing, input);
  const LogicalResult ran = MlirOptMain(argc, argv, input, output, registry);
  return standardOutputFailed() && succeeded(ran) ? kCannotWrite : asMainReturnCode(ran);
}

int rkLspServerMain(int argc, char **argv) {
  DialectRegistry registry;
  registerDialects(registry);
  return asMainReturnCode(MlirLspServerMain(argc, argv, registry));
}
