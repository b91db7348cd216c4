//! What is planted is found, what differs is never joined, and plans add up.

use super::options::{Block, BlockCall};
use super::recognizer::{Found, LONGEST, Operand, Recognizer, SHORTEST, Source};
use crate::tables::Output;
use crate::units::Bytes;
use proptest::prelude::*;
use std::collections::HashMap;

/// A call as the tests write it: an operator, its operands and the size of its one result.
#[derive(Clone, Debug, PartialEq)]
struct Written {
    operator: u64,
    operands: Vec<Source>,
    size: u64,
}

fn read(stream: &[Written]) -> Vec<Found> {
    let mut recognizer = Recognizer::default();
    let mut found = Vec::new();
    for call in stream {
        let operands = call.operands.iter().map(|&source| Operand { source, bytes: size(stream, source) });
        found.extend(recognizer.push(call.operator, operands.collect(), &[Output::Fresh(Bytes(call.size))]));
    }
    found
}

fn size(stream: &[Written], source: Source) -> u64 {
    match source {
        Source::Call(place, _) => stream[place as usize].size,
        Source::Outside(_) => 64,
    }
}

/// Appends a word: a chain of calls that reads what came before it, a weight, and some of its own results.
fn plant(stream: &mut Vec<Written>, word: &[(u64, usize)], weight: u32) {
    let start = stream.len();
    for (at, &(operator, back)) in word.iter().enumerate() {
        let before = stream.len().checked_sub(1).map(|place| Source::Call(place as u64, 0));
        let inner = Source::Call((start + at.saturating_sub(back)) as u64, 0);
        let mut operands = vec![before.unwrap_or(Source::Outside(0)), Source::Outside(weight)];
        operands.extend((at > 0).then_some(if at > back { inner } else { operands[0] }));
        stream.push(Written { operator, operands, size: 8 + operator });
    }
}

/// Whether two runs are equal but for the names of what they read from before them.
fn equal(stream: &[Written], one: u64, other: u64, calls: usize) -> bool {
    let (mut there, mut back) = (HashMap::new(), HashMap::new());
    (0..calls as u64).all(|at| {
        let (a, b) = (&stream[(one + at) as usize], &stream[(other + at) as usize]);
        let same_call = (a.operator, a.size, a.operands.len()) == (b.operator, b.size, b.operands.len());
        same_call
            && a.operands.iter().zip(&b.operands).all(|(&x, &y)| {
                let inner = |source, start| match source {
                    Source::Call(place, output) if place >= start => Some((place - start, output)),
                    _ => None,
                };
                match (inner(x, one), inner(y, other)) {
                    (None, None) => {
                        size(stream, x) == size(stream, y)
                            && *there.entry(x).or_insert(y) == y
                            && *back.entry(y).or_insert(x) == x
                    }
                    (x, y) => x == y,
                }
            })
    })
}

fn word() -> impl Strategy<Value = Vec<(u64, usize)>> {
    // Operators of a word are drawn from few, so that words contain repeats of their own.
    prop::collection::vec((0..12u64, 1..4usize), SHORTEST + 2..40)
}

#[test]
fn the_same_letters_wired_otherwise_are_another_class() {
    let straight: Vec<(u64, usize)> = (0..10).map(|operator| (operator, 1)).collect();
    let mut crossed = straight.clone();
    crossed[7].1 = 3;
    // All results have one size, so that only the wiring differs.
    let mut stream = Vec::new();
    (0..3).for_each(|_| plant(&mut stream, &straight, 1));
    (0..3).for_each(|_| plant(&mut stream, &crossed, 1));
    stream.iter_mut().for_each(|call| call.size = 8);
    let found = read(&stream);
    // The very first call reads nothing before it, and the segments begin behind it.
    let classes: Vec<u32> = found.iter().map(|found| found.class).collect();
    assert_eq!(classes, [0, 0, 0, 1, 1], "{found:?}");
}

proptest! {
    #[test]
    fn what_recurs_in_a_row_is_found(word in word(), times in 4..9usize, lead in 0..9usize) {
        let mut stream = Vec::new();
        for operator in 0..lead as u64 {
            plant(&mut stream, &[(100 + operator, 1)], 0);
        }
        (0..times).for_each(|turn| plant(&mut stream, &word, turn as u32));
        let covered: usize = read(&stream).iter().map(|found| found.calls).sum();
        // The first two may be needed to see it, and at both ends a part may be left.
        prop_assert!(covered >= (times - 3) * word.len(), "{covered} of {} x {times}", word.len());
    }

    #[test]
    fn runs_between_words_are_found_when_they_come_again(
        cell in prop::collection::vec(1..4usize, SHORTEST + 2..40),
        node in prop::collection::vec(1..4usize, SHORTEST + 2..40),
    ) {
        // No repeats inside: those would be found first, and other runs would lie between.
        let cell: Vec<_> = (0..).zip(cell).collect();
        let node: Vec<_> = (100..).zip(node).collect();
        let mut stream = Vec::new();
        // A tree in post-order: nodes recur, and never two in a row.
        for leaves in [2, 2, 3, 2, 4, 2] {
            (0..leaves).for_each(|_| plant(&mut stream, &cell, 1));
            plant(&mut stream, &node, 2);
        }
        let found = read(&stream);
        let covered: usize = found.iter().map(|found| found.calls).sum();
        prop_assert!(2 * covered >= stream.len(), "{covered} of {}", stream.len());
        let calls = found.iter().flat_map(|f| &stream[f.start as usize..][..f.calls]);
        let nodes = calls.filter(|call| call.operator >= 100).count();
        let nodes = nodes > node.len();
        prop_assert!(nodes, "{found:?}");
    }

    #[test]
    fn equal_classes_are_equal_runs(
        words in prop::collection::vec(word(), 1..4),
        plan in prop::collection::vec((0..4usize, 0..3u32), 4..30),
        changes in prop::collection::vec((any::<prop::sample::Index>(), 0..3u8), 0..6),
    ) {
        let mut stream = Vec::new();
        for (which, weight) in plan {
            plant(&mut stream, &words[which % words.len()], weight);
        }
        for (index, what) in changes {
            let at = index.index(stream.len());
            match what {
                0 => stream[at].operator += 50,
                1 => stream[at].size += 1,
                // Another wiring of the same letters.
                _ => {
                    let first = stream[at].operands[0];
                    stream[at].operands.rotate_left(1);
                    if stream[at].operands[0] == first { stream[at].operands[0] = Source::Outside(7); }
                }
            }
        }
        let found = read(&stream);
        let mut first: HashMap<u32, &Found> = HashMap::new();
        let mut end = 0;
        for segment in &found {
            prop_assert!(segment.start >= end && segment.calls <= LONGEST, "segments overlap: {found:?}");
            end = segment.start + segment.calls as u64;
            prop_assert!(end <= stream.len() as u64);
            let known = first.entry(segment.class).or_insert(segment);
            prop_assert_eq!(known.calls, segment.calls);
            prop_assert!(equal(&stream, known.start, segment.start, segment.calls), "{known:?} {segment:?}");
        }
        // The other direction: runs that were told apart do differ.
        let known: Vec<&&Found> = first.values().collect();
        for (at, one) in known.iter().enumerate() {
            for other in known[..at].iter().filter(|other| other.calls == one.calls) {
                prop_assert!(!equal(&stream, one.start, other.start, one.calls), "{one:?} {other:?}");
            }
        }
        prop_assert_eq!(read(&stream), found, "the same stream reads the same");
    }

    #[test]
    fn steps_of_a_plan_add_up(
        calls in prop::collection::vec((0..20u64, 1..9u64, prop::collection::vec(1..5u32, 0..3), any::<bool>()), 1..24),
    ) {
        let mut block = Block::default();
        let mut held = Vec::new();
        for (at, (cost, size, reads, is_held)) in (0u32..).zip(calls) {
            let reads = reads.into_iter().filter_map(|back| at.checked_sub(back)).collect();
            block.calls.push(BlockCall { cost, reads, makes: vec![at] });
            block.sizes.push(size);
            held.push(is_held);
        }
        let steps = block.options(&held);
        let mut all: Vec<u32> = steps.iter().flat_map(|step| step.storages.iter().copied()).collect();
        all.sort_unstable();
        let wanted: Vec<u32> = (0..).zip(&held).filter(|(_, held)| **held).map(|(s, _)| s).collect();
        prop_assert_eq!(all, wanted, "every held value is in one step");
        for pair in steps.windows(2) {
            let (a, b) = (&pair[0], &pair[1]);
            prop_assert!(a.cost * b.bytes < b.cost * a.bytes, "steps get dearer: {a:?} {b:?}");
        }
        // All dropped: every call that a held value needs runs once.
        let mut needed = held.clone();
        for at in (0..held.len()).rev() {
            if needed[at] {
                block.calls[at].reads.iter().for_each(|&read| needed[read as usize] = true);
            }
        }
        let whole: u64 = block.calls.iter().zip(&needed).filter(|(_, n)| **n).map(|(c, _)| c.cost).sum();
        prop_assert_eq!(steps.iter().map(|step| step.cost).sum::<u64>(), whole);
    }

    #[test]
    fn pieces_of_a_long_run_fit(calls in prop::collection::vec((0..99u64, 0..40usize), SHORTEST..900)) {
        let count = calls.len();
        let alive: Vec<(u64, usize)> =
            calls.into_iter().enumerate().map(|(at, (bytes, on))| (bytes, (at + on).min(count - 1))).collect();
        let pieces = super::cut::cut(&alive, SHORTEST, LONGEST);
        prop_assert_eq!(pieces.iter().sum::<usize>(), count);
        prop_assert!(pieces.iter().all(|&piece| (SHORTEST..=LONGEST).contains(&piece)));
    }
}
