//! Whatever has streams: a GPU, or the emulation of one.
//!
//! [`LaunchSchedule::enqueue`] is the only code that walks a launch sequence. What it hands over, in program order, is what a driver's
//! interface has: wait for an event on a stream, launch on a stream, record an event on a stream. [`Emulated`] keeps a queue per
//! stream and then takes from their heads in any order that the events allow, among them the most extreme ones.

use std::collections::{BTreeSet, HashSet, VecDeque};
use std::ops::Range;

use crate::launch_schedule::{LaunchSchedule, Queued};

/// A moment of a stream that another stream can wait for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Event {
    /// Stream 0 has come to the launches from this one on.
    Begin(usize),
    /// This launch of the sequence is done.
    Behind(usize),
    /// This stream has done its part of the launches from this one on.
    End(usize, u32),
}

/// Something that launches can be queued on. A launch is named by its position in the sequence.
pub trait Queue {
    /// Why it refuses.
    type Error;
    /// What is queued on `stream` from now on begins when the event has come.
    ///
    /// # Errors
    /// The device's.
    fn wait(&mut self, stream: u32, event: Event) -> Result<(), Self::Error>;
    /// Queues a launch on its stream.
    ///
    /// # Errors
    /// The device's, or the operator's.
    fn launch(&mut self, launch: usize, queued: &Queued) -> Result<(), Self::Error>;
    /// Records the event on a stream: it comes when all that was queued there before is done.
    ///
    /// # Errors
    /// The device's.
    fn record(&mut self, stream: u32, event: Event) -> Result<(), Self::Error>;
}

impl LaunchSchedule {
    /// Queues these launches, in program order. The other streams begin behind what stream 0 has to do before them, and what stream
    /// 0 does after them begins behind all of them: a capture of stream 0 captures them, too, and a sequence may be queued in pieces, one
    /// behind the other. What a launch waits for in an earlier piece is done then.
    ///
    /// # Errors
    /// The first refusal.
    pub fn enqueue<Q: Queue>(&self, launches: Range<usize>, queue: &mut Q) -> Result<(), Q::Error> {
        let first = launches.start;
        let others: BTreeSet<u32> = self.launches[launches.clone()]
            .iter()
            .map(|one| one.stream)
            .filter(|&stream| stream > 0)
            .collect();
        if !others.is_empty() {
            queue.record(0, Event::Begin(first))?;
        }
        for &stream in &others {
            queue.wait(stream, Event::Begin(first))?;
        }
        for at in launches {
            let queued = &self.launches[at];
            for &before in queued.waits.iter().filter(|&&before| before >= first) {
                queue.wait(queued.stream, Event::Behind(before))?;
            }
            queue.launch(at, queued)?;
            if queued.records {
                queue.record(queued.stream, Event::Behind(at))?;
            }
        }
        for &stream in &others {
            queue.record(stream, Event::End(first, stream))?;
            queue.wait(0, Event::End(first, stream))?;
        }
        Ok(())
    }
}

/// Which of the streams that could go on does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pace {
    /// The one that was queued first: the order of the program.
    Program,
    /// The first stream, until it has to wait.
    FirstStream,
    /// The last stream, until it has to wait: what can overlap runs as far ahead as it can.
    LastStream,
    /// Any, by this seed.
    Random(u64),
}

/// One item of a stream.
#[derive(Debug, Clone, Copy)]
enum Item {
    Wait(Event),
    Launch(usize),
    Record(Event),
}

/// Streams in software.
#[derive(Debug, Default)]
pub struct Emulated {
    streams: Vec<VecDeque<Item>>,
}

impl Queue for Emulated {
    type Error = std::convert::Infallible;

    fn wait(&mut self, stream: u32, event: Event) -> Result<(), Self::Error> {
        self.push(stream, Item::Wait(event));
        Ok(())
    }

    fn launch(&mut self, launch: usize, queued: &Queued) -> Result<(), Self::Error> {
        self.push(queued.stream, Item::Launch(launch));
        Ok(())
    }

    fn record(&mut self, stream: u32, event: Event) -> Result<(), Self::Error> {
        self.push(stream, Item::Record(event));
        Ok(())
    }
}

impl Emulated {
    /// The sequence, queued.
    pub fn of(schedule: &LaunchSchedule) -> Self {
        let mut queue = Self::default();
        let Ok(()) = schedule.enqueue(0..schedule.launches.len(), &mut queue);
        queue
    }

    fn push(&mut self, stream: u32, item: Item) {
        let stream = stream as usize;
        self.streams.resize_with(self.streams.len().max(stream + 1), VecDeque::new);
        self.streams[stream].push_back(item);
    }

    /// The launches in an order in which the device could run them. Shorter than what was queued when streams wait for each
    /// other for ever, or for an event that nobody records.
    pub fn order(mut self, pace: Pace) -> Vec<usize> {
        let mut state = match pace {
            Pace::Random(seed) => seed.wrapping_mul(2).wrapping_add(1),
            _ => 1,
        };
        let mut came: HashSet<Event> = HashSet::new();
        let mut order = Vec::new();
        loop {
            let ready = self.ready(&mut came);
            let chosen = match pace {
                Pace::Program => ready.iter().min_by_key(|(_, launch)| *launch),
                Pace::FirstStream => ready.first(),
                Pace::LastStream => ready.last(),
                Pace::Random(_) => {
                    // A linear congruential generator: its high bits are good enough to choose among a few streams.
                    state =
                        state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                    ready.get((state >> 33) as usize % ready.len().max(1))
                }
            };
            let Some(&(stream, launch)) = chosen else { return order };
            self.streams[stream].pop_front();
            order.push(launch);
        }
    }

    /// Streams that can go on, with the launch at their head.
    fn ready(&mut self, came: &mut HashSet<Event>) -> Vec<(usize, usize)> {
        loop {
            let known = came.len();
            let heads = self.streams.iter_mut().enumerate();
            let ready =
                heads.filter_map(|(stream, items)| Some((stream, Self::next(items, came)?))).collect();
            // An event that came may let a stream go on that was looked at before.
            if came.len() == known {
                return ready;
            }
        }
    }

    /// The launch at the head of a stream, once what stands before it has been dealt with.
    fn next(items: &mut VecDeque<Item>, came: &mut HashSet<Event>) -> Option<usize> {
        loop {
            match *items.front()? {
                Item::Wait(event) if !came.contains(&event) => return None,
                Item::Wait(_) => {}
                Item::Record(event) => {
                    came.insert(event);
                }
                Item::Launch(launch) => return Some(launch),
            }
            items.pop_front();
        }
    }
}
