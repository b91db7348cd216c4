//! Seconds per step: medians of several steps after warm-up steps.
//!
//! The first call of some operators sets up buffers in libraries below torch, so it is never timed. When there are
//! two steppers their steps alternate, so that a busy machine disturbs both alike.

use std::time::Instant;

use rk_torch::Device;

use crate::error::RuntimeError;
use crate::stepper::Stepper;

/// The median seconds of `repeats` steps of each stepper, after `warmup` steps of each. No updates.
///
/// # Errors
/// When an operator fails.
pub fn medians(
    steppers: &mut [&mut dyn Stepper],
    warmup: usize,
    repeats: usize,
    device: Device,
) -> Result<Vec<f64>, RuntimeError> {
    let mut seconds = vec![Vec::with_capacity(repeats); steppers.len()];
    for k in 0..warmup + repeats {
        for (i, stepper) in steppers.iter_mut().enumerate() {
            device.synchronize()?;
            let start = Instant::now();
            stepper.run()?;
            device.synchronize()?;
            if k >= warmup {
                seconds[i].push(start.elapsed().as_secs_f64());
            }
            // Results of one side must not lie in memory while the other side runs.
            stepper.clear()?;
        }
    }
    Ok(seconds.into_iter().map(median).collect())
}

fn median(mut seconds: Vec<f64>) -> f64 {
    seconds.sort_by(f64::total_cmp);
    match seconds.len() {
        0 => f64::NAN,
        n if n % 2 == 1 => seconds[n / 2],
        n => (seconds[n / 2 - 1] + seconds[n / 2]) / 2.0,
    }
}

#[cfg(test)]
mod tests {
    use super::median;

    #[test]
    fn the_middle_one() {
        assert_eq!((median(vec![3.0, 1.0, 2.0]), median(vec![4.0, 1.0])), (2.0, 2.5));
    }
}
