//! Steps made of many calls of compiled graphs: in which order they run, which plan each runs, what is held between, and the memory over the step.
//!
//! What a moment takes is counted by [`rk_solve::Run`], by which the plans were chosen. A moment is a half of a call or something that
//! the caller does in between; how long it takes is not known, so that the axis of a chart counts moments.

use std::fmt::Write as _;

use rk_plan::{Bytes, Time, readable};
use rk_solve::{Event, Instance, Run, Variant};
use serde_json::{Value, json};

use crate::numbers::{Unit, escaped, percent, table};
use crate::page::{figure, key, whole};

const SCRIPT: &str = include_str!("page/calls.js");
/// What lies in memory at a moment, from the bottom of the stack to its top, each lighter than the one before.
const PARTS: [(&str, &str); 4] = [
    ("#1f3f66", "held by open calls"),
    ("#5f9fd6", "taken by the call that runs"),
    ("#e5b545", "beside the calls"),
    ("#cfcfcf", "there all the time"),
];

/// A plan of a compiled graph, as some calls of a step run it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CalledPlan {
    /// The module that the graph is of.
    pub graph: String,
    /// The plan's.
    pub name: String,
    /// Who runs it.
    pub codegen: String,
    /// What it takes; the time in nanoseconds.
    pub numbers: Variant,
    /// Both halves without recomputation, in nanoseconds.
    pub base_time: u64,
    /// How many of its runs are recomputations.
    pub again: usize,
}

/// A step, and what was chosen for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CalledStep {
    /// Where it runs, and what was asked for, in words.
    pub about: String,
    /// What was allowed.
    pub budget: Bytes,
    /// The smallest budget known to do, where nothing fits.
    pub needs: Option<Bytes>,
    /// The real peak of a step that ran so.
    pub measured: Option<Bytes>,
    /// No choice takes less, in nanoseconds.
    pub lower_bound: Time,
    /// What is there all the time and counts.
    pub stands: Bytes,
    /// The plans that run.
    pub plans: Vec<CalledPlan>,
    /// The calls in the order of their forward halves: the plan, the moment of the forward half, and the last one at which something is held.
    pub calls: Vec<(usize, usize, usize)>,
    /// All moments: the call of which a half runs, if one does, and the bytes beside the calls.
    pub moments: Vec<(Option<usize>, u64)>,
}

impl CalledStep {
    /// Whether every number of a plan, a call or a moment is one of those that there are.
    pub fn is_sound(&self) -> bool {
        let calls = self.calls.iter();
        let moments = self.moments.iter().enumerate();
        calls.clone().all(|&(plan, from, to)| {
            plan < self.plans.len() && from <= to && to < self.moments.len() && self.moments[from].0.is_some()
        }) && moments.clone().all(|(moment, (runs, _))| {
            runs.is_none_or(|call| {
                self.calls.get(call).is_some_and(|&(_, from, to)| from <= moment && moment <= to)
            })
        })
    }

    /// Each plan is a class with one variant, which is chosen for all.
    fn run(&self) -> Run {
        Run {
            classes: self.plans.iter().map(|plan| vec![plan.numbers]).collect(),
            instances: self.calls.iter().map(|&(class, from, to)| Instance { class, from, to }).collect(),
            events: self.moments.iter().map(|&(runs, beside)| Event { runs, beside }).collect(),
        }
    }

    /// Per moment, the bytes of each of the [`PARTS`].
    fn stacks(&self) -> Vec<[u64; 4]> {
        let run = self.run();
        let mut stacks: Vec<[u64; 4]> =
            self.moments.iter().map(|&(_, beside)| [0, 0, beside, self.stands.0]).collect();
        for (call, &(plan, from, to)) in self.calls.iter().enumerate() {
            for (moment, stack) in stacks.iter_mut().enumerate().take(to + 1).skip(from) {
                let part = usize::from(self.moments[moment].0 == Some(call));
                stack[part] += run.takes(call, &self.plans[plan].numbers, moment);
            }
        }
        stacks
    }

    /// Bytes in use at each moment.
    pub fn levels(&self) -> Vec<Bytes> {
        self.stacks().iter().map(|parts| parts.iter().map(|&part| Bytes(part)).sum()).collect()
    }

    fn plan(&self, call: usize) -> &CalledPlan {
        &self.plans[self.calls[call].0]
    }

    fn sum(&self, time: impl Fn(&CalledPlan) -> u64) -> Time {
        (0..self.calls.len()).map(|call| Time(time(self.plan(call)))).sum()
    }

    /// What a moment is, in words.
    fn name(&self, moment: usize) -> String {
        let Some(call) = self.moments[moment].0 else { return "what runs between the calls".to_owned() };
        let half = if self.calls[call].1 == moment { "forward" } else { "backward" };
        format!("{half} of {}, call {}", self.plan(call).graph, call + 1)
    }

    fn section(&self, place: usize, title: &str) -> String {
        let levels = self.levels();
        let peak = levels.iter().copied().max().unwrap_or_default();
        let holder = levels.iter().position(|&level| level == peak).map(|moment| self.name(moment));
        let (time, base) = (self.sum(|plan| plan.numbers.time), self.sum(|plan| plan.base_time));
        let more = |time: Time| percent(time.0 as f64 - base.0 as f64, base);
        let mut graphs: Vec<&str> = self.plans.iter().map(|plan| plan.graph.as_str()).collect();
        graphs.sort_unstable();
        graphs.dedup();
        let measured =
            self.measured.map_or_else(String::new, |bytes| format!(" ({} measured)", readable(bytes)));
        let verdict = self.needs.map_or_else(
            || {
                format!(
                    "{:.2} % more time than without recomputing; every choice needs at least {:.2} %.",
                    more(time),
                    more(self.lower_bound).clamp(0.0, more(time).max(0.0))
                )
            },
            |bytes| format!("nothing fits: the smallest budget known to do is {}.", readable(bytes)),
        );
        let summary = format!(
            "{}. {} of {}. Peak {}{measured}, within a budget of {}, held by {}; {verdict}",
            self.about,
            count(self.calls.len(), "call"),
            count(graphs.len(), "graph"),
            readable(peak),
            readable(self.budget),
            holder.as_deref().unwrap_or("nothing"),
        );
        let chart = figure(&format!("step{place}"), "Memory over the step, half by half");
        let unit = Unit::of_nanos(time);
        let mut text = format!(
            "<section><h2>{title}</h2><p>{}</p>{chart}<h3>Plans</h3>{}",
            escaped(&summary),
            self.plan_table(&unit)
        );
        let _ = write!(
            text,
            "<details><summary>All calls in their order</summary>{}</details></section>",
            self.call_table(&levels)
        );
        text
    }

    fn plan_table(&self, unit: &Unit) -> String {
        let rows = self.plans.iter().enumerate().map(|(place, plan)| {
            let Variant { held, forward, backward, time } = plan.numbers;
            let base = Time(plan.base_time);
            vec![
                plan.graph.clone(),
                plan.name.clone(),
                plan.codegen.clone(),
                self.calls.iter().filter(|call| call.0 == place).count().to_string(),
                readable(Bytes(held)),
                readable(Bytes(forward)),
                readable(Bytes(backward)),
                plan.again.to_string(),
                format!("{} (+{:.2} %)", unit.text(Time(time)), percent(time as f64 - base.0 as f64, base)),
            ]
        });
        let head = [
            "graph",
            "plan",
            "codegen",
            "calls",
            "held between",
            "most in forward",
            "most in backward",
            "recomputations",
            "time of a call",
        ];
        table(&head, rows)
    }

    fn call_table(&self, levels: &[Bytes]) -> String {
        let rows = self.calls.iter().enumerate().map(|(call, &(_, from, to))| {
            let plan = self.plan(call);
            let halves = (from..=to).filter(|&moment| self.moments[moment].0 == Some(call));
            let back: Vec<String> = halves
                .filter(|&moment| moment != from)
                .map(|moment| format!("{} ({})", moment, readable(levels[moment])))
                .collect();
            vec![
                (call + 1).to_string(),
                plan.graph.clone(),
                plan.name.clone(),
                readable(Bytes(plan.numbers.held)),
                format!("{from} ({})", readable(levels[from])),
                if back.is_empty() { "none".to_owned() } else { back.join(", ") },
                to.to_string(),
            ]
        });
        table(
            &[
                "call",
                "graph",
                "plan",
                "held between",
                "forward at (in use)",
                "backward at (in use)",
                "lets go after",
            ],
            rows,
        )
    }

    fn data(&self) -> Value {
        let stacks = self.stacks();
        let open =
            |moment: usize| self.calls.iter().filter(|call| call.1 <= moment && moment <= call.2).count();
        json!({
            "budget": self.budget.0,
            "budget_text": readable(self.budget),
            "most": self.levels().iter().copied().max().unwrap_or_default().max(self.budget).0,
            "stacks": (0..PARTS.len()).map(|part| stacks.iter().map(|stack| stack[part]).collect()).collect::<Vec<Vec<u64>>>(),
            "moments": (0..self.moments.len()).map(|moment| {
                json!([self.name(moment), self.moments[moment].0.map(|call| self.calls[call].0), open(moment)])
            }).collect::<Vec<_>>(),
            "plans": self.plans.iter().map(|plan| json!([plan.name, plan.numbers.held])).collect::<Vec<_>>(),
        })
    }
}

fn count(number: usize, thing: &str) -> String {
    format!("{number} {thing}{}", if number == 1 { "" } else { "s" })
}

/// The page of the steps that a process runs.
pub fn calls_html(steps: &[CalledStep]) -> String {
    let mut body = String::from("<h1>Plans of a run</h1>\n");
    if steps.is_empty() {
        body += "<p>Nothing has been planned in this process.</p>";
    } else {
        let _ = write!(
            body,
            "<p class=\"key\">{}</p><p>Point at a moment to see what it is. Drag or turn the wheel to zoom; a double click shows all again.</p>",
            key(&PARTS)
        );
    }
    for (place, step) in steps.iter().enumerate() {
        let title = if steps.len() == 1 {
            "The step".to_owned()
        } else {
            format!("Step {} of {}", place + 1, steps.len())
        };
        body += &step.section(place, &title);
    }
    let data = json!({
        "parts": PARTS.map(|(colour, meaning)| json!({"colour": colour, "meaning": meaning})),
        "steps": steps.iter().map(CalledStep::data).collect::<Vec<_>>(),
    });
    whole("plans of a run", &body, &data, SCRIPT)
}
