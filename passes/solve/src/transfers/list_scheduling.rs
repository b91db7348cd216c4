//! From idle times to transfers: at which points each begins and must have ended.
//!
//! Runs wait least if an offload begins at once behind the run that makes the value, and its end is waited for as late as memory allows; and
//! if a fetch ends right before the use behind, and begins early enough, as far as memory allows. Each engine serves its jobs in
//! order, as a machine does: offloads are listed forward by release time, fetches backward by due date. Both spend the same
//! room, what the budget leaves at each run when every transfer is as short as can be.
//!
//! When the runs pass a point depends on their waits, and those on the points. So it is done a second time with the waits
//! that the judge found in the first.
//!
//! Source: Graham's list scheduling, with Jackson's earliest-due-date rule for the fetches (Pinedo, "Scheduling", chapters 3 and 5).

use rk_plan::{Direction, Graph, Host, Transfer, TransferTrace, judge_transfers};

use super::gaps::{Gap, Runs};

/// The chosen gaps of a sequence.
pub(super) struct Chosen<'a> {
    pub(super) graph: &'a Graph,
    pub(super) host: &'a Host,
    pub(super) budget: i64,
    pub(super) runs: &'a Runs,
    /// By value and position.
    pub(super) gaps: &'a [Gap],
    /// Bytes at each run with transfers as short as can be.
    pub(super) memory: &'a [i64],
}

/// A gap of an instance that is in host memory already needs a fetch alone, and is free from its last use on.
pub(super) fn is_first(gaps: &[Gap], index: usize) -> bool {
    index == 0 || (gaps[index - 1].value, gaps[index - 1].born) != (gaps[index].value, gaps[index].born)
}

impl Chosen<'_> {
    /// The better of two rounds, if the laws hold.
    pub(super) fn schedule(&self) -> Option<(Vec<Transfer>, TransferTrace)> {
        let first = self.judged(&self.runs.passed)?;
        if first.1.stall().0 == 0 {
            return Some(first);
        }
        let passed: Vec<u64> = first.1.passed.iter().map(|time| time.0).collect();
        let second = self.judged(&passed).filter(|second| second.1.makespan < first.1.makespan);
        Some(second.unwrap_or(first))
    }

    fn judged(&self, passed: &[u64]) -> Option<(Vec<Transfer>, TransferTrace)> {
        let transfers = self.transfers(passed);
        let trace = judge_transfers(self.graph, &self.runs.sequence, &transfers, self.host).ok()?;
        Some((transfers, trace))
    }

    /// The transfers, by start.
    fn transfers(&self, passed: &[u64]) -> Vec<Transfer> {
        let mut memory = self.memory.to_vec();
        let mut transfers = Vec::with_capacity(2 * self.gaps.len());
        let time =
            |direction, gap: &Gap| self.host.engine(direction).time(self.graph.value(gap.value).bytes).0;
        let mut by_release: Vec<usize> = (0..self.gaps.len()).collect();
        by_release.sort_by_key(|&gap| self.gaps[gap].born);
        let mut away = vec![0; self.gaps.len()];
        let mut free = 0u64;
        for index in by_release {
            let gap = &self.gaps[index];
            let mut end = gap.freed(is_first(self.gaps, index)).start;
            away[index] = end;
            if !is_first(self.gaps, index) {
                continue;
            }
            let start = gap.born + 1;
            free = free.max(passed[start]).saturating_add(time(Direction::Offload, gap));
            while end + 1 < gap.to && passed[end] < free && memory[end] + gap.bytes <= self.budget {
                memory[end] += gap.bytes;
                end += 1;
            }
            away[index] = end;
            transfers.push(Transfer { value: gap.value, direction: Direction::Offload, start, end });
        }
        let mut by_due: Vec<usize> = (0..self.gaps.len()).collect();
        by_due.sort_by_key(|&gap| std::cmp::Reverse(self.gaps[gap].to));
        let mut free = u64::MAX;
        for index in by_due {
            let gap = &self.gaps[index];
            free = free.min(passed[gap.to]).saturating_sub(time(Direction::Fetch, gap));
            let mut start = gap.to - 1;
            while start > away[index] && passed[start] > free && memory[start - 1] + gap.bytes <= self.budget
            {
                start -= 1;
                memory[start] += gap.bytes;
            }
            transfers.push(Transfer { value: gap.value, direction: Direction::Fetch, start, end: gap.to });
        }
        // At one point, what is due first goes first.
        transfers.sort_by_key(|transfer| (transfer.start, transfer.end, transfer.value));
        transfers
    }
}
