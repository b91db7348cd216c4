//! Blocks and regions.

use std::marker::PhantomData;

use mlir_sys::*;

use super::{Location, Op, Type, Value, by_address};

/// A block: arguments and a list of ops.
#[derive(Clone, Copy, Debug)]
pub struct Block<'c> {
    pub(crate) raw: MlirBlock,
    life: PhantomData<&'c ()>,
}
by_address!(Block);

/// A region: a list of blocks.
#[derive(Clone, Copy, Debug)]
pub struct Region<'c> {
    raw: MlirRegion,
    life: PhantomData<&'c ()>,
}
by_address!(Region);

impl<'c> Region<'c> {
    pub(crate) fn from_raw(raw: MlirRegion) -> Self {
        Self { raw, life: PhantomData }
    }

    /// Its blocks.
    pub fn blocks(self) -> Vec<Block<'c>> {
        let mut blocks = Vec::new();
        // SAFETY: the list is walked without edits.
        let mut next = Block::from_nullable(unsafe { mlirRegionGetFirstBlock(self.raw) });
        while let Some(block) = next {
            blocks.push(block);
            // SAFETY: the block is alive.
            next = Block::from_nullable(unsafe { mlirBlockGetNextInRegion(block.raw) });
        }
        blocks
    }
}

impl<'c> Block<'c> {
    pub(crate) fn from_raw(raw: MlirBlock) -> Self {
        Self { raw, life: PhantomData }
    }

    pub(crate) fn from_nullable(raw: MlirBlock) -> Option<Self> {
        (!raw.ptr.is_null()).then_some(Self::from_raw(raw))
    }

    /// Its ops, in order. A copy of the list: the block may be edited while it is walked.
    pub fn ops(self) -> Vec<Op<'c>> {
        let mut ops = Vec::new();
        // SAFETY: the list is walked without edits.
        let mut next = Op::from_nullable(unsafe { mlirBlockGetFirstOperation(self.raw) });
        while let Some(op) = next {
            ops.push(op);
            next = op.next();
        }
        ops
    }

    /// Its last op, if that is a terminator.
    pub fn terminator(self) -> Option<Op<'c>> {
        // SAFETY: the block is alive.
        Op::from_nullable(unsafe { mlirBlockGetTerminator(self.raw) })
    }

    /// Its arguments.
    pub fn arguments(self) -> Vec<Value<'c>> {
        // SAFETY: the block is alive, and each index is below its number of arguments.
        unsafe {
            let count = mlirBlockGetNumArguments(self.raw);
            (0..count).map(|index| Value::from_raw(mlirBlockGetArgument(self.raw, index))).collect()
        }
    }

    /// Adds an argument behind the others.
    pub fn add_argument(self, ty: Type<'c>, location: Location<'c>) -> Value<'c> {
        // SAFETY: block, type and location are alive.
        Value::from_raw(unsafe { mlirBlockAddArgument(self.raw, ty.raw, location.raw) })
    }

    /// The op that holds it.
    pub fn parent(self) -> Option<Op<'c>> {
        // SAFETY: the block is alive.
        Op::from_nullable(unsafe { mlirBlockGetParentOperation(self.raw) })
    }
}
