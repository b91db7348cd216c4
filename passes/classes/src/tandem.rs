//! Repeats in a string of letters: where the same unit stands twice or more in a row.
//!
//! The letters are classes, so a repeat is found by what is computed and not by any annotation.

use std::collections::HashMap;
use std::ops::Range;

/// A piece of the string.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Piece {
    /// Where it stands.
    pub range: Range<usize>,
    /// It is one of several equal units in a row; otherwise it is a single letter.
    pub repeated: bool,
}

/// From left to right, the shortest unit that stands at least twice in a row, as often as it does; single letters between.
/// The shortest: small blocks leave a planner more freedom, and a longer unit would hide them.
pub fn shortest(letters: &[u32]) -> Vec<Piece> {
    let mut pieces = Vec::new();
    let mut at = 0;
    while at < letters.len() {
        let rest = &letters[at..];
        let found =
            (1..=rest.len() / 2).map(|period| (period, repeats(rest, period))).find(|(_, times)| *times > 1);
        let (period, times) = found.unwrap_or((1, 1));
        for _ in 0..times {
            pieces.push(Piece { range: at..at + period, repeated: times > 1 });
            at += period;
        }
    }
    pieces
}

/// How often the first `period` letters stand in a row.
fn repeats(letters: &[u32], period: usize) -> usize {
    let unit = &letters[..period];
    letters.chunks_exact(period).take_while(|chunk| *chunk == unit).count()
}

/// The row of equal units of `least` to `most` letters that covers most of the string, then the same for what stands
/// left and right of it. Returns the units only.
///
/// For letters that stand for single nodes, where short repeats are chance (`mul add mul add`) and rows are what counts.
pub fn widest(letters: &[u32], least: usize, most: usize) -> Vec<Range<usize>> {
    let mut units = Vec::new();
    let mut open = Vec::new();
    open.push(0..letters.len());
    while let Some(range) = open.pop() {
        let Some((start, period, times)) = widest_row(&letters[range.clone()], least, most) else { continue };
        let start = range.start + start;
        let end = start + period * times;
        units.extend((0..times).map(|k| start + k * period..start + (k + 1) * period));
        open.extend([range.start..start, end..range.end]);
    }
    units.sort_unstable_by_key(|unit| unit.start);
    units
}

/// The unit of `least` to `most` letters that occurs most, anywhere and without overlap, then the same for what stands between.
/// Returns its occurrences, two at least.
///
/// For strings without rows, such as the layers of a dense block: each is wider than the one before, and half of each
/// is the same. What occurs most: the letters covered, less `least - 1` per occurrence, so that longer units win over their parts.
pub fn scattered(letters: &[u32], least: usize, most: usize) -> Vec<Range<usize>> {
    let mut units = Vec::new();
    let mut open: Vec<Range<usize>> = std::iter::once(0..letters.len()).collect();
    // A unit is looked for in all open pieces at once, for it is what the pieces have in common that counts.
    while let Some(found) = most_covering(letters, &open, least.max(1), most) {
        open = open.into_iter().flat_map(|piece| outside(piece, &found)).collect();
        units.extend(found);
    }
    units.sort_unstable_by_key(|unit: &Range<usize>| unit.start);
    units
}

/// What is left of a piece without the units in it.
fn outside(piece: Range<usize>, units: &[Range<usize>]) -> Vec<Range<usize>> {
    let mut rest = Vec::new();
    let mut at = piece.start;
    for unit in units.iter().filter(|unit| piece.contains(&unit.start)) {
        rest.push(at..unit.start);
        at = unit.end;
    }
    rest.push(at..piece.end);
    rest.retain(|piece| !piece.is_empty());
    rest
}

/// The occurrences of the best unit, from left to right. Of equally good ones the shortest, and then the first.
fn most_covering(
    letters: &[u32],
    pieces: &[Range<usize>],
    least: usize,
    most: usize,
) -> Option<Vec<Range<usize>>> {
    let mut best: (usize, Vec<Range<usize>>) = (0, Vec::new());
    // Per start, a number for the unit of `length` letters there: that of one letter less, and the letter.
    let mut numbers: Vec<u32> = vec![0; letters.len()];
    for length in 1..=most.min(letters.len()) {
        let mut seen: HashMap<(u32, u32), u32> = HashMap::new();
        numbers.truncate(letters.len() + 1 - length);
        for (start, number) in numbers.iter_mut().enumerate() {
            let next = seen.len() as u32;
            *number = *seen.entry((*number, letters[start + length - 1])).or_insert(next);
        }
        if length < least {
            continue;
        }
        // Per unit in order of first occurrence, its occurrences.
        let mut found: Vec<Vec<Range<usize>>> = vec![Vec::new(); seen.len()];
        for piece in pieces.iter().filter(|piece| piece.len() >= length) {
            for start in piece.start..=piece.end - length {
                let occurrences = &mut found[numbers[start] as usize];
                if occurrences.last().is_none_or(|last| last.end <= start) {
                    occurrences.push(start..start + length);
                }
            }
        }
        found.retain(|occurrences| occurrences.len() > 1);
        if found.is_empty() {
            break; // nor does anything longer occur twice
        }
        for occurrences in found {
            let covered = occurrences.len() * (length + 1 - least);
            if covered > best.0 {
                best = (covered, occurrences);
            }
        }
    }
    (best.0 > 0).then_some(best.1)
}

/// Start, period and number of units of the widest row; of equally wide ones the shortest period, then the first.
fn widest_row(letters: &[u32], least: usize, most: usize) -> Option<(usize, usize, usize)> {
    let mut best: Option<(usize, usize, usize)> = None;
    for period in least.max(1)..=most.min(letters.len() / 2) {
        // How many letters in a row equal the one a period later, from the right.
        let mut equal = 0;
        for start in (0..letters.len() - period).rev() {
            equal = if letters[start] == letters[start + period] { equal + 1 } else { 0 };
            let times = equal / period + 1;
            let width = |row: &(usize, usize, usize)| row.1 * row.2;
            let wins = best.is_none_or(|row| {
                times * period > width(&row) || (times * period == width(&row) && row.1 == period)
            });
            if times > 1 && wins {
                best = Some((start, period, times));
            }
        }
    }
    best
}

#[cfg(test)]
mod tests {
    use super::*;

    fn letters(text: &str) -> Vec<u32> {
        text.bytes().map(u32::from).collect()
    }

    fn cut(text: &str) -> String {
        let pieces = shortest(&letters(text));
        let shown = pieces.iter().map(|piece| {
            let unit = &text[piece.range.clone()];
            if piece.repeated { format!("({unit})") } else { unit.to_owned() }
        });
        shown.collect()
    }

    #[test]
    fn units_are_as_short_as_they_can_be() {
        assert_eq!(cut("eamamamh"), "e(am)(am)(am)h");
        assert_eq!(cut("sbbbcdddd"), "s(b)(b)(b)c(d)(d)(d)(d)");
        assert_eq!(cut("anmnanmn"), "(anmn)(anmn)");
        assert_eq!(cut("abc"), "abc");
        assert_eq!(cut(""), "");
    }

    #[test]
    fn units_need_not_stand_in_a_row() {
        let units = |text, least| scattered(&letters(text), least, 512);
        assert_eq!(units("1abc2abc3abc4", 3), [1..4, 5..8, 9..12]);
        // The longer unit where it stands, its part elsewhere.
        assert_eq!(units("abcdef1abcdef2abc3abc", 3), [0..6, 7..13, 14..17, 18..21]);
        assert_eq!(units("abcabd", 3), []);
        assert_eq!(units("aaaa", 3), []);
        assert_eq!(units("", 3), []);
    }

    #[test]
    fn the_widest_row_wins_over_a_short_one() {
        let units = |text, least| widest(&letters(text), least, 512);
        assert_eq!(units("xabcabcabcy", 2), [1..4, 4..7, 7..10]);
        assert_eq!(units("ababab", 3), []);
        assert_eq!(units("ppqpqpqqabcdabcd", 2), [1..3, 3..5, 5..7, 8..12, 12..16]);
    }
}
