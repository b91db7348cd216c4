//! First layouts: items placed one by one, in several orders, each in a hole between those that live at the same time.

use super::{Item, height};

/// Which of the holes that are large enough an item gets.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Fit {
    /// The smallest, else the place on top.
    Best,
    /// The lowest.
    Lowest,
}

/// Size × lifetime, size, lifetime (all descending), and start; the usual best first. Each is sorted when it is asked for.
pub(super) fn orders(items: &[Item]) -> impl Iterator<Item = (Fit, Vec<u32>)> {
    let keys: [fn(&Item) -> u128; 4] = [
        |item| u128::from(item.size) * length(item),
        |item| u128::from(item.size),
        |item| length(item),
        |item| u128::MAX - item.start as u128,
    ];
    let sorted = move |key: fn(&Item) -> u128| {
        let mut order: Vec<u32> = (0..items.len() as u32).collect();
        order.sort_by_key(|&index| (std::cmp::Reverse(key(&items[index as usize])), index));
        order
    };
    let each = [Fit::Best, Fit::Lowest].into_iter().flat_map(move |fit| keys.map(|key| (fit, key)));
    each.map(move |(fit, key)| (fit, sorted(key)))
}

fn length(item: &Item) -> u128 {
    (item.end - item.start + 1) as u128
}

#[derive(Clone, Copy)]
struct Placed {
    from: u64,
    to: u64,
    start: u32,
    end: u32,
}

/// Places all items in the given order; returns their offsets.
pub(super) fn place(items: &[Item], order: &[u32], fit: Fit) -> Vec<u64> {
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

/// Every item as low as it goes, in the order of some offsets. Where they are a layout, nothing ends higher.
pub(super) fn settle(items: &[Item], offsets: &[u64]) -> Vec<u64> {
    let mut order: Vec<u32> = (0..items.len() as u32).collect();
    order.sort_by_key(|&index| (offsets[index as usize], index));
    place(items, &order, Fit::Lowest)
}

/// Settles a layout downwards, and upwards and down again as long as that makes it lower.
pub(super) fn shake(items: &[Item], offsets: &[u64]) -> Vec<u64> {
    let turned = |offsets: &[u64]| -> Vec<u64> {
        let top = height(items, offsets);
        let turn = |(item, offset): (&Item, &u64)| top.saturating_sub(offset.saturating_add(item.size));
        items.iter().zip(offsets).map(turn).collect()
    };
    let mut best = settle(items, offsets);
    loop {
        let shaken = settle(items, &turned(&settle(items, &turned(&best))));
        if height(items, &shaken) >= height(items, &best) {
            return best;
        }
        best = shaken;
    }
}
