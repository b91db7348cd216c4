// Errors at recorded ops, with file and line.
//
// A recorded op's location is the path of its module, `loc("layer1.0.conv1")`, and replaces the place in the text that MLIR's parser
// would have noted. The place cannot be written beside it either: the IR would depend on the name of the file that it is written to.
// So it is looked up when it is needed: the input is parsed once more, by the parser that language servers use, which keeps places
// apart from locations. What is found is the first op of the module; the message begins with the module's path.
//
// Not here: standard input, which cannot be read twice, and text that does not parse as one file (-split-input-file). Their errors
// name the module alone.

#include "Dialect.h"
#include "shim.h"

#include "mlir/AsmParser/AsmParser.h"
#include "mlir/AsmParser/AsmParserState.h"
#include "mlir/IR/Diagnostics.h"
#include "mlir/Parser/Parser.h"
#include "mlir/Support/FileUtilities.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/Support/SourceMgr.h"

using namespace mlir;

namespace {

using Place = std::pair<unsigned, unsigned>; // line, column

/// Where the ops of each module begin. Used by handlers only, which the diagnostic engine calls one at a time.
struct Lines {
  std::string file;
  const DialectRegistry *registry = nullptr;
  std::optional<llvm::StringMap<Place>> modules;

  void read();
  Location find(Location location);
};

Lines lines;

NameLoc moduleOf(Location location) {
  return location->findInstanceOf<FileLineColLoc>() ? NameLoc() : location->findInstanceOf<NameLoc>();
}

void Lines::read() {
  modules.emplace();
  auto buffer = file == "-" ? nullptr : openInputFile(file);
  if (!buffer)
    return;
  llvm::SourceMgr source;
  unsigned id = source.AddNewSourceBuffer(std::move(buffer), SMLoc());
  MLIRContext context(*registry, MLIRContext::Threading::DISABLED);
  // What is wrong with the text has been said when it was parsed first.
  ScopedDiagnosticHandler silent(&context, [](Diagnostic &) { return success(); });
  Block block;
  AsmParserState state;
  if (failed(parseAsmSourceFile(source, &block, ParserConfig(&context, /*verifyAfterParse=*/false), &state)))
    return;
  for (const AsmParserState::OperationDefinition &op : state.getOpDefs())
    if (NameLoc module = moduleOf(op.op->getLoc())) {
      Place place = source.getLineAndColumn(op.loc.Start, id);
      auto [entry, first] = modules->try_emplace(module.getName(), place);
      entry->second = std::min(entry->second, place);
    }
}

/// The same location with the place where its module begins; itself when that is not known.
Location Lines::find(Location location) {
  NameLoc module = moduleOf(location);
  if (!module)
    return location;
  if (!modules)
    read();
  auto entry = modules->find(module.getName());
  if (entry == modules->end())
    return location;
  auto [line, column] = entry->second;
  return FileLineColLoc::get(location.getContext(), file, line, column);
}

LogicalResult handle(Diagnostic &diagnostic) {
  Location place = lines.find(diagnostic.getLocation());
  if (place == diagnostic.getLocation())
    return failure(); // the next handler prints it as it is
  auto text = [](Diagnostic &part, Location at) {
    NameLoc module = at == part.getLocation() ? NameLoc() : moduleOf(part.getLocation());
    return (module ? "in '" + module.getName().str() + "': " : std::string()) + part.str();
  };
  Diagnostic placed(place, diagnostic.getSeverity());
  placed << text(diagnostic, place);
  for (Diagnostic &note : diagnostic.getNotes()) {
    Location at = lines.find(note.getLocation());
    placed.attachNote(at) << text(note, at);
  }
  place.getContext()->getDiagEngine().emit(std::move(placed));
  return success();
}

} // namespace

void rk::placeDiagnostics(DialectRegistry &registry, const DialectRegistry &parsing, StringRef file) {
  lines.file = file.str();
  lines.registry = &parsing;
  // When the dialect is loaded, MLIR's own handler stands already, and the last one to come is asked first.
  registry.addExtension(+[](MLIRContext *context, rk::RkDialect *) { context->getDiagEngine().registerHandler(handle); });
}
