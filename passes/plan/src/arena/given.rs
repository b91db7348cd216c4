//! Layouts from elsewhere: built from offsets, and checked without any code of the packer.
//!
//! A layout travels as one offset for each buffer that has bytes, in the order of [`Arena::buffers`]: values by the run that
//! makes them and their place among its outputs, then workspaces by run, then generator states by node.

use super::overlap::{Extent, Overlap, first_overlap};
use super::{Arena, Buffer, Collected, Owner, collect, height, height_bound, pack_with, place};
use crate::graph::Graph;
use crate::judge::Trace;
use crate::schedule::Sequence;
use crate::units::{Bytes, readable};

/// Why a layout is wrong.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Misplaced {
    /// There are more offsets than buffers, or fewer.
    #[error("there are {given} offsets for {needed} buffers")]
    Count {
        /// Offsets.
        given: usize,
        /// Buffers with bytes.
        needed: usize,
    },
    /// Two buffers are needed at the same run and share bytes.
    #[error("{one:?} and {other:?} overlap at run {run}")]
    Overlap {
        /// The one that was there before.
        one: Buffer,
        /// The one that comes.
        other: Buffer,
        /// The first run at which both are needed.
        run: usize,
    },
    /// A buffer ends above the arena.
    #[error("{buffer:?} ends above the arena of {} bytes", size.0)]
    Outside {
        /// Which.
        buffer: Buffer,
        /// The arena's.
        size: Bytes,
    },
    /// A buffer starts off the alignment.
    #[error("{buffer:?} does not start at a multiple of {} bytes", alignment.0)]
    Unaligned {
        /// Which.
        buffer: Buffer,
        /// The arena's.
        alignment: Bytes,
    },
    /// What overwrites a value in place lies elsewhere than the value.
    #[error("{heir:?} takes over {buffer:?}, which lies elsewhere")]
    Apart {
        /// The overwritten one.
        buffer: Buffer,
        /// What overwrites it.
        heir: Buffer,
    },
}

impl Misplaced {
    /// The same in the names of the graph.
    pub fn describe(&self, graph: &Graph, sequence: &Sequence) -> String {
        let name = |run: usize| {
            sequence
                .0
                .get(run)
                .map_or_else(|| format!("run {run}"), |&node| format!("'{}'", graph.node(node).name))
        };
        let buffer = |buffer: &Buffer| {
            let whose = match buffer.owner {
                Owner::Instance(_, value) => format!("'{}'", graph.value(value).name),
                Owner::Workspace(run) => format!("the workspace of {}", name(run)),
                Owner::State(node) => format!("the generator state of '{}'", graph.node(node).name),
            };
            format!("{whose} ({} at {})", readable(buffer.bytes), buffer.offset.0)
        };
        match self {
            Self::Count { .. } => self.to_string(),
            Self::Overlap { one, other, run } => {
                format!("{} and {} overlap while {} runs (run {run})", buffer(one), buffer(other), name(*run))
            }
            Self::Outside { buffer: what, size } => {
                format!("{} ends above the arena of {} bytes", buffer(what), size.0)
            }
            Self::Unaligned { buffer: what, alignment } => {
                format!("{} does not start at a multiple of {} bytes", buffer(what), alignment.0)
            }
            Self::Apart { buffer: what, heir } => {
                format!("{} overwrites {} in place, but lies elsewhere", buffer(heir), buffer(what))
            }
        }
    }

    /// The run at which it is wrong first, if it is wrong somewhere.
    pub fn run(&self) -> Option<usize> {
        match self {
            Self::Count { .. } => None,
            Self::Overlap { run, .. } => Some(*run),
            Self::Outside { buffer, .. } | Self::Unaligned { buffer, .. } => Some(buffer.start),
            Self::Apart { heir, .. } => Some(heir.start),
        }
    }
}

/// The arena of a judged sequence with the offsets of [`Arena::offsets`]. An alignment of zero counts as one byte.
///
/// # Errors
/// [`Misplaced`], also where the offsets are those of another sequence.
pub fn placed_at(
    graph: &Graph,
    sequence: &Sequence,
    trace: &Trace,
    alignment: Bytes,
    offsets: &[Bytes],
) -> Result<Arena, Misplaced> {
    let alignment = Bytes(alignment.0.max(1));
    let collected = collect(graph, sequence, trace, alignment);
    let needed = collected.0.iter().filter(|buffer| buffer.bytes.0 > 0).count();
    if needed != offsets.len() {
        return Err(Misplaced::Count { given: offsets.len(), needed });
    }
    let mut next = offsets.iter().copied();
    build(collected, alignment, || next.next().unwrap_or_default())
}

/// The arena in which every buffer lies as low as it goes, taken in the order of `offset`; that is given the owner and the first
/// run, in the order of [`Arena::buffers`], and asked about buffers with bytes only. If all can lie where it says, none lies higher.
///
/// # Errors
/// [`Misplaced`], if this module's check disagrees.
pub fn settled(
    graph: &Graph,
    sequence: &Sequence,
    trace: &Trace,
    alignment: Bytes,
    mut offset: impl FnMut(Owner, usize) -> Bytes,
) -> Result<Arena, Misplaced> {
    let alignment = Bytes(alignment.0.max(1));
    let (mut buffers, items, item_of) = collect(graph, sequence, trace, alignment);
    let mut given = vec![u64::MAX; items.len()];
    for (buffer, item) in buffers.iter().zip(&item_of).filter(|(buffer, _)| buffer.bytes.0 > 0) {
        if let Some(item) = *item {
            given[item] = given[item].min(offset(buffer.owner, buffer.start).0);
        }
    }
    let offsets = place::settle(&items, &given);
    for (buffer, item) in buffers.iter_mut().zip(item_of) {
        buffer.offset = Bytes(item.map_or(0, |item| offsets[item]));
    }
    let (size, lower_bound) = (Bytes(height(&items, &offsets)), Bytes(height_bound(&items)));
    let arena = Arena { size, lower_bound, alignment, buffers };
    check_no_overlap(&arena)?;
    Ok(arena)
}

fn build(
    (mut buffers, items, item_of): Collected,
    alignment: Bytes,
    mut offset: impl FnMut() -> Bytes,
) -> Result<Arena, Misplaced> {
    let (mut size, mut first) = (0u64, vec![None; items.len()]);
    for (index, item) in item_of.into_iter().enumerate() {
        let Some(item) = item.filter(|_| buffers[index].bytes.0 > 0) else { continue };
        buffers[index].offset = offset();
        let top = buffers[index].offset.0.saturating_add(buffers[index].bytes.0);
        size = size.max(top.div_ceil(alignment.0).saturating_mul(alignment.0));
        let before: Buffer = *first[item].get_or_insert(buffers[index]);
        if before.offset != buffers[index].offset {
            return Err(Misplaced::Apart { buffer: before, heir: buffers[index] });
        }
    }
    let lower_bound = Bytes(height_bound(&items));
    let arena = Arena { size: Bytes(size), lower_bound, alignment, buffers };
    check_no_overlap(&arena)?;
    Ok(arena)
}

/// Whether [`pack_with`] finds this very layout, whatever its effort: at its first attempt, and none is lower. Then it need not
/// be written down.
pub fn is_plain(graph: &Graph, sequence: &Sequence, trace: &Trace, arena: &Arena) -> bool {
    let plain = || pack_with(graph, sequence, trace, arena.alignment, 0);
    arena.size == arena.lower_bound && plain().buffers == arena.buffers
}

impl Arena {
    /// Where each buffer with bytes starts, in order: what [`placed_at`] makes the layout from.
    pub fn offsets(&self) -> Vec<Bytes> {
        self.buffers.iter().filter(|buffer| buffer.bytes.0 > 0).map(|buffer| buffer.offset).collect()
    }
}

/// Checks a layout without any code of the packer.
///
/// # Errors
/// [`Misplaced`] names the first buffer that lies outside or off the alignment, else the first pair that collides.
pub fn check_no_overlap(arena: &Arena) -> Result<(), Misplaced> {
    for &buffer in arena.buffers.iter().filter(|buffer| buffer.bytes.0 > 0) {
        if buffer.offset.0.checked_add(buffer.bytes.0).is_none_or(|top| top > arena.size.0) {
            return Err(Misplaced::Outside { buffer, size: arena.size });
        }
        if !buffer.offset.0.is_multiple_of(arena.alignment.0.max(1)) {
            return Err(Misplaced::Unaligned { buffer, alignment: arena.alignment });
        }
    }
    let extent = |buffer: &Buffer| Extent {
        from: buffer.start,
        to: buffer.end,
        offset: buffer.offset.0,
        bytes: buffer.bytes.0,
    };
    let extents: Vec<Extent> = arena.buffers.iter().map(extent).collect();
    match first_overlap(&extents) {
        Some(Overlap { old, new, run }) => {
            Err(Misplaced::Overlap { one: arena.buffers[old], other: arena.buffers[new], run })
        }
        None => Ok(()),
    }
}
