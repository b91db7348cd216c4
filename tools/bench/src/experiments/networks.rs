//! The graphs of networks by their names: traced and imported once per cache, read from a file, or made up.

use std::path::Path;

use anyhow::{Context, Result, bail};
use rk_plan::{Graph, json};
use rk_solve::synthetic;

use crate::toolbox::{checked, python};

/// `FAMILY-NODES-SEED` behind this is a graph of `rk_solve::synthetic`.
pub const MADE_UP: &str = "made-up:";

/// The graph of a network: [`MADE_UP`], `FILE.json`, or a name that examples/repeated.py knows.
///
/// # Errors
/// For a name that is none of these, and for tools that are not built.
pub fn graph(name: &str, cache: &Path) -> Result<Graph> {
    if let Some(made_up) = name.strip_prefix(MADE_UP) {
        return self::made_up(made_up);
    }
    if name.contains(',') {
        bail!("a name has no comma");
    }
    let path = match name.ends_with(".json") {
        true => Path::new(name).to_owned(),
        false => imported(name, &cache.join("networks"))?,
    };
    let text = std::fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
    json::read(&text).with_context(|| path.display().to_string())
}

/// `FAMILY-NODES-SEED`.
pub fn made_up(name: &str) -> Result<Graph> {
    let parts: Vec<&str> = name.split('-').collect();
    let [family, nodes, seed] = parts[..] else { bail!("'{name}' is not FAMILY-NODES-SEED") };
    let family = family.parse().map_err(anyhow::Error::msg)?;
    let number = |text: &str| text.parse().with_context(|| format!("'{text}' is no number"));
    Ok(synthetic::graph(family, number(nodes)? as usize, number(seed)?))
}

/// Traces a network and imports it, with times from the model, which are the same on every machine.
fn imported(name: &str, folder: &Path) -> Result<std::path::PathBuf> {
    let graph = folder.join(format!("{name}.json"));
    if graph.exists() {
        return Ok(graph);
    }
    std::fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
    eprintln!("{name}: trace and import");
    let file = |end: &str| folder.join(format!("{name}.{end}")).display().to_string();
    let (archive, raw, costed) = (file("pt"), file("mlir"), file("costed.mlir"));
    let traced = python(&["examples/repeated.py", name, &archive])?;
    if traced.code != 0 {
        bail!("{}", traced.reason());
    }
    checked("rk-import", &[&archive, "-o", &raw])?;
    let passes = ["--rk-dataflow", "--rk-simplify", "--rk-anonymize", "--rk-annotate-cost"];
    checked("rk-opt", &[&[raw.as_str()], &passes[..], &["-o", &costed]].concat())?;
    checked("rk-translate", &[&costed, "--to", "graph", "-o", &graph.display().to_string()])?;
    for done in [archive, raw, costed] {
        std::fs::remove_file(&done).with_context(|| format!("cannot remove {done}"))?;
    }
    Ok(graph)
}
