//! Recurring runs of calls in a stream of calls, found while it goes by.
//!
//! Idea: a call is a letter (operator, constants, sizes; operands without their names), and the stream a text. A run of
//! letters becomes a *word* in two ways: it comes twice in a row (a loop's body, a layer, a whole training step), or it
//! stands a second time between two runs that are words already (a tree's node between its children). From then on
//! the text is read with the words: the first one that is complete wins. A word is a class only together with its
//! anonymized text: an operand is a result of an earlier call of the run, by distance, or an outer one, by order
//! of first appearance. Two runs are instances of one class exactly if all of that is equal; whole texts are
//! compared, never only their hashes.
//!
//! Every call is compared with the letter one period earlier and with at most [`CANDIDATES`] words, and what is looked
//! back at is bounded, so time is linear and memory constant. Nothing depends on a hash order.
//! Source: repeats in tandem as in `rk-classes`; words instead of grammar rules, against Sequitur (Nevill-Manning and
//! Witten 1997), because rules that change what was read before would change plans in use.
//! Not here: what is done with an instance (`super`).

use super::cut::cut;
use crate::tables::Output;
use std::collections::{HashMap, HashSet};

/// Calls in a segment: what is shorter is not worth a plan.
pub(crate) const SHORTEST: usize = 6;
/// Calls in a segment: a longer run that recurs is cut where the fewest bytes cross.
pub(crate) const LONGEST: usize = 192;
/// Calls between two runs in a row.
const LONGEST_PERIOD: usize = 8192;
/// Words that may be under way at one place.
const CANDIDATES: usize = 16;
/// Letters in all words, and in all runs seen between words: more, and recognition starts anew.
const MEMORY: usize = 1 << 20;

type Start = [u32; SHORTEST];

/// Where an operand comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Source {
    /// Output of a call in the stream, by that call's place in it.
    Call(u64, u32),
    /// Made by no call of the stream; a number of its own.
    Outside(u32),
}

/// An operand of a call in the stream.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Operand {
    /// Where it comes from.
    pub source: Source,
    /// The size of its storage.
    pub bytes: u64,
}

/// A run of calls and its class.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Found {
    /// Place of the first call in the stream.
    pub start: u64,
    /// How many calls.
    pub calls: usize,
    /// Equal for equal runs.
    pub class: u32,
}

#[derive(Debug)]
struct Item {
    letter: u32,
    operands: Vec<Operand>,
    /// Bytes of its fresh outputs.
    made: u64,
}

/// Reads a stream of calls; see the module.
#[derive(Debug, Default)]
pub(crate) struct Recognizer {
    letters: HashMap<Vec<u64>, u32>,
    classes: HashMap<Vec<u64>, u32>,
    next_class: u32,
    words: Vec<Vec<u32>>,
    by_start: HashMap<Start, Vec<u32>>,
    /// Runs between words, once seen.
    between: HashSet<Vec<u32>>,
    letters_kept: usize,
    /// What belongs to no segment yet, and the place of its first call.
    items: Vec<Item>,
    base: u64,
    /// Where in `items` a start was seen last.
    seen: HashMap<Start, usize>,
    /// The text goes on as it did this many letters ago, for so many letters.
    period: usize,
    run: usize,
    /// Words under way: which, and how many of their letters were read.
    under_way: Vec<(u32, usize)>,
}

impl Recognizer {
    /// Reads a call; returns the segments that are complete with it, in order.
    pub fn push(&mut self, operator: u64, operands: Vec<Operand>, outputs: &[Output]) -> Vec<Found> {
        let mut spelling = vec![operator, operands.len() as u64];
        spelling.extend(operands.iter().map(|o| o.bytes));
        // A size and the place of an argument are told apart by the lowest bit.
        spelling.extend(outputs.iter().map(|output| match *output {
            Output::Fresh(size) => size.0 << 1,
            Output::View(arg) => u64::from(arg) << 1 | 1,
        }));
        let fresh = |o: &Output| if let Output::Fresh(size) = o { size.0 } else { 0 };
        let made = outputs.iter().map(fresh).sum();
        let next = self.letters.len() as u32;
        let letter = *self.letters.entry(spelling).or_insert(next);
        self.items.push(Item { letter, operands, made });
        let mut found = Vec::new();
        self.read(&mut found);
        self.stay_bounded();
        found
    }

    /// The place of the first call that may still become part of a segment.
    pub fn open(&self) -> u64 {
        self.base
    }

    /// How many classes have been told apart.
    pub fn classes(&self) -> u32 {
        self.next_class
    }

    /// Takes the last item into account.
    fn read(&mut self, found: &mut Vec<Found>) {
        let end = self.items.len();
        if let Some(length) = self.follow_words(end) {
            self.settle(end - length, found);
            self.cut_off(length, found);
        } else if let Some(period) = self.follow_period(end) {
            let pieces = self.learn(end - period, end);
            self.settle(end - 2 * period, found);
            for &piece in pieces.iter().chain(&pieces) {
                self.cut_off(piece, found);
            }
        }
    }

    /// Advances the words under way; the first that is complete, the longest of those.
    fn follow_words(&mut self, end: usize) -> Option<usize> {
        let letter = self.items[end - 1].letter;
        let words = &self.words;
        self.under_way.retain_mut(|(word, read)| {
            *read += 1;
            words[*word as usize][*read - 1] == letter
        });
        if let Some(start) = self.start_before(end) {
            for &word in self.by_start.get(&start).into_iter().flatten() {
                if self.under_way.len() < CANDIDATES {
                    self.under_way.push((word, SHORTEST));
                }
            }
        }
        let complete = self.under_way.iter().filter(|(word, read)| words[*word as usize].len() == *read);
        complete.map(|(_, read)| *read).max()
    }

    /// The letters of the last items.
    fn start_before(&self, end: usize) -> Option<Start> {
        let mut start = [0; SHORTEST];
        let items = &self.items[end.checked_sub(SHORTEST)?..end];
        start.iter_mut().zip(items).for_each(|(letter, item)| *letter = item.letter);
        Some(start)
    }

    /// Whether the text has come twice in a row, and with what period.
    fn follow_period(&mut self, end: usize) -> Option<usize> {
        let start = self.start_before(end)?;
        let before = self.seen.insert(start, end);
        let same = |at: usize, period: usize| {
            at >= period && self.items[at].letter == self.items[at - period].letter
        };
        if self.period > 0 && same(end - 1, self.period) {
            self.run += 1;
        } else {
            self.period = before.map_or(0, |before| end - before);
            let period = self.period;
            let limit = period.min(end);
            self.run =
                if period == 0 { 0 } else { (0..limit).take_while(|k| same(end - 1 - k, period)).count() };
        }
        // A body that is too short for a segment makes one several times over.
        let period = self.period * SHORTEST.div_ceil(self.period.max(1));
        (self.period > 0 && self.run + self.period >= 2 * period && period <= LONGEST_PERIOD)
            .then_some(period)
    }

    /// Makes words of the items from `start` to `end`; returns their lengths.
    fn learn(&mut self, start: usize, end: usize) -> Vec<usize> {
        let mut last_read: Vec<usize> = (start..end).collect();
        for (at, item) in (start..end).zip(&self.items[start..end]) {
            for operand in &item.operands {
                match operand.source {
                    Source::Call(place, _) if place >= self.base + start as u64 => {
                        last_read[(place - self.base) as usize - start] = at;
                    }
                    _ => (),
                }
            }
        }
        let made = self.items[start..end].iter().map(|item| item.made);
        let alive: Vec<(u64, usize)> = made.zip(last_read.into_iter().map(|at| at - start)).collect();
        let pieces = cut(&alive, SHORTEST, LONGEST);
        let mut at = start;
        for &piece in &pieces {
            let letters: Vec<u32> = self.items[at..at + piece].iter().map(|item| item.letter).collect();
            self.add_word(letters);
            at += piece;
        }
        pieces
    }

    fn add_word(&mut self, letters: Vec<u32>) {
        let mut start = [0; SHORTEST];
        start.copy_from_slice(&letters[..SHORTEST]);
        let words = self.by_start.entry(start).or_default();
        if words.iter().all(|&word| self.words[word as usize] != letters) {
            words.push(self.words.len() as u32);
            self.letters_kept += letters.len();
            self.words.push(letters);
        }
    }

    /// What comes before the next segment, as many items: a word, if it was seen before.
    fn settle(&mut self, before: usize, found: &mut Vec<Found>) {
        if before >= SHORTEST {
            let letters: Vec<u32> = self.items[..before].iter().map(|item| item.letter).collect();
            if self.between.contains(&letters) {
                for piece in self.learn(0, before) {
                    self.cut_off(piece, found);
                }
                return;
            }
            self.letters_kept += letters.len();
            self.between.insert(letters);
        }
        self.drop_items(before);
    }

    /// The first items are a segment.
    fn cut_off(&mut self, calls: usize, found: &mut Vec<Found>) {
        let text = self.text(calls);
        let class = *self.classes.entry(text).or_insert_with(|| {
            self.next_class += 1;
            self.next_class - 1
        });
        found.push(Found { start: self.base, calls, class });
        self.drop_items(calls);
    }

    fn drop_items(&mut self, count: usize) {
        self.items.drain(..count);
        self.base += count as u64;
        self.seen.clear();
        self.under_way.clear();
        (self.period, self.run) = (0, 0);
    }

    /// The first items with operands by distance, and outer ones by order of first appearance.
    fn text(&self, calls: usize) -> Vec<u64> {
        let mut text = vec![calls as u64];
        let mut outer: HashMap<Source, u64> = HashMap::new();
        for (place, item) in (self.base..).zip(&self.items[..calls]) {
            text.push(u64::from(item.letter));
            for operand in &item.operands {
                text.push(match operand.source {
                    Source::Call(made, output) if made >= self.base => {
                        ((place - made) << 32 | u64::from(output)) << 1 | 1
                    }
                    source => {
                        let next = outer.len() as u64;
                        *outer.entry(source).or_insert(next) << 1
                    }
                });
            }
        }
        text
    }

    /// Nothing is remembered for ever.
    fn stay_bounded(&mut self) {
        if self.items.len() > 2 * LONGEST_PERIOD + SHORTEST {
            self.drop_items(LONGEST_PERIOD);
        }
        if self.letters_kept > MEMORY || self.letters.len() > MEMORY || self.classes.len() > MEMORY / 64 {
            let (base, next_class) = (self.base + self.items.len() as u64, self.next_class);
            *self = Self { base, next_class, ..Self::default() };
        }
    }
}
