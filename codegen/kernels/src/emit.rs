//! The operands of a kernel as strided memrefs, and `linalg.generic` over them.
//!
//! Every read and every write is a memref over the dimensions in which it moves; a broadcast dimension is left out of its
//! indexing map. Types carry sizes, strides and offsets, so nothing of a descriptor is left at run time but its address.

use std::fmt::Write as _;

use rk_dialect::pointwise::{Element, Elementwise};

use crate::scalar;

/// A storage that a kernel is given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Buffer {
    /// Of this input of the node.
    Input(usize),
    /// Of this output.
    Output(usize),
}

/// What a caller must know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Signature {
    /// Whose addresses the kernel takes, in order: where element 0 of the tensor lies.
    pub buffers: Vec<Buffer>,
    /// Rows of the outermost dimension.
    pub rows: i64,
    /// Elements of one row.
    pub row_elements: i64,
}

impl Signature {
    /// Of a kernel that writes to fresh outputs, or, with an input that it overwrites, writes output 0 there.
    pub fn of(body: &Elementwise, overwrites: Option<usize>) -> Self {
        let mut buffers = Vec::new();
        for read in &body.reads {
            let buffer = buffer_of(read.input, overwrites);
            if !buffers.contains(&buffer) {
                buffers.push(buffer);
            }
        }
        for output in 0..body.writes.len() {
            if !buffers.contains(&Buffer::Output(output)) {
                buffers.push(Buffer::Output(output));
            }
        }
        let rows = body.shape[0];
        Self { buffers, rows, row_elements: body.shape[1..].iter().product() }
    }
}

/// An overwritten input has the address of output 0: with two names for it LLVM would not vectorize.
fn buffer_of(input: usize, overwrites: Option<usize>) -> Buffer {
    if overwrites == Some(input) { Buffer::Output(0) } else { Buffer::Input(input) }
}

/// One operand of the `linalg.generic`.
pub(crate) struct Operand {
    /// Position in [`Signature::buffers`].
    pub buffer: usize,
    /// The dimensions in which it moves.
    pub dims: Vec<usize>,
    /// Their sizes.
    pub sizes: Vec<i64>,
    /// Their strides.
    pub strides: Vec<i64>,
    pub offset: i64,
    pub element: Element,
}

impl Operand {
    /// Its memref type; with `rows`, of a part of dimension 0.
    pub fn ty(&self, rows: bool) -> String {
        let cut = rows && self.dims.first() == Some(&0);
        let mut text = String::from("memref<");
        for (index, size) in self.sizes.iter().enumerate() {
            let _ = if cut && index == 0 { write!(text, "?x") } else { write!(text, "{size}x") };
        }
        let offset = if cut { "?".to_owned() } else { self.offset.to_string() };
        let strides: Vec<String> = self.strides.iter().map(i64::to_string).collect();
        let _ = write!(
            text,
            "{}, strided<[{}], offset: {offset}>>",
            scalar::memory(self.element),
            strides.join(", ")
        );
        text
    }
}

/// The operands of a body: reads, then writes.
pub(crate) fn operands(
    body: &Elementwise,
    signature: &Signature,
    overwrites: Option<usize>,
) -> (Vec<Operand>, Vec<Operand>) {
    let position = |buffer: Buffer| {
        signature.buffers.iter().position(|one| *one == buffer).expect("the signature lists every buffer")
    };
    let operand = |buffer: Buffer, strides: &[i64], offset: i64, element: Element, all: bool| {
        let dims: Vec<usize> = (0..body.shape.len()).filter(|&dim| all || strides[dim] != 0).collect();
        let sizes = dims.iter().map(|&dim| body.shape[dim]).collect();
        let strides = dims.iter().map(|&dim| strides[dim]).collect();
        Operand { buffer: position(buffer), dims, sizes, strides, offset, element }
    };
    let reads = body.reads.iter().map(|read| {
        operand(buffer_of(read.input, overwrites), &read.strides, read.offset, read.element, false)
    });
    let writes = body.writes.iter().enumerate();
    // What is summed has no place in the result, and a row has one of some results.
    let whole = body.reduction.is_none() && body.row.is_none();
    let writes = writes
        .map(|(output, write)| operand(Buffer::Output(output), &write.strides, 0, write.element, whole));
    (reads.collect(), writes.collect())
}

/// `linalg.generic` on named memrefs; `rows` tells whether they are parts of dimension 0.
///
/// On the CPU a number that all elements share is loaded before the loop: inside, LLVM would have to prove that no store changes it.
pub(crate) fn generic(
    text: &mut String,
    body: &Elementwise,
    (all, writes): (&[Operand], &[Operand]),
    (ins, outs): (&[String], &[String]),
    rows: bool,
) {
    let mut loaded = Vec::new();
    let (mut reads, mut from) = (Vec::new(), Vec::new());
    for (index, (one, name)) in all.iter().zip(ins).enumerate() {
        loaded.push(format!("%in{index}"));
        if rows && one.dims.is_empty() {
            let _ = writeln!(text, "    %in{index} = memref.load {name}[] : {}", one.ty(rows));
        } else {
            reads.push((loaded[index].clone(), one));
            from.push(name.as_str());
        }
    }
    let dims: Vec<String> = (0..body.shape.len()).map(|dim| format!("d{dim}")).collect();
    let map = |operand: &Operand| {
        let moving: Vec<&str> = operand.dims.iter().map(|&dim| dims[dim].as_str()).collect();
        format!("affine_map<({}) -> ({})>", dims.join(", "), moving.join(", "))
    };
    let looped = || reads.iter().map(|(_, one)| *one);
    let maps: Vec<String> = looped().chain(writes).map(map).collect();
    let parallel = vec!["\"parallel\""; body.shape.len()].join(", ");
    let types =
        |operands: Vec<&Operand>| operands.into_iter().map(|one| one.ty(rows)).collect::<Vec<_>>().join(", ");
    let _ = write!(
        text,
        "    linalg.generic {{indexing_maps = [{}], iterator_types = [{parallel}]}}",
        maps.join(", ")
    );
    if !reads.is_empty() {
        let _ = write!(text, " ins({} : {})", from.join(", "), types(looped().collect()));
    }
    let _ = writeln!(text, " outs({} : {}) {{", outs.join(", "), types(writes.iter().collect()));
    let stored = writes.iter().enumerate().map(|(index, one)| (format!("%out{index}"), one));
    let arguments = reads.iter().map(|(name, one)| (name.clone(), *one)).chain(stored);
    let typed: Vec<String> =
        arguments.map(|(name, one)| format!("{name}: {}", scalar::memory(one.element))).collect();
    let _ = writeln!(text, "    ^bb0({}):", typed.join(", "));
    let results = scalar::steps(text, body, &loaded);
    let mut yielded = Vec::new();
    for (output, write) in body.writes.iter().enumerate() {
        let rk_dialect::pointwise::Source::Step(step) = write.source else {
            unreachable!("written by a step")
        };
        yielded.push(scalar::stored(text, &results[step], write.element, output));
    }
    let types: Vec<&str> = writes.iter().map(|one| scalar::memory(one.element)).collect();
    let _ = writeln!(text, "      linalg.yield {} : {}\n    }}", yielded.join(", "), types.join(", "));
}
