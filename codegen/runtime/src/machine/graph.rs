//! A lowered step on a GPU: queued launch by launch, then captured, then replayed as one graph.
//!
//! The first run is never captured: libraries allocate and choose algorithms then. A capture keeps addresses, so parameters, buffers and
//! inputs that are updated in place are seen by every replay, and results lie where they lay.
//!
//! A step that draws random numbers is not captured. A second run of a node draws with the state of the first, and torch lets nobody read or set
//! a generator's state during a capture. What it would take: a generator state of its own for every draw, both runs of a node sharing
//! the numbers, registered with a graph of torch's (`at::cuda::CUDAGraph`), whose offsets are set before every replay to what the draws
//! before them would have left.

use tch::Tensor;

use super::{Machine, Measured};
use crate::cuda::Driver;
use crate::error::RuntimeError;

/// The results of a captured step, at the same addresses every time, and what it takes.
pub(super) struct Replayed {
    results: Vec<(usize, Tensor)>,
    measured: Measured,
}

impl Machine {
    /// Runs the step on its GPU: launch by launch, as a capture that is launched at once, or as the graph that it made.
    pub(super) fn on_gpu(&mut self) -> Result<Measured, RuntimeError> {
        if let Some(replayed) = &self.replayed {
            self.driver.as_ref().map_or(Ok(false), Driver::replay)?;
            for (slot, tensor) in &replayed.results {
                self.slots.set(*slot, tensor)?;
            }
            return Ok(replayed.measured.clone());
        }
        if self.captures != Some(true) {
            let measured = self.run_once()?;
            self.captures = self.captures.map(|_| true);
            return Ok(self.with_arena(measured));
        }
        self.driver.as_ref().map_or(Ok(()), Driver::begin_capture)?;
        let captured = self.run_once();
        let ended = self.driver.as_mut().map_or(Ok(()), |driver| driver.end_capture(captured.is_err()));
        let measured = match captured.and_then(|measured| ended.map(|()| self.with_arena(measured))) {
            Ok(measured) => measured,
            Err(error) => {
                // Nothing has run. What fails for another reason will say so again.
                tracing::warn!("the step is queued launch by launch, no graph can hold it: {error}");
                self.captures = None;
                return self.on_gpu();
            }
        };
        let mut results = Vec::new();
        for &slot in &self.kept {
            results.extend(self.slots.get(slot)?.map(|tensor| (slot, tensor)));
        }
        self.driver.as_ref().map_or(Ok(false), Driver::replay)?;
        self.replayed = Some(Replayed { results, measured: measured.clone() });
        Ok(measured)
    }

    /// The arena counts as a whole on a GPU: torch's statistics see it as one block that was there before.
    fn with_arena(&self, measured: Measured) -> Measured {
        let arena = self.step.layout.as_ref().map_or(0, |layout| layout.arena_bytes);
        Measured { peak_bytes: measured.peak_bytes + arena, excess: None, ..measured }
    }
}
