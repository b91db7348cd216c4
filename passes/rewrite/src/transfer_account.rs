//! A scheduled step with transfers, read from the IR: what is on the device and in host memory at each run, and when everything
//! happens.
//!
//! A value counts on the device from the run that makes it, or from the start of its fetch, to the last run in front of its drop; a copy
//! counts in host memory from the start of its offload to the last run in front of its drop. One engine per direction serves its
//! transfers in the order of the ops. The runs wait at each `rk.wait`.
//!
//! Not here: S10 and S11 (the dialect's verifier), and the judge of `rk-plan`, with which this shares no code: that one walks over points
//! of a list of runs, this one over ops.

use std::collections::HashMap;

use rk_dialect::diagnostic::Diagnostic;
use rk_dialect::ops::{DropOp, Execution, StepOp, Transfer, WaitOp};
use rk_dialect::{Op, PlanSummary, Value, transfers};
use rk_plan::{Bytes, readable};

use crate::planning::Problem;

/// What the ops of a step say.
pub struct TransferAccount<'c> {
    /// Bytes on the device at each run: values, its workspace, kept generator states.
    pub device: Vec<u64>,
    /// Bytes in host memory at each run.
    pub host: Vec<u64>,
    /// Nanoseconds from the start to the end of the last run or transfer, and those that the runs wait; without `rk.bandwidth` unknown.
    pub time: Option<(u64, u64)>,
    /// How many transfers there are.
    pub transfers: usize,
    /// Those runs.
    runs: Vec<Execution<'c>>,
}

impl<'c> TransferAccount<'c> {
    /// Reads a step at stage `scheduled`, if it has transfers.
    pub fn of(step: StepOp<'c>, problem: &Problem<'c>) -> Option<Self> {
        let ops = step.body().ops();
        let moved = transfers::of(step).len();
        if moved == 0 {
            return None;
        }
        let runs: Vec<Execution<'c>> = ops.iter().copied().filter_map(Execution::of).collect();
        let mut account = Self {
            device: vec![0; runs.len()],
            host: vec![0; runs.len()],
            time: Clock::of(step).map(|clock| clock.walk(&ops, problem)),
            transfers: moved,
            runs,
        };
        account.count(&ops, problem);
        Some(account)
    }

    /// The most bytes at any run: on the device, and in host memory.
    pub fn peaks(&self) -> (u64, u64) {
        let most = |bytes: &[u64]| bytes.iter().copied().max().unwrap_or(0);
        (most(&self.device), most(&self.host))
    }

    /// Adds every value to the runs during which it is there.
    fn count(&mut self, ops: &[Op<'c>], problem: &Problem<'c>) {
        // What is there: since which run, and how many bytes.
        let mut there: HashMap<Value<'c>, (usize, u64)> = HashMap::new();
        let mut run = 0;
        for &op in ops {
            if let Some(executed) = Execution::of(op) {
                let node = problem.node_of(executed.symbol()).map(|node| problem.graph.node(node));
                self.device[run] += node.map_or(0, |node| node.workspace.0);
                if let Some(taken) = taken_over(problem, executed) {
                    self.leave(&mut there, taken, run);
                }
                there.extend(op.results().into_iter().map(|value| {
                    let state = node.filter(|_| value.ty().is_generator()).map(|node| node.state.0);
                    (value, (run, state.unwrap_or_else(|| bytes(problem, value))))
                }));
                run += 1;
            } else if let Some(value) = Transfer::of(op).and_then(Transfer::made) {
                there.insert(value, (run, bytes(problem, value)));
            } else if let Some(value) = DropOp::of(op).and_then(DropOp::value) {
                self.leave(&mut there, value, run);
            }
        }
        let rest: Vec<Value<'c>> = there.keys().copied().collect();
        rest.into_iter().for_each(|value| self.leave(&mut there, value, run));
    }

    /// A value is gone from run `run` on.
    fn leave(&mut self, there: &mut HashMap<Value<'c>, (usize, u64)>, value: Value<'c>, run: usize) {
        let Some((since, bytes)) = there.remove(&value) else { return };
        let memory = if value.ty().is_host() { &mut self.host } else { &mut self.device };
        memory[since..run].iter_mut().for_each(|sum| *sum += bytes);
    }

    /// S7 on the device and S12 in host memory, for the budgets that the step states.
    ///
    /// # Errors
    /// The first run over one of them.
    pub fn within(&self, step: StepOp<'c>) -> Result<(), Diagnostic<'c>> {
        let said = PlanSummary::of(step);
        let limits = [
            ("S7", &self.device, said.budget, "on the device"),
            ("S12", &self.host, said.host_budget, "in host memory"),
        ];
        for (law, memory, budget, place) in limits {
            let Some(budget) = budget else { continue };
            let over = memory.iter().zip(&self.runs).find(|(bytes, _)| **bytes > budget);
            if let Some((&bytes, run)) = over {
                let (bytes, budget) = (readable(Bytes(bytes)), readable(Bytes(budget)));
                let message = format!(
                    "{law}: {bytes} are {place} while '{}' runs, the budget is {budget}",
                    run.symbol()
                );
                return Err(Diagnostic::error(run.op().location(), message));
            }
        }
        Ok(())
    }
}

/// The bytes of a value, or of its copy, as the planner counts them.
fn bytes<'c>(problem: &Problem<'c>, value: Value<'c>) -> u64 {
    problem.value_of(value).map_or(0, |value| problem.graph.value(value).bytes.0)
}

/// The operand whose buffer a run takes over.
fn taken_over<'c>(problem: &Problem<'c>, run: Execution<'c>) -> Option<Value<'c>> {
    let node = problem.nodes[problem.node_of(run.symbol())?.index()];
    run.inputs().get(node.overwrites().filter(|_| run.is_overwrite())?).copied()
}

/// Bytes per second and nanoseconds per transfer, as the step states them.
struct Clock {
    rate: u64,
    latency: u64,
}

impl Clock {
    fn of(step: StepOp<'_>) -> Option<Self> {
        let said = PlanSummary::of(step);
        let rate = said.bandwidth.filter(|&rate| rate > 0)?;
        Some(Self { rate, latency: said.latency.unwrap_or(0) })
    }

    /// Makespan and stall.
    fn walk<'c>(&self, ops: &[Op<'c>], problem: &Problem<'c>) -> (u64, u64) {
        let (mut now, mut busy, mut waited) = (0u64, 0u64, 0u64);
        let (mut out, mut back) = (0u64, 0u64);
        let mut ends: HashMap<Value<'c>, u64> = HashMap::new();
        for &op in ops {
            if let Some(run) = Execution::of(op) {
                let node = problem.node_of(run.symbol());
                let time = node.map_or(0, |node| problem.graph.node(node).time.0);
                (now, busy) = (now.saturating_add(time), busy.saturating_add(time));
            } else if let Some(transfer) = Transfer::of(op)
                && let Some(made) = transfer.made()
            {
                let engine = if let Transfer::Offload(_) = transfer { &mut out } else { &mut back };
                let copying = u128::from(bytes(problem, made)) * 1_000_000_000;
                let copying = u64::try_from(copying.div_ceil(u128::from(self.rate))).unwrap_or(u64::MAX);
                *engine = now.max(*engine).saturating_add(self.latency).saturating_add(copying);
                ends.insert(made, *engine);
            } else if let Some(value) = WaitOp::of(op).and_then(WaitOp::value) {
                let end = ends.get(&value).copied().unwrap_or(0);
                waited = waited.saturating_add(end.saturating_sub(now));
                now = now.max(end);
            }
        }
        debug_assert_eq!(busy.saturating_add(waited), now);
        (now, waited)
    }
}
