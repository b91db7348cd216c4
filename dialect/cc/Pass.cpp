// The bridge for passes: one mlir::Pass class whose body is a Rust function. Real options, help, cloning and pipelines come
// from mlir::Pass itself.

#include "Dialect.h"
#include "shim.h"

#include "mlir/CAPI/IR.h"
#include "mlir/CAPI/Support.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Pass/Pass.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Pass/PassRegistry.h"

#include <map>
#include <mutex>

using namespace mlir;

namespace {

// Defaults that a tool has set for this process (rk-opt --budget). Passes are made on one thread and cloned on several.
struct OptionDefaults {
  std::mutex mutex;
  std::map<std::string, std::string> values;

  std::string get(StringRef option, StringRef otherwise) {
    std::lock_guard<std::mutex> guard(mutex);
    auto found = values.find(option.str());
    return found == values.end() ? otherwise.str() : found->second;
  }
};

OptionDefaults &optionDefaults() {
  static OptionDefaults defaults;
  return defaults;
}

class RustPass : public Pass {
public:
  explicit RustPass(const RkPassSpec *spec)
      : Pass(TypeID::getFromOpaquePointer(spec->identity), ModuleOp::getOperationName()), spec(spec) {
    for (intptr_t i = 0; i < spec->optionCount; ++i) {
      const RkOptionSpec &option = spec->options[i];
      std::string initial = optionDefaults().get(unwrap(option.name), unwrap(option.initial));
      options.push_back(std::make_unique<Option<std::string>>(
          *this, unwrap(option.name), llvm::cl::desc(unwrap(option.help)), llvm::cl::init(initial),
          isSwitch(option) ? llvm::cl::ValueOptional : llvm::cl::ValueRequired));
    }
  }

  StringRef getName() const override { return unwrap(spec->name); }
  StringRef getArgument() const override { return unwrap(spec->argument); }
  StringRef getDescription() const override { return unwrap(spec->description); }

  void getDependentDialects(DialectRegistry &registry) const override {
    registry.insert<rk::RkDialect, func::FuncDialect>();
  }

  MlirStringRef option(intptr_t index) const {
    if (index < 0 || index >= static_cast<intptr_t>(options.size()))
      return wrap(StringRef());
    StringRef value = options[index]->getValue();
    return wrap(value.empty() && isSwitch(spec->options[index]) ? StringRef("true") : value);
  }

  bool runTextualPipeline(Operation *op, StringRef pipeline) {
    std::string message;
    llvm::raw_string_ostream stream(message);
    FailureOr<OpPassManager> manager = parsePassPipeline(pipeline, stream);
    if (failed(manager)) {
      op->emitError() << "'" << getArgument() << "' asked for the pipeline '" << pipeline << "': " << message;
      return false;
    }
    return succeeded(runPipeline(*manager, op));
  }

protected:
  bool canScheduleOn(RegisteredOperationName name) const override {
    return name.getStringRef() == ModuleOp::getOperationName();
  }

  void runOnOperation() override {
    if (!spec->run(RkPass{this}, wrap(getOperation()), spec->data))
      signalPassFailure();
  }

  std::unique_ptr<Pass> clonePass() const override { return std::make_unique<RustPass>(spec); }

private:
  // An option that is off unless given may stand alone: `offload` is `offload=true`.
  static bool isSwitch(const RkOptionSpec &option) { return unwrap(option.initial) == "false"; }

  const RkPassSpec *spec;
  // Options have addresses that the base class keeps, so they do not move.
  std::vector<std::unique_ptr<Option<std::string>>> options;
};

} // namespace

void rkRegisterPass(const RkPassSpec *spec) {
  registerPass([spec]() -> std::unique_ptr<Pass> { return std::make_unique<RustPass>(spec); });
}

MlirStringRef rkPassOption(RkPass pass, intptr_t index) {
  return static_cast<RustPass *>(pass.pointer)->option(index);
}

bool rkPassRunPipeline(RkPass pass, MlirOperation op, MlirStringRef pipeline) {
  return static_cast<RustPass *>(pass.pointer)->runTextualPipeline(unwrap(op), unwrap(pipeline));
}

void rkSetOptionDefault(MlirStringRef option, MlirStringRef value) {
  std::lock_guard<std::mutex> guard(optionDefaults().mutex);
  optionDefaults().values[unwrap(option).str()] = unwrap(value).str();
}
