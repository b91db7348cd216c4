// Memory effects: what --cse and --canonicalize may do. The rule of docs/ir.md and Dialect.td in code:
// fresh storage is an allocation on the result, so equal calls are not merged and an unused one may be erased;
// written storage, the random generator and the order of runs are kept.

#include "Dialect.h"

using namespace mlir;

using Effects = SmallVectorImpl<SideEffects::EffectInstance<MemoryEffects::Effect>>;

static void readsInputs(MutableOperandRange inputs, Effects &effects) {
  for (OpOperand &operand : inputs)
    effects.emplace_back(MemoryEffects::Read::get(), &operand);
}

static void advancesRandom(Effects &effects) {
  effects.emplace_back(MemoryEffects::Read::get(), rk::RandomState::get());
  effects.emplace_back(MemoryEffects::Write::get(), rk::RandomState::get());
}

void rk::AtenOp::getEffects(Effects &effects) {
  ArrayRef<int64_t> aliases = getAliases().value_or(ArrayRef<int64_t>());
  bool fresh = false;
  for (OpResult result : getResults()) {
    unsigned index = result.getResultNumber();
    if (index < aliases.size() && aliases[index] >= 0)
      continue;
    fresh = true;
    effects.emplace_back(MemoryEffects::Allocate::get(), result);
  }
  bool written = false;
  MutableOperandRange inputs = getInputsMutable();
  for (ArrayRef<int64_t> indices :
       {getWrites().value_or(ArrayRef<int64_t>()), getEffects().value_or(ArrayRef<int64_t>())}) {
    for (int64_t index : indices) {
      if (index < 0 || index >= static_cast<int64_t>(inputs.size()))
        continue; // The verifier says so.
      written = true;
      effects.emplace_back(MemoryEffects::Write::get(), &inputs[index]);
    }
  }
  if (getRandom())
    advancesRandom(effects);
  // A call that returns nothing is called for what it does.
  if (getNumResults() == 0 && !written)
    effects.emplace_back(MemoryEffects::Write::get());
  // A pure view reads no element.
  if (fresh || written || getRandom())
    readsInputs(inputs, effects);
}

void rk::ConstantOp::getEffects(Effects &effects) {
  effects.emplace_back(MemoryEffects::Allocate::get(), cast<OpResult>(getOutput()));
}

void rk::WriteOp::getEffects(Effects &effects) {
  readsInputs(getInputsMutable(), effects);
  for (OpResult result : getResults())
    effects.emplace_back(MemoryEffects::Allocate::get(), result);
  bool random = false;
  getBody().walk([&](AtenOp call) { random |= call.getRandom(); });
  if (random)
    advancesRandom(effects);
}

// The node is a symbol away, so every run is treated as the most demanding one: random, with side effects.
void rk::RunOp::getEffects(Effects &effects) {
  readsInputs(getInputsMutable(), effects);
  for (OpResult result : getResults())
    effects.emplace_back(MemoryEffects::Allocate::get(), result);
  effects.emplace_back(MemoryEffects::Read::get(), Schedule::get());
  effects.emplace_back(MemoryEffects::Write::get(), Schedule::get());
  advancesRandom(effects);
}

// A launch is exact, too, and it writes to places: which operands it writes is in `writes`.
void rk::LaunchOp::getEffects(Effects &effects) {
  MutableOperandRange operands = getPlacesMutable();
  int64_t written = static_cast<int64_t>(operands.size()) - getWrites();
  for (OpOperand &operand : operands) {
    if (static_cast<int64_t>(operand.getOperandNumber()) < written)
      effects.emplace_back(MemoryEffects::Read::get(), &operand);
    else
      effects.emplace_back(MemoryEffects::Write::get(), &operand);
  }
  effects.emplace_back(MemoryEffects::Read::get(), Schedule::get());
  effects.emplace_back(MemoryEffects::Write::get(), Schedule::get());
  advancesRandom(effects);
}

// Transfers keep their places among runs, and among each other: an engine serves them in order.
static void keepsItsPlace(Effects &effects) {
  effects.emplace_back(MemoryEffects::Read::get(), rk::Schedule::get());
  effects.emplace_back(MemoryEffects::Write::get(), rk::Schedule::get());
}

void rk::OffloadOp::getEffects(Effects &effects) {
  effects.emplace_back(MemoryEffects::Read::get(), &getValueMutable());
  effects.emplace_back(MemoryEffects::Allocate::get(), cast<OpResult>(getCopy()));
  keepsItsPlace(effects);
}

void rk::FetchOp::getEffects(Effects &effects) {
  effects.emplace_back(MemoryEffects::Read::get(), &getCopyMutable());
  effects.emplace_back(MemoryEffects::Allocate::get(), cast<OpResult>(getValue()));
  keepsItsPlace(effects);
}

void rk::WaitOp::getEffects(Effects &effects) {
  effects.emplace_back(MemoryEffects::Write::get(), &getValueMutable());
  keepsItsPlace(effects);
}

void rk::SaveStateOp::getEffects(Effects &effects) {
  effects.emplace_back(MemoryEffects::Write::get(), &getStateMutable());
  advancesRandom(effects);
}

void rk::LoadStateOp::getEffects(Effects &effects) {
  effects.emplace_back(MemoryEffects::Read::get(), &getStateMutable());
  advancesRandom(effects);
}
