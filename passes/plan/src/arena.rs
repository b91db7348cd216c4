//! Addresses: where in one arena each buffer of a judged sequence lies.
//!
//! A buffer is an instance of a value, the workspace of one run, or the kept generator state of a node; an instance that
//! is overwritten in place and the output that takes it over are one buffer. Each has a size, rounded up to the
//! alignment, and an interval of runs. Two buffers whose intervals meet must not overlap in the arena. The least height is
//! dynamic storage allocation, NP-hard; the logical peak (with rounded sizes) is a lower bound.
//!
//! Placing: best or lowest fit, in a priority order. Four orders are tried: size × lifetime, size, lifetime (all
//! descending), and start. Then local search on the order: a buffer that reaches above the lower bound is placed earlier.
//! Its measure is the sum of what all buffers reach above the bound, which says more than the height alone; steps that
//! are not worse are kept, slightly worse ones sometimes. It stops at the lower bound, or when `effort` comparisons are
//! spent; no clock.
//!
//! Source: planner.md of the project, section 11; the orders are those of the usual offline heuristics.
//! Absent: choosing another schedule when the packing misses a budget. That is the caller's decision.

use crate::graph::Graph;
use crate::judge::{Fate, Trace};
use crate::schedule::Sequence;
use crate::units::{Bytes, NodeId, ValueId};

/// Whose storage a buffer is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Owner {
    /// The instance with this index in [`Trace::instances`].
    Instance(usize, ValueId),
    /// The workspace of the run at this step.
    Workspace(usize),
    /// The generator state of a node that runs more than once.
    State(NodeId),
}

/// A placed piece of storage. Instances that share one by overwriting each have an entry, at the same offset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Buffer {
    /// Whose it is.
    pub owner: Owner,
    /// The first byte, a multiple of the alignment.
    pub offset: Bytes,
    /// The size, not rounded.
    pub bytes: Bytes,
    /// The first run at which it is needed.
    pub start: usize,
    /// The last run at which it is needed.
    pub end: usize,
}

/// A layout of all buffers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Arena {
    /// The height: the end of the topmost buffer, rounded up to the alignment.
    pub size: Bytes,
    /// The largest sum over all runs of rounded sizes: no layout is lower.
    pub lower_bound: Bytes,
    /// Every offset is a multiple of it.
    pub alignment: Bytes,
    /// All buffers with their places.
    pub buffers: Vec<Buffer>,
}

/// The alignment that CUDA allocators give, and vector loads need.
pub const ALIGNMENT: Bytes = Bytes(512);

/// About a tenth of a second on one core.
pub const EFFORT: u64 = 100_000_000;

/// Packs a judged sequence with the usual [`ALIGNMENT`] and [`EFFORT`].
pub fn pack(graph: &Graph, sequence: &Sequence, trace: &Trace) -> Arena {
    pack_with(graph, sequence, trace, ALIGNMENT, EFFORT)
}

/// Packs a judged sequence. An alignment of zero counts as one byte; `effort` bounds the comparisons of the local search.
pub fn pack_with(graph: &Graph, sequence: &Sequence, trace: &Trace, alignment: Bytes, effort: u64) -> Arena {
    let alignment = Bytes(alignment.0.max(1));
    let (mut buffers, items, item_of) = collect(graph, sequence, trace, alignment);
    let lower_bound = height_bound(&items, sequence.0.len());
    let mut orders: Vec<Vec<u32>> = vec![(0..items.len() as u32).collect(); 4];
    let descending = |order: &mut Vec<u32>, key: &dyn Fn(&Item) -> u128| {
        order.sort_by_key(|&index| (std::cmp::Reverse(key(&items[index as usize])), index));
    };
    let length = |item: &Item| (item.end - item.start + 1) as u128;
    descending(&mut orders[0], &|item| u128::from(item.size) * length(item));
    descending(&mut orders[1], &|item| u128::from(item.size));
    descending(&mut orders[2], &|item| length(item));
    let (height, offsets) = search(&items, orders, lower_bound, effort);
    for (buffer, item) in buffers.iter_mut().zip(item_of) {
        buffer.offset = Bytes(item.map_or(0, |item: usize| offsets[item]));
    }
    Arena { size: Bytes(height), lower_bound: Bytes(lower_bound), alignment, buffers }
}

/// The lowest layout found.
fn search(items: &[Item], orders: Vec<Vec<u32>>, lower_bound: u64, effort: u64) -> (u64, Vec<u64>) {
    // Placing compares all pairs; finding a move looks at each item some dozen times.
    let price = 1 + items.len() as u64 * (items.len() as u64 + 60);
    // Huge problems get as many first placements as the effort allows, and at least one.
    let affordable = usize::try_from(effort / price).unwrap_or(usize::MAX).max(1);
    let starts =
        [Fit::Best, Fit::Lowest].into_iter().flat_map(|fit| orders.iter().map(move |order| (fit, order)));
    let place_one = |(fit, order): (Fit, &Vec<u32>)| {
        State::new(items, order.clone(), fit, place(items, order, fit), lower_bound)
    };
    let mut states: Vec<State> = starts.take(affordable).map(place_one).collect();
    states.sort_by_key(|state| (state.height, state.excess));
    let (mut best_height, mut best_offsets) = (states[0].height, states[0].offsets.clone());
    let mut random = SplitMix(0x5eed);
    let mut spent = 0;
    // Half of the effort on the best few orders side by side, the rest on whichever came lowest.
    let mut turn = 0;
    while best_height > lower_bound && spent + price <= effort {
        spent += price;
        turn += 1;
        let rivals = if spent < effort / 2 { states.len().min(4) } else { 1 };
        let state = &mut states[turn % rivals];
        let order = promoted(items, state, lower_bound, &mut random);
        let offsets = place(items, &order, state.fit);
        let candidate = State::new(items, order, state.fit, offsets, lower_bound);
        let slack = if random.below(8) == 0 { state.excess / 20 } else { 0 };
        if candidate.height < best_height {
            (best_height, best_offsets) = (candidate.height, candidate.offsets.clone());
        }
        if candidate.excess <= state.excess + slack {
            *state = candidate;
        }
        if spent >= effort / 2 && rivals > 1 {
            states.sort_by_key(|state| (state.height, state.excess));
        }
    }
    (best_height, best_offsets)
}

/// A priority order and what came of it.
struct State {
    order: Vec<u32>,
    fit: Fit,
    offsets: Vec<u64>,
    height: u64,
    /// The sum over all items of what they reach above the lower bound.
    excess: u128,
}

impl State {
    fn new(items: &[Item], order: Vec<u32>, fit: Fit, offsets: Vec<u64>, lower_bound: u64) -> Self {
        let tops = items
            .iter()
            .zip(&offsets)
            .filter(|(item, _)| item.size > 0)
            .map(|(item, offset)| offset + item.size);
        let height = tops.clone().max().unwrap_or(0);
        let excess = tops.map(|top| u128::from(top.saturating_sub(lower_bound))).sum();
        Self { order, fit, offsets, height, excess }
    }
}

/// Which of the holes that are large enough a buffer gets.
#[derive(Clone, Copy, PartialEq)]
enum Fit {
    /// The smallest, else the place on top.
    Best,
    /// The lowest.
    Lowest,
}

/// What is placed: a chain of buffers that share storage.
struct Item {
    size: u64,
    start: usize,
    end: usize,
}

/// All buffers, the items to place, and the item of each buffer (none for empty ones).
fn collect(
    graph: &Graph,
    sequence: &Sequence,
    trace: &Trace,
    alignment: Bytes,
) -> (Vec<Buffer>, Vec<Item>, Vec<Option<usize>>) {
    let (mut buffers, mut items, mut item_of) = (Vec::new(), Vec::new(), Vec::new());
    let mut add = |owner, bytes: Bytes, start, end, shared: Option<usize>| {
        let item = shared.or_else(|| {
            let size = bytes.0.div_ceil(alignment.0).saturating_mul(alignment.0);
            items.push(Item { size, start, end });
            (size > 0).then(|| items.len() - 1)
        });
        if let Some(item) = item {
            items[item].end = items[item].end.max(end);
        }
        buffers.push(Buffer { owner, offset: Bytes(0), bytes, start, end });
        item_of.push(item);
        item
    };
    // For each step, the item whose buffer its first output takes over.
    let mut handed: Vec<Option<usize>> = vec![None; sequence.0.len() + 1];
    for (index, instance) in trace.instances.iter().enumerate() {
        let about = graph.value(instance.value);
        let first = graph.node(about.producer).writes.first() == Some(&instance.value);
        let shared = if first { handed[instance.start].take() } else { None };
        let owner = Owner::Instance(index, instance.value);
        let item = add(owner, about.bytes, instance.start, instance.end, shared);
        if instance.fate == Fate::Overwritten {
            handed[instance.end + 1] = item;
        }
    }
    let mut span: Vec<Option<(usize, usize)>> = vec![None; graph.len()];
    for (step, &node) in sequence.0.iter().enumerate() {
        if graph.node(node).workspace.0 > 0 {
            add(Owner::Workspace(step), graph.node(node).workspace, step, step, None);
        }
        span[node.index()] = Some((span[node.index()].map_or(step, |(first, _)| first), step));
    }
    for (node, span) in graph.node_ids().zip(span) {
        if let Some((first, last)) = span.filter(|(first, last)| first < last && graph.node(node).state.0 > 0)
        {
            add(Owner::State(node), graph.node(node).state, first, last, None);
        }
    }
    (buffers, items, item_of)
}

/// The largest sum of rounded sizes at any step.
fn height_bound(items: &[Item], steps: usize) -> u64 {
    let mut change = vec![0i128; steps + 1];
    for item in items {
        change[item.start] += i128::from(item.size);
        change[item.end + 1] -= i128::from(item.size);
    }
    let mut live = 0;
    let sums = change.iter().map(|delta| {
        live += delta;
        live
    });
    sums.max().and_then(|most| u64::try_from(most).ok()).unwrap_or(0)
}

#[derive(Clone, Copy)]
struct Placed {
    from: u64,
    to: u64,
    start: u32,
    end: u32,
}

/// Places all items in the given order; returns their offsets.
fn place(items: &[Item], order: &[u32], fit: Fit) -> Vec<u64> {
    let mut placed: Vec<Placed> = Vec::with_capacity(items.len());
    let mut offsets = vec![0; items.len()];
    for &index in order {
        let item = &items[index as usize];
        if item.size == 0 {
            continue;
        }
        let (start, end) = (item.start as u32, item.end as u32);
        let (mut top, mut best) = (0, None::<(u64, u64)>);
        for other in placed.iter().filter(|other| other.start <= end && start <= other.end) {
            if other.from >= top + item.size {
                let hole = other.from - top;
                if best.is_none_or(|(smallest, _)| hole < smallest) {
                    best = Some((hole, top));
                    if fit == Fit::Lowest {
                        break;
                    }
                }
            }
            top = top.max(other.to);
        }
        let from = best.map_or(top, |(_, from)| from);
        offsets[index as usize] = from;
        let at = placed.partition_point(|other| other.from < from);
        placed.insert(at, Placed { from, to: from + item.size, start, end });
    }
    offsets
}

/// The order with one of the buffers that reach above the bound moved to an earlier place.
fn promoted(items: &[Item], state: &State, lower_bound: u64, random: &mut SplitMix) -> Vec<u32> {
    let reaches_above = |&(_, &index): &(usize, &u32)| {
        let item = &items[index as usize];
        item.size > 0 && state.offsets[index as usize] + item.size > lower_bound
    };
    let high: Vec<usize> =
        state.order.iter().enumerate().filter(reaches_above).map(|(position, _)| position).collect();
    let mut candidate = state.order.clone();
    let Some(&position) = high.get(random.below(high.len())) else { return candidate };
    if random.below(2) == 0 {
        swap_in_pile(items, state, position, &mut candidate, random);
        return candidate;
    }
    // Just before a buffer that it meets, or anywhere earlier.
    let item = &items[state.order[position] as usize];
    let meets = |&at: &usize| {
        let other = &items[state.order[at] as usize];
        other.start <= item.end && item.start <= other.end
    };
    let rivals: Vec<usize> = (0..position).filter(meets).collect();
    let target = match rivals.get(random.below(rivals.len())) {
        Some(&rival) if random.below(4) > 0 => rival,
        _ => random.below(position.max(1)),
    };
    candidate[target..=position].rotate_right(1);
    // Sometimes a second, random swap: promotions alone can cycle.
    if random.below(4) == 0 {
        let (one, other) = (random.below(candidate.len()), random.below(candidate.len()));
        candidate.swap(one, other);
    }
    candidate
}

/// Exchanges the places of one of the buffers on which a high one rests, and of another of them or of any.
fn swap_in_pile(items: &[Item], state: &State, top: usize, order: &mut [u32], random: &mut SplitMix) {
    let (mut pile, mut next) = (vec![top], 0);
    while let Some(&position) = pile.get(next) {
        next += 1;
        let index = state.order[position] as usize;
        let (item, bottom) = (&items[index], state.offsets[index]);
        for (below, &other) in state.order.iter().enumerate() {
            let under = &items[other as usize];
            let touches = under.size > 0 && state.offsets[other as usize] + under.size == bottom;
            if touches && under.start <= item.end && item.start <= under.end && !pile.contains(&below) {
                pile.push(below);
            }
        }
        // Deep piles are mostly the same at the bottom.
        if pile.len() > 24 {
            break;
        }
    }
    let one = pile[random.below(pile.len())];
    let other = if random.below(2) == 0 { pile[random.below(pile.len())] } else { random.below(order.len()) };
    order.swap(one, other);
}

/// Steele, Lea and Flood's SplitMix64: enough for shuffling, without a dependency. The seed is fixed.
struct SplitMix(u64);

impl SplitMix {
    fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((mixed ^ (mixed >> 31)) % limit.max(1) as u64) as usize
    }
}

/// Why a layout is wrong.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Misplaced {
    /// Two buffers are needed at the same run and share bytes.
    #[error("buffers {one} and {other} overlap at run {run}")]
    Overlap {
        /// Index into [`Arena::buffers`].
        one: usize,
        /// Index into [`Arena::buffers`].
        other: usize,
        /// A run at which both are needed.
        run: usize,
    },
    /// A buffer ends above the arena, or starts off the alignment.
    #[error("buffer {buffer} lies outside the arena or off the alignment")]
    Outside {
        /// Index into [`Arena::buffers`].
        buffer: usize,
    },
}

/// Checks a layout without any code of the packer: sweeps over the runs with the set of live address intervals.
///
/// # Errors
/// [`Misplaced`] names the first pair that collides.
pub fn check_no_overlap(arena: &Arena) -> Result<(), Misplaced> {
    let mut events: Vec<(usize, bool, usize)> = Vec::with_capacity(2 * arena.buffers.len());
    for (index, buffer) in arena.buffers.iter().enumerate().filter(|(_, buffer)| buffer.bytes.0 > 0) {
        let top = buffer.offset.0.checked_add(buffer.bytes.0);
        if top.is_none_or(|top| top > arena.size.0)
            || !buffer.offset.0.is_multiple_of(arena.alignment.0.max(1))
        {
            return Err(Misplaced::Outside { buffer: index });
        }
        // At the same run, what ended the run before leaves (false) before what starts enters (true).
        events.push((buffer.start, true, index));
        events.push((buffer.end + 1, false, index));
    }
    events.sort_unstable();
    let mut live = std::collections::BTreeMap::new();
    for (run, enters, index) in events {
        let buffer = &arena.buffers[index];
        if !enters {
            live.remove(&buffer.offset.0);
            continue;
        }
        let below = live.range(..=buffer.offset.0).next_back();
        let above = live.range(buffer.offset.0..).next();
        for (&offset, &other) in below.into_iter().chain(above) {
            let there: &Buffer = &arena.buffers[other];
            if offset < buffer.offset.0 + buffer.bytes.0 && buffer.offset.0 < offset + there.bytes.0 {
                return Err(Misplaced::Overlap { one: other, other: index, run });
            }
        }
        live.insert(buffer.offset.0, index);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::judge::judge;
    use crate::text;

    fn packed(graph: &str, alignment: u64) -> Arena {
        let graph = text::read(graph).expect("a graph");
        let sequence = Sequence::base(&graph);
        let trace = judge(&graph, &sequence).expect("legal");
        let arena = pack_with(&graph, &sequence, &trace, Bytes(alignment), EFFORT);
        assert_eq!(check_no_overlap(&arena), Ok(()));
        arena
    }

    #[test]
    fn a_chain_alternates_between_two_places() {
        let arena = packed("a 4KiB 1; b(a) 4KiB 1; c(b) 4KiB 1; d(c) 4KiB 1", 512);
        assert_eq!((arena.size, arena.lower_bound), (Bytes(8 << 10), Bytes(8 << 10)));
    }

    #[test]
    fn sizes_round_up_and_workspaces_are_placed() {
        let arena = packed("a 100 1 ws=10; b(a) 100 1", 512);
        assert_eq!(arena.size, Bytes(1024));
        assert!(arena.buffers.iter().any(|buffer| buffer.owner == Owner::Workspace(0)));
    }

    #[test]
    fn an_overwritten_buffer_keeps_its_offset() {
        let arena = packed("a 4KiB 1; b(a) 4KiB 1 over=a; c(b) 4KiB 1 over=b", 512);
        assert_eq!(arena.size, Bytes(4 << 10));
        assert!(arena.buffers.iter().all(|buffer| buffer.offset == Bytes(0)));
    }

    #[test]
    fn the_checker_sees_a_collision() {
        let mut arena = packed("a 4KiB 1; b(a) 4KiB 1", 512);
        arena.buffers[1].offset = arena.buffers[0].offset;
        assert!(matches!(check_no_overlap(&arena), Err(Misplaced::Overlap { run: 1, .. })));
        arena.buffers[1].offset = Bytes(arena.size.0);
        assert_eq!(check_no_overlap(&arena), Err(Misplaced::Outside { buffer: 1 }));
    }
}
