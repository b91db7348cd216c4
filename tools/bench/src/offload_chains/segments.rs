//! Segments of a chain that are run forward again and then backward, without transfers: time against memory, exactly.
//!
//! ```text
//! T(i, j, m) = least time to go forward and backward through stages i..j with m of memory, x_{i-1} and the gradient of x_j
//!              being there and counted in m
//!   last     i = j:  f + g                                    m >= w_j + F_i,  m >= Q_i
//!   keep     f + g + T(i+1, j, m - w_{i-1} - tape_i)          m >= w_j + F_i,  m >= Q_i
//!   return   min_{i < c <= j} f_i + ... + f_{c-1} + T(c, j, m - w_{i-1}) + T(i, c-1, m)
//!                                                             m >= w_j + F_i,  m >= w_j + w_{i-1} + F_k  for i < k < c
//! ```
//!
//! `w_i` is the size of `x_i`; `F` and `Q` are what a forward and a backward run need. Each `T(i, j, ·)` is a step function, held as its
//! corners, so nothing is rounded. Optimal among persistent schedules: what is kept stays until its own backward.
//! Complexity: O(L^3) merges of step functions.
//!
//! Source: Beaumont et al., "Optimal re-materialization strategies for heterogeneous chains" (ACM TOMS, 2024).

use super::chain::Chain;

/// A corner of a step function: from this much memory on, this much time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Corner {
    /// Memory.
    pub memory: u64,
    /// Time.
    pub time: u64,
}

/// The step functions of all segments.
pub struct Segments {
    stages: usize,
    curves: Vec<Vec<Corner>>,
}

impl Segments {
    /// Those of a chain.
    pub fn new(chain: &Chain) -> Self {
        let stages = chain.stages.len();
        let mut segments = Self { stages, curves: vec![Vec::new(); stages * stages] };
        for from in (0..stages).rev() {
            for to in from..stages {
                segments.curves[from * stages + to] = segments.curve(chain, from, to);
            }
        }
        segments
    }

    /// By memory, falling in time.
    pub fn of(&self, from: usize, to: usize) -> &[Corner] {
        &self.curves[from * self.stages + to]
    }

    fn curve(&self, chain: &Chain, from: usize, to: usize) -> Vec<Corner> {
        let (stage, input) = (chain.stages[from], chain.input(from));
        let (own, gradient) = (stage.forward + stage.backward, chain.stages[to].output);
        let least = (gradient + chain.forward_need(from)).max(chain.backward_need(from));
        if from == to {
            return vec![Corner { memory: least, time: own }];
        }
        let mut corners: Vec<Corner> = Vec::new();
        corners.extend(self.of(from + 1, to).iter().map(|inner| Corner {
            memory: least.max(inner.memory + input + stage.tape),
            time: own + inner.time,
        }));
        let (mut forward, mut need) = (0, 0);
        for cut in from + 1..=to {
            let last = cut - 1;
            forward += chain.stages[last].forward;
            let beside = if last == from { 0 } else { input };
            need = need.max(gradient + beside + chain.forward_need(last));
            let (right, left) = (self.of(cut, to), self.of(from, last));
            // At every corner of one of the two, the best of the other.
            let (mut at_right, mut at_left) = (0, 0);
            while at_right < right.len() && at_left < left.len() {
                let (one, other) = (right[at_right], left[at_left]);
                let (one_memory, other_memory) = (one.memory + input, other.memory);
                corners.push(Corner {
                    memory: need.max(one_memory).max(other_memory),
                    time: forward + one.time + other.time,
                });
                let next_right = right.get(at_right + 1).map_or(u64::MAX, |next| next.memory + input);
                let next_left = left.get(at_left + 1).map_or(u64::MAX, |next| next.memory);
                at_right += usize::from(next_right <= next_left);
                at_left += usize::from(next_left <= next_right);
            }
        }
        corners.sort_unstable();
        let mut kept: Vec<Corner> = Vec::new();
        for corner in corners {
            if kept.last().is_none_or(|last| corner.time < last.time) {
                kept.push(corner);
            }
        }
        kept
    }
}
