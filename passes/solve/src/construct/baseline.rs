//! The plan that keeps nothing: what can run again does, just before its use.
//!
//! Walk the given order. Before each node rebuild every operand from scratch, the operands of operands first, and let go
//! of everything but those operands afterwards. Its time can be exponential in the depth, so the walk gives up past a
//! limit of runs; it is a baseline, and the start from which small peaks are looked for.
//!
//! The other baseline, keep-all, is `Sequence::base`.

use crate::portfolio::incumbent::Incumbent;
use crate::portfolio::solver::Solver;
use crate::state::flat_graph::FlatGraph;

/// Gives up beyond this many runs per node.
const MOST_RUNS_PER_NODE: usize = 64;

/// Offers the drop-all sequence if it is not absurdly long.
pub(crate) fn drop_all(task: &mut Incumbent) {
    if let Some(nodes) = drop_all_sequence(&task.model) {
        task.offer(&nodes, Solver::DropAll);
    }
}

/// Every operand is rebuilt before each use, unless the node just before made it.
pub(crate) fn drop_all_sequence(model: &FlatGraph) -> Option<Vec<u32>> {
    let limit = MOST_RUNS_PER_NODE * model.len();
    let mut sequence: Vec<u32> = Vec::new();
    let mut stack: Vec<(u32, bool)> = Vec::new();
    let mut ran = vec![false; model.len()];
    for node in 0..model.len() as u32 {
        if std::mem::replace(&mut ran[node as usize], true) {
            continue;
        }
        stack.push((node, false));
        // The values kept since they were made for the node that is being prepared.
        while let Some((node, ready)) = stack.pop() {
            if ready {
                sequence.push(node);
                if sequence.len() > limit {
                    return None;
                }
                continue;
            }
            stack.push((node, true));
            let last = sequence.last().copied();
            for &value in model.reads.row(node).iter().rev() {
                let producer = model.producer[value as usize];
                // Side effects happen once; empty values cost nothing to keep.
                let keep = model.once[producer as usize]
                    || model.bytes[value as usize] == 0
                    || last == Some(producer);
                if !keep
                    && !stack
                        .iter()
                        .rev()
                        .take_while(|(_, ready)| !ready)
                        .any(|(other, _)| *other == producer)
                {
                    stack.push((producer, false));
                }
            }
        }
    }
    Some(sequence)
}
