//! The drops of a sequence, written out where the judge says that lives end.

use crate::graph::Graph;
use crate::judge::{Fate, Illegal, judge};
use crate::schedule::{Schedule, Sequence, Step};

impl Schedule {
    /// Writes out a sequence: every value is dropped right after its last use, buffers are handed over where they can be.
    ///
    /// # Errors
    /// [`Illegal`] when the sequence is not legal.
    pub fn from_sequence(graph: &Graph, sequence: &Sequence) -> Result<Self, Illegal> {
        let trace = judge(graph, sequence)?;
        let mut drops = vec![Vec::new(); sequence.0.len()];
        for instance in trace.instances.iter().filter(|instance| instance.fate == Fate::Dropped) {
            drops[instance.end].push(instance.value);
        }
        let mut ran = vec![false; graph.len()];
        let mut steps = Vec::with_capacity(2 * sequence.0.len());
        for (step, &node) in sequence.0.iter().enumerate() {
            let again = std::mem::replace(&mut ran[node.index()], true);
            steps.push(Step::Run { node, again, overwrite: trace.overwrites[step] });
            drops[step].sort_unstable();
            steps.extend(drops[step].iter().map(|&value| Step::Drop(value)));
        }
        Ok(Self(steps))
    }
}
