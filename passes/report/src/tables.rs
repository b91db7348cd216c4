//! What a page says in words: numbers, what holds the peak, budgets, modules, what runs again, transfers.

use std::fmt::Write as _;

use rk_plan::{Bytes, Direction, Graph, Node, NodeId, Time, readable};

use crate::curve::Curve;
use crate::numbers::{Unit, escaped, percent, table};
use crate::report::Report;
use crate::timeline::{Category, Timeline};

/// Values in the list of what holds the peak, and transfers in theirs.
const MOST_ROWS: usize = 15;

/// What the tables of one page have in common.
pub(crate) struct Tables<'a> {
    pub report: &'a Report<'a>,
    pub unit: &'a Unit,
    pub before: &'a Timeline,
    pub after: &'a Timeline,
}

/// The module of a node: as its author said, or what its name has before the last dot.
pub(crate) fn module(node: &Node) -> &str {
    if node.module.is_empty() {
        node.name.rsplit_once('.').map_or("", |(module, _)| module)
    } else {
        &node.module
    }
}

/// A module's path up to its first number, from which on modules repeat.
fn outer(module: &str) -> &str {
    let mut end = 0;
    for word in module.split('.') {
        end += word.len() + 1;
        if !word.is_empty() && word.bytes().all(|letter| letter.is_ascii_digit()) {
            return &module[..end - 1];
        }
    }
    module
}

impl Tables<'_> {
    fn graph(&self) -> &Graph {
        self.report.graph
    }

    fn base_time(&self) -> Time {
        self.graph().total_time()
    }

    fn more(&self, time: Time) -> f64 {
        percent(time.0 as f64 - self.base_time().0 as f64, self.base_time())
    }

    fn peak(timeline: &Timeline) -> Bytes {
        timeline.memory.iter().copied().max().unwrap_or_default()
    }

    /// One sentence.
    pub fn summary(&self) -> String {
        let Report { time, lower_bound, solver, status, .. } = self.report;
        let found = match (status.is_empty(), solver.is_empty()) {
            (true, _) => String::new(),
            (false, true) => format!(" The plan is {status}."),
            (false, false) => format!(" The plan is {status}, found by {solver}."),
        };
        let every = if self.report.bound_kind == "fixed_order" {
            "every plan in the given order"
        } else {
            "every plan"
        };
        let again = self.after.runs.len() - self.before.runs.len();
        let bound = self.more(*lower_bound).clamp(0.0, self.more(*time).max(0.0));
        escaped(&format!(
            "Peak {} instead of {}, within a budget of {}, for {:.2} % more time; {every} needs at least {bound:.2} %. \
             {again} of {} runs are recomputations.{found}",
            readable(Self::peak(self.after)),
            readable(Self::peak(self.before)),
            readable(self.report.budget),
            self.more(*time),
            self.after.runs.len(),
        ))
    }

    pub fn numbers(&self) -> String {
        let report = self.report;
        let proof = match report.bound_kind {
            "order_free" => "for every order",
            "fixed_order" => "for the given order",
            "optimal" => "reached",
            _ => "for every plan",
        };
        let bound = self.more(report.lower_bound).clamp(0.0, self.more(report.time).max(0.0));
        let row = |label: &str, value: String| vec![label.to_owned(), value];
        let mut rows = vec![
            row("budget", readable(report.budget)),
            row("peak of the plan", readable(Self::peak(self.after))),
            row("peak without recomputing", readable(Self::peak(self.before))),
        ];
        rows.extend(report.resident.map(|bytes| row("there before the step", readable(bytes))));
        rows.extend([
            row(
                "time of the plan",
                format!("{} (+{:.2} %)", self.unit.text(report.time), self.more(report.time)),
            ),
            row("time without recomputing", self.unit.text(self.base_time())),
            row("lower bound", format!("+{bound:.2} % ({proof})")),
        ]);
        if let Some(host) = self.after.host.iter().max() {
            rows.push(row("peak in host memory", readable(*host)));
        }
        table(&["", ""], rows)
    }

    pub fn holders(&self) -> String {
        let run = self.after.peak();
        let there = self.after.during(run);
        let name = |run: usize| &self.graph().node(self.after.runs[run]).name;
        let rows = there.iter().take(MOST_ROWS).map(|life| {
            vec![
                life.name.clone(),
                module(self.graph().node(life.node)).to_owned(),
                life.category.meaning().to_owned(),
                readable(life.bytes),
                format!("{} to {}", life.first, life.last),
            ]
        });
        let rest: Bytes = there.iter().skip(MOST_ROWS).map(|life| life.bytes).sum();
        let others = (rest.0 > 0).then(|| {
            let count = there.len() - MOST_ROWS;
            vec![format!("and {count} more"), String::new(), String::new(), readable(rest), String::new()]
        });
        format!(
            "<p>{} (run {run}) holds {}; while it runs, there must be:</p>{}",
            escaped(name(run)),
            readable(self.after.memory[run]),
            table(&["value", "module", "why", "bytes", "runs"], rows.chain(others))
        )
    }

    pub fn curve(&self, curve: &Curve) -> String {
        let report = self.report;
        let base = Self::peak(self.before);
        let mut text = String::new();
        if let Some(smallest) = curve.smallest {
            // Writing to a String cannot fail.
            let _ = write!(
                text,
                "<p>The smallest budget with a plan is {}; below {} none is possible.</p>",
                readable(smallest),
                readable(curve.impossible_below)
            );
        }
        if !report.transfers.is_empty() {
            text.push_str("<p>Other budgets are planned without transfers.</p>");
        }
        let row = |budget: Bytes, more: Option<f64>, bound: f64, which: &str| {
            vec![
                format!("{}{which}", readable(budget)),
                format!("{:.0} %", percent(budget.0 as f64, Time(base.0))),
                more.map_or("no plan".to_owned(), |more| format!("+{more:.2} %")),
                format!("+{bound:.2} %"),
            ]
        };
        let own =
            (report.budget, Some(self.more(report.time)), self.more(report.lower_bound), " (this plan)");
        let others = curve.points.iter().filter(|point| !self.is_own(point.budget));
        let others = others
            .map(|point| (point.budget, point.time.map(|time| self.more(time)), self.more(point.bound), ""));
        let mut all: Vec<_> = others.chain([own]).collect();
        all.sort_by_key(|(budget, ..)| *budget);
        let rows = all.into_iter().map(|(budget, more, bound, which)| {
            row(budget, more, more.map_or(bound, |more| bound.min(more)).max(0.0), which)
        });
        text + &table(&["budget", "of the peak", "extra time", "proven bound"], rows)
    }

    /// Whether a point of the curve is the plan of the page itself.
    pub fn is_own(&self, budget: Bytes) -> bool {
        self.report.transfers.is_empty() && budget == self.report.budget
    }

    /// Nodes by module, forward and backward together; each module unfolds.
    pub fn modules(&self) -> String {
        let mut groups: Vec<(&str, Vec<NodeId>)> = Vec::new();
        let mut places = std::collections::HashMap::new();
        for (id, node) in self.graph().node_ids().zip(self.graph().nodes()) {
            let name = outer(module(node));
            let place = *places.entry(name).or_insert_with(|| {
                groups.push((name, Vec::new()));
                groups.len() - 1
            });
            groups[place].1.push(id);
        }
        let runs = self.times_run();
        let saved = |timeline: &Timeline, nodes: &[NodeId]| -> Bytes {
            let kept = timeline.lives.iter().filter(|life| life.category == Category::Saved && !life.fetched);
            kept.filter(|life| nodes.binary_search(&life.node).is_ok()).map(|life| life.bytes).sum()
        };
        let mut text = String::from(
            "<div class=\"row head\"><span>module</span><span>nodes</span><span>time</span><span>time of what runs again</span>\
             <span>saved, as it is</span><span>saved, as planned</span></div>",
        );
        for (name, nodes) in groups {
            let time: Time = nodes.iter().map(|&id| self.graph().node(id).time).sum();
            let again: Time = nodes
                .iter()
                .map(|&id| Time(self.graph().node(id).time.0.saturating_mul(runs[id.index()] - 1)))
                .sum();
            let cells = [
                if name.is_empty() { "no module".to_owned() } else { name.to_owned() },
                nodes.len().to_string(),
                self.unit.text(time),
                if again.0 > 0 { self.unit.text(again) } else { String::new() },
                readable(saved(self.before, &nodes)),
                readable(saved(self.after, &nodes)),
            ];
            let cells: String = cells.iter().map(|cell| format!("<span>{}</span>", escaped(cell))).collect();
            let inside = table(
                &["node", "pass", "time", "output", "workspace", "runs"],
                nodes.iter().map(|&id| self.node_row(id, runs[id.index()])),
            );
            let _ = write!(text, "<details><summary class=\"row\">{cells}</summary>{inside}</details>");
        }
        text
    }

    fn times_run(&self) -> Vec<u64> {
        let mut runs = vec![0; self.graph().len()];
        self.after.runs.iter().for_each(|node| runs[node.index()] += 1);
        runs
    }

    fn output(&self, node: &Node) -> Bytes {
        node.writes.iter().map(|&value| self.graph().value(value).bytes).sum()
    }

    fn node_row(&self, id: NodeId, runs: u64) -> Vec<String> {
        let node = self.graph().node(id);
        let pass = match node.kind {
            rk_plan::Kind::Forward => "forward",
            rk_plan::Kind::Backward => "backward",
            rk_plan::Kind::Other => "",
        };
        vec![
            node.name.clone(),
            pass.to_owned(),
            self.unit.text(node.time),
            readable(self.output(node)),
            readable(node.workspace),
            runs.to_string(),
        ]
    }

    pub fn again(&self) -> String {
        let runs = self.times_run();
        let extra = |id: &NodeId| {
            Time(self.graph().node(*id).time.0.saturating_mul(runs[id.index()].saturating_sub(1)))
        };
        let mut again: Vec<NodeId> = self.graph().node_ids().filter(|id| runs[id.index()] > 1).collect();
        if again.is_empty() {
            return "<p>Nothing.</p>".to_owned();
        }
        again.sort_by_key(|id| (std::cmp::Reverse(extra(id)), *id));
        let operators = |id: &NodeId| self.report.operators.get(id.index()).cloned().unwrap_or_default();
        let rows = again.iter().map(|id| {
            let node = self.graph().node(*id);
            vec![
                node.name.clone(),
                runs[id.index()].to_string(),
                self.unit.text(extra(id)),
                readable(self.output(node)),
                operators(id),
            ]
        });
        table(&["node", "runs", "extra time", "output", "operators"], rows)
    }

    /// The largest transfers; nothing without any.
    pub fn transfers(&self) -> String {
        if self.report.transfers.is_empty() {
            return String::new();
        }
        let mut all: Vec<_> = self.report.transfers.iter().collect();
        let bytes = |value: rk_plan::ValueId| self.graph().value(value).bytes;
        all.sort_by_key(|one| (std::cmp::Reverse(bytes(one.value)), one.start));
        let rows = all.iter().take(MOST_ROWS).map(|one| {
            let value = self.graph().value(one.value);
            vec![
                value.name.clone(),
                match one.direction {
                    Direction::Offload => "to host memory".to_owned(),
                    Direction::Fetch => "back".to_owned(),
                },
                readable(value.bytes),
                format!("{} to {}", one.start, one.end),
            ]
        });
        let more = all.len().saturating_sub(MOST_ROWS);
        let others = (more > 0).then(|| {
            let rest: Bytes = all.iter().skip(MOST_ROWS).map(|one| bytes(one.value)).sum();
            vec![format!("and {more} more"), String::new(), readable(rest), String::new()]
        });
        let rows = table(&["value", "direction", "bytes", "before runs"], rows.chain(others));
        format!("<h2>Transfers</h2>{rows}")
    }
}
