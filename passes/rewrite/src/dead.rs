//! Erasing what nothing reads and what does nothing else.
//!
//! Stricter than canonicalization in one point: a random call is kept, because the generator's advance is an effect of
//! the step (S5), and looser in another: fresh storage that nobody reads is gone.

use rk_dialect::ops::{AtenOp, ConstantOp, WriteOp};
use rk_dialect::{Block, Eraser, Op};

/// Erases dead calls, writes and constants of a block, last first.
pub fn erase_dead<'c>(block: Block<'c>, eraser: &Eraser<'c>) {
    for op in block.ops().into_iter().rev() {
        if op.results().into_iter().all(|value| value.is_unused()) && !has_effect(op) {
            eraser.erase(op);
        }
    }
}

/// Whether the op does something besides making its results.
fn has_effect(op: Op<'_>) -> bool {
    if let Some(call) = AtenOp::of(op) {
        return !call.writes().is_empty() || !call.effects().is_empty() || call.is_random();
    }
    if let Some(write) = WriteOp::of(op) {
        let body = write.body().map(Block::ops).unwrap_or_default();
        return body.into_iter().filter_map(AtenOp::of).any(AtenOp::is_random);
    }
    ConstantOp::of(op).is_none()
}
