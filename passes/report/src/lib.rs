//! A plan as one HTML page: what lies in memory over the step, what holds the peak, extra time against budget, what every module costs.
//! And the plans of a run of many calls as one: which plan each call runs, what is held between.
//!
//! The page holds all that it needs and asks no network. What it shows is the judge's: the stacks of a chart add up to
//! the memory that [`rk_plan::judge`](fn@rk_plan::judge) counts, run by run, also where values wait in host memory. Charts are drawn by
//! [uPlot](https://github.com/leeoniya/uPlot), which is in `third-party`; the scripts in `page` say what a moment holds.
//!
//! | file | what is in it |
//! |---|---|
//! | `timeline` | the runs of a step, with the lives of all values, each with its reason |
//! | `curve` | other budgets, planned: the only part that asks a solver |
//! | `tables`, `numbers` | text and tables; bytes and times as people read them |
//! | `calls` | steps made of many calls |
//! | `page` | the page around them, and what its script reads |
//!
//! **Invariants:** no MLIR, no torch, no file. The same plan gives the same page.

#![forbid(unsafe_code)]
#![deny(missing_docs)]

mod calls;
mod curve;
mod numbers;
mod page;
mod report;
mod tables;
mod timeline;

pub use calls::{CalledPlan, CalledStep, calls_html};
pub use curve::{Curve, Point, curve};
pub use page::html;
pub use report::Report;
pub use timeline::{Category, Life, Timeline};
