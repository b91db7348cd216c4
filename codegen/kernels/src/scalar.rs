//! One element: the steps of a kernel as arith and math operations.
//!
//! Arithmetic is in f32, or in f64 for f64; what a step yields is rounded to its element type at once, because ATen would have
//! stored it. Nothing carries fast-math flags, so LLVM neither reassociates nor contracts.

use std::fmt::Write as _;

use rk_dialect::pointwise::{Comparison, Element, Elementwise, Formula, Source, Step};

/// Writes the steps; `loaded` are the names of the loaded elements, one per read. Returns the names of the steps' results.
pub fn steps(text: &mut String, body: &Elementwise, loaded: &[String]) -> Vec<String> {
    let mut writer = Writer { text, next: 0 };
    let mut results = vec![None; body.steps.len()];
    let loaded: Vec<Option<String>> = loaded.iter().cloned().map(Some).collect();
    writer.some_steps(body, &loaded, &vec![true; body.steps.len()], &mut results);
    results.into_iter().flatten().collect()
}

impl Writer<'_> {
    /// Writes the steps that are `wanted` and not there yet; their reads must be loaded.
    pub(crate) fn some_steps(
        &mut self,
        body: &Elementwise,
        loaded: &[Option<String>],
        wanted: &[bool],
        results: &mut [Option<String>],
    ) {
        let mut reads = Vec::new();
        for (read, name) in body.reads.iter().zip(loaded) {
            reads.push(match (read.element, name) {
                // In memory a boolean is a byte, as in libtorch.
                (Element::Bool, Some(name)) => {
                    let zero = self.op("i8", "arith.constant 0");
                    Some(self.plain(&format!("arith.cmpi ne, {name}, {zero} : i8")))
                }
                _ => name.clone(),
            });
        }
        for (index, step) in body.steps.iter().enumerate() {
            if !wanted[index] || results[index].is_some() {
                continue;
            }
            let value = |source: &Source| match source {
                Source::Read(index) => reads[*index].clone().map(|name| (name, body.reads[*index].element)),
                Source::Step(index) => results[*index].clone().map(|name| (name, body.steps[*index].element)),
                Source::Number(_) => None,
            };
            let args: Vec<Option<(String, Element)>> = step.args.iter().map(value).collect();
            let result = self.step(step, &args);
            results[index] = Some(result);
        }
    }
}

/// What is stored for a result: itself, or the byte of a boolean.
pub fn stored(text: &mut String, name: &str, element: Element, output: usize) -> String {
    match element {
        Element::Bool => {
            let byte = format!("%byte{output}");
            let _ = writeln!(text, "      {byte} = arith.extui {name} : i1 to i8");
            byte
        }
        _ => name.to_owned(),
    }
}

/// The type of an element in memory.
pub fn memory(element: Element) -> &'static str {
    match element {
        Element::Bool => "i8",
        other => value(other),
    }
}

/// The type of an element between operations.
fn value(element: Element) -> &'static str {
    match element {
        Element::Bool => "i1",
        Element::U8 | Element::I8 => "i8",
        Element::I16 => "i16",
        Element::I32 => "i32",
        Element::I64 => "i64",
        Element::F16 => "f16",
        Element::Bf16 => "bf16",
        Element::F32 => "f32",
        Element::F64 => "f64",
    }
}

/// In what arithmetic on an element is done.
fn arithmetic(element: Element) -> Element {
    if element.is_reduced() { Element::F32 } else { element }
}

/// A number as a constant of a type, exactly: floats by their bits.
pub fn literal(number: f64, element: Element) -> String {
    match element {
        Element::F64 => format!("0x{:016X}", number.to_bits()),
        Element::F32 => format!("0x{:08X}", (number as f32).to_bits()),
        Element::Bool => (number != 0.0).to_string(),
        _ => format!("{}", number as i64),
    }
}

pub(crate) struct Writer<'a> {
    pub(crate) text: &'a mut String,
    pub(crate) next: usize,
}

impl Writer<'_> {
    /// An operation with its type spelled behind it.
    pub(crate) fn op(&mut self, ty: &str, operation: &str) -> String {
        self.plain(&format!("{operation} : {ty}"))
    }

    pub(crate) fn plain(&mut self, operation: &str) -> String {
        let name = format!("%v{}", self.next);
        self.next += 1;
        let _ = writeln!(self.text, "      {name} = {operation}");
        name
    }

    /// An operation of LLVM on floats of one type. The math dialect has these, too, but for a GPU it would call libdevice, whose square root
    /// is `sqrt.approx`, and which may be missing.
    pub(crate) fn intrinsic(&mut self, name: &str, ty: &str, args: &[&str]) -> String {
        let types = vec![ty; args.len()].join(", ");
        self.plain(&format!(
            "llvm.call_intrinsic \"llvm.{name}.{ty}\"({}) : ({types}) -> {ty}",
            args.join(", ")
        ))
    }

    pub(crate) fn number(&mut self, number: f64, element: Element) -> String {
        match element {
            Element::F16 | Element::Bf16 => {
                let wide = self.number(number, Element::F32);
                self.converted(&wide, Element::F32, element)
            }
            Element::Bool => self.plain(&format!("arith.constant {}", literal(number, element))),
            _ => self.op(value(element), &format!("arith.constant {}", literal(number, element))),
        }
    }

    /// Conversion of an element, as `c10::convert` does it: to f16 and bf16 by way of f32.
    fn converted(&mut self, name: &str, from: Element, to: Element) -> String {
        let cast = |writer: &mut Self, operation: &str, from: Element, to: Element, name: &str| {
            writer.plain(&format!("arith.{operation} {name} : {} to {}", value(from), value(to)))
        };
        if from == to {
            return name.to_owned();
        }
        if to.is_reduced() && from != Element::F32 {
            let wide = self.converted(name, from, Element::F32);
            return self.converted(&wide, Element::F32, to);
        }
        if from.is_reduced() && to != Element::F32 {
            let wide = self.converted(name, from, Element::F32);
            return self.converted(&wide, Element::F32, to);
        }
        match (from.is_float(), to.is_float()) {
            (true, true) if from.bytes() < to.bytes() => cast(self, "extf", from, to, name),
            (true, true) => cast(self, "truncf", from, to, name),
            (false, true) if matches!(from, Element::Bool | Element::U8) => {
                cast(self, "uitofp", from, to, name)
            }
            (false, true) => cast(self, "sitofp", from, to, name),
            // Only booleans become integers (see `Pointwise::of`).
            _ => cast(self, "extui", from, to, name),
        }
    }

    /// One step; an argument that is no value is the step's number.
    fn step(&mut self, step: &Step, args: &[Option<(String, Element)>]) -> String {
        let element = step.element;
        let moves = matches!(step.formula, Formula::Copy | Formula::Select | Formula::Fill);
        // Also what only moves is moved as f32: without hardware for bf16, LLVM would call a library to select one.
        let compute = arithmetic(if moves { element } else { step.common });
        let mut names = Vec::new();
        for (index, arg) in args.iter().enumerate() {
            let condition = matches!((step.formula, index), (Formula::Select, 0) | (Formula::Fill, 1));
            names.push(match (arg, &step.args[index]) {
                (Some((name, _)), _) if condition => name.clone(),
                // What is promoted is rounded to the common type first.
                (Some((name, from)), _) if moves => self.converted(name, *from, compute),
                (Some((name, from)), _) => {
                    let common = self.converted(name, *from, step.common);
                    self.converted(&common, step.common, compute)
                }
                (None, Source::Number(number)) => self.number(*number, compute),
                (None, _) => unreachable!("only numbers are no values"),
            });
        }
        let made = self.formula(step.formula, compute, &names);
        match step.formula {
            Formula::Compare(_) | Formula::Not | Formula::And | Formula::Or => made,
            _ => self.converted(&made, compute, element),
        }
    }

    fn formula(&mut self, formula: Formula, compute: Element, names: &[String]) -> String {
        let ty = value(compute);
        let a = names[0].as_str();
        let b = names.get(1).map_or("", String::as_str);
        let c = names.get(2).map_or("", String::as_str);
        let binary = |writer: &mut Self, operation: &str, a: &str, b: &str| {
            writer.op(ty, &format!("{operation} {a}, {b}"))
        };
        match formula {
            Formula::Add { alpha } => self.add(a, b, alpha, compute),
            Formula::ReverseAdd { alpha } => self.add(b, a, alpha, compute),
            Formula::Mul => binary(self, "arith.mulf", a, b),
            Formula::Div => binary(self, "arith.divf", a, b),
            Formula::Neg => self.op(ty, &format!("arith.negf {a}")),
            Formula::Abs => self.intrinsic("fabs", ty, &[a]),
            Formula::Reciprocal => {
                let one = self.number(1.0, compute);
                binary(self, "arith.divf", &one, a)
            }
            Formula::Rsqrt => {
                let one = self.number(1.0, compute);
                let root = self.intrinsic("sqrt", ty, &[a]);
                binary(self, "arith.divf", &one, &root)
            }
            Formula::Square => binary(self, "arith.mulf", a, a),
            Formula::Cube => {
                let square = binary(self, "arith.mulf", a, a);
                binary(self, "arith.mulf", &square, a)
            }
            Formula::Relu => self.zero_where("olt", a, 0.0, a, compute),
            Formula::ThresholdBackward { threshold } => self.zero_where("ole", b, threshold, a, compute),
            Formula::Select => self.op(ty, &format!("arith.select {a}, {b}, {c}")),
            Formula::Fill => self.op(ty, &format!("arith.select {b}, {c}, {a}")),
            Formula::Compare(comparison) => self.compare(comparison, a, b, compute),
            Formula::Not => {
                let one = self.number(1.0, Element::Bool);
                self.op("i1", &format!("arith.xori {a}, {one}"))
            }
            Formula::And => self.op("i1", &format!("arith.andi {a}, {b}")),
            Formula::Or => self.op("i1", &format!("arith.ori {a}, {b}")),
            Formula::Copy => a.to_owned(),
            Formula::SigmoidBackward => {
                let one = self.number(1.0, compute);
                let rest = binary(self, "arith.subf", &one, b);
                let left = binary(self, "arith.mulf", a, &rest);
                binary(self, "arith.mulf", &left, b)
            }
            Formula::Sqrt => self.intrinsic("sqrt", ty, &[a]),
            Formula::Log => self.op(ty, &format!("math.log {a}")),
            Formula::RowSum | Formula::RowMax => unreachable!("loops, see `rows`"),
            Formula::Exp => self.exponential(a, compute),
            Formula::Tanh if compute == Element::F32 => self.tanh(a),
            Formula::Tanh => self.op(ty, &format!("math.tanh {a}")),
            Formula::Sigmoid => {
                let one = self.number(1.0, compute);
                let minus = self.op(ty, &format!("arith.negf {a}"));
                let power = self.exponential(&minus, compute);
                let sum = binary(self, "arith.addf", &one, &power);
                binary(self, "arith.divf", &one, &sum)
            }
        }
    }

    /// In f64 a call into a library.
    fn exponential(&mut self, a: &str, compute: Element) -> String {
        if compute == Element::F32 { self.exp(a) } else { self.op(value(compute), &format!("math.exp {a}")) }
    }

    /// a + alpha · b. With ±1 the product is exact, and one rounding is left in any case.
    fn add(&mut self, a: &str, b: &str, alpha: f64, compute: Element) -> String {
        let ty = value(compute);
        if alpha == 1.0 {
            self.op(ty, &format!("arith.addf {a}, {b}"))
        } else if alpha == -1.0 {
            self.op(ty, &format!("arith.subf {a}, {b}"))
        } else {
            let alpha = self.number(alpha, compute);
            self.intrinsic("fma", ty, &[&alpha, b, a])
        }
    }

    /// 0 where `tested` compares with `bound`, else `kept`. A NaN compares with nothing.
    fn zero_where(
        &mut self,
        predicate: &str,
        tested: &str,
        bound: f64,
        kept: &str,
        compute: Element,
    ) -> String {
        let ty = value(compute);
        let zero = self.number(0.0, compute);
        let bound = self.number(bound, compute);
        let test = self.op(ty, &format!("arith.cmpf {predicate}, {tested}, {bound}"));
        self.op(ty, &format!("arith.select {test}, {zero}, {kept}"))
    }

    fn compare(&mut self, comparison: Comparison, a: &str, b: &str, compute: Element) -> String {
        let ty = value(compute);
        if compute.is_float() {
            let predicate = match comparison {
                Comparison::Eq => "oeq",
                Comparison::Ne => "une",
                Comparison::Lt => "olt",
                Comparison::Le => "ole",
                Comparison::Gt => "ogt",
                Comparison::Ge => "oge",
            };
            return self.op(ty, &format!("arith.cmpf {predicate}, {a}, {b}"));
        }
        let sign = if matches!(compute, Element::Bool | Element::U8) { "u" } else { "s" };
        let predicate = match comparison {
            Comparison::Eq => "eq".to_owned(),
            Comparison::Ne => "ne".to_owned(),
            Comparison::Lt => format!("{sign}lt"),
            Comparison::Le => format!("{sign}le"),
            Comparison::Gt => format!("{sign}gt"),
            Comparison::Ge => format!("{sign}ge"),
        };
        self.op(ty, &format!("arith.cmpi {predicate}, {a}, {b}"))
    }
}
