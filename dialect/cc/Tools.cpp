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

#include <cerrno>
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

// LLVM finds out that its output cannot be written when it closes it, too late for an error of a pass: exit code 6, as for a file
// that cannot be made. That whoever reads the output has seen enough is no failure.
static void cannotWrite(void *, const char *reason, bool) {
  StringRef text(reason);
  if (!text.consume_front("IO failure on output stream: ")) {
    llvm::errs() << "LLVM ERROR: " << reason << "\n";
    return;
  }
  // They remove the file that was begun.
  llvm::sys::RunInterruptHandlers();
  if (text == std::error_code(EPIPE, std::generic_category()).message())
    std::_Exit(0);
  llvm::errs() << "error: cannot write the output: " << text << "\n";
  std::_Exit(6);
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
  llvm::install_fatal_error_handler(cannotWrite);
  DialectRegistry parsing;
  registerDialects(parsing);
  rk::placeDiagnostics(registry, parsing, input);
  return asMainReturnCode(MlirOptMain(argc, argv, input, output, registry));
}

int rkLspServerMain(int argc, char **argv) {
  DialectRegistry registry;
  registerDialects(registry);
  return asMainReturnCode(MlirLspServerMain(argc, argv, registry));
}
