//! Machine code: linalg, loops, the LLVM dialect, an object file, and the system linker's shared object.
//!
//! A step file must not depend on the machine that wrote it, so the code is for a level of the architecture
//! ([`LEVEL`]) and not for the CPU at hand. LLVM vectorizes the innermost loop. The linker refuses what stays undefined
//! beyond libc and libm, so a call into a compiler's run-time library cannot go unnoticed.

use std::fmt::Write as _;
use std::process::Command;

use rk_dialect::pointwise::Elementwise;

use crate::emit::{self, Operand, Signature};
use crate::{KernelError, llvm, mlir, reduce, rows};

/// For which CPUs the code is: AVX2, FMA and F16C on x86-64 (what ATen's own kernels want), any AArch64.
#[cfg(target_arch = "x86_64")]
pub const LEVEL: &str = "x86-64-v3";
/// For which CPUs the code is.
#[cfg(target_arch = "aarch64")]
pub const LEVEL: &str = "generic";

#[cfg(target_arch = "x86_64")]
const TRIPLE: &str = "x86_64-unknown-linux-gnu";
#[cfg(target_arch = "aarch64")]
const TRIPLE: &str = "aarch64-unknown-linux-gnu";

const PIPELINE: &str = "builtin.module(func.func(convert-linalg-to-loops),canonicalize,cse,expand-strided-metadata,\
    lower-affine,arith-expand{include-bf16=true},convert-scf-to-cf,convert-math-to-llvm,convert-math-to-libm,\
    finalize-memref-to-llvm,convert-index-to-llvm,convert-arith-to-llvm,convert-cf-to-llvm,convert-func-to-llvm,\
    reconcile-unrealized-casts,canonicalize,cse)";

/// One kernel to make.
#[derive(Clone, Debug)]
pub struct Request<'a> {
    /// The name under which a loader finds it.
    pub symbol: String,
    /// What it computes.
    pub body: &'a Elementwise,
    /// The input whose storage output 0 takes, if any.
    pub overwrites: Option<usize>,
}

/// A shared object with all kernels.
///
/// # Errors
/// [`KernelError`]: a refusal by MLIR or LLVM is a bug in rk; the linker may be missing.
pub fn library(requests: &[Request<'_>]) -> Result<Vec<u8>, KernelError> {
    let context = mlir::context();
    let text: String = requests.iter().map(function).collect();
    let module = mlir::lowered(&context, &text, &[PIPELINE])?;
    // SAFETY: the pipeline has left nothing but the LLVM dialect, else the translation refuses.
    let object = unsafe { llvm::object(module.as_operation().to_raw(), TRIPLE, LEVEL) }?;
    link(&object)
}

/// The kernel as MLIR, before any lowering.
pub fn function(request: &Request<'_>) -> String {
    let Request { symbol, body, overwrites } = request;
    let signature = Signature::of(body, *overwrites);
    let (reads, writes) = emit::operands(body, &signature, *overwrites);
    let mut text = format!("func.func @{symbol}(%buffers: !llvm.ptr, %begin: i64, %end: i64) {{\n");
    text.push_str("    %from = arith.index_cast %begin : i64 to index\n");
    text.push_str("    %to = arith.index_cast %end : i64 to index\n");
    text.push_str("    %rows = arith.subi %to, %from : index\n");
    for index in 0..signature.buffers.len() {
        let _ = writeln!(
            text,
            "    %slot{index} = llvm.getelementptr %buffers[{index}] : (!llvm.ptr) -> !llvm.ptr, !llvm.ptr\n    \
             %address{index} = llvm.load %slot{index} : !llvm.ptr -> !llvm.ptr"
        );
    }
    let ins: Vec<String> =
        reads.iter().enumerate().map(|(index, one)| part(&mut text, &format!("%r{index}"), one)).collect();
    let outs: Vec<String> =
        writes.iter().enumerate().map(|(index, one)| part(&mut text, &format!("%w{index}"), one)).collect();
    let operands = (reads.as_slice(), writes.as_slice());
    match &body.reduction {
        Some(reduction) => reduce::loops(&mut text, body, reduction, operands, (&ins, &outs)),
        None if body.row.is_some() => rows::loops(&mut text, body, operands, (&ins, &outs)),
        None => emit::generic(&mut text, body, operands, (&ins, &outs), true),
    }
    text.push_str("    return\n}\n");
    text
}

/// The operand's memref, built from its address, and cut to the rows that the call is for. Returns its name.
fn part(text: &mut String, name: &str, operand: &Operand) -> String {
    let rank = operand.sizes.len();
    let descriptor = match rank {
        0 => "!llvm.struct<(ptr, ptr, i64)>".to_owned(),
        _ => format!("!llvm.struct<(ptr, ptr, i64, array<{rank} x i64>, array<{rank} x i64>)>"),
    };
    let _ = writeln!(text, "    {name}_0 = llvm.mlir.poison : {descriptor}");
    let mut fields = 0;
    let mut insert = |text: &mut String, value: &str, place: &str| {
        let _ = writeln!(
            text,
            "    {name}_{} = llvm.insertvalue {value}, {name}_{fields}[{place}] : {descriptor}",
            fields + 1
        );
        fields += 1;
    };
    let address = format!("%address{}", operand.buffer);
    insert(text, &address, "0");
    insert(text, &address, "1");
    let numbers = std::iter::once((operand.offset, "2".to_owned()))
        .chain(operand.sizes.iter().enumerate().map(|(dim, size)| (*size, format!("3, {dim}"))))
        .chain(operand.strides.iter().enumerate().map(|(dim, stride)| (*stride, format!("4, {dim}"))));
    for (index, (number, place)) in numbers.enumerate() {
        let _ = writeln!(text, "    {name}_number{index} = llvm.mlir.constant({number} : i64) : i64");
        insert(text, &format!("{name}_number{index}"), &place);
    }
    let whole = operand.ty(false);
    let _ = writeln!(
        text,
        "    {name}_whole = builtin.unrealized_conversion_cast {name}_{fields} : {descriptor} to {whole}"
    );
    if operand.dims.first() != Some(&0) {
        return format!("{name}_whole");
    }
    let others =
        |number: fn(&i64) -> String, list: &[i64]| list.iter().skip(1).map(number).collect::<Vec<_>>();
    let zeros = others(|_| "0".to_owned(), &operand.sizes);
    let sizes = others(i64::to_string, &operand.sizes);
    let list = |first: &str, rest: Vec<String>| {
        std::iter::once(first.to_owned()).chain(rest).collect::<Vec<_>>().join(", ")
    };
    let ones = vec!["1"; rank].join(", ");
    let _ = writeln!(
        text,
        "    {name} = memref.subview {name}_whole[{}] [{}] [{ones}] : {whole} to {}",
        list("%from", zeros),
        list("%rows", sizes),
        operand.ty(true)
    );
    name.to_owned()
}

/// Links an object file into a shared object that needs libc and libm at most.
fn link(object: &[u8]) -> Result<Vec<u8>, KernelError> {
    let fail = |what: &str, error: std::io::Error| KernelError::Link(format!("{what}: {error}"));
    let folder = tempfile::tempdir().map_err(|error| fail("a temporary folder", error))?;
    let (from, to) = (folder.path().join("kernels.o"), folder.path().join("kernels.so"));
    std::fs::write(&from, object).map_err(|error| fail("the object file", error))?;
    let linker = std::env::var("CC").unwrap_or_else(|_| "cc".into());
    let run = Command::new(&linker)
        .args(["-shared", "-nostdlib", "-s", "-Wl,-z,defs,--build-id=none,--as-needed"])
        .arg(&from)
        .args(["-lm", "-lc", "-o"])
        .arg(&to)
        .output()
        .map_err(|error| fail(&linker, error))?;
    if !run.status.success() {
        return Err(KernelError::Link(String::from_utf8_lossy(&run.stderr).trim().to_owned()));
    }
    std::fs::read(&to).map_err(|error| fail("the shared object", error))
}
