//! What is queued is done, because somebody waits for it; and when, by the device's own time.

use std::sync::Arc;

use super::{Event, Gpu, Item, Queued};
use crate::capture::in_order;
use crate::clock::Moment;
use crate::result::{
    Answer, CAPTURE_UNSUPPORTED, CAPTURED_EVENT, ILLEGAL_STATE, INVALID_HANDLE, LAUNCH_FAILED, NOT_READY,
};
use crate::work::Work;

impl Item {
    /// When a stream has done it that could begin at `start`; `None`: nobody knows when what it waits for comes.
    fn end(&self, start: u64) -> Option<u64> {
        match self {
            Self::Work(work) => Some(start + work.nanos),
            Self::Graph(nodes) => Some(start + nodes.iter().map(|node| node.work.nanos).sum::<u64>()),
            Self::Record(_) => Some(start),
            Self::Wait(moment) => moment.come().map(|at| start.max(at)),
        }
    }
}

impl Gpu {
    /// Waits for a stream: runs what it needs.
    pub fn finish_stream(&mut self, stream: usize) -> Answer {
        if let Some(capture) = self.stream(stream)?.capture {
            self.captures.get_mut(&capture).ok_or(ILLEGAL_STATE)?.invalid = true;
            return Err(CAPTURE_UNSUPPORTED);
        }
        self.opened(|gpu| gpu.run_stream(stream, None))?;
        self.host = self.host.max(self.streams[stream].done);
        Ok(())
    }

    /// Waits for everything that is queued.
    pub fn finish(&mut self, device: usize) -> Answer {
        if let Some(capture) = self.captures.values_mut().next() {
            capture.invalid = true;
            return Err(CAPTURE_UNSUPPORTED);
        }
        self.opened(|gpu| {
            loop {
                let ready = gpu.ready(device);
                if ready.is_empty() {
                    return;
                }
                let mut order = gpu.order;
                let chosen = ready[order.choose(&ready, |one| *one)].0;
                gpu.order = order;
                gpu.next(chosen);
            }
        })?;
        let here = self.streams.iter().filter(|stream| stream.device == device);
        self.host = here.map(|stream| stream.done).fold(self.host, u64::max);
        Ok(())
    }

    /// Whether an event has come; with `wait`, waits until it has.
    pub fn event(&mut self, event: u64, wait: bool) -> Answer {
        let moment = match &self.events.get(&event).ok_or(INVALID_HANDLE)?.2 {
            Event::Never => return Ok(()),
            Event::Captured { .. } => return Err(CAPTURED_EVENT),
            Event::Recorded(moment) => moment.clone(),
        };
        if wait || self.comes(&moment).is_some_and(|at| at <= self.host) {
            self.opened(|gpu| gpu.run_until(&moment))?;
        }
        moment.come().map(|at| self.host = self.host.max(at)).ok_or(NOT_READY)
    }

    /// Nanoseconds between two events that have come, both made to measure time.
    pub fn elapsed(&mut self, from: u64, to: u64) -> Answer<u64> {
        let mut moments = [0; 2];
        for (moment, event) in moments.iter_mut().zip([from, to]) {
            *moment = match self.events.get(&event) {
                Some((_, true, Event::Recorded(recorded))) => recorded.come().ok_or(NOT_READY)?,
                _ => return Err(INVALID_HANDLE),
            };
        }
        self.counts.elapsed += 1;
        Ok(moments[1].saturating_sub(moments[0]))
    }

    pub fn idle(&mut self, stream: usize) -> Answer {
        if self.stream(stream)?.queue.is_empty() { Ok(()) } else { Err(NOT_READY) }
    }

    /// The device works, and the host waits for it.
    fn opened(&mut self, work: impl FnOnce(&mut Self)) -> Answer {
        self.memory.iter().for_each(|memory| memory.set_open(true));
        work(self);
        self.memory.iter().for_each(|memory| memory.set_open(false));
        if self.broken { Err(LAUNCH_FAILED) } else { Ok(()) }
    }

    /// When a moment comes, or has come; `None`: nobody has recorded it, or what is before it waits for such a one.
    fn comes(&self, moment: &Arc<Moment>) -> Option<u64> {
        if let Some(at) = moment.come() {
            return Some(at);
        }
        let stream = &self.streams[self.recorder(moment)?];
        let mut time = stream.done;
        for Queued { at, item, .. } in &stream.queue {
            time = time.max(*at);
            time = match item {
                Item::Record(found) if Arc::ptr_eq(found, moment) => return Some(time),
                Item::Wait(other) => time.max(self.comes(other)?),
                other => other.end(time)?,
            };
        }
        None
    }

    /// The stream that will record a moment.
    fn recorder(&self, moment: &Arc<Moment>) -> Option<usize> {
        let records = |one: &Queued| matches!(&one.item, Item::Record(other) if Arc::ptr_eq(other, moment));
        self.streams.iter().position(|stream| stream.queue.iter().any(records))
    }

    /// Streams whose next item is work, with its number. Waits for what has come and records go by.
    fn ready(&mut self, device: usize) -> Vec<(usize, u64)> {
        loop {
            let mut passed = false;
            let mut ready = Vec::new();
            for at in 0..self.streams.len() {
                while let Some(Queued { number, item, .. }) = self.streams[at].queue.front() {
                    if self.streams[at].device != device {
                        break;
                    }
                    match item {
                        Item::Wait(moment) if moment.come().is_none() => break,
                        Item::Wait(_) => {}
                        Item::Record(_) => passed = true,
                        Item::Work(_) | Item::Graph(_) => {
                            ready.push((at, *number));
                            break;
                        }
                    }
                    self.next(at);
                }
            }
            if !passed {
                return ready;
            }
        }
    }

    /// Runs a stream to its end, or until a moment that it records.
    fn run_stream(&mut self, stream: usize, until: Option<&Moment>) {
        while let Some(Queued { item, .. }) = self.streams[stream].queue.front() {
            if until.is_some_and(|moment| moment.come().is_some()) {
                return;
            }
            if let Item::Wait(moment) = item {
                let moment = moment.clone();
                self.run_until(&moment);
            }
            self.next(stream);
        }
    }

    fn run_until(&mut self, moment: &Arc<Moment>) {
        if let Some(stream) = self.recorder(moment) {
            self.run_stream(stream, Some(moment));
        }
    }

    /// Runs the item at the head of a stream.
    fn next(&mut self, stream: usize) {
        let Some(Queued { at, item, .. }) = self.streams[stream].queue.pop_front() else { return };
        let start = self.streams[stream].done.max(at);
        self.streams[stream].done = item.end(start).unwrap_or(start);
        match item {
            Item::Work(work) => self.run(&work),
            Item::Record(moment) => moment.set(start),
            Item::Wait(_) => {}
            Item::Graph(nodes) => {
                let mut order = self.order;
                for node in in_order(&nodes, &mut order) {
                    self.run(&node.work);
                }
                self.order = order;
            }
        }
    }

    fn run(&mut self, work: &Work) {
        if self.broken {
            return;
        }
        self.counts.done += 1;
        if let Err(message) = work.run(&self.memory) {
            eprintln!("emulated GPU: {} failed: {message}", work.name);
            self.broken = true;
        }
    }
}
