//! What an op shows by itself, or together with the node that it names. One function per kind of op.

use crate::raw::Op;

pub(crate) fn op(_op: Op<'_>) -> bool {
    true
}

pub(crate) fn callee(_run: Op<'_>, _node: Option<Op<'_>>) -> bool {
    true
}
