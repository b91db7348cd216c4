//! Owned modules.

use mlir_sys::*;

use super::context::reporting;
use super::{Attr, Block, Op, printed, view};
use crate::diagnostic::{Reported, Severity};

/// An owned module.
#[derive(Debug)]
pub struct Module<'c> {
    inner: melior::ir::Module<'c>,
}

impl<'c> Module<'c> {
    /// Takes ownership.
    pub(super) fn from_raw(raw: MlirModule) -> Self {
        // SAFETY: the caller hands over an owned module.
        Self { inner: unsafe { melior::ir::Module::from_raw(raw) } }
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
