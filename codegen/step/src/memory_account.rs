//! Live bytes per instruction, by the rules of `docs/ir.md`, "What counts as memory".
//!
//! Scope `activations`: every value that the step allocates, rounded up to the alignment, plus the running node's
//! workspace, plus saved generator states. Arguments, constants, and values whose storage becomes a gradient do not
//! count. A node that overwrites without the right to works on a copy, which is its first output: nothing extra.
//!
//! The judge of `rk-plan` counts, too, from the lives of values and once per run; this one adds and subtracts as the executor
//! does, and once per instruction, for people. Two ways to one peak: tests compare them.
//!
//! Not here: the measured peak (see `rk-runtime`). The two are compared in tests and by `rk-run`.

use std::collections::BTreeSet;

use crate::error::Invalid;
use crate::model::{GENERATOR_BYTES, Instr, OutputRole, Step};
use crate::origin::{Origin, origins, output_bases};

/// Bytes over the course of a program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MemoryAccount {
    /// Live bytes after each instruction.
    pub live: Vec<u64>,
    /// Bytes in use while each instruction runs: operands, outputs and workspace; as `live` for a drop.
    pub during: Vec<u64>,
    /// The largest of `during`.
    pub peak: u64,
    /// The instruction where the peak is, the first of several; `None` for an empty program.
    pub peak_at: Option<usize>,
}

/// For each slot: does its storage become a gradient, and nothing else? Then it does not count as an activation.
///
/// # Errors
/// As [`origins`].
pub fn gradient_slots(step: &Step) -> Result<Vec<bool>, Invalid> {
    let of = origins(step)?;
    let gradients = gradient_origins(step, &of);
    Ok(of.iter().map(|origin| origin.is_some_and(|origin| gradients.contains(&origin))).collect())
}

/// What [`gradient_slots`] says, by origin.
pub(crate) fn gradient_origins(step: &Step, of: &[Option<Origin>]) -> BTreeSet<Origin> {
    let (mut gradients, mut others) = (BTreeSet::new(), BTreeSet::new());
    for (output, base) in step.outputs.iter().zip(output_bases(step)) {
        let Some(origin) = of.get(base.index()).copied().flatten() else { continue };
        let kind = if output.role == OutputRole::Gradient { &mut gradients } else { &mut others };
        kind.insert(origin);
    }
    gradients.retain(|origin| !others.contains(origin));
    gradients
}

/// Counts a program's bytes. The step must be valid.
///
/// # Errors
/// As [`origins`].
pub fn memory_account(step: &Step) -> Result<MemoryAccount, Invalid> {
    let round = |bytes: u64| bytes.div_ceil(step.alignment) * step.alignment;
    let gradient = gradient_slots(step)?;
    let mut bytes = vec![0u64; step.program.slots as usize];
    let mut live = 0u64;
    let mut account = MemoryAccount { live: Vec::new(), during: Vec::new(), peak: 0, peak_at: None };
    for (i, instr) in step.program.instrs.iter().enumerate() {
        let during = match instr {
            Instr::Drop(slot) => {
                live -= bytes[slot.index()];
                live
            }
            Instr::Run(run) => {
                let node = &step.nodes[run.node.index()];
                if let (true, Some(k)) = (run.overwrite, node.overwrites) {
                    live -= bytes[run.inputs[k as usize].index()];
                }
                for (output, slot) in node.outputs.iter().zip(&run.outputs) {
                    if !gradient[slot.index()] {
                        bytes[slot.index()] = round(output.bytes);
                        live += bytes[slot.index()];
                    }
                }
                if let Some(slot) = run.state_out {
                    bytes[slot.index()] = round(GENERATOR_BYTES);
                    live += bytes[slot.index()];
                }
                live + round(node.workspace_bytes)
            }
        };
        if account.peak_at.is_none() || during > account.peak {
            account.peak = during;
            account.peak_at = Some(i);
        }
        account.live.push(live);
        account.during.push(during);
    }
    Ok(account)
}
