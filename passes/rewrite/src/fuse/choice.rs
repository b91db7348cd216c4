//! Which merges are not worth it, from times of kernels and of the calls that they stand for.
//!
//! What a group of nodes becomes is known when all of it is merged, and only whole kernels were timed. So the module is fused on a copy;
//! the kernels of it that were slower are traced back to the merges that made them, and these are forbidden, until no kernel of the copy
//! is known to be slower. A group that nobody has timed counts as faster: time it, and run the pass again with the new file.
//!
//! A merge that spares memory may cost what the planner would pay for that memory otherwise: a second run of the node that is merged. The
//! nodes that a layer norm's backward call was taken apart into are compared as a whole, with the call and what was merged into them.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use rk_dialect::diagnostic::{Diagnostic, Failure};
use rk_dialect::ops::{self, StepOp};
use rk_dialect::pass::PassContext;
use rk_dialect::{Context, Stage};

use super::{Fusion, Merge, norms};
use crate::times::{Times, operators};

/// What is left alone.
#[derive(Default)]
pub(super) struct Apart {
    /// Pairs of nodes, the first of which is not put in front of the second.
    pub merges: BTreeSet<(String, String)>,
    /// Backward calls of layer norms that are not taken apart.
    pub norms: BTreeSet<String>,
}

impl Apart {
    /// How much that is.
    pub fn len(&self) -> usize {
        self.merges.len() + self.norms.len()
    }
}

/// The merges of all steps of the module that make kernels known to be slower than their calls.
///
/// # Errors
/// When the copy of the module cannot be read: a bug in rk.
pub(super) fn apart<'c>(
    cx: &PassContext<'c>,
    exact: bool,
    norms: bool,
    times: &Times,
) -> Result<Apart, Failure<'c>> {
    let mut apart = Apart::default();
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
        let mut dear = Apart::default();
        for step in steps {
            let split =
                if norms { norms::split(step, copy.op(), &apart.norms, copy.eraser()) } else { Vec::new() };
            let mut fusion = Fusion::of(step, copy.op(), copy.eraser(), exact, &apart);
            fusion.run();
            let kernels = ops::nodes(copy.op()).into_iter().filter(|node| node.has_kernel());
            let kernels: BTreeMap<&str, String> =
                kernels.map(|node| (node.symbol(), operators(node))).collect();
            for (node, operators) in &kernels {
                if let Some(more) = times.slower_by(node, operators) {
                    dear.merges.extend(not_worth(&fusion.merges, node, more, times));
                }
            }
            let whole = |norm: &String| slower_as_a_whole(norm, &kernels, &fusion.merges, times);
            dear.norms.extend(split.into_iter().filter(whole));
        }
        apart.merges.append(&mut dear.merges);
        apart.norms.append(&mut dear.norms);
        // Each round forbids a merge, and there are only so many.
        if apart.len() == before {
            return Ok(apart);
        }
    }
}

/// The merges that made this node, which is slower by `more`, but for those that spare memory at no higher price than a second run.
fn not_worth<'a>(
    merges: &'a [Merge],
    node: &'a str,
    more: u64,
    times: &'a Times,
) -> impl Iterator<Item = (String, String)> {
    let members = members(merges, node);
    let cheap =
        move |merge: &Merge| merge.saves && times.of_calls(&merge.first).is_none_or(|again| more <= again);
    merges
        .iter()
        .filter(move |merge| members.contains(merge.second.as_str()) && !cheap(merge))
        .map(|merge| (merge.first.clone(), merge.second.clone()))
}

/// Whether the parts of a norm's backward call were slower than the call and the nodes that were merged into them. Not known, and so no, unless
/// all were timed, or where a part was merged into another node.
fn slower_as_a_whole(norm: &str, kernels: &BTreeMap<&str, String>, merges: &[Merge], times: &Times) -> bool {
    let (mut ours, mut calls) = (0, HashSet::from([norm]));
    for part in norms::PARTS.map(|part| format!("{norm}.{part}")) {
        let Some((part, operators)) = kernels.get_key_value(part.as_str()) else {
            // A gradient that nobody reads has no part.
            if merges.iter().any(|merge| merge.first == part) {
                return false;
            }
            continue;
        };
        let Some(time) = times.of_kernel(part, operators) else { return false };
        ours += time;
        calls.extend(members(merges, part).into_iter().filter(|member| member != part));
    }
    let theirs: Option<u64> = calls.into_iter().map(|call| times.of_calls(call)).sum();
    theirs.is_some_and(|theirs| ours > theirs)
}

/// The node, and all that were merged into it.
fn members<'a>(merges: &'a [Merge], node: &'a str) -> HashSet<&'a str> {
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
            return members;
        }
    }
}
