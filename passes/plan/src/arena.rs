//! Addresses: where in one arena each buffer of a judged sequence lies.
//!
//! A buffer is an instance of a value, the workspace of one run, or the kept generator state of a node; an instance that
//! is overwritten in place and the output that takes it over are one buffer. Each has a size, rounded up to the
//! alignment, and an interval of runs. Two buffers whose intervals meet must not overlap in the arena. The least height is
//! dynamic storage allocation, NP-hard; the logical peak (with rounded sizes) is a lower bound.
//!
//! First layouts come from `place`: best and lowest fit in the usual orders. The best of them is squeezed towards the lower
//! bound by `eject`, with sizes in grains (`grain`) where they are nearly multiples of one. All stop at the lower bound, or when
//! `effort` comparisons are spent; there is no clock here. Layouts that others found are built from their offsets and checked by
//! `given`, whose check shares no code with the packer. `intervals` packs what belongs to no schedule,
//! where `exact` tries all layouts within a capacity.
//!
//! What to expect: steps of training reach the lower bound at the first attempt. Where memory is nearly full all the time and
//! sizes are random, a few percent are lost, and whether they must be lost is not known: no better lower bound is computed.
//!
//! Source: docs/design/planner.md, section 11.
//! Absent: choosing another schedule when the packing misses a budget. That is the caller's decision.

use crate::graph::Graph;
use crate::judge::{Fate, Trace};
use crate::schedule::Sequence;
use crate::units::{Bytes, NodeId, ValueId};

mod eject;
mod exact;
mod given;
mod grain;
mod intervals;
mod overlap;
mod place;
mod sweep;

pub use given::{Misplaced, check_no_overlap, is_plain, placed_at, settled};
pub use grain::rounded;
pub use intervals::{Need, Packed, pack_needs};
pub use overlap::{Extent, Overlap, first_overlap};
pub use sweep::lightest;

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

/// A comparison of two items in a first placement takes one part in so many of one in the local search.
const CHEAPER: u64 = 8;

/// About a third of a second on one core.
pub const EFFORT: u64 = 100_000_000;

/// Packs a judged sequence with the usual [`ALIGNMENT`] and [`EFFORT`].
pub fn pack(graph: &Graph, sequence: &Sequence, trace: &Trace) -> Arena {
    pack_with(graph, sequence, trace, ALIGNMENT, EFFORT)
}

/// Packs a judged sequence. An alignment of zero counts as one byte; `effort` bounds the comparisons of the local search. The same
/// effort finds the same layout again; more need not find one as low.
pub fn pack_with(graph: &Graph, sequence: &Sequence, trace: &Trace, alignment: Bytes, effort: u64) -> Arena {
    pack_to(graph, sequence, trace, alignment, effort, |bound| bound)
}

/// The same, and content with a height that is a function of the lower bound.
pub fn pack_to(
    graph: &Graph,
    sequence: &Sequence,
    trace: &Trace,
    alignment: Bytes,
    effort: u64,
    enough: impl FnOnce(Bytes) -> Bytes,
) -> Arena {
    let alignment = Bytes(alignment.0.max(1));
    let (mut buffers, items, item_of) = collect(graph, sequence, trace, alignment);
    let lower_bound = height_bound(&items);
    let (height, offsets) =
        search(&items, enough(Bytes(lower_bound)).0.max(lower_bound), alignment.0, effort);
    for (buffer, item) in buffers.iter_mut().zip(item_of) {
        buffer.offset = Bytes(item.map_or(0, |item: usize| offsets[item]));
    }
    Arena { size: Bytes(height), lower_bound: Bytes(lower_bound), alignment, buffers }
}

/// Whether one of the usual orders packs a judged sequence without loss, as far as the effort goes.
pub fn packs_at_once(
    graph: &Graph,
    sequence: &Sequence,
    trace: &Trace,
    alignment: Bytes,
    effort: u64,
) -> bool {
    let (_, items, _) = collect(graph, sequence, trace, Bytes(alignment.0.max(1)));
    let bound = height_bound(&items);
    first(&items, bound, effort).0 == bound
}

/// The lowest of the layouts in the usual orders, or one that is low enough; its height, and what was spent.
fn first(items: &[Item], enough: u64, effort: u64) -> (u64, Vec<u64>, u64) {
    let price = 1 + (items.len() as u64).pow(2) / CHEAPER;
    let (mut least, mut offsets, mut spent) = (u64::MAX, Vec::new(), 0);
    for ((fit, order), number) in place::orders(items).zip(1..) {
        let placed = place::place(items, &order, fit);
        spent += price;
        let height = height(items, &placed);
        if height < least {
            (least, offsets) = (height, placed);
        }
        // Huge problems get as many first placements as the effort allows, and at least two: neither of these is best everywhere.
        if least <= enough || (spent + price > effort && number >= 2) {
            break;
        }
    }
    (least, offsets, spent)
}

/// The lowest layout found, or one that is low enough: the usual orders, then squeezing the best of them, first in grains.
fn search(items: &[Item], enough: u64, alignment: u64, effort: u64) -> (u64, Vec<u64>) {
    let (mut least, mut offsets, spent) = first(items, enough, effort);
    if least <= enough || spent >= effort {
        return (least, offsets);
    }
    let (found, more) = in_grains(items, &offsets, enough, alignment, (effort - spent) / 4 * 3);
    if height(items, &found) < least {
        (least, offsets) = (height(items, &found), found);
    }
    if least > enough {
        let left = effort.saturating_sub(spent.saturating_add(more));
        (offsets, _) = eject::squeeze(items, offsets, enough, alignment, left);
    }
    (height(items, &offsets), offsets)
}

/// Squeezes a layout with sizes in grains, and puts the true sizes there. Returns what was spent, too.
fn in_grains(items: &[Item], start: &[u64], enough: u64, alignment: u64, effort: u64) -> (Vec<u64>, u64) {
    let grain = grain::grain(items.iter().map(|item| item.size), alignment);
    if grain <= alignment {
        return (start.to_vec(), 0);
    }
    let coarse = grain::coarse(items, grain);
    let goal = height_bound(&coarse).max(enough / grain * grain);
    let (mut found, spent) = eject::squeeze(&coarse, place::settle(&coarse, start), goal, grain, effort);
    // What vanished goes where there is room.
    coarse.iter().zip(&mut found).filter(|(item, _)| item.size == 0).for_each(|(_, at)| *at = u64::MAX);
    (place::shake(items, &found), spent)
}

/// Where the topmost item ends.
fn height(items: &[Item], offsets: &[u64]) -> u64 {
    let solid = items.iter().zip(offsets).filter(|(item, _)| item.size > 0);
    solid.map(|(item, offset)| offset + item.size).max().unwrap_or(0)
}

/// What is placed: a chain of buffers that share storage.
#[derive(Clone, Copy)]
struct Item {
    size: u64,
    start: usize,
    end: usize,
}

/// All buffers, the items to place, and the item of each buffer (none for empty ones).
type Collected = (Vec<Buffer>, Vec<Item>, Vec<Option<usize>>);

fn collect(graph: &Graph, sequence: &Sequence, trace: &Trace, alignment: Bytes) -> Collected {
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
fn height_bound(items: &[Item]) -> u64 {
    let steps = items.iter().map(|item| item.end + 1).max().unwrap_or(0);
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

    /// A rectangle of 100 runs and so many bytes, cut into pieces. Time runs along one side and addresses along the other, so the
    /// uncut rectangle reaches the lower bound.
    pub(super) fn pieces(random: &mut SplitMix, tall: u64, count: usize) -> Vec<Item> {
        let mut items = vec![Item { size: tall, start: 0, end: 99 }];
        while items.len() < count {
            let at = random.below(items.len());
            if items[at].size < 2 || items[at].start == items[at].end {
                continue;
            }
            let cut = items.swap_remove(at);
            let (wide, tall) = (cut.end - cut.start, cut.size);
            if random.below(2) == 0 {
                let middle = cut.start + random.below(wide);
                items.push(Item { end: middle, ..cut });
                items.push(Item { start: middle + 1, ..cut });
            } else {
                let below = 1 + random.below(tall as usize - 1) as u64;
                items.push(Item { size: below, ..cut });
                items.push(Item { size: tall - below, ..cut });
            }
        }
        items
    }

    #[test]
    fn a_rectangle_cut_into_pieces_is_put_together_again() {
        let mut random = SplitMix(1);
        for _ in 0..20 {
            let items = pieces(&mut random, 4096, 30);
            let first =
                place::orders(&items).map(|(fit, order)| height(&items, &place::place(&items, &order, fit)));
            let (first, bound) = (first.min().expect("orders"), height_bound(&items));
            let (reached, _) = search(&items, bound, 1, EFFORT / 10);
            assert!(bound == 4096 && reached <= first, "{reached}");
            assert!(reached <= 4096 + 4096 / 50, "{reached} after {first}");
        }
    }

    #[test]
    fn sizes_that_alignment_has_blurred_are_packed_as_if_it_had_not() {
        // Pieces of whole units, each of which alignment makes a little larger, and crumbs.
        let mut random = SplitMix(1);
        let (mut lower, mut higher) = (0, 0);
        for _ in 0..20 {
            let mut items = pieces(&mut random, 40, 60);
            items.iter_mut().for_each(|item| item.size = (item.size * 1_000_000).div_ceil(512) * 512);
            items.extend((0..4).map(|at| Item { size: 512, start: 20 * at, end: 20 * at + 10 }));
            let first = place::orders(&items).map(|(fit, order)| place::place(&items, &order, fit));
            let first = first.min_by_key(|offsets| height(&items, offsets)).expect("orders");
            let (bound, effort) = (height_bound(&items), EFFORT / 50);
            let (without, _) = eject::squeeze(&items, first, bound, 512, effort);
            let (reached, _) = search(&items, bound, 512, effort);
            let without = height(&items, &without);
            lower += usize::from(reached + bound / 100 < without);
            higher += usize::from(without + bound / 100 < reached);
        }
        assert!(lower >= 5 && higher * 3 < lower, "{lower} lower, {higher} higher");
    }

    #[test]
    fn there_are_two_first_layouts_without_any_effort() {
        let mut random = SplitMix(1);
        let (mut second, mut both) = (0, 0);
        for _ in 0..20 {
            let items = pieces(&mut random, 40, 60);
            let placed: Vec<u64> = place::orders(&items)
                .take(2)
                .map(|(fit, order)| height(&items, &place::place(&items, &order, fit)))
                .collect();
            let least = placed[0].min(placed[1]);
            both += usize::from(search(&items, 0, 1, 0).0 == least);
            second += usize::from(placed[1] < placed[0]);
        }
        assert!(both == 20 && second > 0, "{both} {second}");
    }

    /// Less than a comparison for each attempt is no reason to try for ever.
    #[test]
    fn what_little_effort_is_left_comes_to_an_end() {
        let mut random = SplitMix(1);
        let items = pieces(&mut random, 40, 60);
        let first = place::orders(&items).map(|(fit, order)| place::place(&items, &order, fit));
        let first = first.min_by_key(|offsets| height(&items, offsets)).expect("orders");
        let (bound, before) = (height_bound(&items), height(&items, &first));
        assert!(before > bound, "it packs by itself");
        for effort in 0..40 {
            let (offsets, spent) = eject::squeeze(&items, first.clone(), bound, 1, effort);
            assert!(height(&items, &offsets) <= before && spent >= effort);
        }
    }

    #[test]
    fn the_checker_sees_a_collision() {
        let mut arena = packed("a 4KiB 1; b(a) 4KiB 1", 512);
        arena.buffers[1].offset = arena.buffers[0].offset;
        assert!(matches!(check_no_overlap(&arena), Err(Misplaced::Overlap { run: 1, .. })));
        arena.buffers[1].offset = Bytes(arena.size.0);
        assert!(matches!(check_no_overlap(&arena), Err(Misplaced::Outside { .. })));
        arena.buffers[1].offset = Bytes(1);
        assert!(matches!(check_no_overlap(&arena), Err(Misplaced::Unaligned { .. })));
    }
}
