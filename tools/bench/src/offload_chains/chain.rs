//! Chains: training steps in which every layer reads the one before and nothing else.
//!
//! Stage `i` runs forward from `x_{i-1}` to `x_i` and a *tape*, what only its own backward reads. Its backward reads the
//! gradient of `x_i`, `x_{i-1}` and the tape, and makes the gradient of `x_{i-1}`. The loss turns `x_L` into its gradient in no
//! time. What the first stage reads is the caller's and has no bytes.
//!
//! Sizes and times are small whole numbers, so that the labels of [`super::pofo`] coincide often. As a graph for the planner
//! a unit of size is a mebibyte, and a unit of time a thousand ticks.

use anyhow::Result;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use rk_plan::{Bytes, Engine, Graph, GraphBuilder, Host, Kind, NodeSpec, OutputSpec, Time, ValueId};

/// Bytes of a unit of size.
pub const UNIT: u64 = 1 << 20;
/// Ticks of a unit of time.
pub const TICKS: u64 = 1000;

/// One layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stage {
    /// Time of the forward run.
    pub forward: u64,
    /// Time of the backward run.
    pub backward: u64,
    /// Size of `x_i` and of its gradient.
    pub output: u64,
    /// Size of what only the backward run reads.
    pub tape: u64,
}

/// A chain of stages, numbered from zero.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chain {
    /// For people.
    pub name: String,
    /// In order.
    pub stages: Vec<Stage>,
}

impl Chain {
    /// Size of what a stage reads.
    pub fn input(&self, stage: usize) -> u64 {
        stage.checked_sub(1).map_or(0, |before| self.stages[before].output)
    }

    /// What the forward run of a stage needs: its input, its output and its tape.
    pub fn forward_need(&self, stage: usize) -> u64 {
        self.input(stage) + self.stages[stage].output + self.stages[stage].tape
    }

    /// What the backward run of a stage needs: both gradients, its input and its tape.
    pub fn backward_need(&self, stage: usize) -> u64 {
        2 * self.input(stage) + self.stages[stage].output + self.stages[stage].tape
    }

    /// What the loss needs.
    pub fn loss_need(&self) -> u64 {
        2 * self.input(self.stages.len())
    }

    /// Every run once.
    pub fn time(&self) -> u64 {
        self.stages.iter().map(|stage| stage.forward + stage.backward).sum()
    }

    /// The training step as a graph.
    pub fn graph(&self) -> Result<Graph> {
        let mut builder = GraphBuilder::new(&self.name);
        let made = |size: u64| OutputSpec { name: String::new(), bytes: Bytes(size * UNIT), pinned: false };
        let mut made_by: Vec<(ValueId, ValueId)> = Vec::new();
        for (index, stage) in self.stages.iter().enumerate() {
            let id = builder.add(NodeSpec {
                name: format!("f{index}"),
                kind: Kind::Forward,
                time: Time(stage.forward * TICKS),
                reads: made_by.last().iter().map(|(output, _)| *output).collect(),
                outputs: vec![made(stage.output), made(stage.tape)],
                ..NodeSpec::default()
            })?;
            made_by.extend(builder.output(id, 0).zip(builder.output(id, 1)));
        }
        let last = self.input(self.stages.len());
        let loss = builder.add(NodeSpec {
            name: "loss".to_owned(),
            kind: Kind::Forward,
            reads: made_by.last().iter().map(|(output, _)| *output).collect(),
            outputs: vec![made(last)],
            ..NodeSpec::default()
        })?;
        let mut gradient = builder.output(loss, 0);
        for (index, stage) in self.stages.iter().enumerate().rev() {
            let mut reads: Vec<ValueId> = gradient.into_iter().collect();
            reads.extend(index.checked_sub(1).map(|before| made_by[before].0));
            reads.push(made_by[index].1);
            let id = builder.add(NodeSpec {
                name: format!("b{index}"),
                kind: Kind::Backward,
                time: Time(stage.backward * TICKS),
                reads,
                outputs: vec![made(self.input(index))],
                ..NodeSpec::default()
            })?;
            gradient = builder.output(id, 0);
        }
        Ok(builder.finish()?)
    }
}

/// A link that moves so many units of size in a unit of time, each way.
pub fn host(rate: u64) -> Host {
    let engine = Engine { bytes: rate * UNIT, ticks: TICKS, latency: Time(0) };
    Host { offload: engine, fetch: engine, budget: None }
}

/// The kinds of chains that are compared.
pub const KINDS: [&str; 4] = ["equal", "shrinking", "growing", "random"];

/// A chain of a kind with so many stages. Forward runs take two units of time in the mean or more, backward runs twice that.
pub fn of_kind(kind: &str, stages: usize, seed: u64) -> Chain {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let part = |index: usize| 4 * index / stages.max(1);
    let stages = (0..stages).map(|index| {
        let (forward, output, tape) = match kind {
            // Blocks of a transformer: a tape of some times the residual stream.
            "equal" => (4, 2, 14),
            // Stages of a residual network: half of the size in each.
            "shrinking" => (4, 8 >> part(index), 24 >> part(index)),
            "growing" => (4, 1 << part(index), 3 << part(index)),
            _ => (random.random_range(2..=6), random.random_range(1..=6), random.random_range(2..=20)),
        };
        Stage { forward, backward: 2 * forward, output, tape }
    });
    Chain { name: kind.to_owned(), stages: stages.collect() }
}
