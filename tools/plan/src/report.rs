//! One answer, for machines and for people.

use std::fmt::Write as _;
use std::time::Duration;

use rk_plan::arena::{Arena, check_no_overlap};
use rk_plan::{Bytes, Graph, Time, Trace, readable};
use rk_solve::{BoundKind, Outcome, Status, Stop};
use serde_json::{Value, json};

/// The answer to one request, with addresses.
pub struct Report<'a> {
    graph: &'a Graph,
    /// What had to fit.
    pub budget: Bytes,
    base_peak: Bytes,
    base_time: Time,
    /// What the solver said.
    pub outcome: Outcome,
    /// Where the buffers of the plan lie.
    pub arena: Option<Arena>,
    /// From the parsed graph to the packed plan.
    pub elapsed: Duration,
}

impl<'a> Report<'a> {
    /// Looks at the addresses of the plan once more.
    pub fn new(graph: &'a Graph, budget: Bytes, base: &Trace, outcome: Outcome, elapsed: Duration) -> Self {
        let arena = outcome.plan.as_ref().and_then(|plan| plan.arena.clone());
        if let Some(misplaced) = arena.as_ref().and_then(|arena| check_no_overlap(arena).err()) {
            // A layout that fails its own check must never be reported as one.
            unreachable!("the packer overlapped two buffers: {misplaced}");
        }
        let (base_peak, base_time) = (base.peak, base.time);
        Self { graph, budget, base_peak, base_time, outcome, arena, elapsed }
    }

    /// Time over the base, in percent.
    pub fn overhead(&self) -> Option<f64> {
        Some(self.percent(self.outcome.plan.as_ref()?.trace.time))
    }

    /// The proven bound, in percent over the base.
    pub fn bound(&self) -> f64 {
        self.percent(self.outcome.lower_bound)
    }

    /// A time over the base, in percent of it.
    pub fn percent(&self, time: Time) -> f64 {
        self.percent_of_base(Time(time.0 - self.base_time.0))
    }

    /// A span of time, in percent of the base.
    pub fn percent_of_base(&self, time: Time) -> f64 {
        if self.base_time.0 == 0 { 0.0 } else { 100.0 * time.0 as f64 / self.base_time.0 as f64 }
    }

    /// Node ids in execution order.
    pub fn schedule(&self) -> Option<Vec<u32>> {
        let plan = self.outcome.plan.as_ref()?;
        Some(plan.sequence.0.iter().map(|node| node.0).collect())
    }

    /// Where each buffer with bytes starts: values by the run that makes them, then workspaces by run, then generator states.
    fn offsets(&self) -> Option<Vec<u64>> {
        let arena = self.arena.as_ref()?;
        Some(arena.offsets().into_iter().map(|offset| offset.0).collect())
    }

    /// The status as a word.
    pub fn status(&self) -> &'static str {
        match self.outcome.status {
            Status::Optimal => "optimal",
            Status::Feasible => "feasible",
            Status::Infeasible => "infeasible",
            Status::Unknown => "unknown",
        }
    }

    /// What the bound holds for, as a word.
    pub fn bound_kind(&self) -> &'static str {
        match self.outcome.bound_kind {
            BoundKind::OrderFree => "order_free",
            BoundKind::FixedOrder => "fixed_order",
            BoundKind::Optimal => "optimal",
        }
    }

    fn time(&self, time: Time) -> Value {
        // Whole numbers stay whole; decimals are the nearest double, as everywhere in JSON.
        self.graph.time_text(time).parse::<serde_json::Number>().map_or(Value::Null, Value::Number)
    }

    /// The object that `--json` prints.
    pub fn json(&self) -> Value {
        let plan = self.outcome.plan.as_ref();
        let seconds = |span: Duration| (span.as_secs_f64() * 1e6).round() / 1e6;
        let up = |percent: f64| (percent * 1e6).round() / 1e6;
        // A bound is never rounded up.
        let bound = (self.bound() * 1e6).floor() / 1e6;
        let gap = self.overhead().map(|overhead| (up(overhead) - bound).max(0.0));
        // That of an optimum is below what is printed, or of rounding.
        let gap = if self.outcome.status == Status::Optimal { Some(0.0) } else { gap };
        json!({
            "graph": self.graph.name(),
            "n": self.graph.len(),
            "budget_bytes": self.budget.0,
            "base_peak_bytes": self.base_peak.0,
            "base_time": self.time(self.base_time),
            "status": self.status(),
            "peak_bytes": plan.map(|plan| plan.trace.peak.0),
            "arena_bytes": self.arena.as_ref().map(|arena| arena.size.0),
            "time": plan.map(|plan| self.time(plan.trace.time)),
            "overhead_pct": self.overhead().map(up),
            "lower_bound_pct": bound,
            "bound_kind": self.bound_kind(),
            "fixed_order_bound_pct": self.outcome.in_given_order.map(|time| (self.percent(time) * 1e6).floor() / 1e6),
            "gap_pp": gap.map(up),
            "solver": plan.map(|plan| plan.solver.name()),
            "first_plan_seconds": self.first_plan().map(seconds),
            "solve_seconds": seconds(self.elapsed),
            "min_feasible_bytes": self.outcome.smallest_found.map(|bytes| bytes.0),
            "infeasible_below_bytes": self.outcome.proven_infeasible_below.0,
            "peak_holder": self.graph.node(self.outcome.peak_holder).name,
            "stopped": self.stopped(),
            "schedule": self.schedule(),
            "offsets": self.offsets(),
        })
    }

    /// How long the search took to its first plan; none for a plan that was remembered.
    fn first_plan(&self) -> Option<Duration> {
        self.outcome.progress.iter().find(|step| step.plan.is_some()).map(|step| step.at)
    }

    fn stopped(&self) -> &'static str {
        match self.outcome.why_stopped {
            Stop::Proved => "proved",
            Stop::TimeLimit => "time_limit",
            Stop::Exhausted => "exhausted",
        }
    }

    /// The same for people.
    pub fn text(&self) -> String {
        let mut text = String::new();
        let mut line = |label: &str, value: String| {
            // Writing to a String cannot fail.
            let _ = writeln!(text, "{label:<12} {value}");
        };
        // Some files explain the unit at length.
        let unit = Some(self.graph.time_unit()).filter(|unit| unit.len() <= 12).unwrap_or("ticks");
        line("graph", format!("{}, {} nodes", self.graph.name(), self.graph.len()));
        let share = |bytes: Bytes| 100.0 * bytes.0 as f64 / self.base_peak.0.max(1) as f64;
        let size = |bytes: Bytes| format!("{} ({:.1} % of the base peak)", readable(bytes), share(bytes));
        line(
            "base",
            format!(
                "peak {}, time {} {unit}",
                readable(self.base_peak),
                self.graph.time_text(self.base_time)
            ),
        );
        line("budget", size(self.budget));
        line("status", self.status().to_string());
        match (&self.outcome.plan, &self.arena) {
            (Some(plan), Some(arena)) => {
                line("peak", size(plan.trace.peak));
                line("arena", size(arena.size));
                let again = plan.sequence.recomputations(self.graph);
                let overhead = self.overhead().unwrap_or(0.0);
                let time = self.graph.time_text(plan.trace.time);
                line(
                    "time",
                    format!(
                        "{time} {unit}, {overhead:.4} % more, {again} of {} runs again",
                        plan.sequence.0.len()
                    ),
                );
                let gap = (overhead - self.bound()).max(0.0);
                let class = match self.outcome.bound_kind {
                    BoundKind::FixedOrder => "for every schedule in the given order",
                    BoundKind::OrderFree | BoundKind::Optimal => "for every schedule",
                };
                line("bound", format!("{:.4} % {class}, gap {gap:.4} points", self.bound()));
                if let Some(time) = self.outcome.in_given_order {
                    let percent = self.percent(time);
                    line(
                        "in order",
                        format!(
                            "{percent:.4} % for schedules in the given order, of which this need not be one"
                        ),
                    );
                }
                line("found by", format!("{}, {:.3} s", plan.solver, self.elapsed.as_secs_f64()));
            }
            _ => {
                let smallest = self.outcome.smallest_found.map_or("unknown".into(), size);
                line("smallest", format!("{smallest}: the smallest budget known to be feasible"));
                let least = self.outcome.proven_infeasible_below;
                line("impossible", format!("below {}: proven", size(least)));
                line("held by", format!("'{}'", self.graph.node(self.outcome.peak_holder).name));
                line("searched", format!("{:.3} s", self.elapsed.as_secs_f64()));
            }
        }
        text
    }
}
