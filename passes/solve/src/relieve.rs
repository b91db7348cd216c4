//! Evictions for the sake of a layout: a plan that takes a little longer, in a lower arena.
//!
//! Where memory is nearly full all the time, a layout needs room that no order of the same runs leaves. What it does not need is
//! room at every step: a few may stay as full as they are. So values are evicted one after the other, each time the one that lowers
//! the *pressure* most for the time of the run that brings it back:
//!
//! - pressure: the sum over all steps of (live − [`SHARE`] · limit)², where that is positive
//! - an eviction: one more run of a node, just before a use of its value, which need not live through the gap before. Operands
//!   that have died live on until then
//!
//! That is done from several plans. Of all that come up on the way, those stay that have less pressure than any faster one, and a
//! layout is searched for some of them ([`crate::compact`]): first for one that is the slower, the more the layout at hand is off,
//! then half-way between those that failed and those that did not.
//!
//! Everything is counted, the clock only stops. Not here: runs that are left out, to make up for others. Exchanges of one run for
//! others lowered the pressure of one plan in four, by a hundredth.

use std::collections::HashMap;

use rk_plan::arena::pack_with;
use rk_plan::{Bytes, Graph, Instance, NodeId, Sequence, Time, Trace, ValueId, judge};

use crate::clock::Clock;
use crate::compact::compact;
use crate::joint::Joint;
use crate::model::Model;
use crate::request::{Addresses, Plan, Request};

/// Below this share of the limit memory counts as empty.
const SHARE: f64 = 0.9;
/// Plans to begin with, besides the one whose layout is too high.
const BASES: usize = 24;
/// Moves that calm the order of each of those.
const CALM: u64 = 12_500;
/// The most evictions from one plan.
const EVICTIONS: usize = 100;
/// An arena that is off by one in so many takes all the time that is allowed.
const OFF: f64 = 50.0;
/// The share of the time left for evictions, and for each layout.
const FRONT: f64 = 0.2;
const PART: f64 = 0.5;

/// What plans have to keep to.
pub(crate) struct Relief<'a> {
    pub(crate) request: &'a Request<'a>,
    pub(crate) addresses: Addresses,
    /// They take less than this.
    pub(crate) most: Time,
    /// Their peaks do not fall below this.
    pub(crate) floor: Bytes,
}

impl Relief<'_> {
    /// A plan whose arena is as low as `goal`, a function of the peak, from one whose arena is not and others.
    pub(crate) fn plan(
        &self,
        plan: &Plan,
        others: &[Plan],
        goal: impl Fn(Bytes) -> Bytes,
        clock: &Clock,
    ) -> Option<Plan> {
        let arena = plan.arena.as_ref()?;
        let limit = goal(arena.lower_bound);
        let off = (arena.size.0 as f64 / limit.0.max(1) as f64 - 1.0) * OFF;
        let front = self.front(plan, others, limit, &clock.part(FRONT));
        tracing::debug!(plans = front.len(), off, "evicted");
        let (mut low, mut high, mut best) = (0, front.len(), None);
        let mut at = ((high as f64 * off).ceil() as usize).clamp(1, high.max(1));
        while low < high && !clock.expired() {
            let (pressure, next) = front[at - 1].clone();
            // The last resort gets all the time that is left.
            let last = best.is_none() && at == front.len();
            let part = clock.part(if last { 1.0 } else { PART });
            let arena =
                pack_with(self.request.graph, &next.sequence, &next.trace, self.addresses.alignment, 0);
            let next = Plan { arena: Some(arena), ..next };
            let found = compact(self.request, next, self.addresses, self.floor, &goal, &part);
            let reached = found.arena.as_ref().is_some_and(|arena| arena.size <= goal(arena.lower_bound));
            tracing::debug!(
                at,
                reached,
                time = found.trace.time.0,
                height = found.height().0,
                peak = found.trace.peak.0,
                pressure,
                "relieved"
            );
            if reached {
                (high, best) = (at - 1, Some(found));
            } else {
                low = at;
            }
            at = (low + high).div_ceil(2);
        }
        best
    }

    /// Plans of falling pressure, each slower than the one before.
    fn front(&self, plan: &Plan, others: &[Plan], limit: Bytes, clock: &Clock) -> Vec<(f64, Plan)> {
        let mut all: Vec<(f64, Plan)> = Vec::new();
        let mut times = vec![plan.trace.time];
        let before = pressure(&plan.trace, limit);
        for base in [plan].into_iter().chain(others) {
            if base.trace.time >= self.most || times.len() > BASES || clock.expired() {
                break;
            }
            let mut base = base.clone();
            if base.arena.is_none() {
                if times.contains(&base.trace.time) {
                    continue;
                }
                times.push(base.trace.time);
                let Some(calm) = self.calmed(base, clock) else { continue };
                base = calm;
                all.push((pressure(&base.trace, limit), base.clone()));
            }
            for _ in 0..EVICTIONS {
                let Some(next) = self.evicted(&base, limit).filter(|_| !clock.expired()) else { break };
                base = next;
                all.push((pressure(&base.trace, limit), base.clone()));
            }
        }
        all.sort_by(|one, other| one.1.trace.time.cmp(&other.1.trace.time).then(one.0.total_cmp(&other.0)));
        let mut least = before;
        all.retain(|(pressure, _)| {
            *pressure < least && {
                least = *pressure;
                true
            }
        });
        all
    }

    /// In a calmer order, if the judge agrees.
    fn calmed(&self, plan: Plan, clock: &Clock) -> Option<Plan> {
        let (graph, Addresses { alignment, .. }) = (self.request.graph, self.addresses);
        let model = Model::aligned(graph, alignment);
        let arena = pack_with(graph, &plan.sequence, &plan.trace, alignment, 0);
        let limits = (self.floor, self.request.budget.max(arena.lower_bound));
        let like = Plan { arena: Some(arena), ..plan };
        let sequence =
            Joint::new(graph, (&model, alignment), &like, limits, self.request.seed).calm(CALM, clock);
        let trace = judge(graph, &sequence).ok()?;
        Some(Plan { sequence, trace, solver: like.solver, arena: None })
    }

    /// The plan with one more run: of those that may be, the one that lowers the pressure most for its time.
    fn evicted(&self, plan: &Plan, limit: Bytes) -> Option<Plan> {
        let graph = self.request.graph;
        let steps = Steps::new(graph, plan, limit);
        let budget = self.request.budget.max(plan.trace.peak);
        let mut gaps: Vec<(f64, usize, ValueId)> = Vec::new();
        for (index, instance) in plan.trace.instances.iter().enumerate() {
            let producer = graph.node(graph.value(instance.value).producer);
            let time = producer.time.0;
            if producer.once || plan.trace.time.0.saturating_add(time) >= self.most.0 {
                continue;
            }
            let mut last = instance.start;
            for &step in steps.uses(instance) {
                if let Some(relief) = steps.relief(index, last, step, budget).filter(|&relief| relief > 0.0) {
                    gaps.push((relief / time.max(1) as f64, step, instance.value));
                }
                last = step;
            }
        }
        gaps.sort_by(|one, other| other.0.total_cmp(&one.0).then((one.1, one.2).cmp(&(other.1, other.2))));
        gaps.into_iter().find_map(|(_, step, value)| {
            let mut runs = plan.sequence.0.clone();
            runs.insert(step, graph.value(value).producer);
            let sequence = Sequence(runs);
            let trace = judge(graph, &sequence).ok()?;
            let fits = trace.peak <= budget && trace.peak >= self.floor.min(plan.trace.peak);
            let lower = fits && pressure(&trace, limit) < steps.pressure;
            lower.then_some(Plan { sequence, trace, solver: plan.solver, arena: None })
        })
    }
}

/// See the module; in units of the last tenth of the limit.
fn pressure(trace: &Trace, limit: Bytes) -> f64 {
    trace.memory.iter().map(|&memory| fullness(memory, limit)).sum()
}

fn fullness(memory: Bytes, limit: Bytes) -> f64 {
    let full = memory.0 as f64 / limit.0.max(1) as f64;
    ((full - SHARE) / (1.0 - SHARE)).max(0.0).powi(2)
}

/// A plan, step by step.
struct Steps<'a> {
    graph: &'a Graph,
    runs: &'a [NodeId],
    trace: &'a Trace,
    limit: Bytes,
    fullness: Vec<f64>,
    pressure: f64,
    /// The steps that read each value.
    uses: HashMap<ValueId, Vec<usize>>,
    /// The instances of each value, by number, in order.
    instances: HashMap<ValueId, Vec<usize>>,
}

impl<'a> Steps<'a> {
    fn new(graph: &'a Graph, plan: &'a Plan, limit: Bytes) -> Self {
        let mut uses: HashMap<ValueId, Vec<usize>> = HashMap::new();
        for (step, &node) in plan.sequence.0.iter().enumerate() {
            for &value in &graph.node(node).reads {
                uses.entry(value).or_default().push(step);
            }
        }
        let mut instances: HashMap<ValueId, Vec<usize>> = HashMap::new();
        for (index, instance) in plan.trace.instances.iter().enumerate() {
            instances.entry(instance.value).or_default().push(index);
        }
        let fullness: Vec<f64> = plan.trace.memory.iter().map(|&memory| fullness(memory, limit)).collect();
        let pressure = fullness.iter().sum();
        Self { graph, runs: &plan.sequence.0, trace: &plan.trace, limit, fullness, pressure, uses, instances }
    }

    /// The steps that read an instance.
    fn uses(&self, instance: &Instance) -> &[usize] {
        let uses = self.uses.get(&instance.value).map_or(&[][..], Vec::as_slice);
        let from = uses.partition_point(|&step| step <= instance.start);
        let to = uses.partition_point(|&step| step <= instance.end);
        &uses[from..to.max(from)]
    }

    /// By how much the pressure falls if an instance dies at one step and comes back just before another, about; `None` if there is
    /// no room for that.
    fn relief(&self, instance: usize, from: usize, to: usize, budget: Bytes) -> Option<f64> {
        let graph = self.graph;
        let value = graph.value(self.trace.instances[instance].value);
        let producer = graph.node(value.producer);
        // Operands that have died by then.
        let mut longer: Vec<(usize, u64)> = Vec::new();
        for operand in &producer.reads {
            let known = &self.instances[operand];
            let newest =
                known.partition_point(|&index| self.trace.instances[index].start < to).checked_sub(1)?;
            let end = self.trace.instances[known[newest]].end;
            if end < to {
                longer.push((end + 1, graph.value(*operand).bytes.0));
            }
        }
        let begin = longer.iter().map(|&(start, _)| start).min().unwrap_or(to).min(from + 1);
        let mut relief = 0.0;
        let more = |step: usize| {
            longer.iter().filter(|&&(start, _)| start <= step).map(|&(_, bytes)| bytes).sum::<u64>()
        };
        for step in begin..to {
            let now = self.trace.memory[step].0.saturating_add(more(step));
            let now = if step > from { now.saturating_sub(value.bytes.0) } else { now };
            if now > budget.0 {
                return None;
            }
            relief += self.fullness[step] - fullness(Bytes(now), self.limit);
        }
        // The run itself: with what is alive there, less what the step makes, and what it makes.
        let node = graph.node(self.runs[to]);
        let made: u64 = node.writes.iter().map(|&value| graph.value(value).bytes.0).sum();
        let again: u64 = producer.writes.iter().map(|&value| graph.value(value).bytes.0).sum();
        let now =
            (self.trace.memory[to].0.saturating_add(more(to)).saturating_add(again + producer.workspace.0))
                .saturating_sub(made + node.workspace.0 + value.bytes.0);
        (now <= budget.0).then(|| relief - fullness(Bytes(now), self.limit))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use rk_plan::arena::check_no_overlap;
    use rk_plan::base_trace;

    use super::*;
    use crate::synthetic::{Family, graph};
    use crate::{Solver, solve};

    /// A plan for two thirds of the given order's peak, packed as it is.
    fn packed(graph: &Graph) -> Option<(Bytes, Plan)> {
        let budget = Bytes(base_trace(graph).peak.0 / 3 * 2);
        let request = Request { solver: Solver::Greedy, ..Request::new(graph, budget) };
        let plan = solve(&request).plan?;
        let arena = pack_with(graph, &plan.sequence, &plan.trace, Bytes(1), 0);
        Some((budget, Plan { arena: Some(arena), ..plan }))
    }

    const ADDRESSES: Addresses = Addresses { alignment: Bytes(1), effort: 100_000 };

    #[test]
    fn evictions_lower_the_pressure_and_keep_to_what_is_asked() {
        let mut evictions = 0;
        for seed in 0..8 {
            let graph = graph(Family::Layered, 60, seed);
            let Some((budget, plan)) = packed(&graph) else { continue };
            let request = Request::new(&graph, budget);
            let (most, floor) = (Time(plan.trace.time.0 + graph.total_time().0 / 10), plan.trace.peak);
            let relief = Relief { request: &request, addresses: ADDRESSES, most, floor };
            let front = relief.front(&plan, &[], budget, &Clock::new(Duration::MAX));
            let mut last = (pressure(&plan.trace, budget), plan.trace.time);
            for (pressure, next) in &front {
                assert_eq!(judge(&graph, &next.sequence), Ok(next.trace.clone()));
                assert!(next.trace.time < most && next.trace.peak >= floor && next.trace.peak <= budget);
                assert!(*pressure < last.0 && next.trace.time >= last.1, "seed {seed}");
                last = (*pressure, next.trace.time);
            }
            evictions += front.len();
        }
        assert!(evictions >= 8, "{evictions}");
    }

    #[test]
    fn a_little_more_time_lowers_an_arena_and_none_does_not() {
        let mut lowered = 0;
        for seed in 0..8 {
            let graph = graph(Family::Layered, 60, seed);
            let Some((budget, plan)) = packed(&graph) else { continue };
            let request = Request::new(&graph, budget);
            let near = |peak: Bytes| Bytes(peak.0 / 100 * 101);
            let plan_within = |more: u64| {
                let most = Time(plan.trace.time.0 + more);
                let relief = Relief { request: &request, addresses: ADDRESSES, most, floor: plan.trace.peak };
                relief.plan(&plan, &[], near, &Clock::new(Duration::from_secs(2)))
            };
            assert_eq!(plan_within(0), None);
            let Some(found) = plan_within(graph.total_time().0 / 20) else { continue };
            let arena = found.arena.expect("packed");
            assert_eq!(check_no_overlap(&arena), Ok(()));
            assert!(arena.size <= near(arena.lower_bound) && found.trace.peak <= budget, "seed {seed}");
            lowered += 1;
        }
        assert!(lowered > 0);
    }
}
