//! What one run of a step did, as plain data: operators in order of execution, values by number.

use crate::bytes::Reader;
use crate::element::element_of_code;
use crate::error::{Error, Result};
use rk_vocabulary::ElementType;
use std::time::Duration;

/// A number of a value of a recording.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ValueNumber(pub u32);

/// A tensor at the moment when it was made or changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TensorType {
    /// Element type.
    pub dtype: ElementType,
    /// Sizes.
    pub sizes: Vec<i64>,
    /// Strides in elements.
    pub strides: Vec<i64>,
    /// Bytes of the storage, of which the tensor may be a part.
    pub storage_bytes: u64,
}

/// An argument of an operator, in schema order.
#[derive(Debug, Clone, PartialEq)]
pub enum Argument {
    /// None, or an undefined tensor.
    None,
    /// A tensor.
    Value(ValueNumber),
    /// An integer, or one of libtorch's numbers for dtypes, layouts and memory formats.
    Int(i64),
    /// A double.
    Float(f64),
    /// A truth value.
    Bool(bool),
    /// A string, or a device.
    Str(String),
    /// A list.
    List(Vec<Argument>),
}

/// One operator call below autograd.
#[derive(Debug, Clone, PartialEq)]
pub struct RecordedOp {
    /// `aten.add.Tensor`, `aten.relu.default`.
    pub name: String,
    /// Module path; for backward operators that of their forward operator. Empty at the root.
    pub path: String,
    /// Arguments in schema order.
    pub args: Vec<Argument>,
    /// The tensors among the arguments, in order.
    pub operands: Vec<ValueNumber>,
    /// Tensor results, with `Tensor[]` flattened; undefined ones have no type.
    pub results: Vec<ValueNumber>,
    /// Indices of operands whose storage the operator overwrites, declared by its schema or not.
    pub writes: Vec<u32>,
    /// Per result: the operand whose storage it shares.
    pub aliases: Vec<Option<u32>>,
    /// Whether it drew from the default generator.
    pub random: bool,
    /// Whether it belongs to the backward pass.
    pub backward: bool,
    /// Bytes that it needed only while it ran: allocator peak minus level before minus storages it left. When
    /// several threads allocate, the sum of their own peaks counts: no run can need more.
    pub workspace: u64,
    /// Median time in nanoseconds, when measured: its own or that of an equal call.
    pub nanos: Option<u64>,
}

/// What a value of the step's arguments is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ArgumentRole {
    /// An input of forward.
    Input,
    /// A parameter of the model.
    Parameter,
    /// A buffer of the model.
    Buffer,
}

/// An input, parameter or buffer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StepArgument {
    /// Its value.
    pub value: ValueNumber,
    /// Its role.
    pub role: ArgumentRole,
    /// Its name: of the argument of forward, or the path of the slot.
    pub name: String,
    /// Whether the step computes its gradient.
    pub trainable: bool,
    /// Other slots that hold it.
    pub aliases: Vec<String>,
}

/// A tensor that is baked into the trace; contiguous.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Constant {
    /// Its value.
    pub value: ValueNumber,
    /// Its elements in row-major order, little-endian.
    pub bytes: Vec<u8>,
}

/// What a result of the step is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ResultRole {
    /// The loss.
    Loss,
    /// An output of forward.
    Output,
    /// The gradient of a parameter.
    Gradient,
}

/// A result of the step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StepResult {
    /// Its value.
    pub value: ValueNumber,
    /// Its role.
    pub role: ResultRole,
    /// `loss`, the path of the output, or the name of the parameter.
    pub name: String,
}

/// A recorded step.
#[derive(Debug, Clone, PartialEq)]
pub struct Recording {
    /// The type of each value; `None` for undefined tensors.
    pub values: Vec<Option<TensorType>>,
    /// Inputs, then parameters and buffers in the order of the module tree.
    pub arguments: Vec<StepArgument>,
    /// Tensors baked into the trace, in order of first use.
    pub constants: Vec<Constant>,
    /// The operators in order of execution.
    pub ops: Vec<RecordedOp>,
    /// Loss, outputs, gradients.
    pub results: Vec<StepResult>,
    /// How many operators were timed; the others have the time of an equal one.
    pub timed: u32,
    /// What the timing took, the recording itself not counted.
    pub timing: Duration,
}

impl Recording {
    /// The type of a value; `None` when it is undefined (or not of this recording).
    pub fn type_of(&self, value: ValueNumber) -> Option<&TensorType> {
        self.values.get(value.0 as usize)?.as_ref()
    }

    pub(crate) fn decode(bytes: &[u8]) -> Result<Self> {
        let mut reader = Reader::new(bytes);
        let r = &mut reader;
        Ok(Self {
            values: r.list(value_type)?,
            arguments: r.list(|r| {
                let (value, role) = (number(r)?, r.u8()?);
                let role = *[ArgumentRole::Input, ArgumentRole::Parameter, ArgumentRole::Buffer]
                    .get(role as usize)
                    .ok_or_else(unknown)?;
                Ok(StepArgument {
                    value,
                    role,
                    trainable: r.flag()?,
                    name: r.text()?,
                    aliases: r.list(Reader::text)?,
                })
            })?,
            constants: r.list(|r| Ok(Constant { value: number(r)?, bytes: r.raw()? }))?,
            ops: r.list(op)?,
            results: r.list(|r| {
                let (value, role) = (number(r)?, r.u8()?);
                let role = *[ResultRole::Loss, ResultRole::Output, ResultRole::Gradient]
                    .get(role as usize)
                    .ok_or_else(unknown)?;
                Ok(StepResult { value, role, name: r.text()? })
            })?,
            timed: r.u32()?,
            timing: Duration::from_nanos(r.u64()?),
        })
    }
}

fn unknown() -> Error {
    Error::new("the recording holds an unknown tag: shim and crate are of different versions")
}

fn number(r: &mut Reader<'_>) -> Result<ValueNumber> {
    r.u32().map(ValueNumber)
}

fn value_type(r: &mut Reader<'_>) -> Result<Option<TensorType>> {
    if !r.flag()? {
        return Ok(None);
    }
    let dtype = element_of_code(r.i32()?)?;
    let (sizes, strides) = (r.list(Reader::i64)?, r.list(Reader::i64)?);
    Ok(Some(TensorType { dtype, sizes, strides, storage_bytes: r.u64()? }))
}

fn argument(r: &mut Reader<'_>) -> Result<Argument> {
    Ok(match r.u8()? {
        0 => Argument::None,
        1 => Argument::Value(number(r)?),
        2 => Argument::Int(r.i64()?),
        3 => Argument::Float(r.f64()?),
        4 => Argument::Bool(r.i64()? != 0),
        5 => Argument::Str(r.text()?),
        6 => Argument::List(r.list(argument)?),
        _ => return Err(unknown()),
    })
}

fn op(r: &mut Reader<'_>) -> Result<RecordedOp> {
    let (name, path, args) = (r.text()?, r.text()?, r.list(argument)?);
    let (operands, results, writes) = (r.list(number)?, r.list(number)?, r.list(Reader::u32)?);
    let aliases = r.list(|r| Ok(u32::try_from(r.i32()?).ok()))?;
    let (random, backward, workspace) = (r.flag()?, r.flag()?, r.u64()?);
    let nanos = Some(r.u64()?).filter(|&nanos| nanos != u64::MAX);
    Ok(RecordedOp {
        name,
        path,
        args,
        operands,
        results,
        writes,
        aliases,
        random,
        backward,
        workspace,
        nanos,
    })
}
