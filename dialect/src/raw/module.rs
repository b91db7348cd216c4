//! Owned modules, and what erases ops of a module.

use std::cell::RefCell;

use mlir_sys::*;

use super::context::reporting;
use super::{Attr, Block, Op, printed, view};
use crate::diagnostic::{Reported, Severity};

/// An owned module.
#[derive(Debug)]
pub struct Module<'c> {
    inner: melior::ir::Module<'c>,
    eraser: Eraser<'c>,
}

impl<'c> Module<'c> {
    /// Takes ownership.
    pub(super) fn from_raw(raw: MlirModule) -> Self {
        // SAFETY: the caller hands over an owned module, and no handle is used after it is gone, see the head of `raw`.
        unsafe { Self { inner: melior::ir::Module::from_raw(raw), eraser: Eraser::new() } }
    }

    /// The `builtin.module` op.
    pub fn op(&self) -> Op<'c> {
        // SAFETY: the module is alive.
        Op::from_raw(unsafe { mlirModuleGetOperation(self.inner.to_raw()) })
    }

    /// Its only block.
    pub fn body(&self) -> Block<'c> {
        // SAFETY: the module is alive.
        Block::from_raw(unsafe { mlirModuleGetBody(self.inner.to_raw()) })
    }

    /// What erases ops of it. Inside of a pass, the one of the pass does
    /// ([`PassContext::eraser`](crate::pass::PassContext::eraser)).
    pub fn eraser(&self) -> &Eraser<'c> {
        &self.eraser
    }

    /// Runs a pipeline such as `builtin.module(rk-dataflow,cse)`; its passes must be registered.
    ///
    /// # Errors
    /// What was reported, with at least one error; the module may be half rewritten then. Reports of a successful run
    /// (remarks, warnings) come back as `Ok`.
    pub fn run(&self, pipeline: &str) -> Result<Vec<Reported>, Vec<Reported>> {
        // SAFETY: the pass manager is destroyed before the call returns, the module outlives it.
        unsafe {
            let context = mlirModuleGetContext(self.inner.to_raw());
            let manager = mlirPassManagerCreate(context);
            let mut parsed = false;
            let wrong = printed(|callback, data| {
                parsed = mlirParsePassPipeline(
                    mlirPassManagerGetAsOpPassManager(manager),
                    view(pipeline),
                    callback,
                    data,
                )
                .value
                    != 0;
            });
            let (ran, mut reported) = reporting(context, || {
                parsed
                    && mlirPassManagerRunOnOp(manager, mlirModuleGetOperation(self.inner.to_raw())).value != 0
            });
            mlirPassManagerDestroy(manager);
            if ran {
                return Ok(reported);
            }
            if !reported.iter().any(|one| one.severity == Severity::Error) {
                let why = if parsed { "the pass failed without a message" } else { wrong.trim() };
                reported.push(Reported::error(pipeline, why));
            }
            Err(reported)
        }
    }

    /// Sets a discardable attribute such as `rk.device`.
    pub fn set(&self, name: &str, value: Attr<'c>) {
        self.op().set(name, value);
    }
}

/// Takes ops out of a module at once, and frees them when the pass is over, or the module that it belongs to is gone.
///
/// Handles are `Copy`, and a pass keeps them in maps and lists. One that is left over is a handle to an op that no block holds, and
/// no new op gets its address.
#[derive(Debug)]
pub struct Eraser<'c>(RefCell<Vec<Op<'c>>>);

impl<'c> Eraser<'c> {
    /// Without ops.
    ///
    /// # Safety
    /// No handle to what it has erased is used after it is dropped. A pass cannot keep one, because it is written for every `'c`.
    pub(super) unsafe fn new() -> Self {
        Self(RefCell::default())
    }

    /// Erases an op whose results nothing uses. One that no block holds stays as it is: it is erased already, or is the module.
    pub fn erase(&self, op: Op<'c>) {
        if op.block().is_some() {
            op.unlink();
            self.0.borrow_mut().push(op);
        }
    }
}

impl Drop for Eraser<'_> {
    fn drop(&mut self) {
        // One that was put back into a block belongs to that.
        for op in self.0.take().into_iter().filter(|op| op.block().is_none()) {
            // SAFETY: `unlink` took the op out of its block, and its results are unused; by the contract of `new` no handle is used again.
            unsafe { op.destroy() };
        }
    }
}
