//! A scheduled or lowered step as the laws read it: its ops in order, where each value's life ends, which storage it shares.
//!
//! Not here: judgements. `verify` has one function per law.

use std::collections::{BTreeMap, HashMap};

use crate::diagnostic::Diagnostic;
use crate::names;
use crate::ops::{
    self, AtenOp, BufferOp, ConstantOp, DropOp, Execution, NodeOp, RunOp, StepOp, Transfer, WaitOp,
};
use crate::raw::{Block, Op, Value};
use crate::transfers;

/// What a law says of a step: nothing, or the first violation.
pub(crate) type Verdict<'c> = Result<(), Diagnostic<'c>>;

/// How the life of a value ends before the step does, and at which op.
#[derive(Clone, Copy)]
pub(crate) enum Death<'c> {
    Dropped(Op<'c>),
    Overwritten(Op<'c>),
}

impl<'c> Death<'c> {
    pub(crate) fn op(self) -> Op<'c> {
        match self {
            Self::Dropped(op) | Self::Overwritten(op) => op,
        }
    }
}

/// A scheduled step, read once for all laws.
pub(crate) struct Schedule<'c> {
    pub(crate) step: StepOp<'c>,
    pub(crate) ops: Vec<Op<'c>>,
    /// Place of each op in `ops`.
    place: HashMap<Op<'c>, usize>,
    /// The first death of each value that has one.
    pub(crate) deaths: HashMap<Value<'c>, Death<'c>>,
    /// The nodes by symbol, with their place in the original order.
    pub(crate) nodes: BTreeMap<&'c str, (usize, NodeOp<'c>)>,
}

impl<'c> Schedule<'c> {
    pub(crate) fn of(step: StepOp<'c>) -> Self {
        let ops = step.body().ops();
        let place = ops.iter().enumerate().map(|(place, &op)| (op, place)).collect();
        let nodes = step.op().parent().map(ops::nodes_by_symbol).unwrap_or_default();
        let mut schedule = Self { step, place, deaths: HashMap::new(), nodes, ops };
        for &op in &schedule.ops {
            if let Some(value) = DropOp::of(op).and_then(DropOp::value) {
                schedule.deaths.entry(value).or_insert(Death::Dropped(op));
            } else if let Some(value) = schedule.overwritten(op) {
                schedule.deaths.entry(base(value)).or_insert(Death::Overwritten(op));
            }
        }
        schedule
    }

    pub(crate) fn node(&self, run: Execution<'c>) -> Option<NodeOp<'c>> {
        self.nodes.get(run.symbol()).map(|(_, node)| *node)
    }

    /// The operand whose storage this op takes over.
    pub(crate) fn overwritten(&self, op: Op<'c>) -> Option<Value<'c>> {
        let run = RunOp::of(op).filter(|run| run.is_overwrite())?;
        op.operand(self.node(Execution::Run(run))?.overwrites()?)
    }

    /// The death of the value, if it comes before this op.
    pub(crate) fn death_before(&self, value: Value<'c>, op: Op<'c>) -> Option<Death<'c>> {
        let death = self.deaths.get(&value).copied()?;
        (self.place.get(&death.op())? < self.place.get(&op)?).then_some(death)
    }

    pub(crate) fn runs(&self) -> impl Iterator<Item = Execution<'c>> {
        self.ops.iter().copied().filter_map(Execution::of)
    }

    /// The first run of each node, whether it says `again` or not.
    pub(crate) fn first_runs(&self) -> HashMap<&'c str, Execution<'c>> {
        let mut first = HashMap::new();
        for run in self.runs() {
            first.entry(run.symbol()).or_insert(run);
        }
        first
    }
}

/// Whether every op of the block uses only what stands before it, as MLIR checks last of all. Until then a value may be
/// its own base, and a walk up its chain would not end.
pub(crate) fn is_ordered(block: Block<'_>) -> bool {
    block.ops().into_iter().all(|op| {
        let sources = op.operands().into_iter().filter_map(Value::producer);
        sources.filter(|(source, _)| source.block() == Some(block)).all(|(source, _)| source.is_before(op))
    })
}

/// The value that owns the storage: itself, or the base of the chain of views.
pub(crate) fn base(value: Value<'_>) -> Value<'_> {
    let mut value = value;
    while let Some((op, number)) = value.producer() {
        match AtenOp::of(op).and_then(|call| call.base_of(number)) {
            Some(next) => value = next,
            None => break,
        }
    }
    value
}

/// What uses a value, for messages.
pub(crate) fn user(op: Op<'_>) -> String {
    match (Execution::of(op), Transfer::of(op)) {
        (Some(run), _) => format!("'{}'", run.symbol()),
        (_, Some(Transfer::Offload(_))) => "its offload".to_owned(),
        (_, Some(Transfer::Fetch(_))) => "its fetch".to_owned(),
        _ if op.name() == WaitOp::NAME => "a wait for it".to_owned(),
        _ if op.name() == "func.return" => "the return".to_owned(),
        _ => op
            .results()
            .first()
            .map_or(format!("'{}'", op.name()), |&value| format!("'{}'", names::of(value))),
    }
}

/// Whether the step makes the value, so that the step must free it.
pub(crate) fn is_production(value: Value<'_>) -> bool {
    value.producer().is_some_and(|(op, _)| ConstantOp::of(op).is_none())
}

/// Whether two values have the same bits: the same value, another production of it, a copy of one, or the same view of such.
pub(crate) fn is_same<'c>(a: Value<'c>, b: Value<'c>) -> bool {
    let (a, b) = (transfers::origin(a), transfers::origin(b));
    if a == b {
        return true;
    }
    let (Some((one, number)), Some((other, other_number))) = (a.producer(), b.producer()) else {
        return false;
    };
    if let Some((one, other)) = BufferOp::of(one).zip(BufferOp::of(other)) {
        let written = names::written_by(one);
        return written.is_some() && written == names::written_by(other);
    }
    if number != other_number {
        return false;
    }
    match (RunOp::of(one), RunOp::of(other)) {
        (Some(one), Some(other)) => return one.symbol() == other.symbol(),
        (None, None) => {}
        _ => return false,
    }
    let constants = ConstantOp::of(one).zip(ConstantOp::of(other));
    if let Some((one, other)) = constants {
        return one.value() == other.value();
    }
    let (Some(view), Some(other_view)) = (AtenOp::of(one), AtenOp::of(other)) else { return false };
    view.is_view()
        && one.attributes() == other.attributes()
        && other_view.op().operand_count() == one.operand_count()
        && one.operands().into_iter().zip(other.operands()).all(|(a, b)| is_same(a, b))
}
