//! Streams with queues, events between them, and when what is queued is done: not before somebody waits for it.
//!
//! A host that waits for a stream gets what that stream needs and no more; one that waits for the device gets everything, in the order
//! that was chosen. So work that lacks a wait sees bytes that are not there yet, or no longer.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::ThreadId;

use crate::capture::{Capture, Node, in_order};
use crate::faults::Faults;
use crate::memory::Memory;
use crate::order::Order;
use crate::result::{
    Answer, CAPTURE_INVALIDATED, CAPTURE_ISOLATION, CAPTURE_MERGE, CAPTURE_UNMATCHED, CAPTURE_UNSUPPORTED,
    CAPTURE_WRONG_THREAD, CAPTURED_EVENT, ILLEGAL_STATE, INVALID_HANDLE, LAUNCH_FAILED, NOT_READY,
};
use crate::work::Work;

pub const DEVICES: usize = 2;
const DEFAULT_BYTES: usize = 1 << 30;

/// A moment that has come or has not.
type Moment = Arc<AtomicBool>;

enum Item {
    Work(Arc<Work>),
    Wait(Moment),
    Record(Moment),
    Graph(Arc<Vec<Node>>),
}

#[derive(Default)]
struct Stream {
    device: usize,
    /// With the time of queueing.
    queue: VecDeque<(u64, Item)>,
    capture: Option<u64>,
}

enum Event {
    Never,
    Recorded(Moment),
    Captured { capture: u64, nodes: Vec<usize> },
}

/// How often things happened, for tests that want to know.
#[derive(Default)]
#[repr(C)]
pub struct Counts {
    pub kernels: u64,
    pub operators: u64,
    pub graphs: u64,
    pub captured: u64,
    pub done: u64,
}

pub struct Gpu {
    pub memory: Vec<Memory>,
    streams: Vec<Stream>,
    events: BTreeMap<u64, (usize, Event)>,
    captures: BTreeMap<u64, Capture>,
    graphs: BTreeMap<u64, Arc<Vec<Node>>>,
    next: u64,
    pub order: Order,
    pub faults: Faults,
    pub counts: Counts,
    /// Why the device can do nothing more.
    broken: bool,
}

impl Gpu {
    pub fn new() -> Self {
        let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
        let bytes = number("RK_EMULATED_MEMORY").map_or(DEFAULT_BYTES, |bytes| bytes as usize);
        Self {
            memory: (0..DEVICES).map(|_| Memory::new(bytes)).collect(),
            // The legacy default streams of the devices.
            streams: (0..DEVICES).map(|device| Stream { device, ..Stream::default() }).collect(),
            events: BTreeMap::new(),
            captures: BTreeMap::new(),
            graphs: BTreeMap::new(),
            next: 1,
            order: Order::numbered(number("RK_EMULATED_ORDER").unwrap_or(0)),
            faults: Faults::of_environment(),
            counts: Counts::default(),
            broken: false,
        }
    }

    fn fresh(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    pub fn new_stream(&mut self, device: usize) -> usize {
        self.streams.push(Stream { device, ..Stream::default() });
        self.streams.len() - 1
    }

    fn stream(&mut self, stream: usize) -> Answer<&mut Stream> {
        self.streams.get_mut(stream).ok_or(INVALID_HANDLE)
    }

    pub fn device_of(&mut self, stream: usize) -> Answer<usize> {
        Ok(self.stream(stream)?.device)
    }

    pub fn new_event(&mut self, device: usize) -> u64 {
        let event = self.fresh();
        self.events.insert(event, (device, Event::Never));
        event
    }

    pub fn destroy_event(&mut self, event: u64) -> Answer {
        self.events.remove(&event).map(drop).ok_or(INVALID_HANDLE)
    }

    /// Calls that could disturb a capture of the calling thread spoil it.
    pub fn disturb(&mut self, thread: ThreadId) -> Answer {
        let mut found = self.captures.values_mut().filter(|one| one.strict && one.thread == thread);
        match found.next() {
            Some(capture) => {
                capture.invalid = true;
                Err(CAPTURE_UNSUPPORTED)
            }
            None => Ok(()),
        }
    }

    pub fn queue(&mut self, stream: usize, work: Work) -> Answer {
        if self.broken {
            return Err(LAUNCH_FAILED);
        }
        let time = self.fresh();
        let work = Arc::new(work);
        match self.stream(stream)?.capture {
            Some(capture) => {
                self.counts.captured += 1;
                self.captures.get_mut(&capture).ok_or(ILLEGAL_STATE)?.add(stream, work)
            }
            None => {
                self.stream(stream)?.queue.push_back((time, Item::Work(work)));
                Ok(())
            }
        }
    }

    pub fn record(&mut self, event: u64, stream: usize) -> Answer {
        let device = self.device_of(stream)?;
        let made = match self.stream(stream)?.capture {
            Some(capture) => {
                let found = self.captures.get(&capture).ok_or(ILLEGAL_STATE)?;
                if found.invalid {
                    return Err(CAPTURE_INVALIDATED);
                }
                Event::Captured { capture, nodes: found.tails.get(&stream).cloned().unwrap_or_default() }
            }
            None => {
                let moment = Moment::default();
                let time = self.fresh();
                self.stream(stream)?.queue.push_back((time, Item::Record(moment.clone())));
                Event::Recorded(moment)
            }
        };
        let (home, entry) = self.events.get_mut(&event).ok_or(INVALID_HANDLE)?;
        // An event belongs to a context: that of another GPU cannot record it.
        if *home != device {
            return Err(INVALID_HANDLE);
        }
        *entry = made;
        Ok(())
    }

    pub fn wait(&mut self, stream: usize, event: u64) -> Answer {
        let (_, found) = self.events.get(&event).ok_or(INVALID_HANDLE)?;
        let capture = self.streams.get(stream).ok_or(INVALID_HANDLE)?.capture;
        if self.faults.drops_wait() {
            // A capture is joined all the same: what is missing is the edge, not the stream.
            if let (Event::Captured { capture, .. }, None) = (found, capture) {
                let capture = *capture;
                self.captures.get_mut(&capture).ok_or(ILLEGAL_STATE)?.join(stream, &[]);
                self.stream(stream)?.capture = Some(capture);
            }
            return Ok(());
        }
        match (found, capture) {
            (Event::Never, None) => Ok(()),
            (Event::Recorded(moment), None) => {
                let item = Item::Wait(moment.clone());
                let time = self.fresh();
                self.stream(stream)?.queue.push_back((time, item));
                Ok(())
            }
            (Event::Never | Event::Recorded(_), Some(capture)) => {
                self.captures.get_mut(&capture).ok_or(ILLEGAL_STATE)?.invalid = true;
                Err(CAPTURE_ISOLATION)
            }
            (Event::Captured { capture: theirs, .. }, Some(ours)) if *theirs != ours => Err(CAPTURE_MERGE),
            (Event::Captured { capture, nodes }, _) => {
                let (capture, nodes) = (*capture, nodes.clone());
                let found = self.captures.get_mut(&capture).ok_or(CAPTURED_EVENT)?;
                if found.invalid {
                    return Err(CAPTURE_INVALIDATED);
                }
                found.join(stream, &nodes);
                self.stream(stream)?.capture = Some(capture);
                Ok(())
            }
        }
    }

    pub fn begin_capture(&mut self, stream: usize, strict: bool, thread: ThreadId) -> Answer {
        // The legacy stream cannot be captured.
        if stream < DEVICES {
            return Err(CAPTURE_UNSUPPORTED);
        }
        if self.stream(stream)?.capture.is_some() {
            return Err(ILLEGAL_STATE);
        }
        let capture = self.fresh();
        let tails = BTreeMap::from([(stream, Vec::new())]);
        let made = Capture { origin: stream, thread, strict, invalid: false, nodes: Vec::new(), tails };
        self.captures.insert(capture, made);
        self.stream(stream)?.capture = Some(capture);
        Ok(())
    }

    /// Ends the capture that began on this stream, also when it was spoiled.
    pub fn end_capture(&mut self, stream: usize, thread: ThreadId) -> Answer<u64> {
        let capture = self.stream(stream)?.capture.ok_or(ILLEGAL_STATE)?;
        let found = self.captures.get(&capture).ok_or(ILLEGAL_STATE)?;
        if found.strict && found.thread != thread {
            return Err(CAPTURE_WRONG_THREAD);
        }
        if found.origin != stream {
            return Err(CAPTURE_UNMATCHED);
        }
        for stream in &mut self.streams {
            stream.capture = stream.capture.filter(|one| *one != capture);
        }
        let nodes = self.captures.remove(&capture).ok_or(ILLEGAL_STATE)?.end()?;
        let graph = self.fresh();
        self.graphs.insert(graph, Arc::new(nodes));
        Ok(graph)
    }

    pub fn is_capturing(&mut self, stream: usize) -> Answer<Option<bool>> {
        let capture = self.stream(stream)?.capture;
        Ok(capture.and_then(|one| self.captures.get(&one)).map(|one| !one.invalid))
    }

    /// An executable graph; the other one may be let go.
    pub fn instantiate(&mut self, graph: u64) -> Answer<u64> {
        let nodes = self.graphs.get(&graph).cloned().ok_or(INVALID_HANDLE)?;
        let executable = self.fresh();
        self.graphs.insert(executable, nodes);
        Ok(executable)
    }

    pub fn destroy_graph(&mut self, graph: u64) -> Answer {
        self.graphs.remove(&graph).map(drop).ok_or(INVALID_HANDLE)
    }

    pub fn launch_graph(&mut self, graph: u64, stream: usize) -> Answer {
        if self.broken {
            return Err(LAUNCH_FAILED);
        }
        let nodes = self.graphs.get(&graph).cloned().ok_or(INVALID_HANDLE)?;
        if self.stream(stream)?.capture.is_some() {
            return Err(CAPTURE_UNSUPPORTED);
        }
        self.counts.graphs += 1;
        if self.faults.loses_graph() {
            return Ok(());
        }
        let time = self.fresh();
        self.stream(stream)?.queue.push_back((time, Item::Graph(nodes)));
        Ok(())
    }

    /// Waits for a stream: runs what it needs.
    pub fn finish_stream(&mut self, stream: usize) -> Answer {
        if let Some(capture) = self.stream(stream)?.capture {
            self.captures.get_mut(&capture).ok_or(ILLEGAL_STATE)?.invalid = true;
            return Err(CAPTURE_UNSUPPORTED);
        }
        self.opened(|gpu| gpu.run_stream(stream, None))
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
        })
    }

    /// Whether an event has come; with `wait`, waits until it has.
    pub fn event(&mut self, event: u64, wait: bool) -> Answer {
        let moment = match &self.events.get(&event).ok_or(INVALID_HANDLE)?.1 {
            Event::Never => return Ok(()),
            Event::Captured { .. } => return Err(CAPTURED_EVENT),
            Event::Recorded(moment) => moment.clone(),
        };
        if wait {
            self.opened(|gpu| gpu.run_until(&moment))?;
        }
        if moment.load(Ordering::Relaxed) { Ok(()) } else { Err(NOT_READY) }
    }

    pub fn idle(&mut self, stream: usize) -> Answer {
        if self.stream(stream)?.queue.is_empty() { Ok(()) } else { Err(NOT_READY) }
    }

    /// The device works.
    fn opened(&mut self, work: impl FnOnce(&mut Self)) -> Answer {
        self.memory.iter().for_each(|memory| memory.set_open(true));
        work(self);
        self.memory.iter().for_each(|memory| memory.set_open(false));
        if self.broken { Err(LAUNCH_FAILED) } else { Ok(()) }
    }

    /// Streams whose next item is work, with its time. Waits for what has come and records go by.
    fn ready(&mut self, device: usize) -> Vec<(usize, u64)> {
        loop {
            let mut passed = false;
            let mut ready = Vec::new();
            for (at, stream) in self.streams.iter_mut().enumerate().filter(|(_, one)| one.device == device) {
                while let Some((time, item)) = stream.queue.front() {
                    match item {
                        Item::Wait(moment) if !moment.load(Ordering::Relaxed) => break,
                        Item::Wait(_) => {}
                        Item::Record(moment) => {
                            moment.store(true, Ordering::Relaxed);
                            passed = true;
                        }
                        Item::Work(_) | Item::Graph(_) => {
                            ready.push((at, *time));
                            break;
                        }
                    }
                    stream.queue.pop_front();
                }
            }
            if !passed {
                return ready;
            }
        }
    }

    /// Runs a stream to its end, or until a moment that it records.
    fn run_stream(&mut self, stream: usize, until: Option<&Moment>) {
        while let Some((_, item)) = self.streams[stream].queue.front() {
            if until.is_some_and(|moment| moment.load(Ordering::Relaxed)) {
                return;
            }
            match item {
                Item::Wait(moment) => {
                    let moment = moment.clone();
                    self.run_until(&moment);
                    self.streams[stream].queue.pop_front();
                }
                _ => self.next(stream),
            }
        }
    }

    fn run_until(&mut self, moment: &Moment) {
        let records = |item: &Item| matches!(item, Item::Record(other) if Arc::ptr_eq(other, moment));
        let found = self.streams.iter().position(|one| one.queue.iter().any(|(_, item)| records(item)));
        if let Some(stream) = found {
            self.run_stream(stream, Some(moment));
        }
    }

    /// Runs the item at the head of a stream.
    fn next(&mut self, stream: usize) {
        let Some((_, item)) = self.streams[stream].queue.pop_front() else { return };
        match item {
            Item::Work(work) => self.run(&work),
            Item::Record(moment) => moment.store(true, Ordering::Relaxed),
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
