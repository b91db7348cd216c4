//! Addresses of a schedule: the arena's from the plan (`rk.offsets`) or, without or where that is lower, from the packer of `rk-plan`; the gradients'
//! one after the other. And the way back: a lowered step as an arena, for the checker of `rk-plan`, which shares no code with
//! the packer.

use std::collections::HashMap;

use rk_dialect::diagnostic::Diagnostic;
use rk_dialect::ops::{BufferOp, Execution, LaunchOp, Space, StepOp};
use rk_dialect::{Op, PlanSummary};
use rk_plan::arena::{self, Arena, Buffer, Misplaced, Owner};
use rk_plan::{Bytes, NodeId, Schedule, Trace, ValueId, readable};

use crate::planning::Problem;
use crate::views;

/// A step with its schedule, and what the judge says of that.
#[derive(Clone, Copy)]
pub struct Judged<'a, 'c> {
    /// The step as the planner sees it.
    pub problem: &'a Problem<'c>,
    /// The step.
    pub step: StepOp<'c>,
    /// The module that it is in.
    pub module: Op<'c>,
    /// Its runs and drops.
    pub schedule: &'a Schedule,
    /// When what is alive.
    pub trace: &'a Trace,
}

/// Where everything lies. Steps count runs.
pub struct Placement {
    /// Bytes of the arena.
    pub arena: u64,
    /// Bytes of the gradient space.
    pub gradients: u64,
    values: HashMap<(usize, ValueId), u64>,
    gradient_of: HashMap<ValueId, u64>,
    workspaces: HashMap<usize, (u64, u64)>,
    states: HashMap<NodeId, u64>,
}

/// The layout that a scheduled step carries ([`Arena::offsets`]), if it does; without it the step is packed.
///
/// # Errors
/// Offsets that are no layout of this schedule, at the run where they fail, or a layout that is larger than promised.
pub fn carried<'c>(judged: Judged<'_, 'c>) -> Result<Option<Arena>, Diagnostic<'c>> {
    let Judged { problem, step, module, schedule, trace } = judged;
    let Some(offsets) = PlanSummary::of(step).offsets else { return Ok(None) };
    // The verifier of the dialect refuses negative ones.
    let offsets: Vec<Bytes> =
        offsets.into_iter().map(|offset| Bytes(u64::try_from(offset).unwrap_or(u64::MAX))).collect();
    let sequence = schedule.sequence();
    let alignment = Bytes(crate::alignment(module));
    let arena = arena::placed_at(&problem.graph, &sequence, trace, alignment, &offsets);
    let refused = |misplaced: Misplaced| {
        let about = step.op().location();
        let other = "'rk.offsets' is the layout of another schedule: plan again, or take it away to have the step packed";
        match &misplaced {
            Misplaced::Count { .. } => s7(judged, &misplaced).note(about, other),
            _ => s7(judged, &misplaced),
        }
    };
    let arena = arena.map_err(refused)?;
    within(step, &arena)?;
    Ok(Some(arena))
}

/// S7 for a whole layout: the size that the step states, and its budget.
///
/// # Errors
/// Both numbers.
pub fn within<'c>(step: StepOp<'c>, arena: &Arena) -> Result<(), Diagnostic<'c>> {
    let said = PlanSummary::of(step);
    let too_small = |bytes: Option<u64>| bytes.map(Bytes).filter(|&bytes| arena.size > bytes);
    let size = readable(arena.size);
    let message = match (too_small(said.arena), too_small(said.budget)) {
        (_, Some(budget)) => {
            format!("S7: an arena of {size} does not fit the budget of {}", readable(budget))
        }
        (Some(stated), _) => format!("S7: the layout takes {size}, 'rk.arena' says {}", readable(stated)),
        _ => return Ok(()),
    };
    Err(Diagnostic::error(step.op().location(), message))
}

/// What is wrong with a layout, at the run where it is.
pub fn s7<'c>(judged: Judged<'_, 'c>, misplaced: &Misplaced) -> Diagnostic<'c> {
    let Judged { problem, step, schedule, .. } = judged;
    let runs = || step.body().ops().into_iter().filter_map(Execution::of);
    let run = misplaced.run().and_then(|run| runs().nth(run));
    let location = run.map_or_else(|| step.op().location(), |run| run.op().location());
    Diagnostic::error(location, format!("S7: {}", misplaced.describe(&problem.graph, &schedule.sequence())))
}

/// How much longer the packer may search when its first layout misses the budget, or is too far above what is alive at the peak.
const MORE_EFFORT: u64 = 20 * arena::EFFORT;
/// Which part of the peak may be lost to gaps before the packer searches longer: a hundredth.
const GAPS: u64 = 100;

/// Packs a schedule that carries no layout, or one with gaps.
fn packed(judged: Judged<'_, '_>, budget: Option<u64>) -> Arena {
    let Judged { problem, module, schedule, trace, .. } = judged;
    let (sequence, alignment) = (schedule.sequence(), Bytes(crate::alignment(module)));
    let pack = |effort| arena::pack_with(&problem.graph, &sequence, trace, alignment, effort);
    let first = pack(arena::EFFORT);
    if is_close(&first) && budget.is_none_or(|budget| first.size.0 <= budget) {
        return first;
    }
    lower_of(first, pack(MORE_EFFORT))
}

/// Whether little of an arena is lost to gaps.
fn is_close(arena: &Arena) -> bool {
    arena.size.0.saturating_sub(arena.lower_bound.0) <= arena.lower_bound.0 / GAPS
}

fn lower_of(first: Arena, second: Arena) -> Arena {
    if second.size < first.size { second } else { first }
}

impl Placement {
    /// The layout that the step carries, or that of the packer, if there is none or if it is lower and too much is lost to gaps: a
    /// planner is content with what fits the budget.
    ///
    /// # Errors
    /// A layout that the checker refuses; one of the packer's would be a bug.
    pub fn of<'c>(judged: Judged<'_, 'c>, budget: Option<u64>) -> Result<Self, Diagnostic<'c>> {
        let alignment = crate::alignment(judged.module);
        let packed = match carried(judged)? {
            Some(arena) if is_close(&arena) => arena,
            Some(arena) => lower_of(arena, packed(judged, budget)),
            None => packed(judged, budget),
        };
        arena::check_no_overlap(&packed).map_err(|misplaced| s7(judged, &misplaced))?;
        let (gradient_of, gradients) = gradients(judged.problem, judged.step, alignment);
        let mut placement = Self {
            arena: packed.size.0,
            gradients,
            values: HashMap::new(),
            gradient_of,
            workspaces: HashMap::new(),
            states: HashMap::new(),
        };
        for buffer in &packed.buffers {
            let offset = buffer.offset.0;
            match buffer.owner {
                Owner::Instance(_, value) => {
                    placement.values.insert((buffer.start, value), offset);
                }
                Owner::Workspace(at) => {
                    let bytes = buffer.bytes.0.next_multiple_of(alignment);
                    placement.workspaces.insert(at, (offset, bytes));
                }
                Owner::State(node) => {
                    placement.states.insert(node, offset);
                }
            }
        }
        Ok(placement)
    }

    /// The place of the instance of a value that the run at `step` makes. What counts no bytes lies at the start.
    pub fn value(&self, step: usize, value: Option<ValueId>) -> (Space, u64) {
        let Some(value) = value else { return (Space::Arena, 0) };
        match self.gradient_of.get(&value) {
            Some(&offset) => (Space::Gradients, offset),
            None => (Space::Arena, self.values.get(&(step, value)).copied().unwrap_or(0)),
        }
    }

    /// Offset and bytes of the workspace of the run at `step`.
    pub fn workspace(&self, step: usize) -> Option<(u64, u64)> {
        self.workspaces.get(&step).copied()
    }

    /// The place of a kept generator state.
    pub fn state(&self, node: NodeId) -> u64 {
        self.states.get(&node).copied().unwrap_or(0)
    }
}

/// The gradients that are nothing else, in the order in which the step returns them, and the bytes of all.
fn gradients<'c>(problem: &Problem<'c>, step: StepOp<'c>, alignment: u64) -> (HashMap<ValueId, u64>, u64) {
    let (mut places, mut top) = (HashMap::new(), 0u64);
    for (index, returned) in step.returned().into_iter().enumerate() {
        let base = views::base(returned);
        let Some(value) = problem.value_of(base) else { continue };
        let bytes = base.ty().bytes().unwrap_or(0);
        // A value that is an output, too, counts its bytes and lies in the arena.
        let counted = problem.graph.value(value).bytes.0 > 0;
        if step.result_role(index) == Some("gradient")
            && !counted
            && bytes > 0
            && !places.contains_key(&value)
        {
            places.insert(value, top);
            top = top.saturating_add(bytes.next_multiple_of(alignment));
        }
    }
    (places, top)
}

/// A lowered step as the checker reads it: addresses from the IR, lives and sizes from the judge.
///
/// # Errors
/// A value or a workspace that is larger than its place, named with S7.
pub fn read_back<'c>(judged: Judged<'_, 'c>) -> Result<Arena, Diagnostic<'c>> {
    let Judged { problem, step, module, schedule, trace } = judged;
    let sequence = schedule.sequence();
    let index = trace.instances.iter().enumerate().map(|(index, made)| ((made.start, made.value), index));
    let instances: HashMap<(usize, ValueId), usize> = index.collect();
    let mut buffers = Vec::new();
    let launches: Vec<LaunchOp<'c>> = step.body().ops().into_iter().filter_map(LaunchOp::of).collect();
    for (at, launch) in launches.iter().enumerate() {
        for value in launch.outputs() {
            let Some(buffer) = BufferOp::behind(value).filter(|b| b.space() == Some(Space::Arena)) else {
                continue;
            };
            let Some(id) = problem.value_of(value) else { continue };
            let Some(&instance) = instances.get(&(at, id)) else { continue };
            let (life, bytes) = (&trace.instances[instance], problem.graph.value(id).bytes);
            let owner = Owner::Instance(instance, id);
            let (start, end) = (life.start, life.end);
            buffers.push(Buffer { owner, offset: Bytes(buffer.offset()), bytes, start, end });
        }
        let needs = problem.graph.node(sequence.0[at]).workspace;
        let (offset, bytes) = launch.workspace().unwrap_or((0, 0));
        if needs.0 > bytes {
            let message = format!(
                "S7: '{}' needs a workspace of {} bytes, its place has {bytes}",
                launch.symbol(),
                needs.0
            );
            return Err(Diagnostic::error(launch.op().location(), message));
        }
        buffers.push(Buffer {
            owner: Owner::Workspace(at),
            offset: Bytes(offset),
            bytes: needs,
            start: at,
            end: at,
        });
    }
    states(problem, step, &launches, &mut buffers);
    let size = Bytes(PlanSummary::of(step).arena.unwrap_or(0));
    let alignment = Bytes(crate::alignment(module));
    Ok(Arena { size, lower_bound: Bytes(0), alignment, buffers })
}

/// Kept generator states: from the launch that follows the copy into the buffer to the last that follows a copy out of it.
fn states<'c>(problem: &Problem<'c>, step: StepOp<'c>, launches: &[LaunchOp<'c>], buffers: &mut Vec<Buffer>) {
    let mut ops = step.body().ops();
    ops.retain(|&op| rk_dialect::ops::SaveStateOp::of(op).is_some());
    for save in ops {
        let Some(buffer) =
            save.operand(0).and_then(BufferOp::behind).filter(|b| b.space() == Some(Space::Arena))
        else {
            continue;
        };
        let Some(value) = buffer.value() else { continue };
        let after = |op: Op<'c>| launches.iter().position(|launch| op.is_before(launch.op()));
        let uses: Vec<usize> = value.uses().into_iter().filter_map(|used| after(used.op)).collect();
        let (Some(&start), Some(&end)) = (uses.iter().min(), uses.iter().max()) else { continue };
        let Some(node) = launches.get(start).and_then(|launch| problem.node_of(launch.symbol())) else {
            continue;
        };
        let bytes = Bytes(buffer.bytes());
        buffers.push(Buffer { owner: Owner::State(node), offset: Bytes(buffer.offset()), bytes, start, end });
    }
}

/// Number of launches, and how many of them are not the first of their kernel.
pub fn launches(step: StepOp<'_>) -> (usize, usize) {
    let runs: Vec<Execution<'_>> = step.body().ops().into_iter().filter_map(Execution::of).collect();
    (runs.len(), runs.iter().filter(|run| run.is_again()).count())
}
