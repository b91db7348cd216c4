//! From a held set to a sequence: what a cut says at one instant, played out.
//!
//! Emit an order up to the cut. Then walk on; before each node, run again what it reads and the cut did not hold, operands
//! first, just in time. Values live to their last use by definition. The result is legal; its peak is usually a little
//! over the budget, because the cut sees one instant only, and gap eviction repairs that.
//!
//! Source: docs/design/planner.md, 4.2.

use crate::state::flat_graph::FlatGraph;

/// The sequence that follows `order` (every node once, legal) up to and including `at`, where the values in `evicted` are
/// let go, and rebuilds those that are read afterwards. Values of nodes with side effects are kept.
pub(crate) fn replay(model: &FlatGraph, order: &[u32], at: u32, evicted: &[u32]) -> Vec<u32> {
    let mut absent = vec![false; model.values()];
    let mut sequence = Vec::with_capacity(order.len() * 3 / 2);
    let (mut passed, mut ran) = (false, vec![false; model.len()]);
    let mut stack: Vec<(u32, Call)> = Vec::new();
    for &node in order {
        ran[node as usize] = true;
        if !passed {
            sequence.push(node);
        } else {
            stack.push((node, Call::First));
        }
        while let Some((node, call)) = stack.pop() {
            if call == Call::Again && !model.writes.row(node).iter().any(|&value| absent[value as usize]) {
                // Another reader has asked for it in the meantime.
                continue;
            }
            if call != Call::Ready && model.reads.row(node).iter().any(|&value| absent[value as usize]) {
                stack.push((node, Call::Ready));
                // Pushed in descending order, so that they run in ascending order.
                for &value in model.reads.row(node).iter().rev().filter(|&&value| absent[value as usize]) {
                    stack.push((model.producer[value as usize], Call::Again));
                }
                continue;
            }
            sequence.push(node);
            model.writes.row(node).iter().for_each(|&value| absent[value as usize] = false);
        }
        if node == at {
            // A value that the order has not made yet is made by the order itself.
            passed = true;
            for &value in evicted {
                let producer = model.producer[value as usize];
                absent[value as usize] = ran[producer as usize] && !model.once[producer as usize];
            }
        }
    }
    sequence
}

/// Why a node stands on the stack.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Call {
    /// The order runs it.
    First,
    /// Somebody reads an absent output of it.
    Again,
    /// Its operands have been rebuilt.
    Ready,
}
