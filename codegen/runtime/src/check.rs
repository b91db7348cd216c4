//! Trains the rewritten step and the step before the rewrite side by side, and compares bits (S8).
//!
//! Both start from the same parameters, buffers, inputs and generator state, and each continues its own generator
//! from step to step, as training does; a check of one step cannot see a drift of random state or statistics.
//! After every step all results, all arguments and the generator state are compared, after every update all
//! arguments again. The comparison stops at the first step that differs, and names the first tensor that does.
//!
//! A step whose kernels are not its calls bit for bit has two questions to answer. Whether the rewrite kept the bits is asked of the
//! same nodes and kernels in their original order. How far the kernels are from ATen is a distance, not a verdict: what
//! is near in every kernel may be amplified by what comes after it.

use rk_step::{OutputRole, Role, Step};
use rk_torch::Device;
use tch::Tensor;

use crate::compare::{Difference, compare};
use crate::error::RuntimeError;
use crate::stepper::{Results, Stepper};

/// What side-by-side training found.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Verdict {
    /// Steps that were compared.
    pub steps: usize,
    /// Tensors that were compared.
    pub tensors: usize,
    /// The first difference.
    pub difference: Option<Difference>,
    /// The largest distance, in units in the last place, from those whose bits need not be equal.
    pub distance: Option<Difference>,
}

/// Whom the step is compared with.
pub struct Other<'a> {
    /// It runs beside the step.
    pub stepper: &'a mut dyn Stepper,
    /// Whether its bits must be the step's.
    pub equal: bool,
}

/// One stepper with the generator that belongs to it.
struct Lane<'a> {
    stepper: &'a mut dyn Stepper,
    generator: Tensor,
    equal: bool,
}

impl Lane<'_> {
    fn run(&mut self, device: Device, runs: usize) -> Result<(), RuntimeError> {
        device.set_generator_state(&self.generator)?;
        run(self.stepper, runs)?;
        self.generator = device.generator_state()?;
        Ok(())
    }
}

/// How a step is trained.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Training {
    /// Steps, each with an update.
    pub steps: usize,
    /// Learning rate of the updates.
    pub lr: f64,
    /// Runs per step; the gradients of all are added up. At least 1.
    pub runs: usize,
}

/// Runs the step so often, and adds the gradients up.
fn run(stepper: &mut dyn Stepper, runs: usize) -> Result<(), RuntimeError> {
    stepper.run()?;
    (1..runs).try_for_each(|_| stepper.accumulate().map(drop))
}

/// Trains `ours` from the generator's present state.
///
/// # Errors
/// When an operator fails.
pub fn train(ours: &mut dyn Stepper, training: Training) -> Result<(), RuntimeError> {
    let Training { steps, lr, runs } = training;
    for _ in 0..steps {
        run(ours, runs)?;
        ours.update(lr)?;
    }
    Ok(())
}

/// Trains `ours` and each of `others` from the generator's present state, and compares. The generator is left in the state of `ours`.
///
/// # Errors
/// When an operator fails on any side.
pub fn side_by_side(
    step: &Step,
    ours: &mut dyn Stepper,
    others: Vec<Other<'_>>,
    training: Training,
    device: Device,
) -> Result<Verdict, RuntimeError> {
    let Training { steps, lr, runs } = training;
    let start = device.generator_state()?;
    let mut ours = Lane { stepper: ours, generator: start.copy(), equal: true };
    let lane = |other| {
        let Other { stepper, equal } = other;
        Lane { stepper, generator: start.copy(), equal }
    };
    let mut others: Vec<Lane> = others.into_iter().map(lane).collect();
    let mut verdict = Verdict::default();
    for k in 1..=steps {
        ours.run(device, runs)?;
        for other in &mut others {
            other.run(device, runs)?;
        }
        for other in &others {
            let mut compared = Compared::with(other, k, &mut verdict);
            compared.results(ours.stepper.results()?, other.stepper.results()?)?;
            compared.arguments(step, &ours, other, "after the step")?;
            compared.pair("the random generator", Some(&ours.generator), Some(&other.generator))?;
        }
        ours.stepper.update(lr)?;
        for other in &mut others {
            other.stepper.update(lr)?;
            let mut compared = Compared::with(other, k, &mut verdict);
            compared.arguments(step, &ours, other, "after the update")?;
        }
        verdict.steps = k;
        if verdict.difference.is_some() {
            break;
        }
    }
    device.set_generator_state(&ours.generator)?;
    Ok(verdict)
}

struct Compared<'a> {
    step: usize,
    against: &'static str,
    equal: bool,
    verdict: &'a mut Verdict,
}

impl<'a> Compared<'a> {
    fn with(other: &Lane<'_>, step: usize, verdict: &'a mut Verdict) -> Self {
        Self { step, against: other.stepper.title(), equal: other.equal, verdict }
    }

    /// Keeps the first difference, with the largest `max_abs` of all in the same step; of distances the largest.
    fn pair(&mut self, what: &str, a: Option<&Tensor>, b: Option<&Tensor>) -> Result<(), RuntimeError> {
        let found = compare(self.step, &format!("{what}, against {}", self.against), a, b)?;
        if !self.equal {
            let further =
                |found: &Difference| self.verdict.distance.as_ref().is_none_or(|most| found.ulps > most.ulps);
            if let Some(found) = found.filter(further) {
                self.verdict.distance = Some(found);
            }
            return Ok(());
        }
        self.verdict.tensors += 1;
        if let Some(found) = found {
            match &mut self.verdict.difference {
                Some(first) => first.max_abs = first.max_abs.max(found.max_abs),
                none => *none = Some(found),
            }
        }
        Ok(())
    }

    fn results(&mut self, ours: Results, theirs: Results) -> Result<(), RuntimeError> {
        for (role, name, tensor) in &ours {
            let other = theirs.iter().find(|(r, n, _)| r == role && n == name);
            let what = format!("{} {name:?}", role_name(*role));
            self.pair(&what, tensor.as_ref(), other.and_then(|(_, _, t)| t.as_ref()))?;
        }
        for (role, name, tensor) in &theirs {
            if tensor.is_some() && !ours.iter().any(|(r, n, _)| r == role && n == name) {
                self.pair(&format!("{} {name:?}", role_name(*role)), None, tensor.as_ref())?;
            }
        }
        Ok(())
    }

    fn arguments(&mut self, step: &Step, a: &Lane, b: &Lane, when: &str) -> Result<(), RuntimeError> {
        for arg in &step.args {
            let role = match arg.role {
                Role::Input => "input",
                Role::Parameter { .. } => "parameter",
                Role::Buffer => "buffer",
            };
            let what = format!("{role} {:?} {when}", arg.name);
            let (x, y) = (a.stepper.state(&arg.name)?, b.stepper.state(&arg.name)?);
            self.pair(&what, x.as_ref(), y.as_ref())?;
        }
        Ok(())
    }
}

fn role_name(role: OutputRole) -> &'static str {
    match role {
        OutputRole::Loss => "loss",
        OutputRole::Output => "output",
        OutputRole::Gradient => "gradient",
    }
}
