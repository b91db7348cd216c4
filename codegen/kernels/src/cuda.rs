//! PTX: linalg, parallel loops, gpu, NVVM, LLVM's NVPTX back end.
//!
//! One thread computes one element. The innermost dimension is tiled by the threads of a block and becomes the grid's x, so
//! that neighbouring threads touch neighbouring elements; up to two more dimensions are the grid's y and z. A sum is made by a
//! warp (see `reduce`).
//!
//! The pipeline has traps, each with its reason: the PTX version must be named (the default aborts the process on sm_90),
//! nothing may canonicalize between tiling and mapping (the loop nest would be merged, one thread per block), and the bound of
//! the last tile is tested inside the kernel (`no-min-max-bounds`): a bound that is a minimum is no size of a launch.

use std::fmt::Write as _;
use std::path::Path;

use melior::ir::operation::{OperationLike, OperationRef};
use melior::ir::{BlockLike, Module, RegionLike, ValueLike};
use mlir_sys::*;
use rk_dialect::pointwise::{Element, Elementwise, Formula};

use crate::emit::{self, Signature};
use crate::{KernelError, llvm, mlir, reduce, rows};

/// Threads of a block.
const THREADS: i64 = 256;

/// What the y and z of a grid may be.
const MOST_BLOCKS: i64 = 65_535;

/// A GPU that code can be made for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Chip {
    /// A100 and its family.
    Sm80,
    /// H100, H200.
    Sm90,
}

impl Chip {
    /// As `ptxas --gpu-name` has it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Sm80 => "sm_80",
            Self::Sm90 => "sm_90",
        }
    }
}

/// One kernel as PTX text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ptx {
    /// The text.
    pub text: String,
    /// Name of the entry.
    pub entry: String,
    /// Blocks in x, y, z.
    pub grid: [i64; 3],
    /// Threads of a block in x, y, z.
    pub block: [i64; 3],
    /// For each parameter of the entry its position in [`Signature::buffers`].
    pub parameters: Vec<usize>,
}

/// Whether a kernel calls functions of libdevice: logarithms, and `exp`, `tanh` and `sigmoid` in f64.
pub fn calls_libdevice(body: &Elementwise) -> bool {
    body.steps.iter().any(|step| match step.formula {
        Formula::Log => true,
        Formula::Exp | Formula::Tanh | Formula::Sigmoid => step.common == Element::F64,
        _ => false,
    })
}

/// Makes PTX for one kernel. `libdevice` is the bitcode library of CUDA, for those that [need it](calls_libdevice).
///
/// # Errors
/// [`KernelError::Unsupported`] for an empty iteration space, a grid beyond the limits, or a function of a library that is not given; a
/// refusal by MLIR is a bug in rk.
pub fn ptx(
    body: &Elementwise,
    overwrites: Option<usize>,
    symbol: &str,
    chip: Chip,
    libdevice: Option<&Path>,
) -> Result<Ptx, KernelError> {
    let results = body.shape.len() - body.inner();
    if body.shape[..results].contains(&0) {
        return Err(KernelError::Unsupported("a kernel without elements is not launched".into()));
    }
    let rank = body.shape.len();
    let too_many = body.shape.iter().rev().skip(1).find(|&&size| size > MOST_BLOCKS);
    if let Some(size) = too_many.filter(|_| body.inner() == 0) {
        let message = format!("a dimension of {size} elements is more than a grid's {MOST_BLOCKS}");
        return Err(KernelError::Unsupported(message));
    }
    let context = mlir::context();
    let tiles: Vec<String> =
        (0..rank).map(|dim| if dim + 1 == rank { THREADS.to_string() } else { "1".to_owned() }).collect();
    let mapping = format!(
        "convert-linalg-to-parallel-loops,\
         scf-parallel-loop-tiling{{parallel-loop-tile-sizes={} no-min-max-bounds=true}},\
         gpu-map-parallel-loops{{mapping-policy=innermost-first}},convert-parallel-loops-to-gpu,",
        tiles.join(",")
    );
    // A sum, or a row, is a launch from the beginning.
    let outlining = format!(
        "builtin.module(func.func({}canonicalize,cse,gpu-launch-sink-index-computations),\
         lower-affine,gpu-kernel-outlining,canonicalize,cse)",
        if body.inner() == 0 { mapping.as_str() } else { "" },
    );
    let library = libdevice.map(|path| format!(" l={}", path.display())).unwrap_or_default();
    let lowering = format!(
        "builtin.module(nvvm-attach-target{{chip={} features=+ptx80 O=3{library}}},\
         gpu.module(expand-strided-metadata,lower-affine,convert-scf-to-cf,strip-debuginfo,\
         convert-gpu-to-nvvm{{use-bare-ptr-memref-call-conv=true index-bitwidth=64}},\
         canonicalize,cse,reconcile-unrealized-casts))",
        chip.name()
    );
    let text = function(body, overwrites, symbol)?;
    let outlined = mlir::lowered(&context, &text, &[&outlining])?;
    let launch = launch(&outlined)
        .ok_or_else(|| KernelError::Mlir(format!("no launch in\n{}", outlined.as_operation())))?;
    let list = llvm::targets();
    let serialized = mlir::lowered(
        &context,
        &text,
        &[&outlining, &lowering, "builtin.module(gpu-module-to-binary{format=isa})"],
    )?;
    drop(list);
    let text = object(&serialized)
        .ok_or_else(|| KernelError::Mlir(format!("no PTX in\n{}", serialized.as_operation())))?;
    // A driver would refuse the module, not before the step runs.
    if let Some((_, rest)) = text.split_once(".extern") {
        let missing = rest.split_whitespace().find(|word| word.starts_with("__nv")).unwrap_or("a function");
        return Err(KernelError::Unsupported(format!(
            "{missing} is needed of libdevice, which is not there"
        )));
    }
    Ok(Ptx { text, ..launch })
}

/// The kernel as MLIR, before any lowering.
///
/// # Errors
/// [`KernelError::Unsupported`] for a sum that a launch cannot express.
pub fn function(body: &Elementwise, overwrites: Option<usize>, symbol: &str) -> Result<String, KernelError> {
    let signature = Signature::of(body, overwrites);
    let (reads, writes) = emit::operands(body, &signature, overwrites);
    let all: Vec<_> = reads.iter().chain(&writes).collect();
    // One argument per buffer: the memref of the first operand that lies there. Others are the same bytes seen otherwise.
    let mut text = format!("func.func @{symbol}(");
    let first = |buffer: usize| all.iter().find(|one| one.buffer == buffer).expect("every buffer is used");
    let arguments: Vec<String> = (0..signature.buffers.len())
        .map(|buffer| format!("%b{buffer}: {}", first(buffer).ty(false)))
        .collect();
    let _ = writeln!(text, "{}) {{", arguments.join(", "));
    let mut names = Vec::new();
    for (index, one) in all.iter().enumerate() {
        let (from, to) = (first(one.buffer).ty(false), one.ty(false));
        if from == to {
            names.push(format!("%b{}", one.buffer));
            continue;
        }
        let list = |numbers: &[i64]| numbers.iter().map(i64::to_string).collect::<Vec<_>>().join(", ");
        let _ = writeln!(
            text,
            "    %o{index} = memref.reinterpret_cast %b{} to offset: [{}], sizes: [{}], strides: [{}] : {from} to {to}",
            one.buffer,
            one.offset,
            list(&one.sizes),
            list(&one.strides)
        );
        names.push(format!("%o{index}"));
    }
    let (ins, outs) = names.split_at(reads.len());
    let operands = (reads.as_slice(), writes.as_slice());
    match &body.reduction {
        Some(reduction) => reduce::launch(&mut text, body, reduction, operands, (ins, outs))?,
        None if body.row.is_some() => rows::launch(&mut text, body, operands, (ins, outs))?,
        None => emit::generic(&mut text, body, operands, (ins, outs), false),
    }
    text.push_str("    return\n}\n");
    Ok(text)
}

/// Geometry and parameters of the only `gpu.launch_func`; the text is left empty.
fn launch(module: &Module<'_>) -> Option<Ptx> {
    let launch = find(module, "gpu.launch_func")?;
    // Grid and block come first: x, y, z each. Then what the kernel is given.
    let size = |index: usize| constant(launch, index);
    let grid = [size(0)?, size(1)?, size(2)?];
    let block = [size(3)?, size(4)?, size(5)?];
    let parameters = (6..launch.operand_count())
        .map(|index| {
            // SAFETY: the operand is alive, and the getters are called on their own kind.
            unsafe {
                let mut value = launch.operand(index).ok()?.to_raw();
                if mlirValueIsAOpResult(value) {
                    // Another view of the same storage: a bare pointer is where the storage begins, the code knows the offset.
                    value = mlirOperationGetOperand(mlirOpResultGetOwner(value), 0);
                }
                mlirValueIsABlockArgument(value).then(|| mlirBlockArgumentGetArgNumber(value) as usize)
            }
        })
        .collect::<Option<Vec<usize>>>()?;
    let entry = launch.attribute("kernel").ok()?.to_string();
    let entry = entry.rsplit('@').next()?.to_owned();
    Some(Ptx { text: String::new(), entry, grid, block, parameters })
}

/// The number that an operand is, if a constant makes it.
fn constant(op: OperationRef<'_, '_>, index: usize) -> Option<i64> {
    // SAFETY: the operand is alive; each getter is called on its own kind.
    unsafe {
        let value = op.operand(index).ok()?.to_raw();
        if !mlirValueIsAOpResult(value) {
            return None;
        }
        let name = c"value";
        let name = MlirStringRef { data: name.as_ptr(), length: name.count_bytes() };
        let attribute = mlirOperationGetAttributeByName(mlirOpResultGetOwner(value), name);
        (!attribute.ptr.is_null() && mlirAttributeIsAInteger(attribute))
            .then(|| mlirIntegerAttrGetValueInt(attribute))
    }
}

/// The PTX in the only `gpu.binary`.
fn object(module: &Module<'_>) -> Option<String> {
    let binary = find(module, "gpu.binary")?;
    let objects = binary.attribute("objects").ok()?;
    // SAFETY: `objects` is an array of object attributes, which the dialect's verifier has checked.
    unsafe {
        use melior::ir::attribute::AttributeLike;
        let first = mlirArrayAttrGetElement(objects.to_raw(), 0);
        let text = mlirGPUObjectAttrGetObject(first);
        let bytes = std::slice::from_raw_parts(text.data.cast::<u8>(), text.length);
        let text = String::from_utf8_lossy(bytes);
        Some(text.trim_end_matches('\0').to_owned())
    }
}

/// The first op of this name in the module's functions, or at its top.
fn find<'c, 'a>(module: &'a Module<'c>, name: &str) -> Option<OperationRef<'c, 'a>> {
    let mut next = module.body().first_operation();
    while let Some(op) = next {
        let is = |op: &OperationRef<'_, '_>| op.name().as_string_ref().as_str() == Ok(name);
        if is(&op) {
            return Some(op);
        }
        let mut inner = op
            .regions()
            .next()
            .and_then(|region| region.first_block())
            .and_then(|block| block.first_operation());
        while let Some(one) = inner {
            if is(&one) {
                // SAFETY: the op belongs to the module, which outlives the result.
                return Some(unsafe { OperationRef::from_raw(one.to_raw()) });
            }
            inner = one.next_in_block();
        }
        next = op.next_in_block();
    }
    None
}
