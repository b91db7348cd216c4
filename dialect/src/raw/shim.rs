//! The functions of `cc/shim.h`, which documents each; below them their safe faces that belong to no handle.

use std::ffi::{CString, c_char, c_int, c_void};

use mlir_sys::*;

use super::{Location, view};
use crate::diagnostic::{Remark, Severity};

#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct RkPass {
    pub pointer: *mut c_void,
}

#[repr(C)]
pub(super) struct RkOptionSpec {
    pub name: MlirStringRef,
    pub initial: MlirStringRef,
    pub help: MlirStringRef,
}

#[repr(C)]
pub(super) struct RkPassSpec {
    pub name: MlirStringRef,
    pub argument: MlirStringRef,
    pub description: MlirStringRef,
    pub option_count: isize,
    pub options: *const RkOptionSpec,
    pub identity: *const c_void,
    pub run: unsafe extern "C" fn(RkPass, MlirOperation, *const c_void) -> bool,
    pub data: *const c_void,
}

unsafe extern "C" {
    pub fn mlirGetDialectHandle__rk__() -> MlirDialectHandle;
    pub fn rkStageGet(context: MlirContext, stage: u32) -> MlirAttribute;
    pub fn rkStageRead(attribute: MlirAttribute) -> i32;
    pub fn rkCostGet(context: MlirContext, time: i64, workspace: i64) -> MlirAttribute;
    pub fn rkCostRead(attribute: MlirAttribute, time: *mut i64, workspace: *mut i64) -> bool;
    pub fn rkStridedGet(
        context: MlirContext,
        count: isize,
        strides: *const i64,
        storage: i64,
    ) -> MlirAttribute;
    pub fn rkStridedRead(attribute: MlirAttribute, strides: *mut *const i64, storage: *mut i64) -> isize;
    pub fn rkNoneGet(context: MlirContext) -> MlirAttribute;
    pub fn rkNoneIs(attribute: MlirAttribute) -> bool;
    pub fn rkGeneratorGet(context: MlirContext) -> MlirType;
    pub fn rkGeneratorIs(ty: MlirType) -> bool;
    pub fn rkHostGet(held: MlirType) -> MlirType;
    pub fn rkHostIs(ty: MlirType) -> bool;
    pub fn rkLookupSymbol(from: MlirOperation, name: MlirStringRef) -> MlirOperation;
    pub fn rkParseModule(context: MlirContext, source: MlirStringRef, name: MlirStringRef) -> MlirModule;
    pub fn rkIsTriviallyDead(op: MlirOperation) -> bool;
    pub fn rkUnlink(op: MlirOperation);
    fn rkEmit(
        location: MlirLocation,
        severity: u32,
        message: MlirStringRef,
        count: isize,
        note_locations: *const MlirLocation,
        note_messages: *const MlirStringRef,
    );
    fn rkRemark(
        location: MlirLocation,
        kind: u32,
        category: MlirStringRef,
        name: MlirStringRef,
        message: MlirStringRef,
        count: isize,
        keys: *const MlirStringRef,
        values: *const MlirStringRef,
    );
    pub(super) fn rkRegisterPass(spec: *const RkPassSpec);
    pub(super) fn rkPassOption(pass: RkPass, index: isize) -> MlirStringRef;
    pub(super) fn rkPassRunPipeline(pass: RkPass, op: MlirOperation, pipeline: MlirStringRef) -> bool;
    pub(super) fn rkSetOptionDefault(option: MlirStringRef, value: MlirStringRef);
    pub(super) fn rkRegisterForKernels(registry: MlirDialectRegistry);
    fn rkOptMain(argc: c_int, argv: *mut *mut c_char, version: *const c_char) -> c_int;
    fn rkLspServerMain(argc: c_int, argv: *mut *mut c_char) -> c_int;
}

/// Reports a diagnostic with notes through MLIR, which prints it (or hands it to `-verify-diagnostics`).
pub(crate) fn emit(
    location: Location<'_>,
    severity: Severity,
    message: &str,
    notes: &[(Location<'_>, String)],
) {
    let severity = match severity {
        Severity::Error => 0,
        Severity::Warning => 1,
        Severity::Remark | Severity::Note => 2,
    };
    let locations: Vec<_> = notes.iter().map(|(location, _)| location.raw).collect();
    let messages: Vec<_> = notes.iter().map(|(_, message)| view(message)).collect();
    // SAFETY: MLIR copies the texts before the call returns.
    unsafe {
        rkEmit(
            location.raw,
            severity,
            view(message),
            notes.len() as isize,
            locations.as_ptr(),
            messages.as_ptr(),
        );
    }
}

/// Emits an optimization remark, which MLIR shows with `--remarks-filter`.
pub(crate) fn emit_remark(location: Location<'_>, remark: &Remark<'_>) {
    let keys: Vec<_> = remark.metrics.iter().map(|(key, _)| view(key)).collect();
    let values: Vec<_> = remark.metrics.iter().map(|(_, value)| view(value)).collect();
    // SAFETY: as above.
    unsafe {
        rkRemark(
            location.raw,
            remark.kind as u32,
            view(remark.category),
            view(remark.name),
            view(remark.message),
            keys.len() as isize,
            keys.as_ptr(),
            values.as_ptr(),
        );
    }
}

/// Arguments of this process as C wants them, kept for ever: LLVM's command-line library holds on to them.
fn arguments(command: impl IntoIterator<Item = std::ffi::OsString>) -> (c_int, *mut *mut c_char) {
    let mut pointers: Vec<*mut c_char> = command
        .into_iter()
        .map(|argument| {
            use std::os::unix::ffi::OsStringExt;
            // An argument of a Unix process has no NUL inside.
            CString::new(argument.into_vec()).unwrap_or_default().into_raw()
        })
        .collect();
    let count = c_int::try_from(pointers.len()).unwrap_or(c_int::MAX);
    pointers.push(std::ptr::null_mut());
    (count, Box::leak(pointers.into_boxed_slice()).as_mut_ptr())
}

/// Runs `rk-opt` on a command line, the program's name first. The passes must be registered before. Returns the exit code.
/// `version` is the line that `--version` adds.
pub fn opt_main(command: impl IntoIterator<Item = std::ffi::OsString>, version: &str) -> i32 {
    let version = CString::new(version).unwrap_or_default().into_raw();
    let (count, pointers) = arguments(command);
    // SAFETY: both live for ever.
    unsafe { rkOptMain(count, pointers, version) }
}

/// Runs `rk-lsp-server` on the arguments of this process. Returns the exit code.
pub fn lsp_server_main() -> i32 {
    let (count, pointers) = arguments(std::env::args_os());
    // SAFETY: they live for ever.
    unsafe { rkLspServerMain(count, pointers) }
}
