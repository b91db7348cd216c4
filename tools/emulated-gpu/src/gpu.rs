//! Streams with queues, events between them, and when what is queued is done: not before somebody waits for it.
//!
//! A host that waits for a stream gets what that stream needs and no more; one that waits for the device gets everything, in the order
//! that was chosen. So work that lacks a wait sees bytes that are not there yet, or no longer.
//!
//! Beside that there is a time of its own, for events that measure it (`clock`): the host needs a while to queue something, work says how
//! long it takes, and a stream begins with it when it has been queued and what is before it is done. No clock of this machine is in it.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::thread::ThreadId;

use crate::capture::{Capture, Node};
use crate::clock::{LATENCY, Moment};
use crate::faults::Faults;
use crate::memory::Memory;
use crate::order::Order;
use crate::result::{
    Answer, CAPTURE_INVALIDATED, CAPTURE_ISOLATION, CAPTURE_MERGE, CAPTURE_UNMATCHED, CAPTURE_UNSUPPORTED,
    CAPTURE_WRONG_THREAD, CAPTURED_EVENT, ILLEGAL_STATE, INVALID_HANDLE, LAUNCH_FAILED,
};
use crate::work::Work;

mod run;

pub const DEVICES: usize = 2;
const DEFAULT_BYTES: usize = 1 << 30;

enum Item {
    Work(Arc<Work>),
    Wait(Arc<Moment>),
    Record(Arc<Moment>),
    Graph(Arc<Vec<Node>>),
}

/// Something that was queued: in which order, and when by the host's time.
struct Queued {
    number: u64,
    at: u64,
    item: Item,
}

#[derive(Default)]
struct Stream {
    device: usize,
    queue: VecDeque<Queued>,
    /// When what it has done was done.
    done: u64,
    capture: Option<u64>,
}

enum Event {
    Never,
    Recorded(Arc<Moment>),
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
    pub elapsed: u64,
}

pub struct Gpu {
    pub memory: Vec<Memory>,
    streams: Vec<Stream>,
    /// With their device, and whether they measure time.
    events: BTreeMap<u64, (usize, bool, Event)>,
    captures: BTreeMap<u64, Capture>,
    graphs: BTreeMap<u64, Arc<Vec<Node>>>,
    next: u64,
    /// The host's time, in nanoseconds.
    host: u64,
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
            host: 0,
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

    /// Puts something at the end of a stream.
    fn push(&mut self, stream: usize, item: Item) -> Answer {
        let number = self.fresh();
        self.host += LATENCY;
        let at = self.host;
        self.stream(stream)?.queue.push_back(Queued { number, at, item });
        Ok(())
    }

    pub fn new_event(&mut self, device: usize, timed: bool) -> u64 {
        let event = self.fresh();
        self.events.insert(event, (device, timed, Event::Never));
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
        let work = Arc::new(work);
        match self.stream(stream)?.capture {
            Some(capture) => {
                self.counts.captured += 1;
                self.captures.get_mut(&capture).ok_or(ILLEGAL_STATE)?.add(stream, work)
            }
            None => self.push(stream, Item::Work(work)),
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
                let moment = Arc::<Moment>::default();
                self.push(stream, Item::Record(moment.clone()))?;
                Event::Recorded(moment)
            }
        };
        let (home, _, entry) = self.events.get_mut(&event).ok_or(INVALID_HANDLE)?;
        // An event belongs to a context: that of another GPU cannot record it.
        if *home != device {
            return Err(INVALID_HANDLE);
        }
        *entry = made;
        Ok(())
    }

    pub fn wait(&mut self, stream: usize, event: u64) -> Answer {
        let (.., found) = self.events.get(&event).ok_or(INVALID_HANDLE)?;
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
                self.push(stream, item)
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
        self.push(stream, Item::Graph(nodes))
    }
}
