//! Seconds per step of several steppers, over several steps after warm-up steps.
//!
//! The first call of some operators sets up buffers in libraries below torch, so it is never timed. Steppers take turns, so that a busy
//! machine disturbs all alike, and what is compared is the median of the ratios of neighbours ([`crate::timing`]). In training a step
//! follows its own kind and finds its memory in the caches: so each turn is two steps, and the second is timed.

use std::time::Instant;

use rk_torch::Device;

use crate::error::RuntimeError;
use crate::stepper::Stepper;

/// The seconds of `repeats` steps of each stepper, after `warmup` steps of each. No updates.
///
/// # Errors
/// When an operator fails.
pub fn rounds(
    steppers: &mut [&mut dyn Stepper],
    warmup: usize,
    repeats: usize,
    device: Device,
) -> Result<Vec<Vec<f64>>, RuntimeError> {
    let mut seconds = vec![Vec::with_capacity(repeats); steppers.len()];
    for k in 0..warmup + repeats {
        for (i, stepper) in steppers.iter_mut().enumerate() {
            if k >= warmup {
                stepper.run()?;
                stepper.forget_times();
                stepper.clear()?;
            }
            device.synchronize()?;
            let start = Instant::now();
            stepper.run()?;
            device.synchronize()?;
            match k >= warmup {
                true => seconds[i].push(start.elapsed().as_secs_f64()),
                false => stepper.forget_times(),
            }
            // Results of one side must not lie in memory while the other side runs.
            stepper.clear()?;
        }
    }
    Ok(seconds)
}
