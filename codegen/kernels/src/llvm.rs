//! The part of LLVM's C API that turns a module of the LLVM dialect into an object file.
//!
//! Each declaration is that of `llvm-c/Target.h`, `TargetMachine.h` and `Transforms/PassBuilder.h` in LLVM 22. The library is
//! linked by `rk-dialect`.

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::sync::{Mutex, MutexGuard, PoisonError};

use mlir_sys::{
    LLVMContextCreate, LLVMContextRef, LLVMModuleRef, MlirOperation, mlirTranslateModuleToLLVMIR,
};

use crate::KernelError;

#[repr(C)]
struct Opaque {
    _private: [u8; 0],
}
type Pointer = *mut Opaque;

unsafe extern "C" {
    fn LLVMContextDispose(context: LLVMContextRef);
    fn LLVMDisposeModule(module: LLVMModuleRef);
    fn LLVMDisposeMessage(message: *mut c_char);
    fn LLVMSetTarget(module: LLVMModuleRef, triple: *const c_char);
    fn LLVMSetModuleDataLayout(module: LLVMModuleRef, layout: Pointer);
    fn LLVMGetTargetFromTriple(triple: *const c_char, target: *mut Pointer, error: *mut *mut c_char)
    -> c_int;
    fn LLVMCreateTargetMachine(
        target: Pointer,
        triple: *const c_char,
        cpu: *const c_char,
        features: *const c_char,
        level: c_int,
        relocation: c_int,
        model: c_int,
    ) -> Pointer;
    fn LLVMDisposeTargetMachine(machine: Pointer);
    fn LLVMCreateTargetDataLayout(machine: Pointer) -> Pointer;
    fn LLVMDisposeTargetData(layout: Pointer);
    fn LLVMCreatePassBuilderOptions() -> Pointer;
    fn LLVMDisposePassBuilderOptions(options: Pointer);
    fn LLVMRunPasses(
        module: LLVMModuleRef,
        passes: *const c_char,
        machine: Pointer,
        options: Pointer,
    ) -> *mut c_void;
    fn LLVMGetErrorMessage(error: *mut c_void) -> *mut c_char;
    fn LLVMDisposeErrorMessage(message: *mut c_char);
    fn LLVMTargetMachineEmitToMemoryBuffer(
        machine: Pointer,
        module: LLVMModuleRef,
        kind: c_int,
        error: *mut *mut c_char,
        buffer: *mut Pointer,
    ) -> c_int;
    fn LLVMGetBufferStart(buffer: Pointer) -> *const c_char;
    fn LLVMGetBufferSize(buffer: Pointer) -> usize;
    fn LLVMDisposeMemoryBuffer(buffer: Pointer);
}

#[cfg(target_arch = "x86_64")]
mod native {
    unsafe extern "C" {
        pub fn LLVMInitializeX86TargetInfo();
        pub fn LLVMInitializeX86Target();
        pub fn LLVMInitializeX86TargetMC();
        pub fn LLVMInitializeX86AsmPrinter();
    }
    /// # Safety
    /// None: registration is idempotent.
    pub unsafe fn initialize() {
        // SAFETY: no preconditions.
        unsafe {
            LLVMInitializeX86TargetInfo();
            LLVMInitializeX86Target();
            LLVMInitializeX86TargetMC();
            LLVMInitializeX86AsmPrinter();
        }
    }
}
#[cfg(target_arch = "aarch64")]
mod native {
    unsafe extern "C" {
        pub fn LLVMInitializeAArch64TargetInfo();
        pub fn LLVMInitializeAArch64Target();
        pub fn LLVMInitializeAArch64TargetMC();
        pub fn LLVMInitializeAArch64AsmPrinter();
    }
    /// # Safety
    /// None: registration is idempotent.
    pub unsafe fn initialize() {
        // SAFETY: no preconditions.
        unsafe {
            LLVMInitializeAArch64TargetInfo();
            LLVMInitializeAArch64Target();
            LLVMInitializeAArch64TargetMC();
            LLVMInitializeAArch64AsmPrinter();
        }
    }
}

// The values of the enumerations in llvm-c/TargetMachine.h.
const AGGRESSIVE: c_int = 3;
const POSITION_INDEPENDENT: c_int = 2;
const DEFAULT_MODEL: c_int = 0;
const OBJECT_FILE: c_int = 1;

/// Held while LLVM's list of targets is read or may grow, because the list has no lock of its own. MLIR adds NVPTX to it when it
/// first makes PTX.
pub fn targets() -> MutexGuard<'static, ()> {
    static TARGETS: Mutex<()> = Mutex::new(());
    TARGETS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Translates a module of the LLVM dialect, optimizes it and returns an object file.
///
/// # Safety
/// `module` must be alive and hold nothing but the LLVM dialect, in a context with the translations registered.
pub unsafe fn object(module: MlirOperation, triple: &str, cpu: &str) -> Result<Vec<u8>, KernelError> {
    let text = |text: &str| CString::new(text).expect("no name of a target holds a zero byte");
    let (triple, cpu, none) = (text(triple), text(cpu), text(""));
    // SAFETY: every handle is made here, checked, used while it is alive, and freed once.
    unsafe {
        let mut target = std::ptr::null_mut();
        let mut error = std::ptr::null_mut();
        let list = targets();
        native::initialize();
        if LLVMGetTargetFromTriple(triple.as_ptr(), &mut target, &mut error) != 0 {
            return Err(message(error));
        }
        drop(list);
        let context = LLVMContextCreate();
        let ir = mlirTranslateModuleToLLVMIR(module, context);
        if ir.is_null() {
            LLVMContextDispose(context);
            return Err(KernelError::Mlir("the module cannot be translated to LLVM IR".into()));
        }
        let machine = LLVMCreateTargetMachine(
            target,
            triple.as_ptr(),
            cpu.as_ptr(),
            none.as_ptr(),
            AGGRESSIVE,
            POSITION_INDEPENDENT,
            DEFAULT_MODEL,
        );
        let layout = LLVMCreateTargetDataLayout(machine);
        LLVMSetTarget(ir, triple.as_ptr());
        LLVMSetModuleDataLayout(ir, layout);
        let result = emit(ir, machine);
        LLVMDisposeTargetData(layout);
        LLVMDisposeTargetMachine(machine);
        LLVMDisposeModule(ir);
        LLVMContextDispose(context);
        result
    }
}

/// # Safety
/// Both handles must be alive.
unsafe fn emit(ir: LLVMModuleRef, machine: Pointer) -> Result<Vec<u8>, KernelError> {
    // SAFETY: the caller's, and as above.
    unsafe {
        let options = LLVMCreatePassBuilderOptions();
        let failed = LLVMRunPasses(ir, c"default<O3>".as_ptr(), machine, options);
        LLVMDisposePassBuilderOptions(options);
        if !failed.is_null() {
            let text = LLVMGetErrorMessage(failed);
            let error = KernelError::Llvm(CStr::from_ptr(text).to_string_lossy().into_owned());
            LLVMDisposeErrorMessage(text);
            return Err(error);
        }
        let mut error = std::ptr::null_mut();
        let mut buffer = std::ptr::null_mut();
        if LLVMTargetMachineEmitToMemoryBuffer(machine, ir, OBJECT_FILE, &mut error, &mut buffer) != 0 {
            return Err(message(error));
        }
        let bytes =
            std::slice::from_raw_parts(LLVMGetBufferStart(buffer).cast::<u8>(), LLVMGetBufferSize(buffer))
                .to_vec();
        LLVMDisposeMemoryBuffer(buffer);
        Ok(bytes)
    }
}

/// # Safety
/// `error` must be a message of LLVM, which is freed here.
unsafe fn message(error: *mut c_char) -> KernelError {
    // SAFETY: the caller's.
    unsafe {
        let text = CStr::from_ptr(error).to_string_lossy().into_owned();
        LLVMDisposeMessage(error);
        KernelError::Llvm(text)
    }
}
