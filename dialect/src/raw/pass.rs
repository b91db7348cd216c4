//! The bridge for passes: a [`PassSpec`] becomes an `mlir::Pass` (class `RustPass` in `cc/Pass.cpp`).

use std::ffi::c_void;
use std::panic::AssertUnwindSafe;

use mlir_sys::*;

use super::shim::{
    RkOptionSpec, RkPass, RkPassSpec, rkPassOption, rkPassRunPipeline, rkRegisterPass, rkSetOptionDefault,
};
use super::{Eraser, Op, emit, text, view};
use crate::diagnostic::Severity;
use crate::panics;
use crate::pass::{PassContext, PassSpec};

/// The C++ side of a pass that is running. Lives as long as the callback.
#[derive(Clone, Copy)]
pub struct RunningPass {
    raw: RkPass,
}

impl RunningPass {
    /// The value of the i-th option, copied.
    pub(crate) fn option(self, index: usize) -> String {
        // SAFETY: the pass is running; C++ checks the index.
        unsafe { text(rkPassOption(self.raw, index as isize)).to_owned() }
    }

    /// Runs a textual pipeline on the op. False after an error was reported.
    pub(crate) fn run_pipeline(self, op: Op<'_>, pipeline: &str) -> bool {
        // SAFETY: the pass is running.
        unsafe { rkPassRunPipeline(self.raw, op.raw, view(pipeline)) }
    }
}

/// Registers a pass, once per process.
pub fn register(spec: &'static PassSpec) {
    let options: Vec<RkOptionSpec> = spec
        .options
        .iter()
        .map(|option| RkOptionSpec {
            name: view(option.name),
            initial: view(option.default),
            help: view(option.help),
        })
        .collect();
    // MLIR keeps the description for the life of the process, so it is leaked, once per pass.
    let options = Box::leak(options.into_boxed_slice());
    let identity: &'static u64 = Box::leak(Box::new(0));
    let spec: &'static RkPassSpec = Box::leak(Box::new(RkPassSpec {
        name: view(spec.name),
        argument: view(spec.argument),
        description: view(spec.description),
        option_count: options.len() as isize,
        options: options.as_ptr(),
        identity: (&raw const *identity).cast(),
        run: trampoline,
        data: (&raw const *spec).cast(),
    }));
    // SAFETY: everything that it points to lives for ever.
    unsafe { rkRegisterPass(spec) }
}

unsafe extern "C" fn trampoline(pass: RkPass, module: MlirOperation, data: *const c_void) -> bool {
    // SAFETY: `data` is the spec that `register` handed over.
    let spec: &'static PassSpec = unsafe { &*data.cast::<PassSpec>() };
    let module = Op::from_raw(module);
    // SAFETY: `run` of a spec is for every lifetime, so no handle of this one is left when the context is dropped.
    let eraser = unsafe { Eraser::new() };
    let mut context = PassContext::new(spec, RunningPass { raw: pass }, module, eraser);
    let outcome = panics::caught(AssertUnwindSafe(|| (spec.run)(&mut context)));
    match outcome {
        Ok(Ok(())) => true,
        Ok(Err(failure)) => {
            failure.report();
            false
        }
        Err(message) => {
            let text = format!("the pass '{}' panicked, a bug in rk: {message}", spec.argument);
            emit(context.current().location(), Severity::Error, &text, &[]);
            false
        }
    }
}

/// What the option of this name holds in every rk pass made from now on, unless it is given.
pub fn set_option_default(option: &str, value: &str) {
    // SAFETY: C++ copies both.
    unsafe { rkSetOptionDefault(view(option), view(value)) }
}
