//! The best plan of a chain with recomputation and offload together, among plans of one shape: a yardstick for the planner.
//!
//! The shape is that of POFO. The step goes forward once. On this way each stage is *kept*, or belongs to a *segment* of stages of
//! which only the input is left. What is left (the input of each stage that is kept, its tape, the input of each segment) stays on
//! the device or goes to host memory, in the order in which it is made, and comes back in reverse order. On the way back a
//! kept stage runs backward at once, and a segment runs as [`super::segments`] says, optimal without transfers.
//!
//! Stage by stage from the first, a plan is described by four numbers: `A`, bytes that stay on the device; `D`, bytes whose way out
//! is not finished when the stage begins forward; `E`, bytes that must have come back by the end of its backward; and the time
//! so far, forward and backward together. With `M` of memory, rate `B`, and a run that needs `N` and takes `t`:
//!
//! ```text
//! forward     wait max(0, A + D + N - M) / B, then D := max(0, min(D, M - A - N) + input if it leaves - B t)
//! backward    wait max(0, A + E + N - M) / B, then E := max(0, min(E, M - A - N) - B t)
//! then        what leaves is added to D and to E, what stays to A
//! end         wait (D + E) / B behind the loss
//! ```
//!
//! Backward is forward with time reversed, so both are the same recurrence. Of two plans that agree in which stages are behind
//! them, the one that is less in none of the four can be forgotten: every later wait grows with each. What remains are labels of
//! a Pareto front, found exactly in whole numbers; a limit on the time is raised until a plan is within it.
//!
//! Assumptions: memory is given back byte by byte while a copy runs (a planner that gives it back at the end needs more); one copy
//! at a time, and none comes back before the last has left; no latency; each value leaves once at most. While a segment runs
//! backward, what comes back for later stages needs memory, too. How much a segment holds for it is one number, chosen with the
//! segment ([`Ahead::Reserved`], a plan of the shape), or is left out of account ([`Ahead::Free`], below every plan of the shape). The
//! optimum of the shape lies between the two.
//!
//! Complexity: O(L^2 K) steps per label with K corners per segment; the number of labels is that of different `A`, `D` and `E` at most.
//!
//! Source: Beaumont, Eyraud-Dubois, Shilova, "Efficient combination of rematerialization and offloading for training DNNs"
//! (NeurIPS 2021), whose table over rounded `A`, `D`, `E` this replaces by labels. The paper's own rule for what comes back while
//! a segment runs is not this one: the recurrence is exact for the shape as it is described here, which exhaustion confirms on
//! tiny chains.

use super::chain::Chain;
use super::segments::Segments;

/// What segments do with bytes that come back while they run backward.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ahead {
    /// They hold them in memory that the segment leaves free.
    Reserved,
    /// They hold them in no memory: a lower bound.
    Free,
}

/// A partial plan. Bytes throughout: time is counted in the bytes that the link could move in it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
struct Label {
    time: u64,
    stays: u64,
    leaving: u64,
    returning: u64,
}

impl Label {
    fn is_no_worse(&self, other: &Self) -> bool {
        self.time <= other.time
            && self.stays <= other.stays
            && self.leaving <= other.leaving
            && self.returning <= other.returning
    }

    /// A run on the way forward, with `joins` bytes that leave from its start on.
    fn forward(&mut self, memory: u64, need: u64, time: u64, joins: u64) -> Option<()> {
        let held = self.leaving.min(memory.checked_sub(self.stays + need)?);
        self.time += time + self.leaving - held;
        self.leaving = (held + joins).saturating_sub(time);
        Some(())
    }

    /// A run on the way back.
    fn backward(&mut self, memory: u64, need: u64, time: u64) -> Option<()> {
        let held = self.returning.min(memory.checked_sub(self.stays + need)?);
        self.time += time + self.returning - held;
        self.returning = held.saturating_sub(time);
        Some(())
    }
}

/// The least time in `memory` with `rate` units of size per unit of time; in units of time times `rate`.
pub fn optimum(chain: &Chain, segments: &Segments, memory: u64, rate: u64, ahead: Ahead) -> Option<u64> {
    let base = chain.time() * rate;
    let mut extra = base / 100;
    loop {
        if let Some(found) = within(chain, segments, memory, rate, ahead, base + extra) {
            return Some(found);
        }
        if extra > 16 * base + memory * chain.stages.len() as u64 {
            return None;
        }
        extra = 2 * extra + 1;
    }
}

fn within(
    chain: &Chain,
    segments: &Segments,
    memory: u64,
    rate: u64,
    ahead: Ahead,
    limit: u64,
) -> Option<u64> {
    let stages = chain.stages.len();
    // Time of all runs from a stage on.
    let mut remaining = vec![0; stages + 1];
    for (index, stage) in chain.stages.iter().enumerate().rev() {
        remaining[index] = remaining[index + 1] + rate * (stage.forward + stage.backward);
    }
    let mut fronts: Vec<Vec<Label>> = vec![Vec::new(); stages + 1];
    fronts[0].push(Label::default());
    for index in 0..stages {
        let front = pareto(std::mem::take(&mut fronts[index]));
        for label in &front {
            for (to, next) in successors(chain, segments, memory, rate, ahead, index, label) {
                if next.time + remaining[to] <= limit {
                    fronts[to].push(next);
                }
            }
        }
    }
    let last = pareto(std::mem::take(&mut fronts[stages]));
    let ends = last.into_iter().filter_map(|mut label| {
        label.forward(memory, chain.loss_need(), 0, 0)?;
        Some(label.time + label.leaving + label.returning)
    });
    ends.min().filter(|&time| time <= limit)
}

/// Partial plans one stage or one segment further, with the stage that they come to.
fn successors(
    chain: &Chain,
    segments: &Segments,
    memory: u64,
    rate: u64,
    ahead: Ahead,
    from: usize,
    label: &Label,
) -> Vec<(usize, Label)> {
    let mut made = Vec::new();
    let (stage, input) = (chain.stages[from], chain.input(from));
    let tapes: &[u64] = if stage.tape == 0 { &[0] } else { &[0, stage.tape] };
    let inputs: &[u64] = if input == 0 { &[0] } else { &[0, input] };
    for &input_leaves in inputs {
        for &tape_leaves in tapes {
            let mut next = *label;
            let runs = next
                .forward(memory, chain.forward_need(from), rate * stage.forward, input_leaves)
                .and_then(|()| next.backward(memory, chain.backward_need(from), rate * stage.backward));
            if runs.is_some() {
                next.leaving += tape_leaves;
                next.returning += input_leaves + tape_leaves;
                next.stays += input + stage.tape - input_leaves - tape_leaves;
                made.push((from + 1, next));
            }
        }
        let mut forward = *label;
        for to in from..chain.stages.len() {
            let joins = if to == from { input_leaves } else { 0 };
            if forward
                .forward(memory, chain.forward_need(to), rate * chain.stages[to].forward, joins)
                .is_none()
            {
                break;
            }
            if to == from {
                forward.stays += input - input_leaves;
            }
            for corner in segments.of(from, to) {
                // The input of the segment is counted in what the segment needs.
                let mut next = Label { stays: label.stays, ..forward };
                let time = rate * corner.time;
                let done = match ahead {
                    Ahead::Reserved => next.backward(memory, corner.memory, time),
                    Ahead::Free if next.stays + corner.memory <= memory => {
                        next.time += time;
                        next.returning = next.returning.saturating_sub(time);
                        Some(())
                    }
                    Ahead::Free => None,
                };
                if done.is_some() {
                    next.stays = forward.stays;
                    next.returning += input_leaves;
                    made.push((to + 1, next));
                }
            }
        }
    }
    made
}

/// Those that no other makes needless.
fn pareto(mut labels: Vec<Label>) -> Vec<Label> {
    labels.sort_unstable();
    labels.dedup();
    let mut front: Vec<Label> = Vec::new();
    for label in labels {
        // Newer ones first: they are near in time, and often in the rest.
        if !front.iter().rev().any(|kept| kept.is_no_worse(&label)) {
            front.push(label);
        }
    }
    front
}
