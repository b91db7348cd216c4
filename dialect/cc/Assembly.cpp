// Custom assembly of the ops: what docs/ir.md shows, read and printed. Clauses may be read in any order; they are
// printed in one. Attributes that the syntax does not know stand in an attribute dictionary.

#include "Dialect.h"

#include "mlir/IR/DialectImplementation.h"
#include "llvm/ADT/SmallString.h"
#include "llvm/ADT/StringSet.h"

using namespace mlir;

namespace {

//===- Arguments of rk.aten ---------------------------------------------------------------------------------------===//

/// One argument: an SSA value (kept aside, `unit` in its place), a literal, or a list of arguments.
ParseResult parseArgument(OpAsmParser &parser, Attribute &argument,
                          SmallVectorImpl<OpAsmParser::UnresolvedOperand> &operands) {
  Builder &builder = parser.getBuilder();
  OpAsmParser::UnresolvedOperand operand;
  OptionalParseResult isOperand = parser.parseOptionalOperand(operand);
  if (isOperand.has_value()) {
    operands.push_back(operand);
    argument = builder.getUnitAttr();
    return *isOperand;
  }
  if (succeeded(parser.parseOptionalLSquare())) {
    SmallVector<Attribute> elements;
    if (succeeded(parser.parseOptionalRSquare())) {
      argument = builder.getArrayAttr(elements);
      return success();
    }
    auto element = [&]() { return parseArgument(parser, elements.emplace_back(), operands); };
    if (parser.parseCommaSeparatedList(element) || parser.parseRSquare())
      return failure();
    argument = builder.getArrayAttr(elements);
    return success();
  }
  StringRef keyword;
  SMLoc location = parser.getCurrentLocation();
  if (succeeded(parser.parseOptionalKeyword(&keyword, {"none", "true", "false", "inf", "nan"}))) {
    double infinity = std::numeric_limits<double>::infinity();
    argument = llvm::StringSwitch<Attribute>(keyword)
                   .Case("none", rk::NoneAttr::get(parser.getContext()))
                   .Case("true", builder.getBoolAttr(true))
                   .Case("false", builder.getBoolAttr(false))
                   .Case("inf", builder.getF64FloatAttr(infinity))
                   .Default(builder.getF64FloatAttr(std::numeric_limits<double>::quiet_NaN()));
    return success();
  }
  if (succeeded(parser.parseOptionalKeyword("minus_inf"))) {
    argument = builder.getF64FloatAttr(-std::numeric_limits<double>::infinity());
    return success();
  }
  std::string text;
  if (succeeded(parser.parseOptionalString(&text))) {
    argument = builder.getStringAttr(text);
    return success();
  }
  // A number. MLIR's attribute syntax tells 1 (i64) from 1.0 (f64) and takes the sign.
  Attribute number;
  OptionalParseResult isNumber = parser.parseOptionalAttribute(number);
  if (isNumber.has_value()) {
    if (failed(*isNumber))
      return failure();
    if (isa<IntegerAttr, FloatAttr>(number)) {
      argument = number;
      return success();
    }
  }
  return parser.emitError(location, "expected a value, none, a number, true, false, a string, or a list of these");
}

/// The shortest decimal that reads back as the same double, with the point that tells it from an integer.
void printFloat(OpAsmPrinter &printer, const APFloat &value) {
  if (value.isInfinity()) {
    printer << (value.isNegative() ? "minus_inf" : "inf");
    return;
  }
  if (value.isNaN()) {
    printer << "nan";
    return;
  }
  SmallString<32> digits;
  for (unsigned precision = 1; precision <= 17; ++precision) {
    digits.clear();
    value.toString(digits, precision);
    if (APFloat(value.getSemantics(), digits).bitwiseIsEqual(value))
      break;
  }
  StringRef text = digits;
  auto [mantissa, exponent] = text.split('E');
  printer << mantissa << (mantissa.contains('.') ? "" : ".0");
  if (!exponent.empty())
    printer << "e" << exponent;
}

void printArgument(OpAsmPrinter &printer, Attribute argument, OperandRange &operands) {
  if (isa<UnitAttr>(argument)) {
    // The verifier matches units and operands; a printer must survive what the verifier refuses.
    if (operands.empty()) {
      printer << "unit";
    } else {
      printer << operands.front();
      operands = operands.drop_front();
    }
  } else if (auto list = dyn_cast<ArrayAttr>(argument)) {
    printer << "[";
    llvm::interleaveComma(list, printer, [&](Attribute element) { printArgument(printer, element, operands); });
    printer << "]";
  } else if (isa<rk::NoneAttr>(argument)) {
    printer << "none";
  } else if (auto real = dyn_cast<FloatAttr>(argument)) {
    printFloat(printer, real.getValue());
  } else {
    printer.printAttributeWithoutType(argument);
  }
}

//===- Clauses ------------------------------------------------------------------------------------------------------===//

/// Clauses of one op in the order in which they are printed.
struct Clause {
  enum Kind { Unit, Indices, Index, Cost } kind;
  StringLiteral name;
};

constexpr Clause kAtenClauses[] = {{Clause::Indices, "writes"}, {Clause::Indices, "effects"},
                                   {Clause::Indices, "aliases"}, {Clause::Unit, "random"},
                                   {Clause::Unit, "backward"}, {Clause::Cost, "cost"}};
constexpr Clause kNodeClauses[] = {{Clause::Index, "overwrites"}, {Clause::Unit, "random"}, {Clause::Unit, "once"},
                                   {Clause::Unit, "backward"}, {Clause::Cost, "cost"}};
constexpr Clause kRunClauses[] = {{Clause::Unit, "again"}, {Clause::Unit, "overwrite"}};

ParseResult parseClause(OpAsmParser &parser, const Clause &clause, OperationState &result) {
  Builder &builder = parser.getBuilder();
  switch (clause.kind) {
  case Clause::Unit:
    result.addAttribute(clause.name, builder.getUnitAttr());
    return success();
  case Clause::Indices: {
    SmallVector<int64_t> indices;
    auto index = [&]() { return parser.parseInteger(indices.emplace_back()); };
    if (parser.parseCommaSeparatedList(AsmParser::Delimiter::Paren, index))
      return failure();
    result.addAttribute(clause.name, builder.getDenseI64ArrayAttr(indices));
    return success();
  }
  case Clause::Index: {
    int64_t index = 0;
    if (parser.parseLParen() || parser.parseInteger(index) || parser.parseRParen())
      return failure();
    result.addAttribute(clause.name, builder.getI64IntegerAttr(index));
    return success();
  }
  case Clause::Cost: {
    Attribute cost = rk::CostAttr::parse(parser, Type());
    if (!cost)
      return failure();
    result.addAttribute(clause.name, cost);
    return success();
  }
  }
  return failure();
}

ParseResult parseClauses(OpAsmParser &parser, ArrayRef<Clause> clauses, OperationState &result) {
  for (bool found = true; found;) {
    found = false;
    for (const Clause &clause : clauses) {
      SMLoc location = parser.getCurrentLocation();
      if (failed(parser.parseOptionalKeyword(clause.name)))
        continue;
      if (result.attributes.get(clause.name))
        return parser.emitError(location, "'") << clause.name << "' stands here twice";
      if (parseClause(parser, clause, result))
        return failure();
      found = true;
    }
  }
  return success();
}

void printClauses(OpAsmPrinter &printer, ArrayRef<Clause> clauses, Operation *op) {
  for (const Clause &clause : clauses) {
    Attribute attribute = op->getAttr(clause.name);
    if (!attribute)
      continue;
    printer << " " << clause.name;
    if (auto indices = dyn_cast<DenseI64ArrayAttr>(attribute)) {
      printer << "(";
      llvm::interleaveComma(indices.asArrayRef(), printer);
      printer << ")";
    } else if (auto index = dyn_cast<IntegerAttr>(attribute)) {
      printer << "(" << index.getInt() << ")";
    } else if (auto cost = dyn_cast<rk::CostAttr>(attribute)) {
      printer << " ";
      cost.print(printer);
    }
  }
}

/// Names that the syntax prints elsewhere, so that the attribute dictionary leaves them out.
SmallVector<StringRef> printedNames(ArrayRef<Clause> clauses, ArrayRef<StringRef> more) {
  SmallVector<StringRef> names(more);
  for (const Clause &clause : clauses)
    names.push_back(clause.name);
  return names;
}

//===- Types --------------------------------------------------------------------------------------------------------===//

/// `:` functional type; resolves the operands and adds the results.
ParseResult parseSignature(OpAsmParser &parser, ArrayRef<OpAsmParser::UnresolvedOperand> operands,
                           OperationState &result) {
  FunctionType type;
  SMLoc location = parser.getCurrentLocation();
  if (parser.parseColonType(type) ||
      parser.resolveOperands(operands, type.getInputs(), location, result.operands))
    return failure();
  result.addTypes(type.getResults());
  return success();
}

void printSignature(OpAsmPrinter &printer, Operation *op) {
  printer << " : ";
  printer.printFunctionalType(op);
}

ParseResult parseBody(OpAsmParser &parser, OperationState &result) {
  return parser.parseRegion(*result.addRegion());
}

} // namespace

//===- rk.aten ------------------------------------------------------------------------------------------------------===//

ParseResult rk::AtenOp::parse(OpAsmParser &parser, OperationState &result) {
  StringAttr name;
  SmallVector<OpAsmParser::UnresolvedOperand> operands;
  SmallVector<Attribute> arguments;
  auto argument = [&]() { return parseArgument(parser, arguments.emplace_back(), operands); };
  if (parser.parseAttribute(name, "op_name", result.attributes) ||
      parser.parseCommaSeparatedList(AsmParser::Delimiter::Paren, argument))
    return failure();
  result.addAttribute("args", parser.getBuilder().getArrayAttr(arguments));
  if (parseClauses(parser, kAtenClauses, result) || parser.parseOptionalAttrDict(result.attributes))
    return failure();
  return parseSignature(parser, operands, result);
}

void rk::AtenOp::print(OpAsmPrinter &printer) {
  printer << " ";
  printer.printAttributeWithoutType(getOpNameAttr());
  printer << "(";
  OperandRange operands = getInputs();
  llvm::interleaveComma(getArgs(), printer,
                        [&](Attribute argument) { printArgument(printer, argument, operands); });
  printer << ")";
  printClauses(printer, kAtenClauses, *this);
  printer.printOptionalAttrDict((*this)->getAttrs(), printedNames(kAtenClauses, {"op_name", "args"}));
  printSignature(printer, *this);
}

//===- rk.write -----------------------------------------------------------------------------------------------------===//

ParseResult rk::WriteOp::parse(OpAsmParser &parser, OperationState &result) {
  SmallVector<OpAsmParser::UnresolvedOperand> operands;
  if (parser.parseOperandList(operands, AsmParser::Delimiter::Paren) ||
      parser.parseOptionalAttrDictWithKeyword(result.attributes) || parseBody(parser, result))
    return failure();
  return parseSignature(parser, operands, result);
}

void rk::WriteOp::print(OpAsmPrinter &printer) {
  printer << "(" << getInputs() << ")";
  printer.printOptionalAttrDictWithKeyword((*this)->getAttrs());
  printer << " ";
  printer.printRegion(getBody());
  printSignature(printer, *this);
}

//===- rk.node ------------------------------------------------------------------------------------------------------===//

ParseResult rk::NodeOp::parse(OpAsmParser &parser, OperationState &result) {
  StringAttr name;
  if (parser.parseSymbolName(name, "sym_name", result.attributes) || parseClauses(parser, kNodeClauses, result) ||
      parser.parseOptionalAttrDictWithKeyword(result.attributes))
    return failure();
  return parseBody(parser, result);
}

void rk::NodeOp::print(OpAsmPrinter &printer) {
  printer << " ";
  printer.printSymbolName(getSymName());
  printClauses(printer, kNodeClauses, *this);
  printer.printOptionalAttrDictWithKeyword((*this)->getAttrs(), printedNames(kNodeClauses, {"sym_name"}));
  printer << " ";
  printer.printRegion(getBody());
}

//===- rk.run -------------------------------------------------------------------------------------------------------===//

ParseResult rk::RunOp::parse(OpAsmParser &parser, OperationState &result) {
  FlatSymbolRefAttr node;
  SmallVector<OpAsmParser::UnresolvedOperand> operands;
  if (parseClauses(parser, kRunClauses, result) || parser.parseAttribute(node, "node", result.attributes) ||
      parser.parseOperandList(operands, AsmParser::Delimiter::Paren) ||
      parser.parseOptionalAttrDict(result.attributes))
    return failure();
  return parseSignature(parser, operands, result);
}

void rk::RunOp::print(OpAsmPrinter &printer) {
  printClauses(printer, kRunClauses, *this);
  printer << " ";
  printer.printSymbolName(getNode());
  printer << "(" << getInputs() << ")";
  printer.printOptionalAttrDict((*this)->getAttrs(), printedNames(kRunClauses, {"node"}));
  printSignature(printer, *this);
}

//===- Result names -------------------------------------------------------------------------------------------------===//

// `%relu` for aten.relu.default; several results print as `%native_batch_norm:3`.
void rk::AtenOp::getAsmResultNames(OpAsmSetValueNameFn setName) {
  if (getNumResults() == 0)
    return;
  auto [space, rest] = getOpName().split('.');
  StringRef name = rest.split('.').first;
  if (!name.empty())
    setName(getResult(0), name);
}

void rk::WriteOp::getAsmResultNames(OpAsmSetValueNameFn setName) {
  if (getNumResults() > 0)
    setName(getResult(0), "write");
}

// `bn1`, `bn1.1`, `bn1.state`: the node's name, the number of a further result, the generator.
static SmallString<64> nameOf(rk::RunOp run, OpResult result) {
  SmallString<64> name(run.getNode());
  if (isa<rk::GeneratorType>(result.getType()))
    name += ".state";
  else if (result.getResultNumber() > 0)
    (name += ".") += std::to_string(result.getResultNumber());
  return name;
}

void rk::RunOp::getAsmResultNames(OpAsmSetValueNameFn setName) {
  for (OpResult result : getResults())
    setName(result, nameOf(*this, result));
}

// `%bn1.host` is a copy of `%bn1`, and what is fetched from it is `%bn1_0`: the run's own name, behind all transfers. A printer must
// survive what the verifier refuses, a ring of transfers among it.
static void nameBehindTransfers(Value moved, StringRef suffix, OpResult result, OpAsmSetValueNameFn setName) {
  for (int steps = 0; steps < 1000; ++steps) {
    if (auto fetch = moved.getDefiningOp<rk::FetchOp>()) {
      moved = fetch.getCopy();
    } else if (auto offload = moved.getDefiningOp<rk::OffloadOp>()) {
      moved = offload.getValue();
    } else {
      break;
    }
  }
  auto run = moved.getDefiningOp<rk::RunOp>();
  SmallString<64> name = run ? nameOf(run, cast<OpResult>(moved)) : SmallString<64>("moved");
  name += suffix;
  setName(result, name);
}

void rk::OffloadOp::getAsmResultNames(OpAsmSetValueNameFn setName) {
  nameBehindTransfers(getValue(), ".host", cast<OpResult>(getCopy()), setName);
}

void rk::FetchOp::getAsmResultNames(OpAsmSetValueNameFn setName) {
  nameBehindTransfers(getCopy(), "", cast<OpResult>(getValue()), setName);
}
