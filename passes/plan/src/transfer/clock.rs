//! When everything happens: the runs pass points, engines serve their transfers in order.
//!
//! A recurrence over the points: the runs pass a point when the run before and all transfers that must have ended there have
//! ended; a transfer begins when the runs have passed its start and its engine is free.

use super::{Direction, Host, Transfer};
use crate::graph::Graph;
use crate::schedule::Sequence;
use crate::units::Time;

/// When the runs pass each point, and when each transfer begins and ends. Every transfer ends within the schedule.
pub(super) fn times(
    graph: &Graph,
    sequence: &Sequence,
    transfers: &[Transfer],
    agenda: &Agenda,
    host: &Host,
) -> (Vec<Time>, Vec<(Time, Time)>) {
    let mut spans = vec![(Time(0), Time(0)); transfers.len()];
    let (mut out, mut back) = (Time(0), Time(0));
    let (mut passed, mut now) = (Vec::with_capacity(sequence.0.len() + 1), Time(0));
    for point in 0..=sequence.0.len() {
        now = agenda.ends(point).map(|transfer| spans[transfer].1).fold(now, Time::max);
        passed.push(now);
        for transfer in agenda.starts(point) {
            let about = transfers[transfer];
            let free = match about.direction {
                Direction::Offload => &mut out,
                Direction::Fetch => &mut back,
            };
            let begin = now.max(*free);
            *free = begin + host.engine(about.direction).time(graph.value(about.value).bytes);
            spans[transfer] = (begin, *free);
        }
        if let Some(&node) = sequence.0.get(point) {
            now += graph.node(node).time;
        }
    }
    (passed, spans)
}

/// The transfers by point, in the order of the list.
pub(super) struct Agenda {
    starts: Vec<Vec<usize>>,
    ends: Vec<Vec<usize>>,
}

impl Agenda {
    /// That of transfers within a schedule of so many runs.
    pub(super) fn new(transfers: &[Transfer], runs: usize) -> Self {
        let mut agenda = Self { starts: vec![Vec::new(); runs + 1], ends: vec![Vec::new(); runs + 1] };
        for (index, transfer) in transfers.iter().enumerate() {
            agenda.starts[transfer.start].push(index);
            agenda.ends[transfer.end].push(index);
        }
        agenda
    }

    pub(super) fn starts(&self, point: usize) -> impl Iterator<Item = usize> {
        self.starts[point].iter().copied()
    }

    pub(super) fn ends(&self, point: usize) -> impl Iterator<Item = usize> {
        self.ends[point].iter().copied()
    }
}
