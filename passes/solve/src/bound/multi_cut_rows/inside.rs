//! G7 of [`crate::bound::multi_cut`]: what lives through an interval coexists with what runs in it.

use std::collections::BTreeSet;

use rk_plan::{NodeId, ValueId, may_overwrite};

use super::{Held, Program, Ran, Sum, sized};
use crate::milp::Var;

impl Program<'_> {
    pub(super) fn g7_inside(&mut self, k: usize, inside: &BTreeSet<NodeId>) -> Option<()> {
        let Some(next) = self.cuts.get(k + 1) else { return Some(()) };
        let cut = &self.cuts[k];
        let first = |d: NodeId| cut.ran[d.index()] == Ran::No && next.ran[d.index()] == Ran::Yes;
        let nodes: Vec<(NodeId, Option<Var>)> = inside
            .iter()
            .filter_map(|&d| match cut.again.get(&d) {
                Some(&y) => Some((d, Some(y))),
                None => (first(d) && d != next.at).then_some((d, None)),
            })
            .collect();
        if nodes.is_empty() {
            return Some(());
        }
        let kept = self.kept_through(k);
        for (node, again) in nodes {
            let about = self.graph.node(node);
            let over = may_overwrite(self.graph, node);
            let touched = about.reads.iter().filter(|&&value| Some(value) != over).chain(&about.writes);
            let own: u64 =
                touched.map(|&value| self.graph.value(value).bytes.0).sum::<u64>() + about.workspace.0;
            let own = i64::try_from(own).ok()?;
            let mut room = i64::try_from(self.budget.0).ok()?;
            let mut terms: Vec<(Var, i64)> = again.map(|y| (y, own)).into_iter().collect();
            if again.is_none() {
                room -= own;
            }
            for &(value, c) in &kept {
                if about.reads.contains(&value) || about.writes.contains(&value) {
                    continue;
                }
                let bytes = i64::try_from(self.graph.value(value).bytes.0).ok()?;
                match c {
                    Some(c) => terms.push((c, bytes)),
                    None => room -= bytes,
                }
            }
            self.milp.at_most(terms, room);
        }
        Some(())
    }

    /// `c[k][v]`; no variable: held for certain.
    fn kept_through(&mut self, k: usize) -> Vec<(ValueId, Option<Var>)> {
        let mut through: Vec<(ValueId, Held, Sum)> = Vec::new();
        let cut = &self.cuts[k];
        for (&value, &held) in self.cuts[k + 1].held.iter().filter(|(value, _)| cut.held.contains_key(value))
        {
            let producer = self.graph.value(value).producer;
            let again = cut.again.get(&producer).map_or(Sum::default(), |&y| Sum::var(y));
            if let Some(first) = self.first(k, producer).filter(|_| sized(self.graph, value)) {
                through.push((value, held, again.plus(first)));
            }
        }
        let mut kept = Vec::with_capacity(through.len());
        for (value, held, made) in through {
            let c = match held {
                Held::Surely if made.terms.is_empty() && made.number == 0 => None,
                Held::If(h) if made.terms.is_empty() && made.number == 0 => Some(h),
                held => {
                    let c = self.milp.binary(0);
                    let held = match held {
                        Held::Surely => Sum::number(1),
                        Held::If(h) => Sum::var(h),
                    };
                    self.require(held, Sum::var(c).plus(made));
                    Some(c)
                }
            };
            kept.push((value, c));
        }
        kept
    }
}
