//! The judge: is a schedule legal, what is its peak, how long does it take?
//!
//! It alone calls a schedule legal; solvers are never believed. The laws, with the labels of the dialect:
//!
//! - **S1** every operand of a run is live: produced before, not dropped since
//! - **S2** a drop names a live value, once per production
//! - **S3** what is not pinned is dropped before it is produced again, and by the end
//! - **S4** a run is marked `again` if and only if the node ran before: then it can reproduce the first run
//! - **S5** a `once` node runs once, and all such nodes keep their given order
//! - **S6** no buffer is overwritten that a later step reads, or that is pinned, or whose size differs
//! - **S7** live bytes, workspace and kept generator states fit in the budget at every run
//! - **S9** a node that reads what is lent runs once, and before the hand-over: the caller may change it then
//!
//! In a [`Sequence`] drops are implied: a use reads the newest instance of a value, and an instance lives from its run to
//! its last use before the producer runs again (its own step, if nothing reads it). The newest instance of a pinned value
//! lives to the end. A node that `overwrites` a value takes its buffer over if this is the last use of that instance,
//! the value is not pinned, and the first output has the same size; otherwise it works on a copy. (With a larger operand,
//! its tail would still be read during the step, and could not be counted as free.) Every node runs at least once.
//! Generator `state` is kept from the first to the last run of a node that runs more than once.
//!
//! Not here: addresses ([`crate::arena`]), the laws of transfers S10 to S12 ([`mod@crate::transfer`]), and S8, which only
//! execution can show.

use crate::graph::Graph;
use crate::schedule::{Schedule, Sequence, Step};
use crate::units::{Bytes, NodeId, Time, ValueId, readable};

/// What becomes of an instance in the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// Its storage is given back after step `end`.
    Dropped,
    /// Step `end + 1` writes its first output into the same buffer.
    Overwritten,
    /// Alive after the last step.
    Kept,
}

/// The life of one production of a value. Steps count runs only.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Instance {
    /// Which value.
    pub value: ValueId,
    /// The run that makes it.
    pub start: usize,
    /// The last run at which it is counted; never before `start`.
    pub end: usize,
    /// What happens then.
    pub fate: Fate,
}

/// What the judge found out about a legal schedule. Steps count runs only.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trace {
    /// The most bytes at any step.
    pub peak: Bytes,
    /// The first step that reaches the peak.
    pub peak_step: usize,
    /// The time of all runs.
    pub time: Time,
    /// Bytes at each step: live values, operands and outputs of the running node included, its workspace, kept states.
    pub memory: Vec<Bytes>,
    /// All productions, by starting step, then by output.
    pub instances: Vec<Instance>,
    /// Whether each step takes over the buffer that its node overwrites.
    pub overwrites: Vec<bool>,
}

/// The first law that a schedule breaks. `step` is a position in what was judged, counted from 0.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Illegal {
    /// S1: an operand was never produced, or dropped. `reader` is `None` for a pinned value at the end.
    #[error("S1 broken at step {step}: value {} is not live", value.0)]
    S1OperandNotLive {
        /// Where.
        step: usize,
        /// Who reads; `None`: the end of the step returns it.
        reader: Option<NodeId>,
        /// What is missing.
        value: ValueId,
        /// It was there once.
        dropped: bool,
    },
    /// S2: a drop of what is not live.
    #[error("S2 broken at step {step}: value {} is dropped but not live", value.0)]
    S2DropOfDeadValue {
        /// Where.
        step: usize,
        /// What.
        value: ValueId,
    },
    /// S3: still live at the end, or produced again before its drop.
    #[error("S3 broken: value {} of step {produced_at} is not dropped in time", value.0)]
    S3NeverDropped {
        /// What.
        value: ValueId,
        /// The step that produced it.
        produced_at: usize,
        /// The step that produces it once more; `None`: the schedule ends.
        again_at: Option<usize>,
    },
    /// S4: `again` on a first run, or a second run without it.
    #[error("S4 broken at step {step}: node {} cannot reproduce its first run", node.0)]
    S4NotReproducible {
        /// Where.
        step: usize,
        /// Who.
        node: NodeId,
        /// As marked.
        again: bool,
    },
    /// S5: a `once` node runs a second time, or before a `once` node that precedes it in the given order.
    #[error("S5 broken at step {step}: the side effect of node {} is repeated or out of order", node.0)]
    S5SideEffect {
        /// Where.
        step: usize,
        /// Who.
        node: NodeId,
        /// The node whose effect should have come first; `None`: repeated.
        before: Option<NodeId>,
    },
    /// S6: an overwritten value is needed, pinned, of another size, or the node never declared it.
    #[error("S6 broken at step {step}: node {} must not overwrite its operand", node.0)]
    S6Overwritten {
        /// The overwriting step.
        step: usize,
        /// Who overwrites.
        node: NodeId,
        /// What; `None`: the node has nothing that it could overwrite.
        value: Option<ValueId>,
        /// The step that still reads it, if that is what is wrong.
        read_at: Option<usize>,
    },
    /// S7: too many bytes.
    #[error("S7 broken at step {step}: {} bytes are live, the budget is {}", memory.0, budget.0)]
    S7OverBudget {
        /// The first run over the budget.
        step: usize,
        /// Its node.
        node: NodeId,
        /// Bytes there.
        memory: Bytes,
        /// Bytes allowed.
        budget: Bytes,
        /// The values live there, largest first.
        live: Vec<ValueId>,
    },
    /// S9: a run reads what is lent after the hand-over, when the caller may have changed it, or runs again.
    #[error("S9 broken at step {step}: node {} reads what is lent until the hand-over", node.0)]
    S9ReadsWhatIsLent {
        /// Where.
        step: usize,
        /// Which.
        node: NodeId,
        /// It runs a second time; else it comes too late.
        again: bool,
    },
    /// A node of the graph does not occur.
    #[error("node {} never runs", node.0)]
    NeverRun {
        /// Which.
        node: NodeId,
    },
    /// A step names a node or value that the graph does not have.
    #[error("step {step} names something that is not in the graph")]
    Unknown {
        /// Where.
        step: usize,
    },
}

impl Illegal {
    /// The same in the names of the graph.
    pub fn describe(&self, graph: &Graph) -> String {
        let node = |id: &NodeId| format!("'{}' (node {})", graph.node(*id).name, id.0);
        let value =
            |id: &ValueId| format!("'{}' ({})", graph.value(*id).name, readable(graph.value(*id).bytes));
        match self {
            Self::S1OperandNotLive { step, reader, value: what, dropped } => {
                let reader = reader.as_ref().map_or("the end of the step".into(), node);
                let why = if *dropped { "after its drop" } else { "before it is produced" };
                format!("S1 broken at step {step}: {reader} uses {} {why}", value(what))
            }
            Self::S2DropOfDeadValue { step, value: what } => {
                format!("S2 broken at step {step}: {} is dropped but not live", value(what))
            }
            Self::S3NeverDropped { value: what, produced_at, again_at } => {
                let when = again_at.map_or("is never dropped".into(), |at| {
                    format!("is produced again at step {at} before its drop")
                });
                format!("S3 broken: {}, produced at step {produced_at}, {when}", value(what))
            }
            Self::S4NotReproducible { step, node: who, again } => {
                let why =
                    if *again { "is marked `again` but runs first" } else { "runs again without the mark" };
                format!("S4 broken at step {step}: {} {why}", node(who))
            }
            Self::S5SideEffect { step, node: who, before: None } => {
                format!("S5 broken at step {step}: {} has a side effect and runs twice", node(who))
            }
            Self::S5SideEffect { step, node: who, before: Some(first) } => {
                let (who, first) = (node(who), node(first));
                format!("S5 broken at step {step}: the side effect of {who} comes before that of {first}")
            }
            Self::S6Overwritten { step, node: who, value: what, read_at } => {
                let what = what.as_ref().map_or("an operand it did not name".into(), value);
                let why =
                    read_at.map_or("which it may not".into(), |at| format!("which step {at} still reads"));
                format!("S6 broken at step {step}: {} overwrites {what}, {why}", node(who))
            }
            Self::S7OverBudget { step, node: who, memory, budget, live } => {
                let largest: Vec<String> = live.iter().take(4).map(value).collect();
                let (memory, budget, who) = (readable(*memory), readable(*budget), node(who));
                let (count, largest) = (live.len(), largest.join(", "));
                format!(
                    "S7 broken at step {step}: {memory} while {who} runs, budget {budget}; largest of {count} live: {largest}"
                )
            }
            Self::S9ReadsWhatIsLent { step, node: who, again } => {
                let what = if *again { "and runs again" } else { "after it" };
                format!(
                    "S9 broken at step {step}: {} reads what is lent until the hand-over, {what}",
                    node(who)
                )
            }
            Self::NeverRun { node: who } => format!("{} never runs", node(who)),
            Self::Unknown { .. } => self.to_string(),
        }
    }
}

/// Judges a sequence of runs: S1, S5 and S9, and that every node runs. The other laws hold by construction; for S7 see
/// [`Trace::within`].
///
/// # Errors
/// [`Illegal`] names the first law broken and the step.
pub fn judge(graph: &Graph, sequence: &Sequence) -> Result<Trace, Illegal> {
    let mut lives = Lives::new(graph, sequence.0.len());
    for (step, &node) in sequence.0.iter().enumerate() {
        lives.run(step, step, node)?;
    }
    lives.everything_ran()?;
    let Lives { newest, mut instances, targets, .. } = lives;
    for (value, instance) in newest.into_iter().enumerate() {
        if let (true, Some(instance)) = (graph.values()[value].pinned, instance) {
            instances[instance].end = sequence.0.len() - 1;
            instances[instance].fate = Fate::Kept;
        }
    }
    let mut overwrites = vec![false; sequence.0.len()];
    for (step, target) in targets.into_iter().enumerate() {
        let Some(instance) = target.map(|target| &mut instances[target]) else { continue };
        if instance.end == step && may_overwrite(graph, sequence.0[step]).is_some() {
            instance.end = step - 1;
            instance.fate = Fate::Overwritten;
            overwrites[step] = true;
        }
    }
    Ok(measure(graph, &sequence.0, instances, overwrites))
}

/// Judges runs and drops as they are written: S1 to S6 and S9, and S7 if a budget is given.
///
/// # Errors
/// [`Illegal`] names the first law broken and the step, counted in `schedule` (in runs for S7).
pub fn judge_schedule(graph: &Graph, schedule: &Schedule, budget: Option<Bytes>) -> Result<Trace, Illegal> {
    let mut lives = Lives::new(graph, schedule.0.len());
    // For each value, the step and node that overwrote its newest instance.
    let mut overwritten: Vec<Option<(usize, NodeId)>> = vec![None; graph.values().len()];
    let (mut live, mut produced_at) = (vec![false; graph.values().len()], vec![0; graph.values().len()]);
    let (mut runs, mut overwrites) = (Vec::new(), Vec::new());
    for (step, &line) in schedule.0.iter().enumerate() {
        match line {
            Step::Drop(value) => {
                let known = live.get_mut(value.index()).ok_or(Illegal::Unknown { step })?;
                if !std::mem::replace(known, false) {
                    return Err(Illegal::S2DropOfDeadValue { step, value });
                }
                if let Some(instance) = lives.newest[value.index()] {
                    // A live value exists, so there was a run, and it was dropped after the newest one.
                    lives.instances[instance].end = runs.len() - 1;
                }
            }
            Step::Run { node, again, overwrite } => {
                let about = graph.nodes().get(node.index()).ok_or(Illegal::Unknown { step })?;
                if let Some(&value) = about.reads.iter().find(|value| !live[value.index()]) {
                    if let Some((at, by)) = overwritten[value.index()] {
                        let (value, read_at) = (Some(value), Some(step));
                        return Err(Illegal::S6Overwritten { step: at, node: by, value, read_at });
                    }
                    let dropped = lives.newest[value.index()].is_some();
                    return Err(Illegal::S1OperandNotLive { step, reader: Some(node), value, dropped });
                }
                if again != lives.ran[node.index()] {
                    return Err(Illegal::S4NotReproducible { step, node, again });
                }
                if let Some(&value) = about.writes.iter().find(|value| live[value.index()]) {
                    let (produced_at, again_at) = (produced_at[value.index()], Some(step));
                    return Err(Illegal::S3NeverDropped { value, produced_at, again_at });
                }
                lives.run(step, runs.len(), node)?;
                if overwrite {
                    let refused =
                        Illegal::S6Overwritten { step, node, value: about.overwrites, read_at: None };
                    let value = may_overwrite(graph, node).ok_or(refused)?;
                    live[value.index()] = false;
                    overwritten[value.index()] = Some((step, node));
                    if let Some(instance) = lives.newest[value.index()] {
                        lives.instances[instance].end = runs.len() - 1;
                        lives.instances[instance].fate = Fate::Overwritten;
                    }
                }
                for value in &about.writes {
                    (live[value.index()], produced_at[value.index()]) = (true, step);
                    overwritten[value.index()] = None;
                }
                runs.push(node);
                overwrites.push(overwrite);
            }
        }
    }
    lives.everything_ran()?;
    for (index, value) in graph.values().iter().enumerate() {
        let id = ValueId::from_index(index);
        match (value.pinned, live[index], lives.newest[index]) {
            (true, true, Some(instance)) => {
                lives.instances[instance].end = runs.len() - 1;
                lives.instances[instance].fate = Fate::Kept;
            }
            (true, _, _) => {
                let step = schedule.0.len();
                return Err(Illegal::S1OperandNotLive { step, reader: None, value: id, dropped: true });
            }
            (false, true, _) => {
                let produced_at = produced_at[index];
                return Err(Illegal::S3NeverDropped { value: id, produced_at, again_at: None });
            }
            (false, false, _) => {}
        }
    }
    let trace = measure(graph, &runs, lives.instances, overwrites);
    if let Some(budget) = budget {
        trace.within(graph, &Sequence(runs), budget)?;
    }
    Ok(trace)
}

impl Trace {
    /// S7 for the schedule that this trace describes.
    ///
    /// # Errors
    /// [`Illegal::S7OverBudget`] at the first run over the budget, with the values live there.
    pub fn within(&self, graph: &Graph, sequence: &Sequence, budget: Bytes) -> Result<(), Illegal> {
        let Some(step) = self.memory.iter().position(|&memory| memory > budget) else { return Ok(()) };
        let (node, memory, live) = (sequence.0[step], self.memory[step], self.live(graph, step));
        Err(Illegal::S7OverBudget { step, node, memory, budget, live })
    }

    /// The values live at a step, largest first, ties by id.
    pub fn live(&self, graph: &Graph, step: usize) -> Vec<ValueId> {
        let there = self.instances.iter().filter(|instance| instance.start <= step && step <= instance.end);
        let mut live: Vec<ValueId> = there.map(|instance| instance.value).collect();
        live.sort_unstable_by_key(|&value| (std::cmp::Reverse(graph.value(value).bytes), value));
        live
    }
}

/// The value whose buffer this node may take over when nothing else needs it: declared, not pinned, as large as the
/// first output.
pub fn may_overwrite(graph: &Graph, node: NodeId) -> Option<ValueId> {
    let node = graph.node(node);
    let (over, first) = (node.overwrites?, *node.writes.first()?);
    let target = graph.value(over);
    (!target.pinned && target.bytes == graph.value(first).bytes).then_some(over)
}

/// What both judges keep while they walk: the newest instance of each value, and which nodes ran.
struct Lives<'a> {
    graph: &'a Graph,
    ran: Vec<bool>,
    newest: Vec<Option<usize>>,
    instances: Vec<Instance>,
    /// Per run, the instance that its node would overwrite.
    targets: Vec<Option<usize>>,
    last_effect: Option<NodeId>,
    handed_over: bool,
}

impl<'a> Lives<'a> {
    fn new(graph: &'a Graph, steps: usize) -> Self {
        Self {
            graph,
            ran: vec![false; graph.len()],
            newest: vec![None; graph.values().len()],
            instances: Vec::with_capacity(steps),
            targets: Vec::with_capacity(steps),
            last_effect: None,
            handed_over: false,
        }
    }

    /// Run number `run` executes `node`; `step` is the position to name in errors.
    fn run(&mut self, step: usize, run: usize, node: NodeId) -> Result<(), Illegal> {
        let about = self.graph.nodes().get(node.index()).ok_or(Illegal::Unknown { step })?;
        for &value in &about.reads {
            let missing = Illegal::S1OperandNotLive { step, reader: Some(node), value, dropped: false };
            let newest = self.newest[value.index()].ok_or(missing)?;
            self.instances[newest].end = run;
        }
        if about.once {
            self.s5_once_and_in_order(step, node)?;
        }
        let again = self.ran[node.index()];
        if about.lent && (again || self.handed_over) {
            return Err(Illegal::S9ReadsWhatIsLent { step, node, again: again && !self.handed_over });
        }
        self.handed_over |= about.hands_over;
        self.targets.push(about.overwrites.and_then(|value| self.newest[value.index()]));
        self.ran[node.index()] = true;
        for &value in &about.writes {
            self.newest[value.index()] = Some(self.instances.len());
            self.instances.push(Instance { value, start: run, end: run, fate: Fate::Dropped });
        }
        Ok(())
    }

    fn s5_once_and_in_order(&mut self, step: usize, node: NodeId) -> Result<(), Illegal> {
        if self.ran[node.index()] {
            return Err(Illegal::S5SideEffect { step, node, before: None });
        }
        // An earlier effect that comes too late is found when it does run: the last effect is then a later node.
        if let Some(last) = self.last_effect.filter(|&last| last > node) {
            return Err(Illegal::S5SideEffect { step, node: last, before: Some(node) });
        }
        self.last_effect = Some(node);
        Ok(())
    }

    fn everything_ran(&self) -> Result<(), Illegal> {
        match self.ran.iter().position(|ran| !ran) {
            Some(missing) => Err(Illegal::NeverRun { node: NodeId::from_index(missing) }),
            None => Ok(()),
        }
    }
}

/// Adds up memory and time once all lifetimes are known.
pub(crate) fn measure(
    graph: &Graph,
    runs: &[NodeId],
    instances: Vec<Instance>,
    overwrites: Vec<bool>,
) -> Trace {
    let mut change = vec![0i128; runs.len() + 1];
    let mut count = |start: usize, end: usize, bytes: Bytes| {
        change[start] += i128::from(bytes.0);
        change[end + 1] -= i128::from(bytes.0);
    };
    for instance in &instances {
        count(instance.start, instance.end, graph.value(instance.value).bytes);
    }
    let mut span: Vec<Option<(usize, usize)>> = vec![None; graph.len()];
    for (step, &node) in runs.iter().enumerate() {
        count(step, step, graph.node(node).workspace);
        span[node.index()] = Some((span[node.index()].map_or(step, |(first, _)| first), step));
    }
    for (node, span) in graph.nodes().iter().zip(span) {
        if let Some((first, last)) = span.filter(|(first, last)| first < last) {
            count(first, last, node.state);
        }
    }
    let mut live = 0;
    let memory: Vec<Bytes> = change[..runs.len()]
        .iter()
        .map(|delta| {
            live += delta;
            // Never negative: every subtraction undoes an earlier addition. At most 2^62: each value is live once.
            Bytes(u64::try_from(live).unwrap_or(u64::MAX))
        })
        .collect();
    let (mut peak, mut peak_step) = (Bytes(0), 0);
    for (step, &bytes) in memory.iter().enumerate() {
        if bytes > peak {
            (peak, peak_step) = (bytes, step);
        }
    }
    let time = runs.iter().map(|&node| graph.node(node).time).sum();
    Trace { peak, peak_step, time, memory, instances, overwrites }
}
