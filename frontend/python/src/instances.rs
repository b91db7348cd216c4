//! Which plan each call of a compiled graph runs (`rk_solve::choose`), and the page that shows it.

use pyo3::prelude::*;
use rk_plan::{Bytes, Time};
use rk_report::{CalledPlan, CalledStep, calls_html};
use rk_solve::{Event, Instance, Run, Variant};

use crate::detached;
use crate::errors::Refusal;

/// Held, forward, backward in bytes, and a time.
type Numbers = (u64, u64, u64, u64);

/// What comes back: the variants, time, peak, the event that holds it, and a bound on the time; or `None`, 0, the smallest
/// budget, the event that holds the peak, and 0.
type Answer = (Option<Vec<usize>>, u64, u64, usize, u64);

fn variant((held, forward, backward, time): Numbers) -> Variant {
    Variant { held, forward, backward, time }
}

/// Chooses a variant for every instance of a step. `classes` has the numbers of the variants of each class, `instances` class,
/// first and last event of each, in the order of their first, `events` who runs and the bytes beside.
///
/// Raises OptionError for numbers that contradict each other.
#[pyfunction]
pub fn choose(
    py: Python<'_>,
    budget: u64,
    classes: Vec<Vec<Numbers>>,
    instances: Vec<(usize, usize, usize)>,
    events: Vec<(Option<usize>, u64)>,
) -> PyResult<Answer> {
    detached(py, || {
        let in_order = instances.windows(2).all(|pair| pair[0].1 < pair[1].1);
        let known = |&(class, from, to): &(usize, usize, usize)| {
            classes.get(class).is_some_and(|variants| !variants.is_empty()) && from <= to && to < events.len()
        };
        let lives = |(event, (runs, _)): (usize, &(Option<usize>, u64))| {
            runs.is_none_or(|one| instances.get(one).is_some_and(|life| life.1 <= event && event <= life.2))
        };
        if !in_order || !instances.iter().all(known) || !events.iter().enumerate().all(lives) {
            return Err(Refusal::Option("instances and events contradict each other".to_owned()));
        }
        let run = Run {
            classes: classes.into_iter().map(|one| one.into_iter().map(variant).collect()).collect(),
            instances: instances.into_iter().map(|(class, from, to)| Instance { class, from, to }).collect(),
            events: events.into_iter().map(|(runs, beside)| Event { runs, beside }).collect(),
        };
        Ok(match rk_solve::choose(&run, budget) {
            Ok(found) => (Some(found.variants), found.time, found.peak, found.event, found.lower_bound),
            Err(unmet) => (None, 0, unmet.smallest, unmet.event, 0),
        })
    })
}

/// See `rk_report::CalledPlan`.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub struct ToldPlan {
    graph: String,
    name: String,
    codegen: String,
    numbers: Numbers,
    base_time: u64,
    again: usize,
}

/// See `rk_report::CalledStep`.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub struct ToldStep {
    about: String,
    budget: u64,
    needs: Option<u64>,
    measured: Option<u64>,
    lower_bound: u64,
    stands: u64,
    plans: Vec<ToldPlan>,
    calls: Vec<(usize, usize, usize)>,
    moments: Vec<(Option<usize>, u64)>,
}

impl From<ToldStep> for CalledStep {
    fn from(step: ToldStep) -> Self {
        let plan = |one: ToldPlan| CalledPlan {
            graph: one.graph,
            name: one.name,
            codegen: one.codegen,
            numbers: variant(one.numbers),
            base_time: one.base_time,
            again: one.again,
        };
        Self {
            about: step.about,
            budget: Bytes(step.budget),
            needs: step.needs.map(Bytes),
            measured: step.measured.map(Bytes),
            lower_bound: Time(step.lower_bound),
            stands: Bytes(step.stands),
            plans: step.plans.into_iter().map(plan).collect(),
            calls: step.calls,
            moments: step.moments,
        }
    }
}

/// The page of the steps that a process runs, as HTML.
///
/// Raises OptionError for numbers that contradict each other.
#[pyfunction]
pub fn calls_report(py: Python<'_>, steps: Vec<ToldStep>) -> PyResult<String> {
    let steps: Vec<CalledStep> = steps.into_iter().map(CalledStep::from).collect();
    detached(py, || {
        if !steps.iter().all(CalledStep::is_sound) {
            return Err(Refusal::Option("calls and moments contradict each other".to_owned()));
        }
        Ok(calls_html(&steps))
    })
}
