//! The view of a whole step: its stage, its arguments and results with their roles.

use crate::attrs::Stage;
use crate::raw::{Attr, Block, Op, Value};

/// The contract of a step.
pub(crate) const STAGE: &str = "rk.stage";
/// What an argument or a result is.
pub(crate) const ROLE: &str = "rk.role";
/// The name of an argument or a result in the model.
pub(crate) const NAME: &str = "rk.name";
/// Further names of a parameter.
pub(crate) const ALIASES: &str = "rk.aliases";
/// Whether a parameter has a gradient.
pub(crate) const TRAINABLE: &str = "rk.trainable";

/// A step: a `func.func` with the attribute `rk.stage`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct StepOp<'c>(Op<'c>);

impl<'c> StepOp<'c> {
    /// A view of the op, if it is a function with a stage and a body.
    pub fn of(op: Op<'c>) -> Option<Self> {
        (op.name() == "func.func" && op.get(STAGE).and_then(Stage::of).is_some() && op.body().is_some())
            .then_some(Self(op))
    }

    /// The function.
    pub fn op(self) -> Op<'c> {
        self.0
    }

    /// Its name.
    pub fn symbol(self) -> &'c str {
        self.0.get("sym_name").and_then(Attr::as_str).unwrap_or_default()
    }

    /// The contract that it satisfies.
    pub fn stage(self) -> Stage {
        self.0.get(STAGE).and_then(Stage::of).unwrap_or(Stage::Raw)
    }

    /// Declares that it satisfies another contract.
    pub fn set_stage(self, stage: Stage) {
        self.0.set(STAGE, stage.attr(self.0.context()));
    }

    /// Its first block, which is its only one.
    ///
    /// # Panics
    /// If the body was removed since [`StepOp::of`].
    pub fn body(self) -> Block<'c> {
        self.0.body().expect("StepOp::of saw a body")
    }

    /// Its arguments: inputs, parameters, buffers.
    pub fn arguments(self) -> Vec<Value<'c>> {
        self.body().arguments()
    }

    /// What it returns: loss, outputs, gradients.
    pub fn returned(self) -> Vec<Value<'c>> {
        self.body().terminator().map(Op::operands).unwrap_or_default()
    }

    /// An attribute of an argument, such as `rk.role`.
    pub fn argument_attr(self, index: usize, name: &str) -> Option<Attr<'c>> {
        self.0.get("arg_attrs")?.array_element(index)?.entry(name)
    }

    /// An attribute of a result, such as `rk.role`.
    pub fn result_attr(self, index: usize, name: &str) -> Option<Attr<'c>> {
        self.0.get("res_attrs")?.array_element(index)?.entry(name)
    }

    /// The role of an argument: `input`, `parameter` or `buffer`.
    pub fn argument_role(self, index: usize) -> Option<&'c str> {
        self.argument_attr(index, ROLE).and_then(Attr::as_str)
    }

    /// The name of an argument: a parameter's module path, an input's name.
    pub fn argument_name(self, index: usize) -> Option<&'c str> {
        self.argument_attr(index, NAME).and_then(Attr::as_str)
    }

    /// Further names of a parameter that is tied.
    pub fn argument_aliases(self, index: usize) -> Vec<&'c str> {
        let names = self.argument_attr(index, ALIASES).and_then(Attr::as_array).unwrap_or_default();
        names.into_iter().filter_map(Attr::as_str).collect()
    }

    /// Whether an argument is a parameter that is trained.
    pub fn is_trainable(self, index: usize) -> bool {
        self.argument_attr(index, TRAINABLE).is_some()
    }

    /// The role of a result: `loss`, `output` or `gradient`.
    pub fn result_role(self, index: usize) -> Option<&'c str> {
        self.result_attr(index, ROLE).and_then(Attr::as_str)
    }

    /// The name of a result: a path into the outputs, or the parameter of a gradient.
    pub fn result_name(self, index: usize) -> Option<&'c str> {
        self.result_attr(index, NAME).and_then(Attr::as_str)
    }
}
