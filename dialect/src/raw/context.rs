//! Contexts, modules and locations.

use std::marker::PhantomData;
use std::path::Path;

use melior::dialect::{DialectHandle, DialectRegistry};
use mlir_sys::*;

use super::{Module, by_address, printed, shim, text, view};
use crate::diagnostic::{Reported, Severity};

/// An MLIR context with the dialects `rk` and `func` loaded. Owns everything made in it; single-threaded.
#[derive(Debug)]
pub struct Context {
    inner: melior::Context,
}

impl Default for Context {
    fn default() -> Self {
        Self::new()
    }
}

impl Context {
    /// A fresh context.
    pub fn new() -> Self {
        let registry = DialectRegistry::new();
        // SAFETY: the handle is a static of the shim.
        unsafe { DialectHandle::from_raw(shim::mlirGetDialectHandle__rk__()) }.insert_dialect(&registry);
        DialectHandle::func().insert_dialect(&registry);
        let inner = melior::Context::new_with_registry(&registry, false);
        inner.load_all_available_dialects();
        Self { inner }
    }

    /// The handle that everything is made with.
    pub fn handle(&self) -> Ctx<'_> {
        Ctx::from_raw(self.inner.to_raw())
    }

    /// An empty module.
    pub fn module(&self, location: Location<'_>) -> Module<'_> {
        // SAFETY: the module is owned by the result.
        Module::from_raw(unsafe { mlirModuleCreateEmpty(location.raw) })
    }

    /// Parses and verifies a module; `name` is the file name in error messages.
    ///
    /// # Errors
    /// What MLIR reported, in order; never empty.
    pub fn parse(&self, source: &str, name: &str) -> Result<Module<'_>, Vec<Reported>> {
        self.parse_bytes(source.as_bytes(), name)
    }

    /// Parses and verifies a file, text or bytecode.
    ///
    /// # Errors
    /// What MLIR reported, or that the file cannot be read.
    pub fn parse_file(&self, path: &Path) -> Result<Module<'_>, Vec<Reported>> {
        let name = path.display().to_string();
        let bytes = std::fs::read(path).map_err(|error| vec![Reported::error(&name, &error.to_string())])?;
        self.parse_bytes(&bytes, &name)
    }

    fn parse_bytes(&self, source: &[u8], name: &str) -> Result<Module<'_>, Vec<Reported>> {
        // MLIR reads the terminator behind the text that it is given.
        let terminated = [source, b"\0"].concat();
        let view_of_source = MlirStringRef { data: terminated.as_ptr().cast(), length: source.len() };
        // SAFETY: the text lives during the call; the module is owned by the result.
        let (raw, mut reported) = self
            .reporting(|| unsafe { shim::rkParseModule(self.inner.to_raw(), view_of_source, view(name)) });
        if !raw.ptr.is_null() {
            return Ok(Module::from_raw(raw));
        }
        if !reported.iter().any(|one| one.severity == Severity::Error) {
            reported.push(Reported::error(name, "not an MLIR file"));
        }
        Err(reported)
    }

    /// Runs `work` and returns, with its result, everything that MLIR reported meanwhile (instead of printing it).
    pub fn reporting<T>(&self, work: impl FnOnce() -> T) -> (T, Vec<Reported>) {
        reporting(self.inner.to_raw(), work)
    }
}

/// See [`Context::reporting`].
pub(super) fn reporting<T>(context: MlirContext, work: impl FnOnce() -> T) -> (T, Vec<Reported>) {
    unsafe extern "C" fn collect(
        diagnostic: MlirDiagnostic,
        into: *mut std::ffi::c_void,
    ) -> MlirLogicalResult {
        // SAFETY: `into` is the list below, and the diagnostic lives during the call.
        unsafe { (*into.cast::<Vec<Reported>>()).push(reported(diagnostic)) };
        MlirLogicalResult { value: 1 }
    }
    let mut list: Vec<Reported> = Vec::new();
    // SAFETY: the handler is detached before the list goes away.
    unsafe {
        let id = mlirContextAttachDiagnosticHandler(context, Some(collect), (&raw mut list).cast(), None);
        let result = work();
        mlirContextDetachDiagnosticHandler(context, id);
        (result, list)
    }
}

/// Copies a diagnostic out of MLIR.
///
/// # Safety
/// The diagnostic must be alive.
unsafe fn reported(raw: MlirDiagnostic) -> Reported {
    // SAFETY: the caller's.
    unsafe {
        let location = Location::from_raw(mlirDiagnosticGetLocation(raw));
        let notes = (0..mlirDiagnosticGetNumNotes(raw))
            .map(|index| reported(mlirDiagnosticGetNote(raw, index)))
            .collect();
        // The order of MlirDiagnosticSeverity in mlir-c/Diagnostics.h.
        const SEVERITIES: [Severity; 4] =
            [Severity::Error, Severity::Warning, Severity::Note, Severity::Remark];
        let number = usize::try_from(mlirDiagnosticGetSeverity(raw)).unwrap_or(0);
        let severity = SEVERITIES.get(number).copied().unwrap_or(Severity::Error);
        let message = printed(|callback, data| mlirDiagnosticPrint(raw, callback, data));
        Reported { severity, location: location.place(), message, notes }
    }
}

/// Puts the dialect into an `mlir::DialectRegistry` of C++, for plugins.
///
/// # Safety
/// `registry` must point to a registry that is alive.
pub unsafe fn insert_dialect(registry: *mut std::ffi::c_void) {
    // SAFETY: the caller's; MLIR's C API wraps the registry as its address.
    unsafe {
        mlirDialectHandleInsertDialect(
            shim::mlirGetDialectHandle__rk__(),
            MlirDialectRegistry { ptr: registry },
        );
    }
}

/// A registry with what kernels are generated with: the dialects from linalg to LLVM and NVVM, and their translations. The passes
/// between them are registered for the whole process.
pub fn kernel_registry() -> DialectRegistry {
    let registry = DialectRegistry::new();
    // SAFETY: the registry is alive.
    unsafe { shim::rkRegisterForKernels(registry.to_raw()) };
    registry
}

/// A borrowed context.
#[derive(Clone, Copy, Debug)]
pub struct Ctx<'c> {
    pub(crate) raw: MlirContext,
    life: PhantomData<&'c ()>,
}
by_address!(Ctx);

impl<'c> Ctx<'c> {
    pub(crate) fn from_raw(raw: MlirContext) -> Self {
        Self { raw, life: PhantomData }
    }

    /// A location that says nothing.
    pub fn unknown(self) -> Location<'c> {
        // SAFETY: the context is alive.
        Location::from_raw(unsafe { mlirLocationUnknownGet(self.raw) })
    }

    /// `loc("name")`: the module path of an op; the root's empty path is written `<root>`.
    pub fn named(self, name: &str) -> Location<'c> {
        let name = if name.is_empty() { "<root>" } else { name };
        // SAFETY: the context is alive; MLIR copies the name.
        Location::from_raw(unsafe {
            mlirLocationNameGet(self.raw, view(name), MlirLocation { ptr: std::ptr::null() })
        })
    }

    /// `loc("file":line:column)`, both from 1.
    pub fn file(self, file: &str, line: u32, column: u32) -> Location<'c> {
        // SAFETY: as above.
        Location::from_raw(unsafe { mlirLocationFileLineColGet(self.raw, view(file), line, column) })
    }
}

/// Where an op comes from.
#[derive(Clone, Copy, Debug)]
pub struct Location<'c> {
    pub(crate) raw: MlirLocation,
    life: PhantomData<&'c ()>,
}
by_address!(Location);

impl<'c> Location<'c> {
    pub(crate) fn from_raw(raw: MlirLocation) -> Self {
        Self { raw, life: PhantomData }
    }

    /// The context.
    pub fn context(self) -> Ctx<'c> {
        // SAFETY: the location is alive.
        Ctx::from_raw(unsafe { mlirLocationGetContext(self.raw) })
    }

    /// The name of a NameLoc (`loc("layer1.0.conv1")`), looking into call sites and fused locations for the first one.
    pub fn name(self) -> Option<&'c str> {
        // SAFETY: each getter is called on its own kind.
        unsafe {
            if mlirLocationIsAName(self.raw) {
                return Some(text(mlirIdentifierStr(mlirLocationNameGetName(self.raw))));
            }
            if mlirLocationIsACallSite(self.raw) {
                return Self::from_raw(mlirLocationCallSiteGetCallee(self.raw)).name();
            }
            if mlirLocationIsAFused(self.raw) {
                let count = usize::try_from(mlirLocationFusedGetNumLocations(self.raw)).unwrap_or(0);
                let mut parts = vec![self.raw; count];
                mlirLocationFusedGetLocations(self.raw, parts.as_mut_ptr());
                return parts.into_iter().find_map(|part| Self::from_raw(part).name());
            }
            None
        }
    }

    /// The line of a `loc("file":line:column)`, also of one that has a name: `loc("layer1.0.conv1"("graph":12:1))`.
    pub fn line(self) -> Option<u32> {
        // SAFETY: each getter is called on its own kind.
        unsafe {
            if mlirLocationIsAName(self.raw) {
                return Self::from_raw(mlirLocationNameGetChildLoc(self.raw)).line();
            }
            mlirLocationIsAFileLineColRange(self.raw)
                .then(|| u32::try_from(mlirLocationFileLineColRangeGetStartLine(self.raw)).ok())
                .flatten()
        }
    }

    /// As MLIR prints it in messages: `file:line:column`, or the location's own syntax.
    pub fn place(self) -> String {
        // SAFETY: each getter is called on its own kind.
        unsafe {
            if mlirLocationIsAFileLineColRange(self.raw) {
                let file = text(mlirIdentifierStr(mlirLocationFileLineColRangeGetFilename(self.raw)));
                let line = mlirLocationFileLineColRangeGetStartLine(self.raw);
                let column = mlirLocationFileLineColRangeGetStartColumn(self.raw);
                return format!("{file}:{line}:{column}");
            }
            printed(|callback, data| mlirLocationPrint(self.raw, callback, data))
        }
    }
}
