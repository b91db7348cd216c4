//! SSA values and their uses.

use std::marker::PhantomData;

use mlir_sys::*;

use super::{Block, Location, Op, Type, by_address, printed};

/// A result of an op, or an argument of a block.
#[derive(Clone, Copy, Debug)]
pub struct Value<'c> {
    pub(crate) raw: MlirValue,
    life: PhantomData<&'c ()>,
}
by_address!(Value);

/// One use of a value: operand number `operand` of `op`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Use<'c> {
    /// The user.
    pub op: Op<'c>,
    /// Which of its operands.
    pub operand: usize,
}

impl<'c> Value<'c> {
    pub(crate) fn from_raw(raw: MlirValue) -> Self {
        Self { raw, life: PhantomData }
    }

    /// The type.
    pub fn ty(self) -> Type<'c> {
        // SAFETY: the value is alive.
        Type::from_raw(unsafe { mlirValueGetType(self.raw) })
    }

    /// Changes the type in place; users see the new one.
    pub fn set_type(self, ty: Type<'c>) {
        // SAFETY: the value is alive.
        unsafe { mlirValueSetType(self.raw, ty.raw) }
    }

    /// The op that produces it and the result number; `None` for a block argument.
    pub fn producer(self) -> Option<(Op<'c>, usize)> {
        // SAFETY: the getters are called on their own kind.
        unsafe {
            if !mlirValueIsAOpResult(self.raw) {
                return None;
            }
            let number = usize::try_from(mlirOpResultGetResultNumber(self.raw)).unwrap_or(0);
            Some((Op::from_raw(mlirOpResultGetOwner(self.raw)), number))
        }
    }

    /// The block and number of a block argument; `None` for a result.
    pub fn argument(self) -> Option<(Block<'c>, usize)> {
        // SAFETY: the getters are called on their own kind.
        unsafe {
            if !mlirValueIsABlockArgument(self.raw) {
                return None;
            }
            let number = usize::try_from(mlirBlockArgumentGetArgNumber(self.raw)).unwrap_or(0);
            Some((Block::from_raw(mlirBlockArgumentGetOwner(self.raw)), number))
        }
    }

    /// Where it comes from: its producer's location, or the argument's own.
    pub fn location(self) -> Location<'c> {
        // SAFETY: the value is alive.
        Location::from_raw(unsafe { mlirValueGetLocation(self.raw) })
    }

    /// Its uses, in the order of MLIR's use list, which is the same for the same sequence of edits.
    pub fn uses(self) -> Vec<Use<'c>> {
        let mut uses = Vec::new();
        // SAFETY: the list is walked without edits.
        unsafe {
            let mut operand = mlirValueGetFirstUse(self.raw);
            while !mlirOpOperandIsNull(operand) {
                uses.push(Use {
                    op: Op::from_raw(mlirOpOperandGetOwner(operand)),
                    operand: mlirOpOperandGetOperandNumber(operand) as usize,
                });
                operand = mlirOpOperandGetNextUse(operand);
            }
        }
        uses
    }

    /// Whether nothing uses it.
    pub fn is_unused(self) -> bool {
        // SAFETY: the value is alive.
        unsafe { mlirOpOperandIsNull(mlirValueGetFirstUse(self.raw)) }
    }

    /// Makes every user of `self` use `other`.
    pub fn replace_all_uses(self, other: Value<'c>) {
        // SAFETY: both are alive.
        unsafe { mlirValueReplaceAllUsesOfWith(self.raw, other.raw) }
    }

    /// Like [`Value::replace_all_uses`], except in `keep`.
    pub fn replace_all_uses_except(self, other: Value<'c>, keep: &[Op<'c>]) {
        for one in self.uses() {
            if !keep.contains(&one.op) {
                one.op.set_operand(one.operand, other);
            }
        }
    }
}

impl std::fmt::Display for Value<'_> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // SAFETY: the value is alive.
        formatter.write_str(&printed(|callback, data| unsafe { mlirValuePrint(self.raw, callback, data) }))
    }
}
