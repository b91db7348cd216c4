//! One run of one log: what was asked and what came out.
//!
//! Not here: which cells make a figure (see `figures`), how they are drawn (see `plot`).

use crate::read::{model_name, read_log};
use anyhow::Result;
use rk_dtr::{
    Baseline, Bytes, Heuristic, Nanos, Online, Options, Outcome, Policy, Program, Scan, SegmentCounters,
    simulate,
};
use serde::Serialize;
use std::path::Path;
use std::time::Instant;

/// A log with its baseline.
#[derive(Debug)]
pub struct Model {
    /// File name without folder and endings.
    pub name: String,
    /// What the log says.
    pub program: Program,
    /// What ratios refer to.
    pub baseline: Baseline,
}

impl Model {
    /// Reads a log and runs its baseline.
    ///
    /// # Errors
    /// Names the file, the line and what is wrong with it.
    pub fn read(path: &Path) -> Result<Self> {
        let program = read_log(path)?;
        let baseline = Baseline::of(&program);
        Ok(Self { name: model_name(path), program, baseline })
    }
}

/// What to run.
#[derive(Clone, Copy, Debug)]
pub struct Task {
    /// What happens to dead values.
    pub policy: Policy,
    /// Who is evicted first.
    pub heuristic: Heuristic,
    /// Budget over peak.
    pub ratio: f64,
    /// For random heuristics.
    pub seed: u64,
    /// How the pool is searched.
    pub scan: Scan,
    /// Whether recurring segments are recognised.
    pub segments: bool,
}

/// What came out: the keys that the command line promises, then further ones.
#[derive(Clone, Debug, Serialize)]
pub struct Cell {
    /// The log's name.
    pub model: String,
    /// Name of the heuristic.
    pub heuristic: &'static str,
    /// Budget over peak.
    pub ratio: f64,
    /// ok, oom or thrashed.
    pub status: &'static str,
    /// Clock over baseline compute; null when the baseline takes no time.
    pub overhead: Option<f64>,
    /// Nanoseconds at the end or at the failure, from 1.
    pub clock: u64,
    /// Nanoseconds of recomputation.
    pub remat: u64,
    /// Bytes.
    pub max_memory: u64,
    /// Scores computed.
    pub evals: u64,
    /// Name of the policy.
    pub runtime: &'static str,
    /// Bytes.
    pub budget: u64,
    /// The seed, if it matters.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seed: Option<u64>,
    /// Metadata accesses, if they were counted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub accesses: Option<u64>,
    /// Storages evicted.
    pub evictions: u64,
    /// Calls run again.
    pub reruns: u64,
    /// What was recognised, if it was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub segments: Option<Segments>,
    /// Seconds that the simulation took; the only key that is not reproducible.
    pub wall_s: f64,
}

/// What of a run was recognised as recurring.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Segments {
    /// Calls of the program.
    pub calls: u64,
    /// Those that lie in a segment that recurs.
    pub covered: u64,
    /// Such segments.
    pub instances: u64,
    /// How many of them differ.
    pub classes: u64,
    /// Plans made.
    pub plans: u64,
    /// Evictions of several values at once.
    pub group_evictions: u64,
    /// Segments computed again in one run.
    pub replays: u64,
}

impl From<SegmentCounters> for Segments {
    fn from(counters: SegmentCounters) -> Self {
        let SegmentCounters { calls, covered, instances, classes, plans, group_evictions, replays } =
            counters;
        Self { calls, covered, instances, classes, plans, group_evictions, replays }
    }
}

impl Cell {
    /// Runs a task.
    ///
    /// # Panics
    /// If the policy does not support the heuristic.
    pub fn run(model: &Model, task: Task) -> Self {
        let Task { policy, heuristic, ratio, seed, scan, segments } = task;
        let online = Online { segments, ..Online::default() };
        let options = Options { seed, scan, online, ..model.baseline.options(heuristic, policy, ratio) };
        let start = Instant::now();
        let Outcome { status, counters, accesses, segments } = simulate(&model.program, &options);
        let wall_s = start.elapsed().as_secs_f64();
        let (Nanos(clock), Nanos(remat)) = (counters.clock, counters.remat);
        let (Bytes(budget), Bytes(max_memory)) = (options.budget, counters.max_memory);
        Self {
            model: model.name.clone(),
            heuristic: heuristic.name(),
            ratio,
            status: status.name(),
            overhead: model.baseline.overhead(counters.clock),
            clock,
            remat,
            max_memory,
            evals: counters.evals,
            runtime: policy.name(),
            budget,
            seed: heuristic.is_random().then_some(seed),
            accesses: (scan == Scan::Full).then_some(accesses),
            evictions: counters.evictions,
            reruns: counters.reruns,
            segments: segments.map(Segments::from),
            wall_s,
        }
    }

    /// Whether all steps were made.
    pub fn passed(&self) -> bool {
        self.status == "ok"
    }

    /// The columns of [`Cell::csv`].
    pub const COLUMNS: &'static str = "model,runtime,heuristic,ratio,seed,budget_bytes,status,overhead,clock,remat,max_memory,evals,accesses";

    /// One line of a table, without the time it took: the same run gives the same bytes.
    pub fn csv(&self) -> String {
        let number = |n: Option<u64>| n.map_or(String::new(), |n| n.to_string());
        let overhead = self.overhead.map_or(String::new(), |o| o.to_string());
        let Self {
            model, runtime, heuristic, ratio, budget, status, clock, remat, max_memory, evals, ..
        } = self;
        let (seed, accesses) = (number(self.seed), number(self.accesses));
        format!(
            "{},{runtime},{heuristic},{ratio},{seed},{budget},{status},{overhead},{clock},{remat},{max_memory},{evals},{accesses}",
            quoted(model)
        )
    }
}

/// A field as csv wants it: quoted if it must be.
fn quoted(field: &str) -> String {
    if field.contains([',', '"', '\n', '\r']) {
        format!("\"{}\"", field.replace('"', "\"\""))
    } else {
        field.to_owned()
    }
}
