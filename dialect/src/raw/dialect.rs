//! Attributes of the dialect, made and read; [`crate::attrs`] gives them their meaning.

use super::{Attr, Ctx, shim};

impl<'c> Attr<'c> {
    // SAFETY of this block: the context is alive, and readers answer for any attribute.

    pub(crate) fn stage(ctx: Ctx<'c>, number: u32) -> Self {
        // SAFETY: the context is alive.
        Self::from_raw(unsafe { shim::rkStageGet(ctx.raw, number) })
    }

    pub(crate) fn as_stage(self) -> Option<usize> {
        // SAFETY: the attribute is alive.
        usize::try_from(unsafe { shim::rkStageRead(self.raw) }).ok()
    }

    pub(crate) fn cost(ctx: Ctx<'c>, time: i64, workspace: i64) -> Self {
        // SAFETY: the context is alive.
        Self::from_raw(unsafe { shim::rkCostGet(ctx.raw, time, workspace) })
    }

    pub(crate) fn as_cost(self) -> Option<(i64, i64)> {
        let (mut time, mut workspace) = (0, 0);
        // SAFETY: the attribute is alive.
        unsafe { shim::rkCostRead(self.raw, &mut time, &mut workspace) }.then_some((time, workspace))
    }

    pub(crate) fn strided(ctx: Ctx<'c>, strides: &[i64], storage: Option<i64>) -> Self {
        let count = strides.len() as isize;
        // SAFETY: the context is alive, and MLIR copies the list.
        Self::from_raw(unsafe { shim::rkStridedGet(ctx.raw, count, strides.as_ptr(), storage.unwrap_or(-1)) })
    }

    pub(crate) fn as_strided(self) -> Option<(Vec<i64>, Option<i64>)> {
        let (mut data, mut storage) = (std::ptr::null(), -1);
        // SAFETY: the attribute is alive, and the shim writes to two places that outlive the call.
        let count = unsafe { shim::rkStridedRead(self.raw, &mut data, &mut storage) };
        let count = usize::try_from(count).ok()?;
        let strides = if count == 0 {
            Vec::new()
        } else {
            // SAFETY: the list has so many numbers, and lives as long as the context.
            unsafe { std::slice::from_raw_parts(data, count) }.to_vec()
        };
        Some((strides, (storage >= 0).then_some(storage)))
    }

    /// `#rk.none`: an argument that is not given.
    pub fn none(ctx: Ctx<'c>) -> Self {
        // SAFETY: the context is alive.
        Self::from_raw(unsafe { shim::rkNoneGet(ctx.raw) })
    }

    /// Whether it is `#rk.none`.
    pub fn is_none_argument(self) -> bool {
        // SAFETY: the attribute is alive.
        unsafe { shim::rkNoneIs(self.raw) }
    }
}
