//! What a step has on loan: arguments and results marked `rk.lent`, which the caller may change as soon as the outputs are in its hands.
//!
//! The hand-over is the call `rk.tangents` (docs/ir.md, "Steps that the caller interrupts"). Whoever prints a step marks as lent what nobody
//! will notice when it changes: what the backward pass does not read, or reads without a version check.
//!
//! Not here: the law itself (S9 in `verify`), and which nodes a planner may run again (`rk-plan`).

use std::collections::{BTreeMap, HashMap, HashSet};

use crate::ops::{Execution, NodeOp, StepOp};
use crate::raw::{Attr, Value};
use crate::schedule::{base, is_production};

/// The call in the middle of a step where the caller gets the outputs and gives their gradients.
pub const TANGENTS: &str = "rk.tangents.default";
/// The mark on arguments and results.
pub(crate) const LENT: &str = "rk.lent";

/// What is lent to a step, and until when.
pub struct Loans<'c> {
    lent: HashSet<Value<'c>>,
    /// The place of the hand-over among the nodes in their original order.
    pub hand_over: Option<usize>,
}

impl<'c> Loans<'c> {
    /// Reads the marks of a step with these nodes.
    pub fn of(step: StepOp<'c>, nodes: &BTreeMap<&'c str, (usize, NodeOp<'c>)>) -> Self {
        let is_marked = |attribute: Option<Attr<'c>>| attribute.is_some();
        let arguments = step.arguments().into_iter().enumerate();
        let arguments = arguments.filter(|(at, _)| is_marked(step.argument_attr(*at, LENT)));
        let results = step.returned().into_iter().enumerate();
        let results = results.filter(|(at, _)| is_marked(step.result_attr(*at, LENT)));
        let lent: HashSet<_> = arguments.chain(results).map(|(_, value)| base(value)).collect();
        let is_hand_over = |node: NodeOp<'c>| node.calls().iter().any(|call| call.operator() == TANGENTS);
        let mut hand_over = None;
        if !lent.is_empty() {
            hand_over = nodes.values().find(|(_, node)| is_hand_over(*node)).map(|(place, _)| *place);
        }
        Self { lent, hand_over }
    }

    /// What a run of a node reads on loan, if anything. An argument that it only writes is not read, nor are running
    /// statistics that it updates.
    pub fn read_by(&self, run: Execution<'c>, node: NodeOp<'c>) -> Option<Value<'c>> {
        let inputs = run.inputs();
        if !inputs.iter().any(|input| self.lent.contains(&base(*input))) {
            return None;
        }
        let body = node.body()?.arguments();
        let outside: HashMap<Value<'c>, Value<'c>> = body.into_iter().zip(inputs).collect();
        for call in node.calls().into_iter().filter(|call| !call.is_view()) {
            let written: Vec<usize> = call.writes().into_iter().chain(call.effects()).collect();
            for (index, operand) in call.op().operands().into_iter().enumerate() {
                let value = outside.get(&base(operand)).map(|value| base(*value));
                let Some(value) = value.filter(|value| self.lent.contains(value)) else { continue };
                // What overwrites a value of the step works on a copy of it, and reads it for that.
                if is_production(value) || !written.contains(&index) {
                    return Some(value);
                }
            }
        }
        None
    }
}
