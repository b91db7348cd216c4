//! The judge of transfers: one walk over the points, in which every value is somewhere.

use super::clock::{Agenda, times};
use super::{Direction, Fault, Host, Transfer, TransferTrace, Unlawful};
use crate::graph::Graph;
use crate::judge::{Fate, Instance, judge, may_overwrite, measure};
use crate::schedule::Sequence;
use crate::units::{Bytes, NodeId, ValueId};

/// Judges a sequence of runs with transfers: the laws that [`judge`] judges, and S10 to S12. For S7 see
/// [`Trace::within`](crate::Trace::within) of the device.
///
/// Without transfers, the device is what [`judge`] says, and the makespan its time.
///
/// # Errors
/// [`Unlawful`] names the first law broken and where.
pub fn judge_transfers(
    graph: &Graph,
    sequence: &Sequence,
    transfers: &[Transfer],
    host: &Host,
) -> Result<TransferTrace, Unlawful> {
    judge(graph, sequence)?;
    let runs = sequence.0.len();
    for (index, &about) in transfers.iter().enumerate() {
        let refused = |fault| Err(Unlawful::S10NotThere { transfer: index, about, fault });
        match graph.values().get(about.value.index()) {
            None => return refused(Fault::NoSuchValue),
            Some(value) if value.pinned => return refused(Fault::Pinned),
            _ if about.start >= about.end || about.end > runs => return refused(Fault::Ends),
            _ if host.engine(about.direction).bytes == 0 => return refused(Fault::NoEngine),
            _ => {}
        }
    }
    let agenda = Agenda::new(transfers, runs);
    let mut walk = Walk::new(graph, runs);
    for point in 0..=runs {
        agenda.ends(point).for_each(|index| walk.end(point, transfers[index]));
        for transfer in agenda.starts(point) {
            let about = transfers[transfer];
            walk.start(point, about).map_err(|fault| Unlawful::S10NotThere { transfer, about, fault })?;
        }
        if let Some(&node) = sequence.0.get(point) {
            walk.run(point, node)?;
        }
    }
    let host_memory = walk.host_memory(runs);
    if let Some(budget) = host.budget
        && let Some(step) = host_memory.iter().position(|&memory| memory > budget)
    {
        return Err(Unlawful::S12OverHostBudget { step, memory: host_memory[step], budget });
    }
    let (instances, overwrites) = walk.instances(sequence);
    let (passed, spans) = times(graph, sequence, transfers, &agenda, host);
    Ok(TransferTrace {
        device: measure(graph, &sequence.0, instances, overwrites),
        makespan: passed[runs],
        host_peak: host_memory.iter().copied().max().unwrap_or_default(),
        host_memory,
        passed,
        spans,
    })
}

/// Where the newest instance of a value is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    Unmade,
    Device,
    Leaving,
    Host,
    Arriving,
}

/// A time on the device.
struct Stay {
    instance: Instance,
    /// It began with a fetch.
    fetched: bool,
    /// It ended with an offload, which reads the buffer to the end.
    left: bool,
}

struct Walk<'a> {
    graph: &'a Graph,
    place: Vec<Place>,
    /// Per value, the newest stay on the device.
    stay: Vec<usize>,
    /// Per value, the copy of its newest instance in host memory.
    copy: Vec<Option<usize>>,
    stays: Vec<Stay>,
    /// Copies in host memory: first run, last run, bytes.
    copies: Vec<(usize, usize, Bytes)>,
    /// Per run, the stay whose buffer its node would take over.
    targets: Vec<Option<usize>>,
}

impl<'a> Walk<'a> {
    fn new(graph: &'a Graph, runs: usize) -> Self {
        let values = graph.values().len();
        Self {
            graph,
            place: vec![Place::Unmade; values],
            stay: vec![0; values],
            copy: vec![None; values],
            stays: Vec::with_capacity(2 * runs),
            copies: Vec::new(),
            targets: Vec::with_capacity(runs),
        }
    }

    fn start(&mut self, point: usize, about: Transfer) -> Result<(), Fault> {
        let value = about.value.index();
        match (about.direction, self.place[value]) {
            (Direction::Offload, Place::Device) => {
                self.place[value] = Place::Leaving;
                self.copy[value] = Some(self.copies.len());
                self.copies.push((point, point, self.graph.value(about.value).bytes));
                Ok(())
            }
            (Direction::Offload, _) => Err(Fault::NotOnTheDevice),
            // On the device it may have been used for the last time: then it comes a second time from the same copy.
            (Direction::Fetch, Place::Host | Place::Device) if self.copy[value].is_some() => {
                self.place[value] = Place::Arriving;
                self.begin(about.value, point, true);
                Ok(())
            }
            (Direction::Fetch, _) => Err(Fault::NotInTheHost),
        }
    }

    fn end(&mut self, point: usize, about: Transfer) {
        let value = about.value.index();
        let offload = about.direction == Direction::Offload;
        self.place[value] = if offload { Place::Host } else { Place::Device };
        let stay = &mut self.stays[self.stay[value]];
        (stay.instance.end, stay.left) = (point - 1, offload);
        if let Some(copy) = self.copy[value] {
            self.copies[copy].1 = point - 1;
        }
    }

    fn run(&mut self, step: usize, node: NodeId) -> Result<(), Unlawful> {
        let about = self.graph.node(node);
        for &value in &about.reads {
            if !matches!(self.place[value.index()], Place::Device | Place::Leaving) {
                return Err(Unlawful::S11Away { step, node, value, reads: true });
            }
            self.stays[self.stay[value.index()]].instance.end = step;
        }
        self.targets.push(may_overwrite(self.graph, node).map(|value| self.stay[value.index()]));
        for &value in &about.writes {
            if matches!(self.place[value.index()], Place::Leaving | Place::Arriving) {
                return Err(Unlawful::S11Away { step, node, value, reads: false });
            }
            self.place[value.index()] = Place::Device;
            self.copy[value.index()] = None;
            self.begin(value, step, false);
        }
        Ok(())
    }

    fn begin(&mut self, value: ValueId, start: usize, fetched: bool) {
        self.stay[value.index()] = self.stays.len();
        let instance = Instance { value, start, end: start, fate: Fate::Dropped };
        self.stays.push(Stay { instance, fetched, left: false });
    }

    /// The stays as instances, and which runs take a buffer over.
    fn instances(mut self, sequence: &Sequence) -> (Vec<Instance>, Vec<bool>) {
        let runs = sequence.0.len();
        for (index, value) in self.graph.values().iter().enumerate() {
            if value.pinned {
                let instance = &mut self.stays[self.stay[index]].instance;
                (instance.end, instance.fate) = (runs - 1, Fate::Kept);
            }
        }
        let mut overwrites = vec![false; runs];
        for (step, target) in self.targets.iter().enumerate() {
            let Some(stay) = target.map(|target| &mut self.stays[target]) else { continue };
            if stay.instance.end == step && !stay.left {
                (stay.instance.end, stay.instance.fate) = (step - 1, Fate::Overwritten);
                overwrites[step] = true;
            }
        }
        // Outputs of a run stand before what is fetched from its point on: an overwriting run hands its buffer to the first.
        self.stays.sort_by_key(|stay| (stay.instance.start, stay.fetched));
        (self.stays.into_iter().map(|stay| stay.instance).collect(), overwrites)
    }

    fn host_memory(&self, runs: usize) -> Vec<Bytes> {
        let mut change = vec![0i128; runs + 1];
        for &(start, end, bytes) in &self.copies {
            change[start] += i128::from(bytes.0);
            change[end + 1] -= i128::from(bytes.0);
        }
        let mut there = 0;
        let sums = change[..runs].iter().map(|delta| {
            there += delta;
            Bytes(u64::try_from(there).unwrap_or(u64::MAX))
        });
        sums.collect()
    }
}
