//! Passes over the rk dialect: one file each, with fixed headings, and the pipeline that they form.
//!
//! | pass | from | to | why it stands there |
//! |---|---|---|---|
//! | [`dataflow`] | raw | dataflow | planning needs values: storage that is overwritten cannot be reasoned about |
//! | [`simplify`] | dataflow | simplified | a node must own what it makes, so views are folded away first |
//! | [`fuse`] | simplified | same | before classes and costs, which belong to what is planned; optional |
//! | [`anonymize`] | simplified | blocks | equal blocks are measured, planned and generated once; optional |
//! | [`annotate_cost`] | simplified, blocks | costed | costs belong to what is planned, and that is a node |
//! | [`rematerialize`] | costed | scheduled | what runs again is decided, by solvers, and checked by the judge |
//! | [`lower`] | scheduled | lowered | what runs needs addresses; once they stand, no allocator is left in the loop |
//! | [`verify_stage`], [`verify_schedule`] | any; scheduled, lowered | same | contracts, checked by other code than made them |
//!
//! **Invariants:** no torch. No solver is believed: the judge of `rk-plan` reads every schedule back from the IR.

pub mod annotate_cost;
pub mod anonymize;
mod carry_out;
pub mod dataflow;
mod dead;
pub mod exit;
pub mod fuse;
pub mod lower;
pub mod moves;
mod names;
mod offload;
mod placing;
pub mod planning;
pub mod rematerialize;
pub mod report;
mod resident;
mod shape_only;
pub mod simplify;
mod times;
mod transfer_account;
mod unmet;
pub mod verify_schedule;
pub mod verify_stage;
pub mod views;

use rk_dialect::pass::{PassSpec, register_pass};
pub(crate) use rk_dialect::recorded::{alignment, device};

/// Every pass, in the order of the pipeline.
pub static PASSES: [&PassSpec; 9] = [
    &dataflow::PASS,
    &simplify::PASS,
    &fuse::PASS,
    &anonymize::PASS,
    &annotate_cost::PASS,
    &rematerialize::PASS,
    &lower::PASS,
    &verify_stage::PASS,
    &verify_schedule::PASS,
];

/// Registers every pass with MLIR. Once per process.
pub fn register_all() {
    PASSES.iter().for_each(|spec| register_pass(spec));
}
