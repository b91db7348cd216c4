//! A context with what the pipelines of this crate need of MLIR, and modules run through them.

use std::cell::RefCell;
use std::rc::Rc;

use melior::Context;
use melior::ir::Module;
use melior::pass::PassManager;
use melior::utility;

use crate::KernelError;

/// A fresh context with the dialects and translations of [`rk_dialect::kernel_registry`].
pub fn context() -> Context {
    let context = Context::new_with_registry(&rk_dialect::kernel_registry(), false);
    context.load_all_available_dialects();
    context
}

/// Parses `text` and runs each of `pipelines` on it.
pub fn lowered<'c>(context: &'c Context, text: &str, pipelines: &[&str]) -> Result<Module<'c>, KernelError> {
    let reported = Rc::new(RefCell::new(String::new()));
    let into = Rc::clone(&reported);
    let handler = context.attach_diagnostic_handler(move |diagnostic| {
        into.borrow_mut().push_str(&format!("{diagnostic}\n"));
        true
    });
    let made = run(context, text, pipelines);
    context.detach_diagnostic_handler(handler);
    made.ok_or_else(|| KernelError::Mlir(format!("{}\n{text}", reported.borrow().trim())))
}

fn run<'c>(context: &'c Context, text: &str, pipelines: &[&str]) -> Option<Module<'c>> {
    let mut module = Module::parse(context, text)?;
    for pipeline in pipelines {
        let manager = PassManager::new(context);
        // Parsing assigns the pipeline: one manager for each.
        utility::parse_pass_pipeline(manager.as_operation_pass_manager(), pipeline).ok()?;
        manager.run(&mut module).ok()?;
    }
    Some(module)
}
