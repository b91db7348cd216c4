//! Why a step could not be executed. Each error is one text that names the culprit.

use rk_step::StepError;

/// An error of the runtime.
#[derive(Debug, thiserror::Error)]
pub enum RuntimeError {
    /// The step file is bad.
    #[error(transparent)]
    Step(#[from] StepError),
    /// The archive is missing, is another one, or does not fit the step.
    #[error("{0}")]
    Model(String),
    /// The device is not there, or not the one that the step was planned for.
    #[error("{0}")]
    Device(String),
    /// An operator failed or does not exist.
    #[error("{place}: {message}")]
    Execution {
        /// Instruction, node and operator.
        place: String,
        /// What libtorch said.
        message: String,
    },
    /// libtorch refused something outside of the program.
    #[error("libtorch: {0}")]
    Torch(String),
}

impl From<rk_torch::Error> for RuntimeError {
    fn from(e: rk_torch::Error) -> Self {
        RuntimeError::Torch(e.message().to_owned())
    }
}

impl From<tch::TchError> for RuntimeError {
    fn from(e: tch::TchError) -> Self {
        // A line that ends with a colon says only that there is more.
        let text = e.to_string();
        let told = text.lines().find(|line| !line.trim_end().ends_with(':')).unwrap_or(&text);
        RuntimeError::Torch(told.to_owned())
    }
}

impl From<rk_step::error::Invalid> for RuntimeError {
    fn from(invalid: rk_step::error::Invalid) -> Self {
        RuntimeError::Step(StepError::Invalid { path: "step".into(), invalid })
    }
}
