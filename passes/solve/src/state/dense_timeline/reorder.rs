//! Neighbours in another order.

use super::DenseTimeline;
use crate::state::flat_graph::NONE;

/// A run of the window: bytes made less bytes let go, bytes at its step beyond those alive before, and those.
#[derive(Clone, Copy)]
pub(super) struct Tried {
    leaves: i64,
    here: i64,
    before: i64,
}

impl DenseTimeline<'_> {
    /// The excess if the runs from `from` on had the order of `trial`, which is theirs but for runs that are not tied.
    pub(crate) fn tried(&mut self, from: usize) -> i128 {
        let model = self.model;
        let to = from + self.trial.len();
        self.stamp += 1;
        self.changes.clear();
        self.tried.clear();
        let now: i128 = (from..to).map(|place| i128::from(self.over(place).max(0))).sum();
        for place in (0..self.trial.len()).rev() {
            let run = self.trial[place];
            let node = self.node[run as usize];
            let (mut leaves, mut here) = (0, model.workspace[node as usize]);
            for &value in model.writes.row(node) {
                let bytes = model.bytes[value as usize];
                here += bytes;
                if self.last[self.instance(value, run)] != run {
                    leaves += bytes;
                }
            }
            for &value in model.reads.row(node) {
                let instance = self.instance(value, self.source(value, self.at[run as usize]));
                let last = self.last[instance];
                if last == NONE || self.stamps[instance] == self.stamp {
                    continue;
                }
                let end = self.at[last as usize] as usize;
                if end < from || end >= to {
                    continue;
                }
                self.stamps[instance] = self.stamp;
                if last != run {
                    self.changes.push((instance as u32, run));
                }
                leaves -= model.bytes[value as usize];
                if model.over[node as usize] == value {
                    here -= model.bytes[value as usize];
                }
            }
            self.tried.push(Tried { leaves, here, before: 0 });
        }
        self.tried.reverse();
        let (mut before, mut then) = (self.before(from), 0i128);
        for tried in &mut self.tried {
            tried.before = before;
            then += i128::from((before + tried.here).max(0));
            before += tried.leaves;
        }
        self.excess - now + then
    }

    /// The greatest memory at a step of what was tried.
    pub(crate) fn trial_peak(&self) -> i64 {
        self.tried.iter().map(|tried| tried.before + tried.here + self.budget).max().unwrap_or(0)
    }

    /// Makes what was tried; `excess` is what [`DenseTimeline::tried`] said.
    pub(crate) fn accept(&mut self, from: usize, excess: i128) {
        for ((place, &run), tried) in (from..).zip(&self.trial).zip(&self.tried) {
            self.order[place] = run;
            self.at[run as usize] = place as u32;
            self.leaves[run as usize] = tried.leaves;
            self.here[run as usize] = tried.here;
            self.over[place] = tried.before + tried.here;
        }
        for &(instance, run) in &self.changes {
            self.last[instance as usize] = run;
        }
        self.excess = excess;
    }
}
