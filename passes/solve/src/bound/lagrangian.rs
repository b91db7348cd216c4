//! The linear relaxation of a cut problem without a linear solver: price memory, and cut a network.
//!
//! With D3 of [`crate::bound::cut`] moved into the objective at a price of `lambda` ticks per byte, the rest is a minimum closure:
//! each node runs again for `time + lambda * state`, or its wanted outputs are held for `lambda * bytes` each. That is a
//! minimum s-t cut:
//!
//! ```text
//! s -> p        lambda * bytes[u]     u needed, p its producer: p stays off, so u is held
//! r -> p        lambda * bytes[u]     u read by r alone, likewise when r runs again
//! r -> a_u -> p inf, lambda * bytes   u read by several r: paid once
//! p -> t        time[p] + lambda * state[p]   p runs again (inf for a `once` node)
//! ```
//!
//! `L(lambda) = cut(lambda) - lambda * room` is a lower bound of the cut problem for every `lambda >= 0` (weak duality) and
//! its maximum is the value of the linear relaxation, as the constraints other than D3 are totally unimodular. `L` is
//! concave and piecewise linear, each minimum cut is one of its lines, and the maximum is found by intersecting the best
//! line that rises with the best line that falls, a handful of maximum flows of milliseconds.
//!
//! All capacities are integers: `lambda = p/q`, times are multiplied by `q` and bytes by `p`. Nothing is rounded but
//! `lambda`, for which any value is valid; so the bound is exact, and is rounded *up* to a whole tick, as times are whole.
//!
//! Source: Picard, "Maximal closure of a graph", 1976; the line search is Newton's method of parametric optimisation.
//! Flow: Dinic with current arcs.

use crate::bound::cut::{Choice, Cut};

/// A number that no sum of capacities reaches.
const INF: u64 = 1 << 62;
/// All finite capacities of a network together stay below this.
const ROOM: u128 = 1 << 61;

/// What the relaxation of a cut problem says.
#[derive(Clone, Debug)]
pub struct Relaxation {
    /// No solution costs fewer ticks. `None`: the cut problem, and so the budget, has no solution.
    pub bound: Option<u64>,
    /// The best price seen, ticks per byte as a ratio.
    pub price: Price,
    /// The cheapest solution seen within the room.
    pub within: Option<Choice>,
    /// The solution at the same price that needs too much.
    pub beyond: Option<Choice>,
}

/// Ticks per byte: `bytes` are multiplied by `numerator`, ticks by `denominator`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Price {
    /// Of bytes.
    pub numerator: u64,
    /// Of ticks.
    pub denominator: u64,
}

/// What a branch has decided about a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fixed {
    /// Nothing.
    Free,
    /// It runs again.
    Again,
    /// It does not.
    Never,
}

/// A cut problem as a network.
#[derive(Clone, Debug)]
pub struct Network {
    arcs: Vec<Arc>,
    heads: Vec<Vec<u32>>,
    sources: Vec<u64>,
    level: Vec<u32>,
    next: Vec<u32>,
    queue: Vec<u32>,
    total_time: u128,
    total_bytes: u128,
}

#[derive(Clone, Copy, Debug)]
struct Arc {
    to: u32,
    left: u64,
    /// Bytes that the capacity stands for; `u64::MAX` for infinite.
    bytes: u64,
}

impl Network {
    /// The network of a cut problem; capacities come with the price.
    pub fn new(cut: &Cut) -> Self {
        let n = cut.nodes.len();
        // A hub for each value that does not lie between just two nodes, also for one that nothing reads.
        let shared = cut.values.iter().filter(|value| !value.needed && value.readers.len() != 1).count();
        let mut network = Self {
            arcs: Vec::new(),
            heads: vec![Vec::new(); n + shared + 2],
            sources: vec![0; n],
            level: Vec::new(),
            next: Vec::new(),
            queue: Vec::new(),
            total_time: cut.nodes.iter().map(|node| u128::from(node.time)).sum(),
            total_bytes: cut.values.iter().map(|value| u128::from(value.bytes)).sum::<u128>()
                + cut.nodes.iter().map(|node| u128::from(node.state)).sum::<u128>(),
        };
        let mut hub = n;
        for value in &cut.values {
            match (&value.readers[..], value.needed) {
                (_, true) => network.sources[value.producer] += value.bytes,
                (&[reader], false) => network.arc(reader, value.producer, value.bytes),
                (readers, false) => {
                    readers.iter().for_each(|&reader| network.arc(reader, hub, u64::MAX));
                    network.arc(hub, value.producer, value.bytes);
                    hub += 1;
                }
            }
        }
        network
    }

    fn arc(&mut self, from: usize, to: usize, bytes: u64) {
        let index = self.arcs.len() as u32;
        self.heads[from].push(index);
        self.heads[to].push(index + 1);
        self.arcs.push(Arc { to: to as u32, left: 0, bytes });
        self.arcs.push(Arc { to: from as u32, left: 0, bytes: 0 });
    }

    /// The largest price not above `ticks / bytes` whose capacities stay in range.
    pub fn price(&self, ticks: u128, bytes: u128) -> Price {
        let (mut numerator, mut denominator) = (ticks.min(1 << 63), bytes.min(1 << 63));
        while numerator.saturating_mul(self.total_bytes) + denominator.saturating_mul(self.total_time) >= ROOM
        {
            numerator >>= 1;
            denominator = (denominator >> 1) + (denominator & 1);
            if denominator <= 1 && numerator == 0 {
                break;
            }
        }
        Price { numerator: numerator as u64, denominator: denominator as u64 }
    }

    /// A minimum cut at a price: its capacity, and which nodes run again in it.
    pub fn solve(&mut self, cut: &Cut, fixed: &[Fixed], price: Price) -> (u64, Vec<bool>) {
        let n = cut.nodes.len();
        let finite = |bytes: u64| bytes * price.numerator;
        for pair in self.arcs.chunks_exact_mut(2) {
            pair[0].left = if pair[0].bytes == u64::MAX { INF } else { finite(pair[0].bytes) };
            pair[1].left = 0;
        }
        let mut excess: Vec<u64> = self.sources.iter().map(|&bytes| finite(bytes)).collect();
        let mut drain: Vec<u64> =
            cut.nodes.iter().map(|node| node.time * price.denominator + finite(node.state)).collect();
        for (node, about) in cut.nodes.iter().enumerate() {
            if about.barred || fixed[node] == Fixed::Never {
                drain[node] = INF;
            }
            if fixed[node] == Fixed::Again {
                excess[node] = INF;
            }
        }
        let mut flow = 0u64;
        // A node that must run again pays its drain in full; what it draws on is pushed from an unlimited source.
        while self.levels(n, &excess, &drain) {
            for (start, excess) in excess.iter_mut().enumerate() {
                while *excess > 0 {
                    let pushed = self.push(n, start, *excess, &mut drain);
                    if pushed == 0 {
                        break;
                    }
                    flow += pushed;
                    if *excess < INF {
                        *excess -= pushed;
                    }
                }
            }
        }
        let again = (0..n).map(|node| self.level[node] != u32::MAX).collect();
        (flow, again)
    }

    /// Breadth first from everything that still has excess; whether some drain is reached.
    fn levels(&mut self, n: usize, excess: &[u64], drain: &[u64]) -> bool {
        self.level.clear();
        self.level.resize(self.heads.len(), u32::MAX);
        self.next.clear();
        self.next.resize(self.heads.len(), 0);
        self.queue.clear();
        for node in (0..n).filter(|&node| excess[node] > 0) {
            self.level[node] = 0;
            self.queue.push(node as u32);
        }
        let (mut front, mut reached) = (0, false);
        while front < self.queue.len() {
            let node = self.queue[front] as usize;
            front += 1;
            reached |= node < n && drain[node] > 0;
            for &arc in &self.heads[node] {
                let Arc { to, left, .. } = self.arcs[arc as usize];
                if left > 0 && self.level[to as usize] == u32::MAX {
                    self.level[to as usize] = self.level[node] + 1;
                    self.queue.push(to);
                }
            }
        }
        reached
    }

    /// One augmenting path along rising levels, without recursion.
    fn push(&mut self, n: usize, start: usize, limit: u64, drain: &mut [u64]) -> u64 {
        let mut path: Vec<u32> = Vec::new();
        let mut node = start;
        loop {
            if node < n && drain[node] > 0 {
                let least = path.iter().map(|&arc| self.arcs[arc as usize].left).min().unwrap_or(u64::MAX);
                let amount = least.min(limit).min(drain[node]);
                for &arc in &path {
                    self.arcs[arc as usize].left -= amount;
                    self.arcs[arc as usize ^ 1].left += amount;
                }
                if drain[node] < INF {
                    drain[node] -= amount;
                }
                return amount;
            }
            let arcs = &self.heads[node];
            let step = arcs[self.next[node] as usize..].iter().position(|&arc| {
                let Arc { to, left, .. } = self.arcs[arc as usize];
                left > 0 && self.level[to as usize] == self.level[node] + 1
            });
            match step {
                Some(skip) => {
                    self.next[node] += skip as u32;
                    let arc = arcs[self.next[node] as usize];
                    path.push(arc);
                    node = self.arcs[arc as usize].to as usize;
                }
                None => {
                    self.next[node] = arcs.len() as u32;
                    let Some(arc) = path.pop() else { return 0 };
                    node = self.arcs[arc as usize ^ 1].to as usize;
                    self.next[node] += 1;
                }
            }
        }
    }
}

impl Network {
    /// `L` at a price, rounded up to whole ticks, and the solution that attains it. `None`: the fixings contradict D5.
    pub fn evaluate(&mut self, cut: &Cut, fixed: &[Fixed], price: Price) -> Option<(u64, Choice)> {
        let (flow, again) = self.solve(cut, fixed, price);
        let choice = cut.choose(again)?;
        let value = (i128::from(flow) - i128::from(price.numerator) * cut.room).max(0);
        // Infinite money (time for nothing) bounds nothing.
        let bound = match price.denominator {
            0 => 0,
            ticks => u64::try_from((value as u128).div_ceil(u128::from(ticks))).unwrap_or(u64::MAX),
        };
        Some((bound, choice))
    }
}

/// The maximum of `L` under some fixings, with the solutions on both sides of it.
///
/// The search starts at a price, if one is given, and stops as soon as the bound reaches `enough`.
pub fn relax(
    cut: &Cut,
    network: &mut Network,
    fixed: &[Fixed],
    start: Option<Price>,
    enough: u64,
) -> Relaxation {
    let free = Price { numerator: 0, denominator: 1 };
    let mut result = Relaxation { bound: Some(0), price: start.unwrap_or(free), within: None, beyond: None };
    let infeasible = |beyond| Relaxation { bound: None, price: free, within: None, beyond };
    if let Some(price) = start {
        let Some((bound, choice)) = network.evaluate(cut, fixed, price) else { return infeasible(None) };
        result.keep(cut, bound, price, choice);
        if bound >= enough {
            return result;
        }
    }
    if result.beyond.is_none() {
        // Memory for nothing: only what must run again does.
        let Some((bound, lazy)) = network.evaluate(cut, fixed, free) else { return infeasible(None) };
        if lazy.bytes <= cut.room {
            return Relaxation { bound: Some(bound), price: free, within: Some(lazy), beyond: None };
        }
        result.keep(cut, bound, free, lazy);
    }
    if result.within.is_none() {
        // Time for nothing: the least that can be held.
        let all = network.price(1, 0);
        let Some((_, small)) = network.evaluate(cut, fixed, all) else { return infeasible(None) };
        if small.bytes > cut.room {
            return infeasible(Some(small));
        }
        result.within = Some(small);
    }
    // Each round finds a new line of the concave function; their number is finite, in practice below 20.
    for _ in 0..64 {
        let (Some(beyond), Some(within)) = (&result.beyond, &result.within) else { break };
        let rise = within.time.saturating_sub(beyond.time);
        let run = beyond.bytes - within.bytes;
        let price = network.price(u128::from(rise), run as u128);
        let Some((bound, choice)) = network.evaluate(cut, fixed, price) else { break };
        let at = |choice: &Choice| {
            i128::from(price.numerator) * choice.bytes
                + i128::from(price.denominator) * i128::from(choice.time)
        };
        let known = at(beyond).min(at(within));
        let better = at(&choice) < known;
        let enough = Some(bound.max(result.bound.unwrap_or(0))) >= Some(enough);
        result.keep(cut, bound, price, choice);
        if enough || !better {
            break;
        }
    }
    result
}

impl Relaxation {
    fn keep(&mut self, cut: &Cut, bound: u64, price: Price, choice: Choice) {
        if Some(bound) >= self.bound {
            (self.bound, self.price) = (Some(bound), price);
        }
        if choice.bytes > cut.room {
            self.beyond = Some(choice);
        } else {
            self.within = Some(choice);
        }
    }
}
