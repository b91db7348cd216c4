//! Which merges are not worth it, from times of kernels and of the calls that they stand for.
//!
//! What a group of nodes becomes is known when all of it is merged, and only whole kernels were timed. So the module is fused on a copy;
//! the kernels of it that were slower are traced back to the merges that made them, and these are forbidden, until no kernel of the copy
//! is known to be slower. A group that nobody has timed counts as faster: time it, and run the pass again with the new file.

use std::collections::{BTreeSet, HashSet};

use rk_dialect::diagnostic::{Diagnostic, Failure};
use rk_dialect::ops::{self, NodeOp, StepOp};
use rk_dialect::pass::PassContext;
use rk_dialect::{Context, Stage};

use super::{Fusion, Merge};
use crate::times::Times;

/// Pairs of nodes, the first of which is not put in front of the second.
pub(super) type Apart = BTreeSet<(String, String)>;

/// The merges of all steps of the module that make kernels known to be slower than their calls.
///
/// # Errors
/// When the copy of the module cannot be read: a bug in rk.
pub(super) fn apart<'c>(cx: &PassContext<'c>, exact: bool, times: &Times) -> Result<Apart, Failure<'c>> {
    let mut apart = Apart::new();
    if times.is_empty() {
        return Ok(apart);
    }
    let text = cx.module().to_string();
    loop {
        let context = Context::new();
        let copy = context.parse(&text, "copy").map_err(|errors| {
            Diagnostic::error(
                cx.module().location(),
                format!("a copy of the module is refused: {}", errors[0]),
            )
        })?;
        let body = copy.op().body().map(|block| block.ops()).unwrap_or_default();
        let steps = body.into_iter().filter_map(StepOp::of).filter(|step| step.stage() == Stage::Simplified);
        let before = apart.len();
        for step in steps {
            let forbidden = apart.clone();
            let mut fusion = Fusion::of(step, copy.op(), exact, &forbidden);
            fusion.run();
            for node in ops::nodes(copy.op()).into_iter().filter(|node| node.op().get("rk.kernel").is_some())
            {
                if times.is_slower(node.symbol(), &operators(node)) {
                    apart.extend(dear(&fusion.merges, node.symbol()));
                }
            }
        }
        // Each round forbids a merge, and there are only so many.
        if apart.len() == before {
            return Ok(apart);
        }
    }
}

/// The operators of a node, as `rk-run --times` lists them.
pub(super) fn operators(node: NodeOp<'_>) -> String {
    let operators: Vec<&str> = node.calls().into_iter().map(|call| call.operator()).collect();
    operators.join(" ")
}

/// The merges that made this node, but for those that spare memory.
fn dear<'a>(merges: &'a [Merge], node: &'a str) -> impl Iterator<Item = (String, String)> {
    let mut members = HashSet::from([node]);
    // From the last node to the first: whoever is merged into a member has been merged later than the member itself.
    let made: Vec<&Merge> = merges.iter().rev().collect();
    loop {
        let before = members.len();
        members.extend(
            made.iter()
                .filter(|merge| members.contains(merge.second.as_str()))
                .map(|merge| merge.first.as_str())
                .collect::<Vec<_>>(),
        );
        if members.len() == before {
            break;
        }
    }
    made.into_iter()
        .filter(move |merge| members.contains(merge.second.as_str()) && !merge.saves)
        .map(|merge| (merge.first.clone(), merge.second.clone()))
}
