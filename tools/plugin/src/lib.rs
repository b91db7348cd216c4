//! `librk.so`: the dialect and the passes inside stock mlir-opt.
//!
//! ```sh
//! mlir-opt --load-dialect-plugin=librk.so --load-pass-plugin=librk.so --pass-pipeline='builtin.module(rk-verify-stage)' STEP.mlir
//! ```
//!
//! mlir-opt finds a plugin by two C functions. They are Rust because rustc hides the symbols of a C++ archive in a cdylib.
//! Not here: flags of its own. Stock mlir-opt takes a plugin's passes through `--pass-pipeline` only.

use std::ffi::{c_char, c_void};
use std::sync::Once;

/// `mlir::PassPluginLibraryInfo` of mlir/Tools/Plugins/PassPlugin.h.
#[repr(C)]
pub struct PassPluginLibraryInfo {
    api_version: u32,
    name: *const c_char,
    version: *const c_char,
    register: extern "C" fn(),
}

/// `mlir::DialectPluginLibraryInfo` of mlir/Tools/Plugins/DialectPlugin.h.
#[repr(C)]
pub struct DialectPluginLibraryInfo {
    api_version: u32,
    name: *const c_char,
    version: *const c_char,
    register: extern "C" fn(*mut c_void),
}

/// `MLIR_PLUGIN_API_VERSION` of MLIR 22.
const API_VERSION: u32 = 1;
const NAME: *const c_char = c"rk".as_ptr();
const VERSION: *const c_char = concat!(env!("CARGO_PKG_VERSION"), "\0").as_ptr().cast();

/// The pass half of the plugin; mlir-opt calls it for `--load-pass-plugin`.
#[unsafe(no_mangle)]
pub extern "C" fn mlirGetPassPluginInfo() -> PassPluginLibraryInfo {
    PassPluginLibraryInfo {
        api_version: API_VERSION,
        name: NAME,
        version: VERSION,
        register: register_passes,
    }
}

/// The dialect half of the plugin; mlir-opt calls it for `--load-dialect-plugin`.
#[unsafe(no_mangle)]
pub extern "C" fn mlirGetDialectPluginInfo() -> DialectPluginLibraryInfo {
    DialectPluginLibraryInfo {
        api_version: API_VERSION,
        name: NAME,
        version: VERSION,
        register: register_dialect,
    }
}

/// Loading the file twice, as dialect and as pass plugin, must not register a pass twice.
static PASSES: Once = Once::new();

extern "C" fn register_passes() {
    PASSES.call_once(rk_rewrite::register_all);
}

extern "C" fn register_dialect(registry: *mut c_void) {
    // SAFETY: mlir-opt passes its registry, which is alive during the call.
    unsafe { rk_dialect::insert_dialect(registry) };
    // With the passes registered here too, --load-dialect-plugin alone suffices.
    register_passes();
}
