//! Kernels that go over each row several times: once for every sum or maximum, and once to write.
//!
//! What a pass over the row needs is computed from the reads again; the row lies in the nearest cache by then, so memory is read once, and
//! nothing is held but one number for each sum. Only exponentials that are summed and written wait in the row of the output. What is the same
//! for the whole row is computed between the passes. On the CPU, where neighbours in memory belong to neighbouring rows (a softmax over
//! another dimension than the last), a tile of rows is taken together: every number that a row has one of is a vector then. On a GPU a warp
//! has a row: its threads take every 32nd element and exchange what they have by shuffles.

use std::fmt::Write as _;

use rk_dialect::pointwise::{Element, Elementwise, Formula, Source, Step};

use crate::KernelError;
use crate::emit::Operand;
use crate::reduce::{TILE, across, coordinates, place, warps};
use crate::scalar::{self, Writer};

/// Maxima that are carried side by side on the CPU: LLVM vectorizes no maximum of numbers that may be NaN.
const LANES: i64 = 16;

/// How a pass over the elements of a row is written.
#[derive(Clone, Copy, PartialEq)]
enum Where {
    /// One after the other, over rows that the operands are cut to.
    Cpu,
    /// The same, of as many rows as a tile has: row `%j` of them is at the last of the outer dimensions.
    Tile,
    /// By the threads of a warp.
    Warp,
}

/// The loops on the CPU, over `%rows` rows.
pub(crate) fn loops(
    text: &mut String,
    body: &Elementwise,
    operands: (&[Operand], &[Operand]),
    names: (&[String], &[String]),
) {
    let kept = body.shape.len() - body.inner();
    let tiled = across(body);
    if tiled {
        for (index, step) in body.steps.iter().enumerate().filter(|(index, _)| body.of_rows()[*index]) {
            let _ = writeln!(text, "    %row{index} = memref.alloca() : {}", tile(step));
        }
    } else if let Some(step) = body.steps.iter().find(|step| step.formula == Formula::RowMax) {
        let _ =
            writeln!(text, "    %lanes = memref.alloca() : memref<{LANES}x{}>", scalar::memory(step.element));
    }
    let count = if tiled { TILE } else { LANES };
    let _ = writeln!(text, "    %lane_count = arith.constant {count} : index");
    let _ = writeln!(text, "    %first = arith.constant 0 : index\n    %step = arith.constant 1 : index");
    for (dim, size) in body.shape.iter().enumerate().skip(1) {
        let _ = writeln!(text, "    %size{dim} = arith.constant {size} : index");
    }
    for dim in 0..kept {
        let end = if dim == 0 { "%rows".to_owned() } else { format!("%size{dim}") };
        let _ = match tiled && dim + 1 == kept {
            false => writeln!(text, "    scf.for %d{dim} = %first to {end} step %step {{"),
            true => writeln!(
                text,
                "    scf.for %block = %first to {end} step %lane_count {{\n    \
                 %left = arith.subi {end}, %block : index\n    %width = arith.minui %left, %lane_count : index"
            ),
        };
    }
    Rows {
        writer: Writer { text, next: 0 },
        body,
        operands,
        names,
        place: if tiled { Where::Tile } else { Where::Cpu },
        shared: vec![],
        kept: None,
    }
    .write();
    text.push_str(&"    }\n".repeat(kept));
}

/// The launch on a GPU: one block of one warp per row.
///
/// # Errors
/// [`KernelError::Unsupported`] for f64, whose shuffles NVVM does not have, and for more rows than a grid has blocks.
pub(crate) fn launch(
    text: &mut String,
    body: &Elementwise,
    operands: (&[Operand], &[Operand]),
    names: (&[String], &[String]),
) -> Result<(), KernelError> {
    if body.steps.iter().any(|step| step.formula.is_reduction() && step.element == Element::F64) {
        return Err(KernelError::Unsupported("a sum in f64 has no kernel for a GPU".into()));
    }
    let (outer, row) = body.shape.split_at(body.shape.len() - body.inner());
    warps(text, outer, row)?;
    Rows {
        writer: Writer { text, next: 0 },
        body,
        operands,
        names,
        place: Where::Warp,
        shared: vec![],
        kept: None,
    }
    .write();
    text.push_str("    gpu.terminator\n    }\n");
    Ok(())
}

/// Where a tile of rows has the values of a step that a row has one of.
fn tile(step: &Step) -> String {
    format!("memref<{TILE}x{}>", scalar::memory(step.element))
}

struct Rows<'a> {
    writer: Writer<'a>,
    body: &'a Elementwise,
    operands: (&'a [Operand], &'a [Operand]),
    names: (&'a [String], &'a [String]),
    place: Where,
    /// Per read, the element that the whole row shares, loaded before any loop: inside, a store might change it as far as LLVM knows.
    shared: Vec<Option<String>>,
    /// The step whose values lie in the row of output 0.
    kept: Option<usize>,
}

impl Rows<'_> {
    /// One row, at the coordinates of its outer dimensions.
    fn write(mut self) {
        let body = self.body;
        let of_rows = body.of_rows();
        let dim = body.shape.len() - body.inner();
        for (operand, name) in self.operands.0.iter().zip(self.names.0) {
            let load =
                format!("memref.load {name}[{}] : {}", place(operand), operand.ty(self.place != Where::Warp));
            let from = if self.place == Where::Tile { dim - 1 } else { dim };
            let inside = operand.dims.last().is_some_and(|&last| last >= from);
            self.shared.push((!inside).then(|| self.writer.plain(&load)));
        }
        let mut known: Vec<Option<String>> = vec![None; body.steps.len()];
        for (index, step) in body.steps.iter().enumerate().filter(|(index, _)| of_rows[*index]) {
            if step.formula.is_reduction() {
                known[index] = Some(self.reduce(index, &known));
            } else {
                let only: Vec<bool> = (0..body.steps.len()).map(|other| other == index).collect();
                let mut results = self.of_this_row(&known);
                self.writer.some_steps(body, &vec![None; body.reads.len()], &only, &mut results);
                known[index] = results[index].take();
                self.keep_for_rows(index, &mut known);
            }
        }
        // What a row has one of is written once, by one thread.
        let (once, all): (Vec<usize>, Vec<usize>) =
            (0..body.writes.len()).partition(|&output| !self.operands.1[output].dims.contains(&dim));
        let ends: Vec<&Source> = all.iter().map(|&output| &body.writes[output].source).collect();
        if !all.is_empty() {
            self.open("");
            let results = self.elements(&ends, &known);
            all.into_iter().for_each(|output| self.store(output, &results));
            self.close();
        }
        if self.place == Where::Warp && !once.is_empty() {
            let zero = self.writer.op("index", "arith.constant 0");
            let first = self.writer.plain(&format!("arith.cmpi eq, %tx, {zero} : index"));
            let _ = writeln!(self.writer.text, "    scf.if {first} {{");
            once.into_iter().for_each(|output| self.store(output, &known));
            self.writer.text.push_str("    }\n");
        } else if !once.is_empty() {
            let results = self.of_this_row(&known);
            once.into_iter().for_each(|output| self.store(output, &results));
            if self.place == Where::Tile {
                self.writer.text.push_str("    }\n");
            }
        }
    }

    /// What is known of a row, by name. Of a tile it is loaded in a loop over its rows, which the caller closes.
    fn of_this_row(&mut self, known: &[Option<String>]) -> Vec<Option<String>> {
        if self.place != Where::Tile {
            return known.to_vec();
        }
        self.each_row();
        self.loaded(known)
    }

    /// Opens a loop over the rows of a tile.
    fn each_row(&mut self) {
        let last = self.body.shape.len() - self.body.inner() - 1;
        let _ = writeln!(
            self.writer.text,
            "    scf.for %j = %first to %width step %step {{\n      %d{last} = arith.addi %block, %j : index"
        );
    }

    /// Of row `%j`, what is known of all rows of the tile.
    fn loaded(&mut self, known: &[Option<String>]) -> Vec<Option<String>> {
        let steps = self.body.steps.iter();
        let loads = steps.zip(known).map(|(step, name)| {
            name.as_ref().map(|name| self.writer.plain(&format!("memref.load {name}[%j] : {}", tile(step))))
        });
        loads.collect()
    }

    /// Puts what was computed for row `%j` where the tile has it, and ends the loop.
    fn keep_for_rows(&mut self, index: usize, known: &mut [Option<String>]) {
        if self.place == Where::Tile
            && let Some(value) = known[index].replace(format!("%row{index}"))
        {
            let ty = tile(&self.body.steps[index]);
            let _ = writeln!(self.writer.text, "      memref.store {value}, %row{index}[%j] : {ty}\n    }}");
        }
    }

    /// Stores what an output gets, which was computed.
    fn store(&mut self, output: usize, results: &[Option<String>]) {
        let (write, operand) = (&self.body.writes[output], &self.operands.1[output]);
        let Source::Step(step) = write.source else { unreachable!("written by a step") };
        let value = results[step].clone().expect("the step was computed");
        let value = scalar::stored(self.writer.text, &value, write.element, output);
        self.put(output, operand, &value);
    }

    fn put(&mut self, output: usize, operand: &Operand, value: &str) {
        let (name, at) = (&self.names.1[output], place(operand));
        let ty = operand.ty(self.place != Where::Warp);
        let _ = writeln!(self.writer.text, "      memref.store {value}, {name}[{at}] : {ty}");
    }

    /// The step that a sum takes, if its values should wait in the row of the only output: exponentials that are needed again by
    /// the last loop, in the output's own type, where no read is of the same storage.
    fn keeps(&self, index: usize, known: &[Option<String>]) -> Option<usize> {
        let body = self.body;
        let (Source::Step(step), [write], [operand]) =
            (body.steps[index].args[0], &*body.writes, self.operands.1)
        else {
            return None;
        };
        let same = body.steps[step].element == write.element && body.steps[step].formula == Formula::Exp;
        let last = !body.steps[index + 1..].iter().any(|step| step.formula.is_reduction());
        let mut then = known.to_vec();
        then[index] = Some(String::new());
        let again = self.needed(&[&write.source], &then).0[step];
        let alone = self.operands.0.iter().all(|read| read.buffer != operand.buffer);
        (same && last && again && alone).then_some(step)
    }

    /// A sum or a maximum over the row. Returns its name.
    fn reduce(&mut self, index: usize, known: &[Option<String>]) -> String {
        let step = &self.body.steps[index];
        let ty = scalar::memory(step.element);
        match self.place {
            Where::Cpu if step.formula == Formula::RowMax => return self.maximum(index, known),
            Where::Tile => return self.reduce_tile(index, known),
            Where::Cpu | Where::Warp => {}
        }
        let is_maximum = step.formula == Formula::RowMax;
        let start = if is_maximum { f64::NEG_INFINITY } else { 0.0 };
        // On the CPU the additions alone may be reassociated, else LLVM could not vectorize them.
        let flags = if self.place == Where::Cpu { " fastmath<reassoc>" } else { "" };
        let both = |writer: &mut Writer<'_>, a: &str, b: &str| match is_maximum {
            true => writer.intrinsic("maxnum", ty, &[a, b]),
            false => writer.op(ty, &format!("arith.addf {a}, {b}{flags}")),
        };
        let start = self.writer.number(start, step.element);
        let _ = write!(self.writer.text, "    %part{index} =");
        self.open(&format!(" iter_args(%acc{index} = {start}) -> ({ty})"));
        let results = self.elements(&[&step.args[0]], known);
        let Source::Step(summed) = step.args[0] else { unreachable!("a step is reduced") };
        let value = results[summed].clone().unwrap_or_default();
        let kept = self.keeps(index, known);
        if kept.is_some() {
            self.put(0, &self.operands.1[0], &value);
            self.kept = kept;
        }
        let next = both(&mut self.writer, &format!("%acc{index}"), &value);
        let _ = writeln!(self.writer.text, "      scf.yield {next} : {ty}\n    }}");
        let mut whole = format!("%part{index}");
        if self.place == Where::Warp {
            for distance in [16, 8, 4, 2, 1] {
                let by = self.writer.op("i32", &format!("arith.constant {distance}"));
                let _ = writeln!(
                    self.writer.text,
                    "    %other{index}_{distance}, %valid{index}_{distance} = gpu.shuffle xor {whole}, {by}, %width : f32"
                );
                whole = both(&mut self.writer, &whole, &format!("%other{index}_{distance}"));
            }
        }
        whole
    }

    /// A sum or a maximum of every row of the tile, in the order of their elements.
    fn reduce_tile(&mut self, index: usize, known: &[Option<String>]) -> String {
        let step = &self.body.steps[index];
        let (ty, row) = (scalar::memory(step.element), tile(step));
        let maximum = step.formula == Formula::RowMax;
        let start = self.writer.number(if maximum { f64::NEG_INFINITY } else { 0.0 }, step.element);
        self.each_row();
        let _ = writeln!(self.writer.text, "      memref.store {start}, %row{index}[%j] : {row}\n    }}");
        self.open("");
        let results = self.elements(&[&step.args[0]], known);
        let Source::Step(taken) = step.args[0] else { unreachable!("a step is reduced") };
        let value = results[taken].clone().unwrap_or_default();
        let kept = self.keeps(index, known);
        if kept.is_some() {
            self.put(0, &self.operands.1[0], &value);
            self.kept = kept;
        }
        let so_far = self.writer.plain(&format!("memref.load %row{index}[%j] : {row}"));
        let next = match maximum {
            true => self.greater(&value, &so_far, ty),
            false => self.writer.op(ty, &format!("arith.addf {so_far}, {value}")),
        };
        let _ = writeln!(self.writer.text, "      memref.store {next}, %row{index}[%j] : {row}");
        self.close();
        format!("%row{index}")
    }

    /// A maximum over the row, in lanes: element i belongs to lane i modulo their number. What is not greater, a NaN too, changes nothing.
    fn maximum(&mut self, index: usize, known: &[Option<String>]) -> String {
        let step = &self.body.steps[index];
        let (ty, source) = (scalar::memory(step.element), step.args[0]);
        let lanes = format!("memref<{LANES}x{ty}>");
        let dim = self.body.shape.len() - self.body.inner();
        let whole = self.body.shape[dim] / LANES * LANES;
        let least = self.writer.number(f64::NEG_INFINITY, step.element);
        let _ = writeln!(
            self.writer.text,
            "    %whole = arith.constant {whole} : index\n    \
             scf.for %j = %first to %lane_count step %step {{\n      memref.store {least}, %lanes[%j] : {lanes}\n    }}"
        );
        let loops = [
            (
                format!(
                    "    scf.for %block = %first to %whole step %lane_count {{\n    \
                     scf.for %j = %first to %lane_count step %step {{\n      %d{dim} = arith.addi %block, %j : index\n"
                ),
                "    }\n    }\n",
            ),
            (
                format!(
                    "    scf.for %d{dim} = %whole to %size{dim} step %step {{\n      \
                     %j = arith.subi %d{dim}, %whole : index\n"
                ),
                "    }\n",
            ),
        ];
        let Source::Step(taken) = source else { unreachable!("a step is reduced") };
        for (begin, end) in loops {
            self.writer.text.push_str(&begin);
            let value = self.elements(&[&source], known)[taken].clone().unwrap_or_default();
            let _ = writeln!(self.writer.text, "      %so_far = memref.load %lanes[%j] : {lanes}");
            let greater = self.greater(&value, "%so_far", ty);
            let _ = writeln!(self.writer.text, "      memref.store {greater}, %lanes[%j] : {lanes}\n{end}");
        }
        let _ = writeln!(
            self.writer.text,
            "    %most{index} = scf.for %j = %first to %lane_count step %step iter_args(%acc{index} = {least}) -> ({ty}) {{\n      \
             %lane = memref.load %lanes[%j] : {lanes}"
        );
        let greater = self.greater("%lane", &format!("%acc{index}"), ty);
        let _ = writeln!(self.writer.text, "      scf.yield {greater} : {ty}\n    }}");
        format!("%most{index}")
    }

    /// The new number if it is greater than the old one, which is one instruction on x86-64.
    fn greater(&mut self, new: &str, old: &str, ty: &str) -> String {
        let test = self.writer.plain(&format!("arith.cmpf ogt, {new}, {old} : {ty}"));
        self.writer.op(ty, &format!("arith.select {test}, {new}, {old}"))
    }

    /// Opens a loop over the elements of the row, which the caller closes.
    fn open(&mut self, carried: &str) {
        let (outer, row) = self.body.shape.split_at(self.body.shape.len() - self.body.inner());
        let dim = outer.len();
        let text = &mut *self.writer.text;
        match self.place {
            Where::Cpu => {
                let _ = writeln!(text, "    scf.for %d{dim} = %first to %size{dim} step %step{carried} {{");
            }
            Where::Tile => {
                let _ = writeln!(text, "    scf.for %d{dim} = %first to %size{dim} step %step {{");
                self.each_row();
            }
            Where::Warp => {
                let _ = writeln!(text, "    scf.for %at = %tx to %count step %step{carried} {{");
                coordinates(text, "%at", row, dim);
            }
        }
    }

    fn close(&mut self) {
        let loops = if self.place == Where::Tile { 2 } else { 1 };
        self.writer.text.push_str(&"    }\n".repeat(loops));
    }

    /// Which steps and reads `ends` need, beyond what is known or kept.
    fn needed(&self, ends: &[&Source], known: &[Option<String>]) -> (Vec<bool>, Vec<bool>) {
        let body = self.body;
        let (mut steps, mut reads) = (vec![false; body.steps.len()], vec![false; body.reads.len()]);
        let mut left: Vec<Source> = ends.iter().map(|&&source| source).collect();
        while let Some(source) = left.pop() {
            match source {
                Source::Read(read) => reads[read] = true,
                Source::Step(step) if !steps[step] && known[step].is_none() => {
                    steps[step] = true;
                    if self.kept != Some(step) {
                        left.extend(&body.steps[step].args);
                    }
                }
                _ => {}
            }
        }
        (steps, reads)
    }

    /// Inside of a loop: what `ends` need of this element. Returns the names of the steps' results.
    fn elements(&mut self, ends: &[&Source], known: &[Option<String>]) -> Vec<Option<String>> {
        let body = self.body;
        let (steps, reads) = self.needed(ends, known);
        let cpu = self.place != Where::Warp;
        let mut loaded = self.shared.clone();
        for index in (0..body.reads.len()).filter(|&index| reads[index] && self.shared[index].is_none()) {
            let operand = &self.operands.0[index];
            let (at, ty) = (place(operand), operand.ty(cpu));
            loaded[index] =
                Some(self.writer.plain(&format!("memref.load {}[{at}] : {ty}", self.names.0[index])));
        }
        let mut results = if self.place == Where::Tile { self.loaded(known) } else { known.to_vec() };
        if let Some(step) = self.kept.filter(|&step| steps[step]) {
            let operand = &self.operands.1[0];
            let load = format!("memref.load {}[{}] : {}", self.names.1[0], place(operand), operand.ty(cpu));
            results[step] = Some(self.writer.plain(&load));
        }
        self.writer.some_steps(body, &loaded, &steps, &mut results);
        results
    }
}
