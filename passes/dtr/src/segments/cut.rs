//! Where a long run of calls is cut into segments: where the fewest bytes cross.
//!
//! Idea: what crosses a border has to stay for the segments on both sides to be computed again alone. The dynamic program
//! over borders minimises the sum of what crosses, with pieces of bounded length.
//! Not here: how runs are found (`recognizer`).

/// The lengths of the pieces of a run. `alive`: of each call the bytes that it makes and the place of their last reader.
/// Pieces have `shortest` to `longest` calls; a run that is shorter than that is one piece.
pub(crate) fn cut(alive: &[(u64, usize)], shortest: usize, longest: usize) -> Vec<usize> {
    let calls = alive.len();
    if calls <= longest {
        return vec![calls];
    }
    // What crosses the border before call b is made before b and read at b or later.
    let mut crossing = vec![0u64; calls + 1];
    let mut change = vec![0i128; calls + 2];
    for (made, &(bytes, last)) in alive.iter().enumerate() {
        change[made + 1] += i128::from(bytes);
        change[last + 1] -= i128::from(bytes);
    }
    let mut sum = 0i128;
    for (border, crossing) in crossing.iter_mut().enumerate() {
        sum += change[border];
        *crossing = u64::try_from(sum).unwrap_or(u64::MAX);
    }
    // Pieces of at least a quarter of the longest: a border at every narrow place would leave nothing to plan.
    let shortest = shortest.max(longest / 4);
    let mut best: Vec<Option<(u128, usize)>> = vec![None; calls + 1];
    best[0] = Some((0, 0));
    for end in shortest..=calls {
        for piece in shortest..=longest.min(end) {
            let Some((before, _)) = best[end - piece] else { continue };
            let cost = before + u128::from(if end == calls { 0 } else { crossing[end] });
            if best[end].is_none_or(|(least, _)| cost < least) {
                best[end] = Some((cost, piece));
            }
        }
    }
    let mut pieces = Vec::new();
    let mut end = calls;
    while let Some((_, piece)) = best[end].filter(|_| end > 0) {
        pieces.push(piece);
        end -= piece;
    }
    pieces.reverse();
    pieces
}
