//! The cells: which graphs, at which budgets.
//!
//! Three kinds of graphs. *Shared* ones are those of the literature, of the folder `shared` beside the checkout or of `RK_SHARED`; they are not ours to
//! hand on. *Traced* ones were recorded from networks of `examples/models.py`, with measured times, and lie packed beside this
//! crate, because a measurement is not repeated to the digit. *Made-up* ones come from `rk_solve::synthetic`, two per family, of seeds that
//! nothing else uses.

use std::io::Read as _;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use rk_plan::{Graph, base_trace, json, working_set};
use rk_solve::synthetic::{self, Family};

/// A graph, and the shares of its peak that it is planned for, in percent.
pub struct Problem {
    pub family: String,
    pub graph: Graph,
    pub budgets: Vec<u32>,
}

const SHARED: &str = "shared";
const SHARED_BUDGETS: [u32; 4] = [80, 50, 35, 25];
const TRACED: &str = "traced";
const TRACED_BUDGETS: [u32; 3] = [80, 50, 30];
/// Nodes, seed and budgets of the two graphs of each family.
const MADE_UP: [(usize, u64, [u32; 2]); 2] = [(1000, 11, [60, 35]), (300, 12, [50, 25])];

macro_rules! packed {
    ($($name:literal),+) => {
        [$(($name, include_bytes!(concat!("../../graphs/", $name, ".json.gz")))),+]
    };
}

/// Every problem of these families (of all, if none is named), always in the same order.
///
/// # Errors
/// When a graph cannot be read, or the shared ones are wanted and are not there.
pub fn problems(families: &[String]) -> Result<Vec<Problem>> {
    let wanted = |family: &str| families.is_empty() || families.iter().any(|name| name == family);
    let mut problems = Vec::new();
    if wanted(SHARED) {
        for path in graphs(&shared()?)? {
            let text =
                std::fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
            let graph = json::read(&text).with_context(|| path.display().to_string())?;
            problems.push(Problem::new(SHARED, graph, &SHARED_BUDGETS));
        }
    }
    if wanted(TRACED) {
        let packed: [(&str, &[u8]); 6] =
            packed!["gpt2_4", "inception_v3", "mlp_mixer", "mobilenet_v2", "transformer", "unet"];
        for (name, bytes) in packed {
            let mut text = String::new();
            flate2::read::GzDecoder::new(bytes).read_to_string(&mut text).context(name)?;
            problems.push(Problem::new(TRACED, json::read(&text).context(name)?, &TRACED_BUDGETS));
        }
    }
    for family in Family::ALL.into_iter().filter(|family| wanted(family.name())) {
        for (nodes, seed, budgets) in MADE_UP {
            problems.push(Problem::new(family.name(), synthetic::graph(family, nodes, seed), &budgets));
        }
    }
    Ok(problems)
}

impl Problem {
    /// Budgets below the working set are left out: they say nothing about a planner.
    fn new(family: &str, graph: Graph, budgets: &[u32]) -> Self {
        let (least, peak) = (u128::from(working_set(&graph).0.0), u128::from(base_trace(&graph).peak.0));
        let fits = |percent: &u32| least * 100 <= peak * u128::from(*percent);
        let budgets = budgets.iter().copied().filter(fits).collect();
        Self { family: family.into(), graph, budgets }
    }
}

/// The folder of shared graphs.
///
/// # Errors
/// When there is none.
pub fn shared() -> Result<PathBuf> {
    let beside = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().map(|folder| folder.join("shared"));
    let named = std::env::var_os("RK_SHARED").map(PathBuf::from);
    let mut folders = named.into_iter().chain(beside).map(|folder| folder.join("data/graphs"));
    folders
        .find(|folder| folder.is_dir())
        .context("no folder `shared` beside the checkout, and RK_SHARED is not set; --families names others")
}

fn graphs(folder: &Path) -> Result<Vec<PathBuf>> {
    let entries = std::fs::read_dir(folder).with_context(|| format!("cannot read {}", folder.display()))?;
    let mut paths = entries.map(|entry| Ok(entry?.path())).collect::<std::io::Result<Vec<_>>>()?;
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "json"));
    paths.sort();
    Ok(paths)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_needs_no_shared_folder_is_there_and_named_once() {
        let families: Vec<String> =
            Family::ALL.into_iter().map(Family::name).chain([TRACED]).map(String::from).collect();
        let problems = problems(&families).unwrap();
        assert_eq!(problems.len(), 2 * Family::ALL.len() + 6);
        let mut names: Vec<&str> = problems.iter().map(|problem| problem.graph.name()).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), problems.len(), "{names:?}");
        assert!(
            problems.iter().all(|problem| !problem.budgets.is_empty() && !problem.graph.name().contains(','))
        );
    }
}
