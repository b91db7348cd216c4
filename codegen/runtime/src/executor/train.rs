//! What is done around a step: the update behind it, and a clock on its nodes.

use rk_step::{OutputRole, Role};
use rk_torch::{Device, Operator, Value};

use super::Executor;
use crate::error::RuntimeError;
use crate::timing::Clock;

impl Executor {
    /// From now on every node is timed.
    ///
    /// # Errors
    /// On a GPU, where the host sees only the queueing.
    pub fn start_clock(&mut self) -> Result<(), RuntimeError> {
        if self.device != Device::Cpu {
            return Err(RuntimeError::Device("nodes of a step are timed on the CPU only".into()));
        }
        self.clock = Some(Clock::default());
        Ok(())
    }

    /// The last run does not count.
    pub(crate) fn forget_times(&mut self) {
        self.clock.iter_mut().for_each(Clock::forget);
    }

    /// What was timed since the clock was started, if it was.
    pub fn stop_clock(&mut self) -> Option<Clock> {
        self.clock.take()
    }

    /// One step of gradient descent on the trainable parameters: `param.add_(grad, alpha=-lr)`.
    ///
    /// # Errors
    /// When a gradient does not fit its parameter.
    pub fn update(&mut self, lr: f64) -> Result<(), RuntimeError> {
        let add = Operator::find("aten.add_.Tensor")?;
        for (i, output) in self.step.outputs.iter().enumerate() {
            let gradient = self.output(i)?.filter(|_| output.role == OutputRole::Gradient);
            let Some(gradient) = gradient else { continue };
            let arg = self.step.args.iter().position(|a| {
                a.role == Role::Parameter { trainable: true }
                    && (a.name == output.name || a.aliases.contains(&output.name))
            });
            let Some(parameter) = arg.map_or(Ok(None), |arg| self.arg(arg))? else { continue };
            add.call(&[Value::Tensor(parameter), Value::Tensor(gradient), Value::Float(-lr)])?;
        }
        Ok(())
    }
}
