//! Idle times: between two uses of an instance in a row, it can wait in host memory.

use std::ops::Range;

use rk_plan::{Graph, Sequence, Trace, ValueId};

/// One idle time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Gap {
    pub(super) value: ValueId,
    /// The instance, by the run that makes it.
    pub(super) born: usize,
    /// The run that uses it before the gap.
    pub(super) from: usize,
    /// The run that uses it behind the gap.
    pub(super) to: usize,
    pub(super) bytes: i64,
}

impl Gap {
    /// The runs at which its bytes are free if its transfers are as short as can be. An offload begins behind the run that makes the value,
    /// even if others use it still, and takes a run; what is in host memory already needs none.
    pub(super) fn freed(&self, offload: bool) -> Range<usize> {
        let from = if offload { (self.born + 2).max(self.from + 1) } else { self.from + 1 };
        from..(self.to - 1).max(from)
    }

    /// The same gap where positions have moved.
    pub(super) fn shifted(self, moved: impl Fn(usize) -> usize) -> Self {
        Self { born: moved(self.born), from: moved(self.from), to: moved(self.to), ..self }
    }
}

/// A sequence with its idle times, by value and position.
pub(super) struct Runs {
    pub(super) sequence: Sequence,
    /// Bytes at each run, and when the runs pass each point, without transfers.
    pub(super) memory: Vec<i64>,
    pub(super) passed: Vec<u64>,
    pub(super) gaps: Vec<Gap>,
}

impl Runs {
    /// Those of a sequence that the judge accepted.
    pub(super) fn new(graph: &Graph, sequence: Sequence, trace: &Trace) -> Self {
        // Per value, the run of its newest instance and that of its last use.
        let mut newest: Vec<(usize, usize)> = vec![(0, 0); graph.values().len()];
        let (mut gaps, mut passed, mut now) = (Vec::new(), vec![0], 0);
        for (step, &node) in sequence.0.iter().enumerate() {
            let about = graph.node(node);
            for &value in &about.reads {
                let (born, last) = &mut newest[value.index()];
                let (born, from, of) = (*born, std::mem::replace(last, step), graph.value(value));
                let gap = Gap { value, born, from, to: step, bytes: signed(of.bytes.0) };
                if !of.pinned && gap.bytes > 0 && !gap.freed(true).is_empty() {
                    gaps.push(gap);
                }
            }
            about.writes.iter().for_each(|value| newest[value.index()] = (step, step));
            now += about.time.0;
            passed.push(now);
        }
        gaps.sort_unstable();
        let memory = trace.memory.iter().map(|bytes| signed(bytes.0)).collect();
        Self { sequence, memory, passed, gaps }
    }
}

/// A graph's bytes are at most 2^62.
pub(super) fn signed(bytes: u64) -> i64 {
    i64::try_from(bytes).unwrap_or(i64::MAX)
}
