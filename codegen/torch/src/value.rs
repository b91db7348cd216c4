//! Arguments and results of operators, and their flat form for the border.

use crate::error::{Error, Result};
use crate::ffi::{self, Cell};
use tch::Tensor;

/// An argument or a result of an operator.
///
/// The schema decides what a value means: an `Int` may be an integer, a Scalar, a dtype, a layout or a memory
/// format (libtorch's numbers), a `Str` may be a device. A number where the schema wants a tensor becomes a
/// "wrapped number", which takes no part in type promotion, as in Python.
#[derive(Debug)]
pub enum Value {
    /// A tensor. As a result it is a new handle on the storage.
    Tensor(Tensor),
    /// None, or an undefined tensor (a masked-out gradient).
    None,
    /// The tensor in this slot; in prepared calls only.
    Slot(usize),
    /// An integer.
    Int(i64),
    /// A double.
    Float(f64),
    /// A truth value.
    Bool(bool),
    /// A string.
    Str(String),
    /// A list of any of these.
    List(Vec<Value>),
}

impl Value {
    /// The tensor inside.
    ///
    /// # Errors
    /// When the value is something else.
    pub fn into_tensor(self) -> Result<Tensor> {
        match self {
            Self::Tensor(tensor) => Ok(tensor),
            other => Err(Error::new(format!("expected a tensor, found {other:?}"))),
        }
    }
}

impl From<&Tensor> for Value {
    fn from(tensor: &Tensor) -> Self {
        Self::Tensor(tensor.shallow_clone())
    }
}

/// Appends `value` in preorder. The cells borrow tensors and strings from `value`.
pub(crate) fn encode(value: &Value, cells: &mut Vec<Cell>) {
    let cell = |tag, len: usize, payload| Cell { tag, len: len as u32, payload };
    cells.push(match value {
        Value::Tensor(tensor) => cell(ffi::TENSOR, 0, tensor.as_ptr() as u64),
        Value::None => cell(ffi::NONE, 0, 0),
        Value::Slot(slot) => cell(ffi::SLOT, 0, *slot as u64),
        Value::Int(int) => cell(ffi::INT, 0, *int as u64),
        Value::Float(float) => cell(ffi::FLOAT, 0, float.to_bits()),
        Value::Bool(bool) => cell(ffi::BOOL, 0, u64::from(*bool)),
        Value::Str(text) => cell(ffi::STR, text.len(), text.as_ptr() as u64),
        Value::List(items) => cell(ffi::LIST, items.len(), 0),
    });
    if let Value::List(items) = value {
        items.iter().for_each(|item| encode(item, cells));
    }
}

/// Reads one result and takes ownership of the tensors in it.
///
/// # Safety
/// `cells` comes from `rk_op_call` and each tensor is decoded once.
pub(crate) unsafe fn decode(cells: &mut std::slice::Iter<'_, Cell>) -> Result<Value> {
    let Some(cell) = cells.next() else {
        return Err(Error::new("a result is cut short"));
    };
    Ok(match cell.tag {
        // SAFETY: the payload is a tensor that the shim gives away, and this cell is read once.
        ffi::TENSOR => Value::Tensor(unsafe { Tensor::from_ptr(cell.payload as *mut _) }),
        ffi::INT => Value::Int(cell.payload as i64),
        ffi::FLOAT => Value::Float(f64::from_bits(cell.payload)),
        ffi::BOOL => Value::Bool(cell.payload != 0),
        ffi::LIST => {
            // SAFETY: the cells of the items follow.
            let items: Result<Vec<Value>> = (0..cell.len).map(|_| unsafe { decode(cells) }).collect();
            Value::List(items?)
        }
        _ => Value::None,
    })
}
