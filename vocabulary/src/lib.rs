//! What every part of rk spells in the same way: element types, spans of time, the roofline, and files that appear whole.
//!
//! A word is here when crates of more than one world use it. Bytes, times and budgets of plans are in `rk_plan::units`; what MLIR or torch make of an
//! element type is said where they are linked.
//!
//! **Invariant:** none of our crates below it, no MLIR, no torch.

#![forbid(unsafe_code)]
#![deny(missing_docs)]

mod element;
mod file;
pub mod roofline;
mod span;

pub use element::ElementType;
pub use file::{write_output, write_whole};
pub use span::{SpanError, parse_span};
