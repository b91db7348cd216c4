//! One interface for whatever can make a training step: the scheduled program, the original one, eager PyTorch.

use rk_step::OutputRole;
use rk_torch::Counts;
use tch::Tensor;

use crate::error::RuntimeError;
use crate::machine::{Machine, Measured};

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

    /// The results of the last run.
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

    /// Lets go of the results.
    ///
    /// # Errors
    /// When libtorch refuses.
    fn clear(&mut self) -> Result<(), RuntimeError>;
}

/// A machine with its name and the largest reading so far.
pub struct Program {
    /// The machine.
    pub machine: Machine,
    /// What the last run took, with the largest peak of all runs.
    pub measured: Measured,
}

impl Program {
    /// A machine that has not run yet.
    pub fn new(machine: Machine) -> Self {
        Self { machine, measured: Measured::default() }
    }
}

impl Stepper for Program {
    fn title(&self) -> &'static str {
        "the original order"
    }

    fn run(&mut self) -> Result<u64, RuntimeError> {
        let mut measured = self.machine.run()?;
        let peak = measured.peak_bytes;
        // Of all steps: a single allocation outside of the arena must not hide behind another step's peak.
        let most = |one: Counts, other: Counts| Counts {
            placed: one.placed.max(other.placed),
            outside: one.outside.max(other.outside),
            moved: one.moved.max(other.moved),
        };
        let counts = measured.counts.map(|now| most(now, self.measured.counts.unwrap_or_default()));
        (measured.counts, self.measured.counts) = (counts, counts);
        if peak >= self.measured.peak_bytes {
            self.measured = measured;
        }
        Ok(peak)
    }

    fn results(&self) -> Result<Results, RuntimeError> {
        let outputs = &self.machine.step().outputs;
        (0..outputs.len())
            .map(|i| Ok((outputs[i].role, outputs[i].name.clone(), self.machine.output(i)?)))
            .collect()
    }

    fn state(&self, name: &str) -> Result<Option<Tensor>, RuntimeError> {
        match self.machine.step().args.iter().position(|a| a.name == name) {
            Some(i) => self.machine.arg(i),
            None => Ok(None),
        }
    }

    fn update(&mut self, lr: f64) -> Result<(), RuntimeError> {
        self.machine.update(lr)
    }

    fn clear(&mut self) -> Result<(), RuntimeError> {
        self.machine.clear_results()
    }
}
