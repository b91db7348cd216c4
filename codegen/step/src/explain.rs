//! The program as text, one line per instruction with its live bytes: what `rk-run --print` shows.

use std::fmt::Write as _;

use crate::error::Invalid;
use crate::memory_account::memory_account;
use crate::model::{Instr, Role, Slot, Step};

/// `1536` as `1.50 KiB`.
pub fn bytes(n: u64) -> String {
    let units = ["B", "KiB", "MiB", "GiB", "TiB"];
    let mut x = n as f64;
    let mut unit = 0;
    while x >= 1024.0 && unit + 1 < units.len() {
        x /= 1024.0;
        unit += 1;
    }
    if unit == 0 { format!("{n} B") } else { format!("{x:.2} {}", units[unit]) }
}

/// The whole step for people: header, then one line per instruction.
///
/// # Errors
/// None for a valid step; as [`memory_account`] otherwise.
pub fn explain(step: &Step) -> Result<String, Invalid> {
    let account = memory_account(step)?;
    let mut out = String::new();
    let count = |f: fn(&Role) -> bool| step.args.iter().filter(|a| f(&a.role)).count();
    let runs = step.program.instrs.iter().filter(|i| matches!(i, Instr::Run(_))).count();
    let budget = step.plan.budget_bytes.map_or("unlimited".into(), bytes);
    // Writing to a String cannot fail.
    let _ = writeln!(
        out,
        "step {:?} on {}: {} inputs, {} parameters, {} buffers, {} constants; {} nodes, {runs} runs",
        step.name,
        step.device,
        count(|r| matches!(r, Role::Input)),
        count(|r| matches!(r, Role::Parameter { .. })),
        count(|r| matches!(r, Role::Buffer)),
        step.constants.len(),
        step.nodes.len(),
    );
    let _ = writeln!(
        out,
        "budget {budget}, planned peak {}, peak by this account {}",
        bytes(step.plan.planned_peak_bytes),
        bytes(account.peak)
    );
    if let Some(layout) = &step.layout {
        let chip = layout.chip.as_ref().map_or(String::new(), |chip| format!(" ({chip})"));
        let (arena, gradients) = (bytes(layout.arena_bytes), bytes(layout.gradient_bytes));
        let _ = writeln!(out, "lowered for {}{chip}: arena {arena}, gradients {gradients}", layout.target);
    }
    let names = |slots: &[Slot]| slots.iter().map(|s| step.slot_name(*s)).collect::<Vec<_>>().join(", ");
    for (i, instr) in step.program.instrs.iter().enumerate() {
        let text = match instr {
            Instr::Drop(slot) => format!("drop {}", step.slot_name(*slot)),
            Instr::Run(run) => {
                let node = &step.nodes[run.node.index()];
                let mut text = String::new();
                if !run.outputs.is_empty() {
                    let _ = write!(text, "{} = ", names(&run.outputs));
                }
                let _ = write!(text, "run {}", if run.again { "again " } else { "" });
                let _ = write!(text, "{}{}", if run.overwrite { "overwrite " } else { "" }, node.name);
                let _ = write!(text, "({})", names(&run.inputs));
                for (slot, word) in [(run.state_out, "saves"), (run.state_in, "replays")] {
                    if let Some(slot) = slot {
                        let _ = write!(text, " {word} generator {}", step.slot_name(slot));
                    }
                }
                text
            }
        };
        let mark = if account.peak_at == Some(i) { "  <- peak" } else { "" };
        let _ = writeln!(out, "{i:5}  {text:<60}  live {:>11}{mark}", bytes(account.during[i]));
    }
    for call in &step.program.epilogue {
        let args = call.args.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
        let results = call.results.iter().flatten().map(|r| format!("%{r}")).collect::<Vec<_>>().join(", ");
        let _ = writeln!(out, "   end  {results} = {}({args})", call.op);
    }
    for (output, slot) in step.outputs.iter().zip(&step.program.outputs) {
        let role = format!("{:?}", output.role).to_lowercase();
        let _ = writeln!(out, "   out  {role} {:?} = {}", output.name, step.slot_name(*slot));
    }
    Ok(out)
}
