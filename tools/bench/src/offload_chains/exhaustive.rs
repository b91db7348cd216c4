//! The optimum of the shape of [`super::pofo`] on tiny chains, by trying every plan and every wait.
//!
//! A plan says of each stage whether it is kept or in a segment, and what leaves. Then the step is played in whole ticks, at one
//! byte per tick and in the order of time: before each run any wait is tried, and during each run of the way back any number of
//! bytes that fit. No step of it uses what the dynamic program rests on: that shortest waits are best, that the way back
//! is the way forward with time reversed, and that dominated labels can be forgotten.

use std::collections::BTreeMap;

use super::chain::Chain;
use super::segments::Segments;

/// A run on the way forward.
#[derive(Clone, Copy)]
struct Out {
    /// What is on the device beside what is leaving.
    memory: u64,
    time: u64,
    /// Bytes that leave from its start on, and from its end on.
    joins: [u64; 2],
}

/// A run on the way back.
#[derive(Clone, Copy)]
struct Back {
    /// What is on the device beside what came back for later runs.
    memory: u64,
    time: u64,
    /// Bytes that must have come back when it starts.
    needs: u64,
}

/// Plays every plan.
pub struct Exhaustive<'a> {
    pub chain: &'a Chain,
    pub segments: &'a Segments,
    pub memory: u64,
}

impl Exhaustive<'_> {
    /// The least time.
    pub fn optimum(&self) -> Option<u64> {
        self.from(0, 0, &mut Vec::new(), &mut Vec::new())
    }

    fn from(&self, stage: usize, stays: u64, out: &mut Vec<Out>, back: &mut Vec<Back>) -> Option<u64> {
        let chain = self.chain;
        if stage == chain.stages.len() {
            out.push(Out { memory: stays + chain.loss_need(), time: 0, joins: [0, 0] });
            let found = self.play_out(out, 0, 0).zip(self.play_back(back));
            out.pop();
            return found.map(|(out, back)| out + back);
        }
        let (input, about) = (chain.input(stage), chain.stages[stage]);
        let mut best: Option<u64> = None;
        let mut offer = |found: Option<u64>| best = best.into_iter().chain(found).min();
        for input_leaves in [0, input] {
            for tape_leaves in [0, about.tape] {
                let memory = stays + chain.forward_need(stage);
                out.push(Out { memory, time: about.forward, joins: [input_leaves, tape_leaves] });
                let memory = stays + chain.backward_need(stage);
                back.push(Back { memory, time: about.backward, needs: input_leaves + tape_leaves });
                let stays = stays + input + about.tape - input_leaves - tape_leaves;
                offer(self.from(stage + 1, stays, out, back));
                out.pop();
                back.pop();
            }
            let staying = stays + input - input_leaves;
            for to in stage..chain.stages.len() {
                let (before, joins) = if to == stage { (stays, input_leaves) } else { (staying, 0) };
                let memory = before + chain.forward_need(to);
                out.push(Out { memory, time: chain.stages[to].forward, joins: [joins, 0] });
                for corner in self.segments.of(stage, to) {
                    let memory = stays + corner.memory;
                    back.push(Back { memory, time: corner.time, needs: input_leaves });
                    offer(self.from(to + 1, staying, out, back));
                    back.pop();
                }
            }
            out.truncate(out.len() - (chain.stages.len() - stage));
        }
        best
    }

    /// Until everything has left.
    fn play_out(&self, runs: &[Out], at: usize, leaving: u64) -> Option<u64> {
        let Some(run) = runs.get(at) else { return Some(leaving) };
        let waits = (0..=leaving).filter(|wait| run.memory + leaving - wait <= self.memory);
        let played = waits.filter_map(|wait| {
            let left = (leaving - wait + run.joins[0]).saturating_sub(run.time) + run.joins[1];
            Some(wait + run.time + self.play_out(runs, at + 1, left)?)
        });
        played.min()
    }

    fn play_back(&self, back: &[Back]) -> Option<u64> {
        // The stage that ran forward last runs backward first.
        let runs: Vec<Back> = back.iter().rev().copied().collect();
        self.play(&runs, 0, 0, &mut BTreeMap::new())
    }

    /// From a run on, with so many bytes that came back and are not used yet.
    fn play(
        &self,
        runs: &[Back],
        at: usize,
        ahead: u64,
        known: &mut BTreeMap<(usize, u64), Option<u64>>,
    ) -> Option<u64> {
        let Some(run) = runs.get(at) else { return Some(0) };
        if let Some(&known) = known.get(&(at, ahead)) {
            return known;
        }
        let waiting: u64 = runs[at..].iter().map(|run| run.needs).sum::<u64>() - ahead;
        let mut best: Option<u64> = None;
        for wait in 0..=waiting {
            let Some(here) = (ahead + wait).checked_sub(run.needs) else { continue };
            for during in 0..=run.time.min(waiting - wait) {
                if run.memory + here + during <= self.memory {
                    let rest = self.play(runs, at + 1, here + during, known);
                    best = best.into_iter().chain(rest.map(|rest| wait + run.time + rest)).min();
                }
            }
        }
        known.insert((at, ahead), best);
        best
    }
}
