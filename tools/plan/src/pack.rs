//! `--pack`: addresses alone, in the CSV format of MiniMalloc's instances (`id,lower,upper,size`, and `offset` when packed).
//!
//! A buffer is needed from `lower` up to and without `upper`. Rows come back in their order, with an offset each. The time limit counts work, so that
//! the same file gives the same layout. Not here: gaps, hints and alignments, which some of their files have; such a column is refused by name.

use std::fmt::Write as _;
use std::io::Write;
use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context, Result, bail, ensure};
use rk_plan::arena::{EFFORT, Need, pack_needs};
use rk_plan::{Budget, Bytes};
use rk_vocabulary::write_output;
use serde_json::json;

use crate::Arguments;

const COLUMNS: [&str; 4] = ["id", "lower", "upper", "size"];
/// Sums of sizes are signed in the packer.
const MOST: u64 = 1 << 62;

/// Packs a file and writes the layout, or says why there is none.
pub fn print(path: &Path, arguments: &Arguments, out: &mut impl Write) -> Result<ExitCode> {
    let text = if path == Path::new("-") {
        std::io::read_to_string(std::io::stdin())
    } else {
        std::fs::read_to_string(path)
    };
    let shown = path.display();
    let text = text.with_context(|| format!("cannot read {shown}"))?;
    let instance = Instance::read(&text).with_context(|| shown.to_string())?;
    let capacity = arguments.capacity.as_deref().map(bytes).transpose()?;
    let limit = arguments.patience().first(instance.needs.len());
    // A third of a second is what the usual effort takes.
    let effort = (limit.as_secs_f64() * 3.0 * EFFORT as f64) as u64;
    let packed = pack_needs(&instance.needs, capacity.unwrap_or(Bytes(0)), effort);
    let fits = capacity.is_none_or(|capacity| packed.height <= capacity);
    let (height, bound) = (packed.height.0, packed.lower_bound.0);
    let layout = fits.then(|| instance.write(&packed.offsets));
    if let (Some(file), Some(layout)) = (&arguments.packed, &layout) {
        write_output(file, layout.as_bytes()).with_context(|| format!("cannot write {}", file.display()))?;
    }
    let found = format!("the lowest layout found has {height} bytes, and none has less than {bound}");
    let count = instance.needs.len();
    match capacity {
        Some(Bytes(capacity)) if !fits => {
            let verdict = if bound > capacity { "no layout fits" } else { "no layout was found that fits" };
            eprintln!("rk-plan: {shown}: {verdict} in {capacity} bytes: {found}");
        }
        _ => {
            eprintln!("rk-plan: {shown}: {count} buffers in {height} bytes; no layout has less than {bound}")
        }
    }
    if arguments.json {
        let offsets =
            layout.is_some().then(|| packed.offsets.iter().map(|offset| offset.0).collect::<Vec<_>>());
        let object = json!({
            "buffers": count, "capacity_bytes": capacity.map(|capacity| capacity.0), "arena_bytes": height,
            "lower_bound_bytes": bound, "offsets": offsets,
        });
        writeln!(out, "{object}")?;
    } else if let (None, Some(layout)) = (&arguments.packed, layout) {
        write!(out, "{layout}")?;
    }
    Ok(match capacity {
        _ if fits => ExitCode::SUCCESS,
        Some(capacity) if packed.lower_bound > capacity => ExitCode::from(2),
        _ => ExitCode::from(3),
    })
}

fn bytes(text: &str) -> Result<Bytes> {
    match text.parse().context("--capacity")? {
        Budget::Bytes(bytes) => Ok(bytes),
        Budget::Fraction { .. } => bail!("--capacity '{text}': a share of what? Write bytes, such as 1MiB"),
    }
}

/// Buffers by their rows.
struct Instance<'a> {
    ids: Vec<&'a str>,
    needs: Vec<Need>,
}

impl<'a> Instance<'a> {
    fn read(text: &'a str) -> Result<Self> {
        let mut rows = text.lines().map(str::trim).zip(1..).filter(|(line, _)| !line.is_empty());
        let (head, _) = rows.next().context("line 1: there must be a row of names: id,lower,upper,size")?;
        let head: Vec<&str> = head.split(',').map(str::trim).collect();
        if let Some(unknown) = head.iter().find(|name| !COLUMNS.contains(name)) {
            bail!("line 1: column '{unknown}' is none of id, lower, upper, size");
        }
        let mut places = [0; 4];
        for (place, name) in places.iter_mut().zip(COLUMNS) {
            let found: Vec<usize> = (0..head.len()).filter(|&at| head[at] == name).collect();
            match found[..] {
                [only] => *place = only,
                [] => bail!("line 1: column '{name}' is missing"),
                _ => bail!("line 1: column '{name}' is there twice"),
            }
        }
        let mut instance = Self { ids: Vec::new(), needs: Vec::new() };
        let mut sum = 0u64;
        for (line, number) in rows {
            let cells: Vec<&str> = line.split(',').map(str::trim).collect();
            ensure!(
                cells.len() == head.len(),
                "line {number}: {} columns in place of {}",
                cells.len(),
                head.len()
            );
            let [id, lower, upper, size] = places.map(|place| cells[place]);
            let whole = |name: &str, text: &str| -> Result<u64> {
                text.parse().ok().with_context(|| {
                    format!(
                        "line {number}: {name} must be a whole number from 0 to 2^64 - 1, here it is '{text}'"
                    )
                })
            };
            let need = Need {
                lower: whole("lower", lower)?,
                upper: whole("upper", upper)?,
                bytes: Bytes(whole("size", size)?),
            };
            ensure!(
                need.lower < need.upper,
                "line {number}: '{id}' must end above {lower}, here it is {upper}"
            );
            sum = sum.checked_add(need.bytes.0).filter(|&sum| sum <= MOST).with_context(|| {
                format!("line {number}: the sizes up to '{id}' add up to more than 2^62 bytes")
            })?;
            instance.ids.push(id);
            instance.needs.push(need);
        }
        ensure!(!instance.needs.is_empty(), "there are no buffers");
        Ok(instance)
    }

    fn write(&self, offsets: &[Bytes]) -> String {
        let mut text = String::from("id,lower,upper,size,offset\n");
        for ((id, need), offset) in self.ids.iter().zip(&self.needs).zip(offsets) {
            // Writing to a String cannot fail.
            let _ = writeln!(text, "{id},{},{},{},{}", need.lower, need.upper, need.bytes.0, offset.0);
        }
        text
    }
}
