//! Where elements lie: strides over an iteration space, and views of an input as a change of strides.

use super::Element;
use crate::attrs::Arg;
use crate::ops::AtenOp;
use crate::types::{Tensor, row_major};

/// Where a step finds an argument.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Source {
    /// The read of this number.
    Read(usize),
    /// The result of an earlier step.
    Step(usize),
    /// A number.
    Number(f64),
}

/// An input as the kernel reads it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Read {
    /// Which input of the node.
    pub input: usize,
    /// Elements before the first one that is read.
    pub offset: i64,
    /// Element stride per dimension of the iteration space; 0 where the input is broadcast.
    pub strides: Vec<i64>,
    /// Its element type.
    pub element: Element,
}

/// An output as the kernel writes it.
#[derive(Clone, Debug, PartialEq)]
pub struct Write {
    /// What is written.
    pub source: Source,
    /// Element stride per dimension of the iteration space.
    pub strides: Vec<i64>,
    /// Its element type.
    pub element: Element,
}

/// A view of an input: its layout in elements.
#[derive(Clone, Debug)]
pub(super) struct Layout {
    pub input: usize,
    pub offset: i64,
    pub shape: Vec<i64>,
    pub strides: Vec<i64>,
    pub element: Element,
}

impl Layout {
    /// What a view operator makes of it. The type of the result has shape and strides; only the offset is left to find.
    /// `None` for an operator whose offset is not known here.
    pub fn viewed(&self, call: AtenOp<'_>, result: &Tensor<'_>) -> Option<Self> {
        let args = call.args();
        let int = |index: usize| match args.get(index)? {
            Arg::Int(value) => Some(*value),
            _ => None,
        };
        let along = |dim: i64| {
            let dim = if dim < 0 { dim + self.shape.len() as i64 } else { dim };
            let dim = usize::try_from(dim).ok()?;
            Some((*self.shape.get(dim)?, *self.strides.get(dim)?))
        };
        let (_, name, _) = call.operator_parts()?;
        let more = match name {
            "slice" => {
                let (size, stride) = along(int(1)?)?;
                let start = int(2).unwrap_or(0);
                let start = if start < 0 { start + size } else { start };
                start.clamp(0, size) * stride
            }
            "select" => {
                let (size, stride) = along(int(1)?)?;
                let index = int(2)?;
                (if index < 0 { index + size } else { index }) * stride
            }
            name if is_reshape(name) => 0,
            "t" | "transpose" | "permute" | "expand" | "detach" | "alias" => 0,
            _ => return None,
        };
        Some(Self {
            input: self.input,
            offset: self.offset + more,
            shape: result.shape.clone(),
            strides: result.strides.clone(),
            element: Element::of(result.element)?,
        })
    }

    /// The strides with which it is read in a space of this shape; `None` when it does not broadcast to it.
    pub fn broadcast(&self, space: &[i64]) -> Option<Vec<i64>> {
        let missing = space.len().checked_sub(self.shape.len())?;
        let mut strides = vec![0; missing];
        for (dim, (&size, &stride)) in self.shape.iter().zip(&self.strides).enumerate() {
            match size {
                _ if size == space[missing + dim] => strides.push(if size == 1 { 0 } else { stride }),
                1 => strides.push(0),
                _ => return None,
            }
        }
        Some(strides)
    }
}

/// Operators that keep the row-major order of the elements.
pub(super) fn is_reshape(name: &str) -> bool {
    matches!(name, "view" | "_unsafe_view" | "_reshape_alias" | "reshape" | "unsqueeze" | "squeeze")
}

/// Whether these strides visit the elements of the space one after the other, row-major, or one element always.
pub(super) fn is_linear(space: &[i64], strides: &[i64]) -> bool {
    let dense = row_major(space);
    let constant = strides.iter().all(|&stride| stride == 0);
    constant
        || space
            .iter()
            .zip(strides.iter().zip(&dense))
            .all(|(&size, (stride, dense))| size == 1 || stride == dense)
}

/// The simplest space that visits the same elements: dimensions in the order of the first row of strides, from the
/// largest, those of size 1 left out, neighbours merged where every row allows it.
///
/// `rows` are the strides of all reads and writes; they are rewritten. Returns the new shape, with at least one dimension.
pub(super) fn simplify(space: &[i64], rows: &mut [&mut Vec<i64>]) -> Vec<i64> {
    if space.contains(&0) {
        rows.iter_mut().for_each(|row| **row = vec![1]);
        return vec![0];
    }
    let leading: Vec<i64> = rows.first().map(|row| (*row).clone()).unwrap_or_default();
    let mut dims: Vec<usize> = (0..space.len()).filter(|&dim| space[dim] != 1).collect();
    dims.sort_by_key(|&dim| std::cmp::Reverse(leading.get(dim).copied().unwrap_or(0)));
    let mut shape: Vec<i64> = Vec::new();
    let mut kept: Vec<Vec<i64>> = vec![Vec::new(); rows.len()];
    for dim in dims {
        let joins = !shape.is_empty()
            && kept.iter().zip(rows.iter()).all(|(kept, row)| kept.last() == Some(&(row[dim] * space[dim])));
        if joins {
            *shape.last_mut().expect("not empty") *= space[dim];
            kept.iter_mut().zip(rows.iter()).for_each(|(kept, row)| {
                *kept.last_mut().expect("as long as the shape") = row[dim];
            });
        } else {
            shape.push(space[dim]);
            kept.iter_mut().zip(rows.iter()).for_each(|(kept, row)| kept.push(row[dim]));
        }
    }
    if shape.is_empty() {
        shape.push(1);
        kept.iter_mut().for_each(|row| row.push(1));
    }
    rows.iter_mut().zip(kept).for_each(|(row, kept)| **row = kept);
    shape
}
