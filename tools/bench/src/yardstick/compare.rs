//! What changed between two files of rows, by family.

use std::collections::BTreeMap;

use super::rows::{Key, Row, Rows};
use crate::report::Table;

/// Points that the mean of a family may lose.
const FAMILY: f64 = 0.05;
/// Points that a cell may lose.
const CELL: f64 = 0.3;
/// The share of proofs that must remain.
const PROOFS: f64 = 0.95;

/// Cells with something in common.
#[derive(Default)]
struct Group {
    cells: usize,
    /// Points that were lost, of each cell with two plans.
    lost: Vec<f64>,
    /// Milliseconds to first plans, before and after, where there are both.
    first: (f64, f64),
    /// Arena over peak, likewise.
    arena: (f64, f64),
    proofs: (usize, usize),
    worst: Option<(f64, Key)>,
}

impl Group {
    fn add(&mut self, before: &Row, after: &Row) {
        self.cells += 1;
        self.proofs.0 += usize::from(before.is_proven());
        self.proofs.1 += usize::from(after.is_proven());
        add(&mut self.first, before.first, after.first);
        add(&mut self.arena, before.arena, after.arena);
        if let (Some(old), Some(new)) = (before.overhead, after.overhead) {
            let lost = new - old;
            self.lost.push(lost);
            if self.worst.as_ref().is_none_or(|(worst, _)| lost > *worst) {
                self.worst = Some((lost, after.key.clone()));
            }
        }
    }

    fn mean(&self) -> f64 {
        self.lost.iter().sum::<f64>() / self.lost.len().max(1) as f64
    }

    fn row(&self, name: &str) -> Vec<String> {
        let plans = self.lost.len().max(1) as f64;
        let pair = |(old, new): (f64, f64), digits: usize| {
            format!("{:.digits$} → {:.digits$}", old / plans, new / plans)
        };
        let worst =
            self.worst.as_ref().map_or("–".into(), |(lost, key)| format!("{lost:+.4} {}", named(key)));
        vec![
            name.into(),
            self.cells.to_string(),
            format!("{:+.4}", self.mean()),
            worst,
            pair(self.first, 1),
            pair(self.arena, 4),
            format!("{} → {}", self.proofs.0, self.proofs.1),
        ]
    }
}

fn add(sums: &mut (f64, f64), old: Option<f64>, new: Option<f64>) {
    if let (Some(old), Some(new)) = (old, new) {
        *sums = (sums.0 + old, sums.1 + new);
    }
}

fn named(Key { graph, budget, limit, .. }: &Key) -> String {
    format!("{graph} {budget}% {limit}s")
}

/// Two files, cell by cell.
pub struct Comparison {
    families: BTreeMap<String, Group>,
    limits: BTreeMap<String, Group>,
    all: Group,
    /// Cells that had a plan and have none.
    gone: Vec<Key>,
    /// Cells without a second row.
    missing: usize,
}

impl Comparison {
    pub fn of(before: &Rows, after: &Rows) -> Self {
        let (families, limits) = (BTreeMap::new(), BTreeMap::new());
        let mut comparison = Self { families, limits, all: Group::default(), gone: Vec::new(), missing: 0 };
        for old in &before.rows {
            let Some(new) = after.find(&old.key) else {
                comparison.missing += 1;
                continue;
            };
            if old.overhead.is_some() && new.overhead.is_none() {
                comparison.gone.push(old.key.clone());
            }
            comparison.families.entry(old.key.family.clone()).or_default().add(old, new);
            comparison.limits.entry(format!("{} s", old.key.limit)).or_default().add(old, new);
            comparison.all.add(old, new);
        }
        comparison
    }

    /// One row per family, one per time limit, one for all.
    pub fn to_markdown(&self) -> String {
        let mut table = Table::new([
            "family",
            "cells",
            "overhead, points more",
            "worst cell",
            "first plan, ms",
            "arena/peak",
            "proofs",
        ]);
        let groups = self.families.iter().chain(&self.limits).map(|(name, group)| (name.as_str(), group));
        for (name, group) in groups.chain([("all", &self.all)]) {
            table.row(group.row(name));
        }
        table.to_markdown()
    }

    /// Every reason not to make the change.
    pub fn complaints(&self, part: bool) -> Vec<String> {
        let mut complaints = Vec::new();
        if self.missing > 0 && !part {
            complaints.push(format!("{} cells were not measured", self.missing));
        }
        if self.all.cells == 0 {
            complaints.push("no cell is in both files".into());
        }
        for (family, group) in self.families.iter().filter(|(_, group)| group.mean() > FAMILY) {
            complaints.push(format!("{family} loses {:.4} points in the mean", group.mean()));
        }
        for (family, group) in &self.families {
            if let Some((lost, key)) = group.worst.as_ref().filter(|(lost, _)| *lost > CELL) {
                let more = group.lost.iter().filter(|lost| **lost > CELL).count() - 1;
                complaints.push(format!("{} loses {lost:.4} points ({more} more of {family})", named(key)));
            }
        }
        complaints.extend(self.gone.iter().map(|key| format!("{} has no plan", named(key))));
        let (old, new) = self.all.proofs;
        if (new as f64) < PROOFS * old as f64 {
            complaints.push(format!("{new} proofs in place of {old}"));
        }
        complaints
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Overheads of cells of one family; none has no plan. The first `proven` are proven.
    fn rows(overheads: &[Option<f64>], proven: usize) -> Rows {
        let row = |(at, overhead): (usize, &Option<f64>)| Row {
            key: Key { family: "unet".into(), graph: format!("unet_{at}"), budget: 50, limit: "1".into() },
            nodes: 10,
            status: if at < proven { "optimal" } else { "feasible" }.into(),
            first: Some(1.0),
            overhead: *overhead,
            bound: 0.0,
            arena: Some(1.0),
            seconds: 1.0,
        };
        Rows { head: Vec::new(), rows: overheads.iter().enumerate().map(row).collect() }
    }

    fn complaints(before: &Rows, after: &Rows) -> Vec<String> {
        Comparison::of(before, after).complaints(false)
    }

    #[test]
    fn each_kind_of_loss_is_a_complaint_of_its_own() {
        let before = rows(&[Some(1.0); 10], 10);
        assert_eq!(complaints(&before, &before), [""; 0]);
        assert_eq!(complaints(&before, &rows(&[Some(1.04); 10], 10)), [""; 0]);
        let slower = rows(&[Some(1.06); 10], 10);
        assert_eq!(complaints(&before, &slower), ["unet loses 0.0600 points in the mean"]);
        let mut uneven = [Some(0.9); 10];
        uneven[3] = Some(1.4);
        let one = complaints(&before, &rows(&uneven, 10));
        assert_eq!(one, ["unet_3 50% 1s loses 0.4000 points (0 more of unet)"]);
        uneven[3] = None;
        assert_eq!(complaints(&before, &rows(&uneven, 10)), ["unet_3 50% 1s has no plan"]);
        assert_eq!(complaints(&before, &rows(&[Some(1.0); 10], 9)), ["9 proofs in place of 10"]);
    }

    #[test]
    fn cells_that_were_not_measured_are_not_passed_over() {
        let (all, half) = (rows(&[Some(1.0); 4], 4), rows(&[Some(1.0); 2], 2));
        assert_eq!(complaints(&all, &half), ["2 cells were not measured"]);
        assert_eq!(Comparison::of(&all, &half).complaints(true), [""; 0]);
        let none = rows(&[], 0);
        assert_eq!(Comparison::of(&all, &none).complaints(true), ["no cell is in both files"]);
    }
}
