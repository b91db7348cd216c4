//! Sums and maxima over the innermost dimensions of the iteration space, as loops that carry the sum in a register.
//!
//! `linalg.generic` would hold it in memory, where every store could change what is loaded next as far as LLVM can prove; so
//! these kernels begin one level lower, with `scf` loops around the same scalar steps. On the CPU the additions alone may be
//! reassociated, else LLVM could not vectorize them. Where neighbours in memory belong to neighbouring sums (the columns of a matrix, as in
//! the gradient of a bias), a tile of sums is carried through the rows instead, each in the order of the rows. On a GPU a warp makes one sum: its threads take every 32nd element, and
//! exchange what they have by shuffles, in a fixed order.

use std::fmt::Write as _;

use rk_dialect::pointwise::{Element, Elementwise, Reduction, Source};

use crate::emit::Operand;
use crate::{KernelError, scalar};

/// How one more number is taken in, and what there is before the first.
fn fold(reduction: &Reduction) -> (&'static str, f64) {
    // The maximum of a NaN and a number is a NaN.
    if reduction.maximum { ("arith.maximumf", f64::NEG_INFINITY) } else { ("arith.addf", 0.0) }
}

/// Threads that make one sum.
const WARP: i64 = 32;

/// What a grid's x may be.
const MOST_BLOCKS: i64 = i32::MAX as i64;

/// Sums of a tile: 1 KiB of f32, which stays in the nearest cache.
pub(crate) const TILE: i64 = 256;

/// The loops of a sum on the CPU, over `%rows` rows. The operands are named memrefs, cut to these rows.
pub(crate) fn loops(
    text: &mut String,
    body: &Elementwise,
    reduction: &Reduction,
    operands: (&[Operand], &[Operand]),
    names: (&[String], &[String]),
) {
    if across(body) {
        return columns(text, body, reduction, operands, names);
    }
    let ((reads, writes), (ins, outs)) = (operands, names);
    let ty = scalar::memory(reduction.accumulator());
    let (rank, kept) = (body.shape.len(), body.shape.len() - reduction.dims);
    let _ = writeln!(text, "    %first = arith.constant 0 : index\n    %one = arith.constant 1 : index");
    for (dim, size) in body.shape.iter().enumerate().skip(1) {
        let _ = writeln!(text, "    %size{dim} = arith.constant {size} : index");
    }
    let (operation, start) = fold(reduction);
    let start = scalar::literal(start, reduction.accumulator());
    let _ = writeln!(text, "    %acc{kept} = arith.constant {start} : {ty}");
    for dim in 0..rank {
        let end = if dim == 0 { "%rows".to_owned() } else { format!("%size{dim}") };
        let range = format!("%d{dim} = %first to {end} step %one");
        let _ = if dim < kept {
            writeln!(text, "    scf.for {range} {{")
        } else {
            let next = dim + 1;
            writeln!(text, "    %sum{dim} = scf.for {range} iter_args(%acc{next} = %acc{dim}) -> ({ty}) {{")
        };
    }
    load(text, reads, ins, &vec![true; reads.len()], true);
    let value = element(text, body, reduction);
    let flags = if reduction.maximum { "" } else { " fastmath<reassoc>" };
    let _ = writeln!(text, "      %sum{rank} = {operation} %acc{rank}, {value}{flags} : {ty}");
    for dim in (kept..rank).rev() {
        let _ = writeln!(text, "    scf.yield %sum{} : {ty}\n    }}", dim + 1);
    }
    store(text, reduction, &writes[0], &outs[0], &format!("%sum{kept}"), true);
    text.push_str(&"    }\n".repeat(kept));
}

/// Whether more of what is read has neighbours in memory across sums, or rows, than along them.
pub(crate) fn across(body: &Elementwise) -> bool {
    let Some(last) = (body.shape.len() - body.inner()).checked_sub(1) else { return false };
    let elements = |strides: &[i64]| -> i64 {
        strides.iter().zip(&body.shape).filter(|(stride, _)| **stride != 0).map(|(_, size)| size).product()
    };
    let near = |dim: usize| -> i64 {
        body.reads.iter().filter(|read| read.strides[dim] == 1).map(|read| elements(&read.strides)).sum()
    };
    near(last) > near(body.shape.len() - 1)
}

/// The loops of sums whose neighbours in memory belong to other sums.
fn columns(
    text: &mut String,
    body: &Elementwise,
    reduction: &Reduction,
    (reads, writes): (&[Operand], &[Operand]),
    (ins, outs): (&[String], &[String]),
) {
    let ty = scalar::memory(reduction.accumulator());
    let (rank, last) = (body.shape.len(), body.shape.len() - reduction.dims - 1);
    let tile = format!("memref<{TILE}x{ty}>");
    let (operation, start) = fold(reduction);
    let start = scalar::literal(start, reduction.accumulator());
    let _ = writeln!(
        text,
        "    %sums = memref.alloca() : {tile}\n    %first = arith.constant 0 : index\n    \
         %one = arith.constant 1 : index\n    %tile = arith.constant {TILE} : index\n    \
         %start = arith.constant {start} : {ty}"
    );
    for (dim, size) in body.shape.iter().enumerate().skip(1) {
        let _ = writeln!(text, "    %size{dim} = arith.constant {size} : index");
    }
    let end = |dim: usize| if dim == 0 { "%rows".to_owned() } else { format!("%size{dim}") };
    for dim in 0..last {
        let _ = writeln!(text, "    scf.for %d{dim} = %first to {} step %one {{", end(dim));
    }
    let _ = writeln!(
        text,
        "    scf.for %block = %first to {0} step %tile {{\n    %left = arith.subi {0}, %block : index\n    \
         %width = arith.minui %left, %tile : index\n    \
         scf.for %j = %first to %width step %one {{\n      memref.store %start, %sums[%j] : {tile}\n    }}",
        end(last)
    );
    for dim in last + 1..rank {
        let _ = writeln!(text, "    scf.for %d{dim} = %first to {} step %one {{", end(dim));
    }
    // What a row of the tile shares is loaded before its loop.
    let shared: Vec<bool> = reads.iter().map(|read| !read.dims.contains(&last)).collect();
    load(text, reads, ins, &shared, true);
    let each = format!(
        "    scf.for %j = %first to %width step %one {{\n      %d{last} = arith.addi %block, %j : index\n      \
         %sum = memref.load %sums[%j] : {tile}\n"
    );
    text.push_str(&each);
    load(text, reads, ins, &shared.iter().map(|one| !one).collect::<Vec<_>>(), true);
    let value = element(text, body, reduction);
    let _ = writeln!(
        text,
        "      %next = {operation} %sum, {value} : {ty}\n      memref.store %next, %sums[%j] : {tile}\n    }}"
    );
    text.push_str(&"    }\n".repeat(rank - last - 1));
    text.push_str(&each);
    store(text, reduction, &writes[0], &outs[0], "%sum", true);
    text.push_str(&"    }\n".repeat(last + 2));
}

/// The launch of a sum on a GPU: one block of one warp per sum.
///
/// # Errors
/// [`KernelError::Unsupported`] for f64, whose shuffles NVVM does not have, and for more sums than a grid has blocks.
pub(crate) fn launch(
    text: &mut String,
    body: &Elementwise,
    reduction: &Reduction,
    (reads, writes): (&[Operand], &[Operand]),
    (ins, outs): (&[String], &[String]),
) -> Result<(), KernelError> {
    if reduction.accumulator() == Element::F64 {
        return Err(KernelError::Unsupported("a sum in f64 has no kernel for a GPU".into()));
    }
    let kept = body.shape.len() - reduction.dims;
    let (sums, summed) = (&body.shape[..kept], &body.shape[kept..]);
    warps(text, sums, summed)?;
    let (operation, start) = fold(reduction);
    let start = scalar::literal(start, Element::F32);
    let _ = writeln!(
        text,
        "    %start = arith.constant {start} : f32\n    \
         %part = scf.for %at = %tx to %count step %step iter_args(%acc = %start) -> (f32) {{"
    );
    coordinates(text, "%at", summed, kept);
    load(text, reads, ins, &vec![true; reads.len()], false);
    let value = element(text, body, reduction);
    let _ =
        writeln!(text, "      %next = {operation} %acc, {value} : f32\n      scf.yield %next : f32\n    }}");
    let mut sum = "%part".to_owned();
    for distance in [16, 8, 4, 2, 1] {
        let _ = writeln!(
            text,
            "    %by{distance} = arith.constant {distance} : i32\n    \
             %other{distance}, %valid{distance} = gpu.shuffle xor {sum}, %by{distance}, %width : f32\n    \
             %sum{distance} = {operation} {sum}, %other{distance} : f32"
        );
        sum = format!("%sum{distance}");
    }
    text.push_str(
        "    %first = arith.constant 0 : index\n    %is_first = arith.cmpi eq, %tx, %first : index\n    \
         scf.if %is_first {\n",
    );
    store(text, reduction, &writes[0], &outs[0], &sum, false);
    text.push_str("    }\n    gpu.terminator\n    }\n");
    Ok(())
}

/// Opens a launch of one block of one warp for each place in the dimensions `outer`, whose coordinates it names. Thread `%tx` of
/// `%width` is to take every `%step`th of the `%count` elements of `inner`, from its own number.
///
/// # Errors
/// [`KernelError::Unsupported`] for more places than a grid has blocks.
pub(crate) fn warps(text: &mut String, outer: &[i64], inner: &[i64]) -> Result<(), KernelError> {
    let blocks: i64 = outer.iter().product();
    if blocks > MOST_BLOCKS {
        let message = format!("{blocks} sums or rows are more than a grid's {MOST_BLOCKS} blocks");
        return Err(KernelError::Unsupported(message));
    }
    let _ = writeln!(
        text,
        "    %blocks = arith.constant {blocks} : index\n    %lanes = arith.constant {WARP} : index\n    \
         %one = arith.constant 1 : index\n    \
         gpu.launch blocks(%bx, %by, %bz) in (%gx = %blocks, %gy = %one, %gz = %one) \
         threads(%tx, %ty, %tz) in (%lx = %lanes, %ly = %one, %lz = %one) {{\n    \
         %step = arith.constant {WARP} : index\n    %count = arith.constant {} : index\n    \
         %width = arith.constant {WARP} : i32",
        inner.iter().product::<i64>()
    );
    coordinates(text, "%bx", outer, 0);
    Ok(())
}

/// Names the coordinates of element `index` of these dimensions `%d{from}`, `%d{from + 1}`, ...
pub(crate) fn coordinates(text: &mut String, index: &str, sizes: &[i64], from: usize) {
    let mut rest = index.to_owned();
    for (place, size) in sizes.iter().enumerate().rev() {
        let dim = from + place;
        let _ = writeln!(
            text,
            "    %extent{dim} = arith.constant {size} : index\n    \
             %d{dim} = arith.remui {rest}, %extent{dim} : index\n    \
             %rest{dim} = arith.divui {rest}, %extent{dim} : index"
        );
        rest = format!("%rest{dim}");
    }
}

/// Loads `%in0`, `%in1`, ... at `%d0`, `%d1`, ...: those reads that are `wanted`.
fn load(text: &mut String, reads: &[Operand], ins: &[String], wanted: &[bool], rows: bool) {
    for (index, (one, name)) in reads.iter().zip(ins).enumerate().filter(|(index, _)| wanted[*index]) {
        let _ = writeln!(text, "      %in{index} = memref.load {name}[{}] : {}", place(one), one.ty(rows));
    }
}

/// One element of what is summed, in the accumulator's type, of loaded reads. Returns its name.
fn element(text: &mut String, body: &Elementwise, reduction: &Reduction) -> String {
    let loaded: Vec<String> = (0..body.reads.len()).map(|index| format!("%in{index}")).collect();
    let results = scalar::steps(text, body, &loaded);
    let value = match body.writes[0].source {
        Source::Read(index) => loaded[index].clone(),
        Source::Step(index) => results[index].clone(),
        // The sum of nothing.
        Source::Number(number) => {
            let ty = scalar::memory(reduction.element);
            let _ = writeln!(text, "      %number = arith.constant {number:.1} : {ty}");
            "%number".to_owned()
        }
    };
    cast(text, "%summed", &value, "extf", reduction.element, reduction.accumulator())
}

/// Divides, rounds and stores a sum.
fn store(text: &mut String, reduction: &Reduction, write: &Operand, name: &str, sum: &str, rows: bool) {
    let wide = reduction.accumulator();
    let ty = scalar::memory(wide);
    let mut value = sum.to_owned();
    if let Some(divisor) = reduction.divisor {
        let _ = writeln!(text, "      %divisor = arith.constant {} : {ty}", scalar::literal(divisor, wide));
        let _ = writeln!(text, "      %mean = arith.divf {sum}, %divisor : {ty}");
        value = "%mean".to_owned();
    }
    let value = cast(text, "%result", &value, "truncf", wide, reduction.result);
    let _ = writeln!(text, "      memref.store {value}, {name}[{}] : {}", place(write), write.ty(rows));
}

/// A float in another type, if it is one.
fn cast(text: &mut String, name: &str, value: &str, operation: &str, from: Element, to: Element) -> String {
    if from == to {
        return value.to_owned();
    }
    let (from, to) = (scalar::memory(from), scalar::memory(to));
    let _ = writeln!(text, "      {name} = arith.{operation} {value} : {from} to {to}");
    name.to_owned()
}

/// The indices of an operand.
pub(crate) fn place(operand: &Operand) -> String {
    operand.dims.iter().map(|dim| format!("%d{dim}")).collect::<Vec<_>>().join(", ")
}
