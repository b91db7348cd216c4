//! A step over time: what lies in memory during each run, why, and from when to when.

use rk_plan::{
    Bytes, Direction, Graph, Kind, NodeId, Sequence, Time, Trace, Transfer, TransferTrace, base_trace,
};

/// Why something is in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Category {
    /// Made by forward, and read by backward.
    Saved,
    /// Made by a run that is not the first of its node.
    Recomputed,
    /// On its way to host memory or back, and needed by no run meanwhile.
    Transfers,
    /// Made and freed in forward.
    Activations,
    /// Made by backward.
    Gradients,
    /// What a kernel needs while it runs.
    Workspace,
    /// States of generators that wait for a second run.
    States,
}

impl Category {
    /// All of them, in the order in which they are stacked: from the darkest to the lightest.
    pub const ALL: [Self; 7] = [
        Self::Saved,
        Self::Recomputed,
        Self::Transfers,
        Self::Activations,
        Self::Gradients,
        Self::Workspace,
        Self::States,
    ];

    /// One word, for programs.
    pub fn name(self) -> &'static str {
        match self {
            Self::Saved => "saved",
            Self::Recomputed => "recomputed",
            Self::Transfers => "transfers",
            Self::Activations => "activations",
            Self::Gradients => "gradients",
            Self::Workspace => "workspace",
            Self::States => "states",
        }
    }

    /// For people.
    pub fn meaning(self) -> &'static str {
        match self {
            Self::Saved => "saved for backward",
            Self::Recomputed => "made again",
            Self::Transfers => "on the way to host memory or back",
            Self::Activations => "activations",
            Self::Gradients => "gradients",
            Self::Workspace => "workspace of kernels",
            Self::States => "states of generators",
        }
    }

    /// Their lightness grows in equal steps, so that they can be told apart in grey.
    pub fn colour(self) -> &'static str {
        match self {
            Self::Saved => "#1f3f66",
            Self::Recomputed => "#a8432f",
            Self::Transfers => "#2f8577",
            Self::Activations => "#5f9fd6",
            Self::Gradients => "#e5b545",
            Self::Workspace => "#cfcfcf",
            Self::States => "#ececec",
        }
    }
}

/// A time during which something is in memory, for one reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Life {
    /// The value's, or that of the node whose workspace or state it is.
    pub name: String,
    /// The size.
    pub bytes: Bytes,
    /// Who makes it.
    pub node: NodeId,
    /// The first run during which it is there.
    pub first: usize,
    /// The last one.
    pub last: usize,
    /// Why.
    pub category: Category,
    /// It was not made at `first`, but came from host memory.
    pub fetched: bool,
}

/// The runs of a step in their order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Timeline {
    /// The node of each run.
    pub runs: Vec<NodeId>,
    /// The bytes in use during each run, as the judge counts them.
    pub memory: Vec<Bytes>,
    /// When each run may begin, and at last when the step ends.
    pub starts: Vec<Time>,
    /// All that is ever in memory.
    pub lives: Vec<Life>,
    /// The bytes in host memory during each run; empty without transfers.
    pub host: Vec<Bytes>,
}

impl Timeline {
    /// The step as it is.
    pub fn base(graph: &Graph) -> Self {
        Self::of(graph, &Sequence::base(graph), &base_trace(graph))
    }

    /// A sequence of runs, with what the judge said of it.
    pub fn of(graph: &Graph, sequence: &Sequence, trace: &Trace) -> Self {
        let mut starts = vec![Time(0)];
        for node in &sequence.0 {
            starts.push(*starts.last().unwrap_or(&Time(0)) + graph.node(*node).time);
        }
        let host = Vec::new();
        let lives = lives(graph, sequence, trace, &[]);
        Self { runs: sequence.0.clone(), memory: trace.memory.clone(), starts, lives, host }
    }

    /// The same with transfers. A run that waits for one is drawn from the moment at which it could begin.
    pub fn with_transfers(
        graph: &Graph,
        sequence: &Sequence,
        transfers: &[Transfer],
        trace: &TransferTrace,
    ) -> Self {
        let mut starts = trace.passed.clone();
        if let Some(end) = starts.last_mut() {
            *end = (*end).max(trace.makespan);
        }
        Self {
            runs: sequence.0.clone(),
            memory: trace.device.memory.clone(),
            starts,
            lives: lives(graph, sequence, &trace.device, transfers),
            host: trace.host_memory.clone(),
        }
    }

    /// Per category, in the order of [`Category::ALL`], the bytes in use during each run.
    pub fn stacks(&self) -> Vec<Vec<u64>> {
        let stack = |category: Category| {
            // Sums wrap around below zero on the way and not at the end.
            let mut changes = vec![0u64; self.runs.len() + 1];
            for life in self.lives.iter().filter(|life| life.category == category) {
                changes[life.first] = changes[life.first].wrapping_add(life.bytes.0);
                changes[life.last + 1] = changes[life.last + 1].wrapping_sub(life.bytes.0);
            }
            changes.pop();
            let mut sum = 0u64;
            changes.iter_mut().for_each(|change| {
                sum = sum.wrapping_add(*change);
                *change = sum;
            });
            changes
        };
        Category::ALL.map(stack).into()
    }

    /// The first run during which most is in use.
    pub fn peak(&self) -> usize {
        (0..self.runs.len()).rev().max_by_key(|&run| self.memory[run]).unwrap_or(0)
    }

    /// What is in memory during a run, the largest first.
    pub fn during(&self, run: usize) -> Vec<&Life> {
        let mut there: Vec<&Life> =
            self.lives.iter().filter(|life| life.first <= run && run <= life.last).collect();
        there.sort_by_key(|life| (std::cmp::Reverse(life.bytes), life.first));
        there
    }
}

/// The runs of each node.
fn runs_of(graph: &Graph, sequence: &Sequence) -> Vec<Vec<usize>> {
    let mut runs = vec![Vec::new(); graph.len()];
    for (run, node) in sequence.0.iter().enumerate() {
        runs[node.index()].push(run);
    }
    runs
}

fn lives(graph: &Graph, sequence: &Sequence, trace: &Trace, transfers: &[Transfer]) -> Vec<Life> {
    let runs = runs_of(graph, sequence);
    let is_backward = |node: NodeId| graph.node(node).kind == Kind::Backward;
    let turn = sequence.0.iter().position(|&node| is_backward(node)).unwrap_or(sequence.0.len());
    let mut lives = Vec::new();
    for stay in &trace.instances {
        let value = graph.value(stay.value);
        if value.bytes.0 == 0 || stay.end < stay.start {
            continue;
        }
        let node = value.producer;
        let fetched = sequence.0.get(stay.start) != Some(&node);
        let made_by = if fetched { None } else { Some(stay.start) };
        let category = if made_by.is_some_and(|run| Some(&run) != runs[node.index()].first()) {
            Category::Recomputed
        } else if is_backward(node) {
            Category::Gradients
        } else if (fetched || stay.start < turn) && turn <= stay.end {
            Category::Saved
        } else {
            Category::Activations
        };
        let life = |first: usize, last: usize, category: Category, fetched: bool| Life {
            name: value.name.clone(),
            bytes: value.bytes,
            node,
            first,
            last,
            category,
            fetched,
        };
        let mine = |direction: Direction| {
            transfers.iter().filter(move |one| one.value == stay.value && one.direction == direction)
        };
        // On its way back until the fetch ends; on its way out from the last use to the end of the offload.
        let arrived = mine(Direction::Fetch)
            .find(|one| fetched && one.start == stay.start)
            .map_or(stay.start, |one| one.end.min(stay.end + 1));
        let uses = graph.readers(stay.value).iter().flat_map(|reader| &runs[reader.index()]);
        let uses = uses.filter(|&&run| stay.start <= run && run <= stay.end).chain(&made_by);
        let used = uses.max().map_or(arrived, |&run| run + 1);
        let leaves = mine(Direction::Offload).any(|one| one.start >= stay.start && one.end == stay.end + 1);
        let left = if leaves { used.clamp(arrived, stay.end + 1) } else { stay.end + 1 };
        for (first, end, category) in [
            (stay.start, arrived, Category::Transfers),
            (arrived, left, category),
            (left, stay.end + 1, Category::Transfers),
        ] {
            if first < end {
                lives.push(life(first, end - 1, category, fetched && first == stay.start));
            }
        }
    }
    for (id, node) in graph.node_ids().zip(graph.nodes()) {
        let mut add = |what: &str, bytes, first, last, category| {
            let name = format!("{}, {what}", node.name);
            lives.push(Life { name, bytes, node: id, first, last, category, fetched: false });
        };
        if let (true, [first, .., last]) = (node.state.0 > 0, runs[id.index()].as_slice()) {
            add("state", node.state, *first, *last, Category::States);
        }
        for &run in runs[id.index()].iter().filter(|_| node.workspace.0 > 0) {
            add("workspace", node.workspace, run, run, Category::Workspace);
        }
    }
    lives
}
