//! The border to C++: the only module of the crate with `unsafe` in it.
//!
//! Handles ([`Op`], [`Value`], [`Block`], [`Type`], [`Attr`], [`Location`], [`Ctx`]) are `Copy` pointers into a context,
//! with the lifetime of that context. Their methods are thin and total: a question that makes no sense for this handle is
//! answered with `None` or an empty list, never with a crash.
//!
//! What the compiler cannot check here, and the caller must keep:
//! - **No handle is used after the module that holds it is gone.** The lifetime of a handle is that of the context, not of the
//!   op: edits through one handle would otherwise forbid every other. What is erased stays alive until the pass is over
//!   ([`Eraser`]).
//! - **Handles of one context** are not mixed with those of another.
//! - **Inside a pass** only the op that the pass was given, and what is below it, may be edited.
//!
//! Contexts, registries and modules are owned by melior. Its borrowed handles are not used: `op.context().to_ref()` there
//! borrows a temporary but claims the context's lifetime, which is a segfault in release; it emits no diagnostics, and
//! has no use lists and no registered passes with options. What is needed beyond it is small enough to be read here in
//! one sitting.

mod attr;
mod block;
mod callbacks;
mod context;
mod dialect;
mod module;
mod op;
mod pass;
pub(crate) mod shim;
mod ty;
mod value;

pub use attr::{Attr, DenseBytes};
pub use block::{Block, Region};
pub use context::{Context, Ctx, Location, insert_dialect, kernel_registry};
pub use module::{Eraser, Module};
pub use op::{At, NewOp, Op};
pub use pass::{RunningPass, register, set_option_default};
pub(crate) use shim::{emit, emit_remark};
pub use shim::{lsp_server_main, opt_main};
pub use ty::Type;
pub use value::{Use, Value};

/// Borrows a string for a call into MLIR.
fn view(text: &str) -> mlir_sys::MlirStringRef {
    mlir_sys::MlirStringRef { data: text.as_ptr().cast(), length: text.len() }
}

/// A string that lives as long as the context (identifiers, attributes). Bytes that are no UTF-8 become a replacement
/// character: no name of ours contains such bytes.
///
/// # Safety
/// The bytes must live for `'c`.
unsafe fn text<'c>(raw: mlir_sys::MlirStringRef) -> &'c str {
    if raw.data.is_null() {
        return "";
    }
    // SAFETY: by the contract of this function, MLIR's bytes are there for as long as their context.
    let bytes = unsafe { std::slice::from_raw_parts(raw.data.cast::<u8>(), raw.length) };
    std::str::from_utf8(bytes).unwrap_or("\u{fffd}")
}

/// Collects what MLIR prints through a callback.
fn printed(print: impl FnOnce(mlir_sys::MlirStringCallback, *mut std::ffi::c_void)) -> String {
    unsafe extern "C" fn push(chunk: mlir_sys::MlirStringRef, into: *mut std::ffi::c_void) {
        // SAFETY: `into` is the buffer below, and the chunk lives during the call.
        unsafe { (*into.cast::<String>()).push_str(text(chunk)) };
    }
    let mut buffer = String::new();
    print(Some(push), (&raw mut buffer).cast());
    buffer
}

/// Equality, hashing and null test by address: MLIR uniques types and attributes, and ops are their address.
macro_rules! by_address {
    ($name:ident) => {
        impl PartialEq for $name<'_> {
            fn eq(&self, other: &Self) -> bool {
                self.raw.ptr == other.raw.ptr
            }
        }
        impl Eq for $name<'_> {}
        impl std::hash::Hash for $name<'_> {
            fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
                (self.raw.ptr as usize).hash(state);
            }
        }
    };
}
use by_address;
