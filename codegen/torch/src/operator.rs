//! Operators by name: the boxed dispatcher of libtorch, called below autograd.

use crate::error::{Error, Result, c_string, check, take_string};
use crate::ffi::{self, Cell};
use crate::value::{Value, decode, encode};
use std::collections::HashMap;
use std::sync::Mutex;

/// A handle to an ATen operator; copying it is free and it stays valid for ever.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Operator {
    pub(crate) raw: *mut ffi::Op,
}

// SAFETY: an operator handle is immutable after registration and the dispatcher is thread-safe.
unsafe impl Send for Operator {}
// SAFETY: likewise.
unsafe impl Sync for Operator {}

static FOUND: Mutex<Option<HashMap<String, Operator>>> = Mutex::new(None);

impl Operator {
    /// Finds an operator by its IR name: `aten.add.Tensor`, `aten.relu.default`.
    ///
    /// # Errors
    /// When the name is malformed, or this libtorch has no such operator.
    pub fn find(name: &str) -> Result<Self> {
        let mut found = FOUND.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let found = found.get_or_insert_with(HashMap::new);
        if let Some(op) = found.get(name) {
            return Ok(*op);
        }
        let parts: Vec<&str> = name.split('.').collect();
        let [namespace, base, overload] = parts[..] else {
            return Err(Error::new(format!("'{name}' is not of the form namespace.name.overload")));
        };
        let qualified = c_string(&format!("{namespace}::{base}"))?;
        let overload = c_string(if overload == "default" { "" } else { overload })?;
        let mut raw = std::ptr::null_mut();
        // SAFETY: the strings live during the call; `raw` is written on success.
        unsafe { check(ffi::rk_op_find(qualified.as_ptr(), overload.as_ptr(), &mut raw))? };
        let op = Self { raw };
        found.insert(name.to_owned(), op);
        Ok(op)
    }

    /// The schema, e.g. `aten::relu(Tensor self) -> Tensor`.
    ///
    /// # Errors
    /// When memory is exhausted.
    pub fn schema(&self) -> Result<String> {
        let mut text = std::ptr::null();
        // SAFETY: the handle is valid for ever; the string is taken once.
        unsafe {
            check(ffi::rk_op_schema(self.raw, &mut text))?;
            Ok(take_string(text))
        }
    }

    /// Calls the operator with `args` in schema order, without autograd. Missing trailing arguments take their
    /// defaults. Gives one value per result of the schema; a `Tensor[]` result is a [`Value::List`].
    ///
    /// # Errors
    /// When an argument does not fit the schema, or the operator fails.
    pub fn call(&self, args: &[Value]) -> Result<Vec<Value>> {
        let mut cells: Vec<Cell> = Vec::with_capacity(args.len());
        args.iter().for_each(|arg| encode(arg, &mut cells));
        let (mut out, mut out_n) = (std::ptr::null(), 0);
        // SAFETY: `cells` borrows from `args`, which outlives the call; the result buffer is read before the
        // next call of this thread, and each tensor in it is taken once.
        unsafe {
            check(ffi::rk_op_call(self.raw, cells.as_ptr(), cells.len(), &mut out, &mut out_n))?;
            if out_n == 0 {
                return Ok(Vec::new());
            }
            let mut results = std::slice::from_raw_parts(out, out_n).iter();
            let mut values = Vec::new();
            while results.len() > 0 {
                values.push(decode(&mut results)?);
            }
            Ok(values)
        }
    }
}
