//! One interface for whatever can make a training step: the scheduled program, the original one, eager PyTorch.

use rk_step::OutputRole;
use rk_torch::Counts;
use tch::Tensor;

use crate::error::RuntimeError;
use crate::executor::Executor;
use crate::measured::Measured;

/// A result of a step: role, name, tensor (`None`: undefined).
pub type Results = Vec<(OutputRole, String, Option<Tensor>)>;

/// Something that runs a training step on its own state.
pub trait Stepper {
    /// For messages: `the original order`, `eager PyTorch`.
    fn title(&self) -> &'static str;

    /// Runs the step; gives the most bytes that it allocated beyond those allocated before, in the scope
    /// `activations` where the stepper can tell gradients apart, all of them otherwise.
    ///
    /// # Errors
    /// When an operator fails.
    fn run(&mut self) -> Result<u64, RuntimeError>;

    /// Runs the step again, and adds its gradients to those that are there, as autograd does; otherwise as [`Stepper::run`].
    ///
    /// # Errors
    /// When an operator fails.
    fn accumulate(&mut self) -> Result<u64, RuntimeError>;

    /// The results of the last run, the gradients of all since [`Stepper::run`].
    ///
    /// # Errors
    /// When libtorch refuses.
    fn results(&self) -> Result<Results, RuntimeError>;

    /// Input, parameter or buffer by its name.
    ///
    /// # Errors
    /// When libtorch refuses.
    fn state(&self, name: &str) -> Result<Option<Tensor>, RuntimeError>;

    /// `param.add_(grad, alpha=-lr)` for every trainable parameter with a gradient.
    ///
    /// # Errors
    /// When libtorch refuses.
    fn update(&mut self, lr: f64) -> Result<(), RuntimeError>;

    /// The last run does not count for the times of nodes.
    fn forget_times(&mut self) {}

    /// Lets go of the results.
    ///
    /// # Errors
    /// When libtorch refuses.
    fn clear(&mut self) -> Result<(), RuntimeError>;
}

/// An executor with its name and the largest reading so far.
pub struct Program {
    title: &'static str,
    /// The executor.
    pub executor: Executor,
    /// What the last run took, with the largest peak of all runs.
    pub measured: Measured,
}

impl Program {
    /// An executor that has not run yet.
    pub fn new(title: &'static str, executor: Executor) -> Self {
        Self { title, executor, measured: Measured::default() }
    }

    /// Takes over the values of another program's arguments, as training left them: how long an operator takes may depend on them
    /// (numbers that became subnormal or NaN).
    ///
    /// # Errors
    /// When the other step has no argument of a name, and `LibTorch`'s.
    pub fn continue_from(&mut self, other: &Self) -> Result<(), RuntimeError> {
        let _no_grad = tch::no_grad_guard();
        for arg in &self.executor.step().args {
            if other.executor.step().args.iter().all(|theirs| theirs.name != arg.name) {
                let message =
                    format!("{} has an argument {:?} that the step does not have", self.title, arg.name);
                return Err(RuntimeError::Model(message));
            }
            // An argument may be undefined.
            let (Some(mut mine), Some(theirs)) = (self.state(&arg.name)?, other.state(&arg.name)?) else {
                continue;
            };
            // Only what was written: a tensor whose elements share bytes cannot be copied into.
            if !mine.f_equal(&theirs)? {
                mine.f_copy_(&theirs)?;
            }
        }
        Ok(())
    }
}

impl Stepper for Program {
    fn title(&self) -> &'static str {
        self.title
    }

    fn run(&mut self) -> Result<u64, RuntimeError> {
        let measured = self.executor.run()?;
        Ok(self.note(measured))
    }

    fn accumulate(&mut self) -> Result<u64, RuntimeError> {
        let measured = self.executor.accumulate()?;
        Ok(self.note(measured))
    }

    fn results(&self) -> Result<Results, RuntimeError> {
        let outputs = &self.executor.step().outputs;
        (0..outputs.len())
            .map(|i| Ok((outputs[i].role, outputs[i].name.clone(), self.executor.output(i)?)))
            .collect()
    }

    fn state(&self, name: &str) -> Result<Option<Tensor>, RuntimeError> {
        match self.executor.step().args.iter().position(|a| a.name == name) {
            Some(i) => self.executor.arg(i),
            None => Ok(None),
        }
    }

    fn update(&mut self, lr: f64) -> Result<(), RuntimeError> {
        self.executor.update(lr)
    }

    fn forget_times(&mut self) {
        self.executor.forget_times();
    }

    fn clear(&mut self) -> Result<(), RuntimeError> {
        self.executor.clear_results()
    }
}

impl Program {
    /// Keeps what a run took, if it is the most so far; gives its peak.
    fn note(&mut self, mut measured: Measured) -> u64 {
        let peak = measured.peak_bytes;
        // Of all steps: a single allocation outside of the arena must not hide behind another step's peak.
        let most = |one: Counts, other: Counts| Counts {
            placed: one.placed.max(other.placed),
            outside: one.outside.max(other.outside),
            moved: one.moved.max(other.moved),
            left: one.left.max(other.left),
        };
        let counts = measured.counts.map(|now| most(now, self.measured.counts.unwrap_or_default()));
        (measured.counts, self.measured.counts) = (counts, counts);
        // As the last one was queued: the first ones warm up.
        self.measured.queued = measured.queued;
        if peak >= self.measured.peak_bytes {
            self.measured = measured;
        }
        peak
    }
}
