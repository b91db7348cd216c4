//! The types of the step file: plain data, no behaviour beyond small look-ups.
//!
//! Three index spaces, each with its own type:
//! * [`NodeId`] – a node; nodes stand in their original order of execution.
//! * [`Slot`] – a value of the program. Slots `0..args.len()` are the arguments, the next `constants.len()` are the
//!   constants, all others are assigned exactly once, by a run or by the epilogue.
//! * [`Local`] – a value inside a node's body: `0..inputs` are its inputs, the others are results of its calls.
//!
//! Not here: serialization rules beyond derives (see [`crate::value`], [`crate::file`]) and checks
//! (see [`crate::validate`]).

pub(crate) mod code;
pub mod kernel;
pub mod layout;

use rk_vocabulary::ElementType;
use serde::{Deserialize, Serialize};

use self::kernel::{Kernel, Library};
use self::layout::Layout;
use crate::value::ArgValue;

/// Bytes that are planned for a saved generator state, as in the IR, whose type does not know the device: the CPU's takes as many. A GPU's
/// takes 16, in the host's memory.
pub const GENERATOR_BYTES: u64 = 5056;

/// Index of a node in [`Step::nodes`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct NodeId(pub u32);

/// Index of a value of the program: arguments first, then constants, then what runs produce.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Slot(pub u32);

/// Index of a value inside one node's body: its inputs first, then results of its calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Local(pub u32);

impl NodeId {
    /// The index as `usize`.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}
impl Slot {
    /// The index as `usize`.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}
impl Local {
    /// The index as `usize`.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// One training step. Made by `rk-translate --to step`, executed by `rk-run`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Step {
    /// Name of the function that was translated, for messages.
    pub name: String,
    /// Where parameters, buffers and inputs come from; `None` for hand-written IR, whose arguments are synthesized.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<Source>,
    /// Device that the step was recorded and measured on: `cpu` or `cuda`.
    pub device: String,
    /// Under which settings of libtorch (`rk.settings` of the module): `name=value`, with blanks between. Kernels and workspaces depend on
    /// them, so whoever runs the step sets them so. `None`: nobody wrote them down.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub settings: Option<String>,
    /// Bytes to which the size of each value is rounded up in planned numbers.
    pub alignment: u64,
    /// What the planner promised.
    pub plan: Plan,
    /// Inputs, parameters and buffers, in the order of the function's arguments: slots `0..args.len()`.
    pub args: Vec<Arg>,
    /// Tensors baked into the trace: the slots after the arguments. Resident.
    pub constants: Vec<Constant>,
    /// Every node once, in the original order of execution.
    pub nodes: Vec<Node>,
    /// What to execute.
    pub program: Program,
    /// Results of the step, in the order of the function's results.
    pub outputs: Vec<Output>,
    /// Addresses, when the step is lowered. Without them every value is allocated when it is made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub layout: Option<Layout>,
    /// Machine code of the nodes that run as one generated kernel.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub library: Option<Library>,
}

/// The archive that a step was recorded from (`rk.source` of the module).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Source {
    /// Path of the `torch.jit.trace` archive as `rk-import` was given it.
    pub archive: String,
    /// SHA-256 of that file, 64 hexadecimal digits.
    pub sha256: String,
    /// `sum`, `mean`, `output:N` or `none`, as given to `rk-import --loss`.
    pub loss: String,
    /// Seed of the default generator and of synthesized inputs.
    pub seed: u64,
    /// Input specifications (`f32[8,3,224,224]`), in the order of `forward`'s arguments.
    #[serde(default)]
    pub inputs: Vec<String>,
    /// File with the inputs themselves, when `rk-import --input FILE.pt` was used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub inputs_file: Option<String>,
    /// SHA-256 of that file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub inputs_sha256: Option<String>,
}

/// The planner's numbers (attributes `rk.budget`, `rk.peak`, ... of the scheduled function). Bytes have the scope
/// `activations` of `docs/ir.md`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Plan {
    /// The budget; `None`: unlimited.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub budget_bytes: Option<u64>,
    /// Peak of this program as planned.
    pub planned_peak_bytes: u64,
    /// Bytes of one arena that holds every value at its planned offset; at least the peak of values.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub arena_bytes: Option<u64>,
    /// Planned peak of the schedule that recomputes nothing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub base_peak_bytes: Option<u64>,
    /// Planned time of this program.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub time_ns: Option<u64>,
    /// Planned time of the schedule that recomputes nothing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub base_time_ns: Option<u64>,
    /// Proven lower bound of the time within the budget.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lower_bound_ns: Option<u64>,
    /// `optimal`, `feasible`, ...
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<String>,
    /// Which solver made the plan.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub solver: Option<String>,
}

/// What an argument of the step is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Role {
    /// A tensor that the caller hands to `forward`.
    Input,
    /// A parameter of the model; only trainable ones have gradients and are updated.
    Parameter {
        /// `requires_grad` of the parameter.
        trainable: bool,
    },
    /// State of the model that is not trained by gradients (running statistics, counters).
    Buffer,
}

/// One argument of the step.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Arg {
    /// Module path of a parameter or buffer (`layer1.0.conv1.weight`), name of an input.
    pub name: String,
    /// Other names of the same storage (tied parameters).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub aliases: Vec<String>,
    /// Input, parameter or buffer.
    pub role: Role,
    /// Type of the tensor.
    pub spec: TensorSpec,
}

/// Element type, shape and layout of a tensor.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TensorSpec {
    /// Element type.
    pub dtype: ElementType,
    /// Sizes.
    pub shape: Vec<i64>,
    /// Element strides; `None`: row-major contiguous.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub strides: Option<Vec<i64>>,
    /// Bytes of the storage when it is longer than shape and strides span.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub storage_bytes: Option<u64>,
}

impl TensorSpec {
    /// Number of elements.
    pub fn elements(&self) -> u64 {
        self.shape.iter().fold(1, |all: u64, &size| all.saturating_mul(size.max(0) as u64))
    }

    /// Element strides, written out for contiguous tensors as well.
    pub fn full_strides(&self) -> Vec<i64> {
        if let Some(strides) = &self.strides {
            return strides.clone();
        }
        let mut strides = vec![1i64; self.shape.len()];
        for i in (0..self.shape.len().saturating_sub(1)).rev() {
            strides[i] = strides[i + 1].saturating_mul(self.shape[i + 1].max(1));
        }
        strides
    }

    /// Bytes of the storage: as given, else `(1 + Σ (size−1)·stride) · element size`, 0 when a size is 0.
    pub fn bytes(&self) -> u64 {
        if let Some(bytes) = self.storage_bytes {
            return bytes;
        }
        if self.shape.contains(&0) {
            return 0;
        }
        let reach = |(&size, stride): (&i64, i64)| size.saturating_sub(1).saturating_mul(stride);
        let span = self.shape.iter().zip(self.full_strides()).map(reach).fold(0, i64::saturating_add);
        (span.max(0) as u64 + 1).saturating_mul(self.dtype.bytes())
    }
}

/// A tensor baked into the trace.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Constant {
    /// Name for messages.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// Type of the tensor.
    pub spec: TensorSpec,
    /// Its elements in row-major order of the indices, whatever the strides.
    pub data: Data,
}

/// Elements of a constant as little-endian bytes in hexadecimal.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Data {
    /// One element, repeated.
    Splat(String),
    /// All elements.
    Hex(String),
}

/// One real computation: what the planner runs, drops and runs again.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Node {
    /// Symbol of the node, with its module path (`layer1.0.conv1`).
    pub name: String,
    /// Number of inputs: locals `0..inputs`.
    pub inputs: u32,
    /// Calls in order of execution.
    #[serde(deserialize_with = "code::calls")]
    pub ops: Vec<Call>,
    /// What the node yields.
    pub outputs: Vec<NodeOutput>,
    /// The body mutates this input, and the first output is its new version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub overwrites: Option<u32>,
    /// Draws from the default generator of the device.
    #[serde(default, skip_serializing_if = "is_false")]
    pub random: bool,
    /// Has a side effect that cannot be left out on a second run: it runs once per step (S5).
    #[serde(default, skip_serializing_if = "is_false")]
    pub once: bool,
    /// Belongs to the backward pass; for people only.
    #[serde(default, skip_serializing_if = "is_false")]
    pub backward: bool,
    /// Time of one run, 0 when unknown.
    #[serde(default)]
    pub time_ns: u64,
    /// Bytes needed only while the node runs.
    #[serde(default)]
    pub workspace_bytes: u64,
    /// The same computation as one generated kernel.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kernel: Option<Kernel>,
}

/// One result of a node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NodeOutput {
    /// The local that holds it when the body ends.
    pub local: Local,
    /// Bytes of its storage, not rounded; 0 for an undefined tensor.
    pub bytes: u64,
}

/// One ATen operator call.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Call {
    /// `aten.add.Tensor`: namespace, name, overload (`default` for the empty one).
    pub op: String,
    /// Arguments in schema order; trailing ones may be left out when the schema has defaults.
    pub args: Vec<ArgValue>,
    /// Where each tensor result goes: a local in a node, a slot in the epilogue; `None`: not kept. A result that is a
    /// list of tensors stands for its elements; results that are not tensors do not count.
    pub results: Vec<Option<u32>>,
    /// Positions in `args` that hold state of the model: a second run of the node passes `None` there (S5).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub effects: Vec<u32>,
}

/// A schedule in executable form.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Program {
    /// Number of slots, arguments and constants included.
    pub slots: u32,
    /// What to execute, in order.
    pub instrs: Vec<Instr>,
    /// Views that feed the outputs; their value arguments and results are slots.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub epilogue: Vec<Call>,
    /// The slot of each of [`Step::outputs`].
    pub outputs: Vec<Slot>,
}

/// One instruction of the program.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Instr {
    /// Executes a node.
    Run(Run),
    /// Frees a value.
    Drop(Slot),
}

/// One execution of a node.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Run {
    /// Which node.
    pub node: NodeId,
    /// Not its first run.
    #[serde(default, skip_serializing_if = "is_false")]
    pub again: bool,
    /// Hands the storage of operand `overwrites` over to the first output; the operand is gone afterwards, without a
    /// drop. Without it a node that overwrites works on a copy.
    #[serde(default, skip_serializing_if = "is_false")]
    pub overwrite: bool,
    /// Operands.
    pub inputs: Vec<Slot>,
    /// Where the outputs go.
    pub outputs: Vec<Slot>,
    /// Saves the generator state from before this run there (S4). First runs of random nodes only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state_out: Option<Slot>,
    /// Runs with this generator state, and puts the current one back (S4). Second runs of random nodes only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state_in: Option<Slot>,
}

/// What a result of the step is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OutputRole {
    /// The scalar that backward starts from.
    Loss,
    /// A tensor that `forward` returned.
    Output,
    /// The gradient of a trainable parameter; its storage does not count as an activation.
    Gradient,
}

/// One result of the step.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Output {
    /// Loss, output or gradient.
    pub role: OutputRole,
    /// `loss`, the path of an output (`0`, `1.hidden.2`), or the name of the parameter.
    pub name: String,
}

/// The call in the middle of a step that the caller interrupts. No kernel stands behind it.
pub const TANGENTS: &str = "rk.tangents.default";

fn is_false(b: &bool) -> bool {
    !*b
}

impl Step {
    /// Number of slots that exist before the program starts: arguments and constants.
    pub fn resident(&self) -> u32 {
        (self.args.len() + self.constants.len()) as u32
    }

    /// Position in the program of the run in which the caller takes the outputs and gives their gradients (docs/ir.md, "Steps
    /// that the caller interrupts"); `None` for a step that runs in one go.
    pub fn interruption(&self) -> Option<usize> {
        self.program.instrs.iter().position(|instr| match instr {
            Instr::Run(run) => self
                .nodes
                .get(run.node.index())
                .is_some_and(|node| node.ops.iter().any(|call| call.op == TANGENTS)),
            Instr::Drop(_) => false,
        })
    }

    /// What an instruction of the program is called in messages: `program[5] run again "norm"`.
    pub(crate) fn place_of(&self, at: usize) -> String {
        match self.program.instrs.get(at) {
            Some(Instr::Run(run)) => {
                let name = self.nodes.get(run.node.index()).map_or("", |node| &node.name);
                format!("program[{at}] run{} {name:?}", if run.again { " again" } else { "" })
            }
            Some(Instr::Drop(_)) => format!("program[{at}] drop"),
            None => "program".into(),
        }
    }

    /// A name for a slot as the user knows it: an argument's or constant's own, else `%12`.
    pub fn slot_name(&self, slot: Slot) -> String {
        let i = slot.index();
        if let Some(arg) = self.args.get(i) {
            arg.name.clone()
        } else if let Some(c) = self.constants.get(i - self.args.len()) {
            if c.name.is_empty() { format!("constant{}", i - self.args.len()) } else { c.name.clone() }
        } else {
            format!("%{i}")
        }
    }
}
