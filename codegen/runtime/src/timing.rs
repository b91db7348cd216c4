//! What nodes take, from the times of their runs over several steps; and what is told of many times of one thing.
//!
//! Not here: whose turn it is ([`crate::rounds`]).

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::Instant;

use rk_step::{Instr, Step};

/// The middle one, or the mean of both; NaN of nothing.
pub fn median(mut seconds: Vec<f64>) -> f64 {
    seconds.sort_by(f64::total_cmp);
    match seconds.len() {
        0 => f64::NAN,
        n if n % 2 == 1 => seconds[n / 2],
        n => (seconds[n / 2 - 1] + seconds[n / 2]) / 2.0,
    }
}

/// The median of the ratios of what was timed in the same round.
pub fn median_ratio(ours: &[f64], theirs: &[f64]) -> f64 {
    median(ours.iter().zip(theirs).map(|(ours, theirs)| ours / theirs).collect())
}

/// What every segment of a program takes, from the end of the one before, over several steps.
#[derive(Default)]
pub struct Clock {
    /// Nanoseconds of each step, by position in the program.
    samples: Vec<Vec<f64>>,
    last: Option<Instant>,
}

impl Clock {
    pub(crate) fn begin(&mut self) {
        self.last = Some(Instant::now());
    }

    /// Forgets the last run.
    pub(crate) fn forget(&mut self) {
        for samples in &mut self.samples {
            samples.pop();
        }
    }

    pub(crate) fn lap(&mut self, segment: usize) {
        let now = Instant::now();
        if self.samples.len() <= segment {
            self.samples.resize(segment + 1, Vec::new());
        }
        if let Some(last) = self.last.replace(now) {
            self.samples[segment].push((now - last).as_nanos() as f64);
        }
    }

    /// Median nanoseconds of every node: of its second runs where it has any, because those are what a plan pays for, else of its only one.
    /// Letting go of values belongs to the run before.
    pub fn nodes(self, step: &Step) -> BTreeMap<String, f64> {
        let mut runs: BTreeMap<String, Vec<f64>> = BTreeMap::new();
        let mut current = None;
        for (instr, samples) in step.program.instrs.iter().zip(self.samples) {
            if let Instr::Run(run) = instr {
                let name = &step.nodes[run.node.index()].name;
                runs.entry(name.clone()).or_default().push(0.0);
                current = Some(name);
            }
            if let Some(last) = current.and_then(|name| runs.get_mut(name)?.last_mut()) {
                *last += median(samples);
            }
        }
        let paid = |mut runs: Vec<f64>| {
            if runs.len() > 1 {
                runs.remove(0);
            }
            median(runs)
        };
        runs.into_iter().map(|(name, runs)| (name, paid(runs))).collect()
    }
}

/// What the nodes of two steps take together, those that both have: the ratio of the sums; `None` if there are none.
pub fn nodes_over(ours: &BTreeMap<String, f64>, theirs: &BTreeMap<String, f64>) -> Option<f64> {
    let both = ours.iter().filter_map(|(name, time)| Some((time, theirs.get(name)?)));
    let (ours, theirs) = both.fold((0.0, 0.0), |sums, (a, b)| (sums.0 + a, sums.1 + b));
    (theirs > 0.0).then(|| ours / theirs)
}

/// The times as `--rk-annotate-cost=times=FILE` and `--rk-fuse=times=FILE` read them: a line about the measurement, then per node its
/// name and its nanoseconds; of a node with a generated kernel also the nanoseconds of its calls instead, and their operators.
pub fn to_text(
    step: &Step,
    ours: &BTreeMap<String, f64>,
    calls: &BTreeMap<String, f64>,
    device: &str,
    threads: usize,
) -> String {
    let mut text = format!("# rk times 1: nanoseconds per node on {device}, {threads} threads\n");
    for node in &step.nodes {
        let Some(time) = ours.get(&node.name) else { continue };
        let _ = write!(text, "{}\t{time:.0}", node.name);
        if let Some(calls) = calls.get(&node.name).filter(|_| node.kernel.is_some()) {
            let operators: Vec<&str> = node.ops.iter().map(|call| call.op.as_str()).collect();
            let _ = write!(text, "\t{calls:.0}\t{}", operators.join(" "));
        }
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::{Clock, median, median_ratio, nodes_over};
    use std::collections::BTreeMap;

    use rk_step::{Instr, Node, NodeId, Plan, Program, Run, Slot, Step};

    #[test]
    fn a_node_takes_what_its_second_runs_take() {
        let node = |name: &str| Node {
            name: name.into(),
            inputs: 0,
            ops: vec![],
            outputs: vec![],
            overwrites: None,
            random: false,
            once: false,
            backward: false,
            time_ns: 0,
            workspace_bytes: 0,
            kernel: None,
        };
        let run = |node: u32, again: bool| {
            let (inputs, outputs) = (vec![], vec![]);
            let run = Run {
                node: NodeId(node),
                again,
                overwrite: false,
                inputs,
                outputs,
                state_out: None,
                state_in: None,
            };
            Instr::Run(run)
        };
        // A drop belongs to the run before it.
        let instrs =
            vec![run(0, false), run(1, false), Instr::Drop(Slot(0)), run(0, true), Instr::Drop(Slot(1))];
        let step = Step {
            name: "step".into(),
            source: None,
            device: "cpu".into(),
            settings: None,
            alignment: 64,
            plan: Plan::default(),
            args: vec![],
            constants: vec![],
            nodes: vec![node("a"), node("b")],
            program: Program { slots: 2, instrs, epilogue: vec![], outputs: vec![] },
            outputs: vec![],
            layout: None,
            library: None,
        };
        let samples = [9.0, 5.0, 1.0, 3.0, 2.0].map(|time| vec![time]).to_vec();
        let times = Clock { samples, last: None }.nodes(&step);
        assert_eq!((times["a"], times["b"]), (5.0, 6.0));
    }

    #[test]
    fn the_middle_one() {
        assert_eq!((median(vec![3.0, 1.0, 2.0]), median(vec![4.0, 1.0])), (2.0, 2.5));
    }

    #[test]
    fn nodes_that_both_have_count() {
        let times =
            |nodes: &[(&str, f64)]| nodes.iter().map(|&(name, time)| (name.to_owned(), time)).collect();
        let (ours, theirs): (BTreeMap<_, _>, BTreeMap<_, _>) =
            (times(&[("a", 1.0), ("b", 5.0)]), times(&[("b", 4.0), ("c", 9.0)]));
        assert_eq!(nodes_over(&ours, &theirs), Some(1.25));
        assert_eq!(nodes_over(&ours, &BTreeMap::new()), None);
    }

    #[test]
    fn ratios_are_of_neighbours() {
        // The machine was ten times slower in the second round: nobody is to blame.
        assert_eq!(median_ratio(&[2.0, 20.0, 2.0], &[1.0, 10.0, 1.0]), 2.0);
    }
}
