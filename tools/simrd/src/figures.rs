//! The experiments of the paper: which runs they need, and which curves their figures show.
//!
//! Idea: an experiment is a list of figures, a figure a list of curves, a curve a policy and a heuristic. All runs of
//! all models go through one parallel map; results are gathered in the order of the tasks, so that the files do not
//! depend on the number of threads.
//! Source: DTR, figures 2 and 7 to 12; docs/design/dtr.md, section 11. Not here: drawing (see `plot`).

use crate::cell::{Cell, Model, Task};
use crate::cli::FigureArgs;
use crate::plot::{Curve, Figure, Panel, Scale};
use crate::read::find_logs;
use crate::write::{write_atomically, write_figure};
use anyhow::{Context, Result};
use indicatif::{ProgressBar, ProgressStyle};
use rayon::prelude::*;
use rk_dtr::{Heuristic, Policy, Scan};
use std::path::PathBuf;

/// One of the paper's experiments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Experiment {
    /// Figure 2.
    Pareto,
    /// Figures 7 to 10.
    Ablation,
    /// Figure 11.
    Banishing,
    /// Figure 12.
    Accesses,
}

/// A policy, a heuristic, and how the legend calls them.
type Variant = (Policy, Heuristic, String);

impl Experiment {
    /// The name of its command and of its table.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Pareto => "pareto",
            Self::Ablation => "ablation",
            Self::Banishing => "banishing",
            Self::Accesses => "accesses",
        }
    }

    /// File name, title and curves of each figure.
    fn figures(self) -> Vec<(String, String, Vec<Variant>)> {
        let eager = |h: &Heuristic| (Policy::Eager, *h, h.name().to_owned());
        let single = |title: &str, variants| vec![(self.name().to_owned(), title.to_owned(), variants)];
        match self {
            Self::Pareto => {
                single("Overhead over budget", Heuristic::of_the_paper().iter().map(eager).collect())
            }
            Self::Ablation => Heuristic::ablations()
                .chunks(4)
                .map(|group| {
                    let name = group[0].name().trim_start_matches("ab_");
                    let title = format!("Ablation: numerator {name}, with and without size and staleness");
                    (format!("ablation-{name}"), title, group.iter().map(eager).collect())
                })
                .collect(),
            Self::Banishing => {
                let of = |policy: Policy| (policy, Heuristic::DTR, format!("{policy} + h_dtr"));
                single(
                    "De-allocation: banish, evict, ignore",
                    vec![of(Policy::Banish), of(Policy::Eager), of(Policy::Ignore)],
                )
            }
            Self::Accesses => {
                single("Metadata accesses", Heuristic::of_the_paper()[..3].iter().map(eager).collect())
            }
        }
    }

    fn scan(self) -> Scan {
        if self == Self::Accesses { Scan::Full } else { Scan::Pruned }
    }

    fn scale(self) -> Scale {
        if self == Self::Accesses { Scale::Accesses } else { Scale::Overhead }
    }
}

/// Runs an experiment on all logs and writes its table and its figures; returns the paths of the files.
///
/// # Errors
/// If a log is bad or a file cannot be written.
pub fn experiment(experiment: Experiment, args: &FigureArgs) -> Result<Vec<PathBuf>> {
    let paths = find_logs(&args.logs)?;
    let output = &args.output;
    std::fs::create_dir_all(output).with_context(|| format!("{}: cannot be made", output.display()))?;
    let models = paths.par_iter().map(|path| Model::read(path)).collect::<Result<Vec<_>>>()?;
    let figures = experiment.figures();
    let mut tasks = Vec::new();
    for model in &models {
        for (policy, heuristic, _) in figures.iter().flat_map(|figure| &figure.2) {
            for &ratio in &args.ratios {
                let trials = if heuristic.is_random() { args.trials } else { 1 };
                for seed in (0..trials).map(|trial| args.seed.wrapping_add(trial)) {
                    let (policy, heuristic, scan) = (*policy, *heuristic, experiment.scan());
                    tasks.push((model, Task { policy, heuristic, ratio, seed, scan, segments: false }));
                }
            }
        }
    }
    let bar = progress(tasks.len());
    let run = |&(model, task): &(&Model, Task)| {
        let cell = Cell::run(model, task);
        bar.inc(1);
        cell
    };
    let cells: Vec<Cell> = tasks.par_iter().map(run).collect();
    bar.finish_and_clear();

    let mut table = format!("{}\n", Cell::COLUMNS);
    cells.iter().for_each(|cell| table += &(cell.csv() + "\n"));
    let path = output.join(format!("{}.csv", experiment.name()));
    write_atomically(&path, table.as_bytes())?;
    let mut files = vec![path];
    for (name, title, variants) in &figures {
        let panels = models.iter().map(|model| panel(model, variants, &cells, &args.ratios)).collect();
        let figure = Figure { title: title.clone(), scale: experiment.scale(), panels };
        files.extend(write_figure(&output.join(name), &figure)?);
    }
    Ok(files)
}

fn panel(model: &Model, variants: &[Variant], cells: &[Cell], ratios: &[f64]) -> Panel {
    let peak = model.baseline.peak.0.max(1) as f64;
    let curves = variants.iter().map(|(policy, heuristic, label)| {
        let of = |cell: &&Cell| {
            cell.model == model.name && cell.runtime == policy.name() && cell.heuristic == heuristic.name()
        };
        let cells: Vec<&Cell> = cells.iter().filter(of).collect();
        Curve::new(label.clone(), &cells, ratios)
    });
    Panel {
        model: model.name.clone(),
        impossible: model.program.constants().0 as f64 / peak,
        bottleneck: model.program.bottleneck().0 as f64 / peak,
        curves: curves.collect(),
    }
}

fn progress(tasks: usize) -> ProgressBar {
    let style = ProgressStyle::with_template("{elapsed_precise} {wide_bar} {pos}/{len} runs");
    // The template is a constant; if it were wrong, the default style would serve.
    ProgressBar::new(tasks as u64).with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
}
