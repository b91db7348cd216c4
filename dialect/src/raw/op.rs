//! Ops: reading, walking, building, editing.

use std::marker::PhantomData;

use mlir_sys::*;

use super::attr::{named, unnamed};
use super::{Attr, Block, Ctx, Location, Region, Type, Value, by_address, printed, shim, text, view};

/// An op.
#[derive(Clone, Copy, Debug)]
pub struct Op<'c> {
    pub(crate) raw: MlirOperation,
    life: PhantomData<&'c ()>,
}
by_address!(Op);

/// Where a new op goes.
#[derive(Clone, Copy, Debug)]
pub enum At<'c> {
    /// After the last op of the block (also after a terminator, if it has one).
    End(Block<'c>),
    /// Before the first op of the block.
    Start(Block<'c>),
    /// Right before the op.
    Before(Op<'c>),
    /// Right after the op.
    After(Op<'c>),
}

/// What a new op is made of; see [`NewOp::insert`].
#[derive(Clone, Debug)]
pub struct NewOp<'a, 'c> {
    /// Full name, such as `rk.drop`.
    pub name: &'a str,
    /// Where it comes from.
    pub location: Location<'c>,
    /// Operands.
    pub operands: &'a [Value<'c>],
    /// Types of the results.
    pub results: &'a [Type<'c>],
    /// Attributes by name.
    pub attributes: &'a [(&'a str, Attr<'c>)],
    /// One region per entry, each with one block with arguments of these types.
    pub bodies: &'a [&'a [Type<'c>]],
}

impl<'c> NewOp<'_, 'c> {
    /// Makes the op and puts it there.
    pub fn insert(&self, at: At<'c>) -> Op<'c> {
        let ctx = self.location.context();
        let operands: Vec<_> = self.operands.iter().map(|value| value.raw).collect();
        let results: Vec<_> = self.results.iter().map(|ty| ty.raw).collect();
        let attributes: Vec<_> =
            self.attributes.iter().map(|(name, value)| named(ctx, name, *value)).collect();
        // SAFETY: every handle is alive; regions and blocks are handed over to the op.
        unsafe {
            let mut state = mlirOperationStateGet(view(self.name), self.location.raw);
            mlirOperationStateAddOperands(&mut state, operands.len() as isize, operands.as_ptr());
            mlirOperationStateAddResults(&mut state, results.len() as isize, results.as_ptr());
            mlirOperationStateAddAttributes(&mut state, attributes.len() as isize, attributes.as_ptr());
            let regions: Vec<_> = self
                .bodies
                .iter()
                .map(|arguments| {
                    let region = mlirRegionCreate();
                    let types: Vec<_> = arguments.iter().map(|ty| ty.raw).collect();
                    let locations = vec![self.location.raw; types.len()];
                    let block = mlirBlockCreate(types.len() as isize, types.as_ptr(), locations.as_ptr());
                    mlirRegionAppendOwnedBlock(region, block);
                    region
                })
                .collect();
            mlirOperationStateAddOwnedRegions(&mut state, regions.len() as isize, regions.as_ptr());
            let op = Op::from_raw(mlirOperationCreate(&mut state));
            op.place(at);
            op
        }
    }
}

impl<'c> Op<'c> {
    pub(crate) fn from_raw(raw: MlirOperation) -> Self {
        Self { raw, life: PhantomData }
    }

    pub(crate) fn from_nullable(raw: MlirOperation) -> Option<Self> {
        (!raw.ptr.is_null()).then_some(Self::from_raw(raw))
    }

    // SAFETY of this block: the op is alive, and indices are within the counts that MLIR returns.

    /// The context.
    pub fn context(self) -> Ctx<'c> {
        // SAFETY: the op is alive.
        Ctx::from_raw(unsafe { mlirOperationGetContext(self.raw) })
    }

    /// Full name, such as `rk.run`.
    pub fn name(self) -> &'c str {
        // SAFETY: the op is alive.
        unsafe { text(mlirIdentifierStr(mlirOperationGetName(self.raw))) }
    }

    /// Where it comes from.
    pub fn location(self) -> Location<'c> {
        // SAFETY: the op is alive.
        Location::from_raw(unsafe { mlirOperationGetLocation(self.raw) })
    }

    /// Changes where it comes from.
    pub fn set_location(self, location: Location<'c>) {
        // SAFETY: op and location are alive.
        unsafe { mlirOperationSetLocation(self.raw, location.raw) }
    }

    /// Number of operands.
    pub fn operand_count(self) -> usize {
        // SAFETY: the op is alive.
        usize::try_from(unsafe { mlirOperationGetNumOperands(self.raw) }).unwrap_or(0)
    }

    /// One operand.
    pub fn operand(self, index: usize) -> Option<Value<'c>> {
        if index >= self.operand_count() {
            return None;
        }
        // SAFETY: the op is alive, and the index is below its number of operands.
        let raw = unsafe { mlirOperationGetOperand(self.raw, index as isize) };
        (!raw.ptr.is_null()).then_some(Value::from_raw(raw))
    }

    /// All operands.
    pub fn operands(self) -> Vec<Value<'c>> {
        (0..self.operand_count()).filter_map(|index| self.operand(index)).collect()
    }

    /// Replaces one operand; does nothing when there is none of this number.
    pub fn set_operand(self, index: usize, value: Value<'c>) {
        if index < self.operand_count() {
            // SAFETY: op and value are alive, and the index is below the number of operands.
            unsafe { mlirOperationSetOperand(self.raw, index as isize, value.raw) }
        }
    }

    /// Replaces all operands.
    pub fn set_operands(self, values: &[Value<'c>]) {
        let raw: Vec<_> = values.iter().map(|value| value.raw).collect();
        // SAFETY: the op is alive, and MLIR copies the list.
        unsafe { mlirOperationSetOperands(self.raw, raw.len() as isize, raw.as_ptr()) }
    }

    /// Number of results.
    pub fn result_count(self) -> usize {
        // SAFETY: the op is alive.
        usize::try_from(unsafe { mlirOperationGetNumResults(self.raw) }).unwrap_or(0)
    }

    /// One result.
    pub fn result(self, index: usize) -> Option<Value<'c>> {
        // SAFETY: the op is alive, and the index is below its number of results.
        (index < self.result_count())
            .then(|| Value::from_raw(unsafe { mlirOperationGetResult(self.raw, index as isize) }))
    }

    /// All results.
    pub fn results(self) -> Vec<Value<'c>> {
        (0..self.result_count()).filter_map(|index| self.result(index)).collect()
    }

    /// An attribute by name, inherent or discardable.
    pub fn get(self, name: &str) -> Option<Attr<'c>> {
        // SAFETY: the op is alive, and MLIR copies the text.
        Attr::from_nullable(unsafe { mlirOperationGetAttributeByName(self.raw, view(name)) })
    }

    /// Sets an attribute, inherent or discardable.
    pub fn set(self, name: &str, value: Attr<'c>) {
        // SAFETY: the op is alive, and MLIR copies the text.
        unsafe { mlirOperationSetAttributeByName(self.raw, view(name), value.raw) }
    }

    /// Removes an attribute; false when there was none.
    pub fn unset(self, name: &str) -> bool {
        // SAFETY: the op is alive, and MLIR copies the text.
        unsafe { mlirOperationRemoveAttributeByName(self.raw, view(name)) }
    }

    /// Sets or removes a unit attribute.
    pub fn set_flag(self, name: &str, on: bool) {
        if on {
            self.set(name, Attr::unit(self.context()));
        } else {
            self.unset(name);
        }
    }

    /// All attributes, sorted by name.
    pub fn attributes(self) -> Vec<(&'c str, Attr<'c>)> {
        // SAFETY: the op is alive, and each index is below its number of attributes.
        unsafe {
            let count = mlirOperationGetNumAttributes(self.raw);
            (0..count).map(|index| unnamed(mlirOperationGetAttribute(self.raw, index))).collect()
        }
    }

    /// Its regions.
    pub fn regions(self) -> Vec<Region<'c>> {
        // SAFETY: the op is alive, and each index is below its number of regions.
        unsafe {
            let count = mlirOperationGetNumRegions(self.raw);
            (0..count).map(|index| Region::from_raw(mlirOperationGetRegion(self.raw, index))).collect()
        }
    }

    /// The first block of its first region.
    pub fn body(self) -> Option<Block<'c>> {
        self.regions().first().and_then(|region| region.blocks().first().copied())
    }

    /// The block that holds it.
    pub fn block(self) -> Option<Block<'c>> {
        // SAFETY: the op is alive.
        Block::from_nullable(unsafe { mlirOperationGetBlock(self.raw) })
    }

    /// The op that holds it.
    pub fn parent(self) -> Option<Op<'c>> {
        // SAFETY: the op is alive.
        Self::from_nullable(unsafe { mlirOperationGetParentOperation(self.raw) })
    }

    /// The next op of its block.
    pub fn next(self) -> Option<Op<'c>> {
        // SAFETY: the op is alive.
        Self::from_nullable(unsafe { mlirOperationGetNextInBlock(self.raw) })
    }

    /// Whether it stands before `other` in the same block.
    pub fn is_before(self, other: Op<'c>) -> bool {
        // SAFETY: both ops are alive, and in one block.
        self.block() == other.block() && unsafe { mlirOperationIsBeforeInBlock(self.raw, other.raw) }
    }

    /// Itself and every op below it, outer before inner, in order.
    pub fn walk(self, visit: &mut dyn FnMut(Op<'c>)) {
        visit(self);
        for region in self.regions() {
            for block in region.blocks() {
                for op in block.ops() {
                    op.walk(visit);
                }
            }
        }
    }

    /// Moves it there.
    pub fn move_to(self, at: At<'c>) {
        // SAFETY: the op is alive.
        unsafe { mlirOperationRemoveFromParent(self.raw) };
        self.place(at);
    }

    /// Puts a detached op there.
    fn place(self, at: At<'c>) {
        // SAFETY: the op is detached and handed over to the block. A null reference means the end, or the start.
        unsafe {
            match at {
                At::End(block) => mlirBlockAppendOwnedOperation(block.raw, self.raw),
                At::Start(block) => mlirBlockInsertOwnedOperation(block.raw, 0, self.raw),
                At::Before(op) => {
                    mlirBlockInsertOwnedOperationBefore(mlirOperationGetBlock(op.raw), op.raw, self.raw);
                }
                At::After(op) => {
                    mlirBlockInsertOwnedOperationAfter(mlirOperationGetBlock(op.raw), op.raw, self.raw);
                }
            }
        }
    }

    /// A copy with the same operands, put there.
    pub fn clone_to(self, at: At<'c>) -> Op<'c> {
        // SAFETY: the op is alive.
        let copy = Self::from_raw(unsafe { mlirOperationClone(self.raw) });
        copy.place(at);
        copy
    }

    /// Takes the op out of its block, and lets it and everything below it use nothing any more. Its results must be unused.
    pub(super) fn unlink(self) {
        // SAFETY: the op is alive.
        unsafe { shim::rkUnlink(self.raw) }
    }

    /// Frees the op and everything below it.
    ///
    /// # Safety
    /// Nothing uses its results, and no handle to it or to anything below it is used again.
    pub(super) unsafe fn destroy(self) {
        // SAFETY: by the contract of this function.
        unsafe { mlirOperationDestroy(self.raw) }
    }

    /// The op with this symbol name, in the nearest symbol table around this op (or in the op itself, if it is one).
    pub fn lookup(self, symbol: &str) -> Option<Op<'c>> {
        // SAFETY: the op is alive, and MLIR copies the text.
        Self::from_nullable(unsafe { shim::rkLookupSymbol(self.raw, view(symbol)) })
    }

    /// Whether canonicalization would erase it: nothing uses it, and it does nothing that matters.
    pub fn is_trivially_dead(self) -> bool {
        // SAFETY: the op is alive.
        unsafe { shim::rkIsTriviallyDead(self.raw) }
    }

    /// Runs MLIR's verifier on it and all below; problems are reported as diagnostics.
    pub fn verify(self) -> bool {
        // SAFETY: the op is alive.
        unsafe { mlirOperationVerify(self.raw) }
    }

    /// The text, with locations (`loc(...)`) when asked: what a file needs to keep module paths.
    pub fn print(self, locations: bool) -> String {
        // SAFETY: the op is alive, and `printed` gives the callback the data that it expects.
        printed(|callback, data| unsafe {
            let flags = mlirOpPrintingFlagsCreate();
            if locations {
                mlirOpPrintingFlagsEnableDebugInfo(flags, true, false);
            }
            mlirOperationPrintWithFlags(self.raw, flags, callback, data);
            mlirOpPrintingFlagsDestroy(flags);
        })
    }
}

impl std::fmt::Display for Op<'_> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(&self.print(false))
    }
}
