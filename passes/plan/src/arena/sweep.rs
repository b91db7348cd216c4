//! Where in an address space the least weight is in the way of a buffer.
//!
//! What lies around it are intervals with weights. As the buffer rises, an interval is in its way from where its lower end is passed
//! until its upper end is reached: two sorted lists, merged in one pass. The sum changes only there, so that it is least where the
//! buffer rests on an interval, hangs below one, or is at the floor or the roof. The order of the ends is hard to foresee, so the
//! merge has no branch for it.

/// The offset up to `roof` at which the least weight is in the way of `size` bytes. `lows` are lower ends and weights, `highs` upper ends
/// and weights of the same intervals, both sorted; an end is added to each. `below(n)` is any number below n, to break ties.
pub fn lightest(
    lows: &mut Vec<(u64, u64)>,
    highs: &mut Vec<(u64, u64)>,
    size: u64,
    roof: u64,
    mut below: impl FnMut(usize) -> usize,
) -> u64 {
    lows.push((u64::MAX, 0));
    highs.push((u64::MAX, 0));
    let (mut low, mut high, mut weight) = (lows.partition_point(|low| low.0 < size), 0, 0);
    weight += lows[..low].iter().map(|low| low.1).sum::<u64>();
    let (mut best, mut least, mut ties) = (0, weight, 1);
    let mut look = |offset: u64, weight: u64| {
        if weight <= least {
            ties = if weight < least { 1 } else { ties + 1 };
            if below(ties) == 0 {
                (best, least) = (offset, weight);
            }
        }
    };
    loop {
        let ((below, adds), (above, takes)) = (lows[low], highs[high]);
        let hangs = below - size;
        let rests = above <= hangs;
        let offset = hangs.min(above);
        if offset > roof {
            break;
        }
        weight -= if rests { takes } else { 0 };
        look(offset, weight);
        weight += if rests { 0 } else { adds };
        low += usize::from(!rests);
        high += usize::from(rests);
    }
    look(roof, weight);
    best
}

#[cfg(test)]
mod tests {
    use super::super::SplitMix;
    use super::*;

    /// By looking at every offset.
    fn least(around: &[(u64, u64, u64)], size: u64, roof: u64) -> u64 {
        let weight = |offset: u64| weight_at(around, size, offset);
        (0..=roof).map(weight).min().expect("not empty")
    }

    fn weight_at(around: &[(u64, u64, u64)], size: u64, offset: u64) -> u64 {
        let meets = |&&(low, high, _): &&(u64, u64, u64)| low < offset + size && offset < high;
        around.iter().filter(meets).map(|one| one.2).sum()
    }

    #[test]
    fn no_offset_has_less_in_the_way() {
        let mut random = SplitMix(3);
        let mut below = |limit: u64| random.below(limit as usize) as u64;
        for _ in 0..500 {
            let (height, size) = (40, 1 + below(20));
            let around: Vec<(u64, u64, u64)> = (0..below(12))
                .map(|_| {
                    let low = below(40);
                    (low, low + 1 + below(40 - low), 1 + below(9))
                })
                .collect();
            let mut lows: Vec<(u64, u64)> = around.iter().map(|one| (one.0, one.2)).collect();
            let mut highs: Vec<(u64, u64)> = around.iter().map(|one| (one.1, one.2)).collect();
            lows.sort_unstable();
            highs.sort_unstable();
            let offset =
                lightest(&mut lows, &mut highs, size, height - size, |ties| below(ties as u64) as usize);
            assert!(offset <= height - size);
            assert_eq!(weight_at(&around, size, offset), least(&around, size, height - size), "{around:?}");
        }
    }
}
