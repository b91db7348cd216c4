//! A program: operator calls and the steps that a training step takes over them.
//!
//! Idea: logs, planner graphs and test programs all become the same flat value, checked once while it is built, so
//! that running it cannot fail for reasons of form and no sum can overflow. The limits below are far above real
//! training steps and keep hostile input from growing tables without bound.
//! Source: docs/design/dtr.md, section 3 (steps). Not here: names (see `log`), running (see `simulate`).

use crate::tables::Output;
use crate::units::{Bytes, CallId, Nanos, TensorId};

/// What a program does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Runs a call for the first time.
    Compute(CallId),
    /// Takes one more reference.
    Get(TensorId),
    /// Wants the value in memory, for ever.
    Pin(TensorId),
    /// Drops a reference.
    Release(TensorId),
}

/// One operator call, borrowed from its program.
#[derive(Clone, Copy, Debug)]
pub struct Call<'a> {
    /// Which operator it calls, by a number that the builder gave; 0 for all whose operator is not known.
    pub operator: u32,
    /// What one run of it takes.
    pub cost: Nanos,
    /// What it reads, with repetitions.
    pub args: &'a [TensorId],
    /// What it makes, at least one.
    pub outputs: &'a [Output],
    /// The first of its output tensors; the others follow.
    pub first_output: TensorId,
}

#[derive(Clone, Debug)]
struct Record {
    operator: u32,
    cost: Nanos,
    args_end: u32,
    outputs_end: u32,
}

/// A checked program. Calls are computed in the order of their ids, so tensors are numbered in that order, too.
#[derive(Clone, Debug, Default)]
pub struct Program {
    calls: Vec<Record>,
    args: Vec<TensorId>,
    outputs: Vec<Output>,
    steps: Vec<Step>,
    constants: Bytes,
}

impl Program {
    /// The call with this id.
    ///
    /// # Panics
    /// If there is none.
    pub fn call(&self, id: CallId) -> Call<'_> {
        let index = id.index();
        let (first_arg, first_output) = match index.checked_sub(1) {
            Some(before) => (self.calls[before].args_end, self.calls[before].outputs_end),
            None => (0, 0),
        };
        let Record { operator, cost, args_end, outputs_end } = self.calls[index];
        Call {
            operator,
            cost,
            args: &self.args[first_arg as usize..args_end as usize],
            outputs: &self.outputs[first_output as usize..outputs_end as usize],
            first_output: TensorId(first_output),
        }
    }

    /// All calls in order.
    pub fn calls(&self) -> impl Iterator<Item = Call<'_>> {
        (0..self.calls.len()).map(|index| self.call(CallId(index as u32)))
    }

    /// How many tensors the calls make.
    pub fn tensors(&self) -> usize {
        self.outputs.len()
    }

    /// The steps in order.
    pub fn steps(&self) -> &[Step] {
        &self.steps
    }

    /// What calls without arguments and cost make: weights and inputs.
    pub fn constants(&self) -> Bytes {
        self.constants
    }

    /// The largest sum, over all calls, of what it makes and what its arguments' own calls made for them. Views
    /// count 0. A budget below this can rarely work: it shades the figures and proves nothing.
    pub fn bottleneck(&self) -> Bytes {
        let own = |t: TensorId| fresh(self.outputs[t.index()]);
        let reach = |c: Call<'_>| -> u64 {
            c.outputs.iter().map(|&o| fresh(o)).sum::<u64>() + c.args.iter().map(|&a| own(a)).sum::<u64>()
        };
        Bytes(self.calls().map(reach).max().unwrap_or(0))
    }
}

fn fresh(output: Output) -> u64 {
    match output {
        Output::Fresh(size) => size.0,
        Output::View(_) => 0,
    }
}

/// A program grew beyond what the runtime's arithmetic and tables are made for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the program is too large: {what} pass {limit}")]
pub struct TooLarge {
    what: &'static str,
    limit: u64,
}

/// All sizes together; products with a time stay below 2^127.
const MAX_BYTES: u64 = 1 << 60;
/// Sum over calls of cost times outputs, 13 days: numerators and integer scores stay exact as f64.
const MAX_NANOS: u64 = 1 << 50;
const MAX_TENSORS: u64 = 1 << 22;
const MAX_STEPS: u64 = 1 << 26;
/// Sum over calls of arguments times outputs.
const MAX_EDGES: u64 = 1 << 25;

/// Builds a [`Program`] step by step.
#[derive(Debug, Default)]
pub struct Builder {
    program: Program,
    /// Per tensor the whole size of its storage.
    storage_bytes: Vec<u64>,
    bytes: u64,
    nanos: u64,
    edges: u64,
}

impl Builder {
    /// An empty program.
    pub fn new() -> Self {
        Self::default()
    }

    /// Appends a call and the step that computes it; returns its first output, which the others follow.
    ///
    /// # Errors
    /// [`TooLarge`], if a limit is passed.
    ///
    /// # Panics
    /// If an argument does not exist yet, a view names no argument, or there is no output.
    pub fn call(&mut self, cost: Nanos, args: &[TensorId], outputs: &[Output]) -> Result<TensorId, TooLarge> {
        self.call_of(0, cost, args, outputs)
    }

    /// As [`Self::call`], of an operator: any number, equal for equal operators.
    ///
    /// # Errors
    /// [`TooLarge`], if a limit is passed.
    ///
    /// # Panics
    /// As [`Self::call`].
    pub fn call_of(
        &mut self,
        operator: u32,
        cost: Nanos,
        args: &[TensorId],
        outputs: &[Output],
    ) -> Result<TensorId, TooLarge> {
        assert!(!outputs.is_empty(), "a call needs an output");
        let first = self.program.outputs.len();
        assert!(args.iter().all(|a| a.index() < first), "a call reads a later tensor");
        let count = outputs.len() as u64;
        let fresh_bytes = outputs.iter().try_fold(0u64, |sum, &o| sum.checked_add(fresh(o)));
        grow(&mut self.bytes, fresh_bytes, MAX_BYTES, "its bytes")?;
        grow(&mut self.nanos, cost.0.checked_mul(count), MAX_NANOS, "its nanoseconds")?;
        grow(&mut self.edges, count.checked_mul(args.len() as u64), MAX_EDGES, "its edges")?;
        grow(&mut (first as u64), Some(count), MAX_TENSORS, "its tensors")?;
        for &output in outputs {
            self.storage_bytes.push(match output {
                Output::Fresh(size) => size.0,
                Output::View(arg) => self.storage_bytes[args[arg as usize].index()],
            });
        }
        if args.is_empty() && cost == Nanos(0) {
            self.program.constants.0 += fresh_bytes.unwrap_or(0);
        }
        self.program.args.extend_from_slice(args);
        self.program.outputs.extend_from_slice(outputs);
        let id = CallId(self.program.calls.len() as u32);
        let args_end = self.program.args.len() as u32;
        self.program.calls.push(Record {
            operator,
            cost,
            args_end,
            outputs_end: (first + outputs.len()) as u32,
        });
        self.step(Step::Compute(id))?;
        Ok(TensorId(first as u32))
    }

    /// Appends a step.
    ///
    /// # Errors
    /// [`TooLarge`], if there are too many.
    pub fn step(&mut self, step: Step) -> Result<(), TooLarge> {
        grow(&mut (self.program.steps.len() as u64), Some(1), MAX_STEPS, "its steps")?;
        self.program.steps.push(step);
        Ok(())
    }

    /// The whole size of the storage that a tensor lives in.
    ///
    /// # Panics
    /// If there is no such tensor.
    pub fn storage_bytes(&self, tensor: TensorId) -> Bytes {
        Bytes(self.storage_bytes[tensor.index()])
    }

    /// The program as it stands.
    pub fn finish(self) -> Program {
        self.program
    }
}

fn grow(sum: &mut u64, by: Option<u64>, limit: u64, what: &'static str) -> Result<(), TooLarge> {
    let grown = by.and_then(|by| sum.checked_add(by)).filter(|&grown| grown <= limit);
    *sum = grown.ok_or(TooLarge { what, limit })?;
    Ok(())
}
