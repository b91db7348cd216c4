// Custom assembly of the ops of stage lowered: buffers and launches, as docs/ir.md shows them.

#include "Dialect.h"

#include "mlir/IR/OpImplementation.h"
#include "llvm/ADT/SmallString.h"

using namespace mlir;

//===- rk.buffer ----------------------------------------------------------------------------------------------------===//

// space `[` offset `]` attributes `:` type
ParseResult rk::BufferOp::parse(OpAsmParser &parser, OperationState &result) {
  Builder &builder = parser.getBuilder();
  std::string space;
  int64_t offset = 0;
  Type type;
  if (parser.parseKeywordOrString(&space) || parser.parseLSquare() || parser.parseInteger(offset) ||
      parser.parseRSquare() || parser.parseOptionalAttrDict(result.attributes) || parser.parseColonType(type))
    return failure();
  result.addAttribute("space", builder.getStringAttr(space));
  result.addAttribute("offset", builder.getI64IntegerAttr(offset));
  result.addTypes(type);
  return success();
}

void rk::BufferOp::print(OpAsmPrinter &printer) {
  printer << " ";
  printer.printKeywordOrString(getSpace());
  printer << "[" << getOffset() << "]";
  printer.printOptionalAttrDict((*this)->getAttrs(), {"space", "offset"});
  printer << " : " << getPlace().getType();
}

// `%conv1`, `%bn1.1`: the kernel that writes it and the number of the result; `%state`, `%parked` for a generator.
void rk::BufferOp::getAsmResultNames(OpAsmSetValueNameFn setName) {
  if (isa<GeneratorType>(getPlace().getType())) {
    setName(getPlace(), getSpace() == "parking" ? "parked" : "state");
    return;
  }
  for (OpOperand &use : getPlace().getUses()) {
    auto launch = dyn_cast<LaunchOp>(use.getOwner());
    if (!launch)
      continue;
    int64_t number = use.getOperandNumber() - (static_cast<int64_t>(launch->getNumOperands()) - launch.getWrites());
    if (number < 0)
      continue;
    SmallString<64> name(launch.getKernel());
    if (number > 0)
      (name += ".") += std::to_string(number);
    setName(getPlace(), name);
    return;
  }
}

//===- rk.launch ----------------------------------------------------------------------------------------------------===//

// (`again`)? (`overwrite`)? @kernel operands (`into` operands)? (`workspace` `[` offset `,` bytes `]`)? `stream` `(` n `)`
// attributes `:` (read types) -> written types
ParseResult rk::LaunchOp::parse(OpAsmParser &parser, OperationState &result) {
  Builder &builder = parser.getBuilder();
  for (StringRef flag : {"again", "overwrite"})
    if (succeeded(parser.parseOptionalKeyword(flag)))
      result.addAttribute(flag, builder.getUnitAttr());
  FlatSymbolRefAttr kernel;
  SmallVector<OpAsmParser::UnresolvedOperand> read, written;
  if (parser.parseAttribute(kernel, "kernel", result.attributes) ||
      parser.parseOperandList(read, OpAsmParser::Delimiter::Paren))
    return failure();
  if (succeeded(parser.parseOptionalKeyword("into")) &&
      parser.parseOperandList(written, OpAsmParser::Delimiter::Paren))
    return failure();
  if (succeeded(parser.parseOptionalKeyword("workspace"))) {
    int64_t offset = 0, bytes = 0;
    if (parser.parseLSquare() || parser.parseInteger(offset) || parser.parseComma() || parser.parseInteger(bytes) ||
        parser.parseRSquare())
      return failure();
    result.addAttribute("workspace", builder.getDenseI64ArrayAttr({offset, bytes}));
  }
  int64_t stream = 0;
  if (parser.parseKeyword("stream") || parser.parseLParen() || parser.parseInteger(stream) || parser.parseRParen() ||
      parser.parseOptionalAttrDict(result.attributes))
    return failure();
  result.addAttribute("stream", builder.getI64IntegerAttr(stream));
  result.addAttribute("writes", builder.getI64IntegerAttr(written.size()));
  FunctionType type;
  SMLoc location = parser.getCurrentLocation();
  return failure(parser.parseColonType(type) ||
                 parser.resolveOperands(read, type.getInputs(), location, result.operands) ||
                 parser.resolveOperands(written, type.getResults(), location, result.operands));
}

void rk::LaunchOp::print(OpAsmPrinter &printer) {
  if (getAgain())
    printer << " again";
  if (getOverwrite())
    printer << " overwrite";
  printer << " ";
  printer.printSymbolName(getKernel());
  // A printer must survive what the verifier refuses.
  size_t total = getNumOperands();
  size_t written = std::min<size_t>(total, std::max<int64_t>(0, getWrites()));
  OperandRange read = getOperands().drop_back(written), into = getOperands().drop_front(total - written);
  printer << "(" << read << ")";
  if (written > 0)
    printer << " into(" << into << ")";
  if (std::optional<ArrayRef<int64_t>> workspace = getWorkspace()) {
    printer << " workspace [";
    llvm::interleaveComma(*workspace, printer);
    printer << "]";
  }
  printer << " stream(" << getStream() << ")";
  printer.printOptionalAttrDict((*this)->getAttrs(), {"again", "overwrite", "kernel", "writes", "workspace", "stream"});
  printer << " : ";
  printer.printFunctionalType(read.getTypes(), into.getTypes());
}
