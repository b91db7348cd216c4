//! One row per variant and cell, and what they say about each variant.

use std::path::Path;

use anyhow::{Context, Result, bail};

use crate::report::Table;

/// The variant that changes nothing.
pub const DEFAULTS: &str = "defaults";

/// A parameter or strategy, and what was done to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Variant {
    /// The name of a parameter or strategy, or [`DEFAULTS`].
    pub knob: String,
    /// What it was by default, and what it is set to; `on` and `off` for strategies.
    pub from: String,
    pub to: String,
}

/// What planning one cell gave.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    pub variant: Variant,
    /// Graph, budget and limit.
    pub cell: String,
    /// Extra time of the plan, in percent; none without a plan.
    pub overhead: Option<f64>,
}

const COLUMNS: &str = "knob,from,to,cell,overhead %";

impl Row {
    fn csv(&self) -> String {
        let Self { variant: Variant { knob, from, to }, cell, overhead } = self;
        let overhead = overhead.map_or(String::new(), |overhead| format!("{overhead:.4}"));
        format!("{knob},{from},{to},{cell},{overhead}\n")
    }

    fn parse(line: &str) -> Result<Self> {
        let fields: Vec<&str> = line.split(',').collect();
        let [knob, from, to, cell, overhead] = fields[..] else {
            bail!("{} columns in place of {}", fields.len(), COLUMNS.split(',').count());
        };
        let number = |text: &str| text.parse::<f64>().with_context(|| format!("{text:?} is not a number"));
        Ok(Self {
            variant: Variant { knob: knob.into(), from: from.into(), to: to.into() },
            cell: cell.into(),
            overhead: if overhead.is_empty() { None } else { Some(number(overhead)?) },
        })
    }
}

/// All rows of a file.
#[derive(Debug, PartialEq)]
pub struct Rows {
    /// Which planner made them.
    pub head: String,
    pub rows: Vec<Row>,
}

impl Rows {
    /// Reads a file.
    ///
    /// # Errors
    /// When it cannot be read, or a line is no row.
    pub fn read(path: &Path) -> Result<Self> {
        let text =
            std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
        Self::parse(&text).with_context(|| path.display().to_string())
    }

    fn parse(text: &str) -> Result<Self> {
        let head = text.lines().next().and_then(|line| line.strip_prefix("# ")).unwrap_or_default();
        let rows = text.lines().enumerate().filter(|(_, line)| !line.starts_with('#') && *line != COLUMNS);
        let rows =
            rows.map(|(number, line)| Row::parse(line).with_context(|| format!("line {}", number + 1)));
        Ok(Self { head: head.into(), rows: rows.collect::<Result<_>>()? })
    }

    /// The text of the file.
    pub fn text(&self) -> String {
        let rows: String = self.rows.iter().map(Row::csv).collect();
        format!("# {}\n{COLUMNS}\n{rows}", self.head)
    }

    pub fn find(&self, variant: &Variant, cell: &str) -> Option<&Row> {
        self.rows.iter().find(|row| row.variant == *variant && row.cell == cell)
    }
}

/// What a variant did to the overheads of cells, in points; above zero plans are slower.
#[derive(Clone, Debug, PartialEq)]
pub struct Effect {
    pub variant: Variant,
    /// The mean over all cells that have a plan with and without the change.
    mean: f64,
    worst: f64,
    best: f64,
    /// Cells that changed by [`LEAST`] or more.
    changed: usize,
    /// Cells that lost their plan, less those that got one.
    lost: i64,
}

/// Less than this is no change, in points.
const LEAST: f64 = 0.01;

impl Effect {
    /// None if a cell was not planned with and without the change.
    pub fn of(rows: &Rows, variant: &Variant, defaults: &Variant, cells: &[String]) -> Option<Self> {
        let pairs = cells
            .iter()
            .map(|cell| Some((rows.find(defaults, cell)?.overhead, rows.find(variant, cell)?.overhead)));
        let pairs: Vec<(Option<f64>, Option<f64>)> = pairs.collect::<Option<_>>()?;
        let changes: Vec<f64> =
            pairs.iter().filter_map(|(before, after)| Some((*after)? - (*before)?)).collect();
        Some(Self {
            variant: variant.clone(),
            mean: changes.iter().sum::<f64>() / changes.len().max(1) as f64,
            worst: changes.iter().copied().fold(0.0, f64::max),
            best: changes.iter().copied().fold(0.0, f64::min),
            changed: changes.iter().filter(|change| change.abs() >= LEAST).count(),
            lost: pairs
                .iter()
                .map(|(before, after)| i64::from(before.is_some()) - i64::from(after.is_some()))
                .sum(),
        })
    }

    /// No cell has another overhead.
    fn is_nothing(&self) -> bool {
        self.changed == 0 && self.lost == 0
    }
}

/// The variants that matter, the most harmful first, and a line of the knobs none of whose variants does.
pub fn markdown(mut effects: Vec<Effect>) -> String {
    let idle =
        |knob: &str| effects.iter().filter(|effect| effect.variant.knob == knob).all(Effect::is_nothing);
    let mut without: Vec<String> =
        effects.iter().map(|effect| &effect.variant.knob).filter(|knob| idle(knob)).cloned().collect();
    without.dedup();
    effects.retain(|effect| !effect.is_nothing());
    effects
        .sort_by(|a, b| (b.lost, b.mean).partial_cmp(&(a.lost, a.mean)).unwrap_or(std::cmp::Ordering::Equal));
    let mut table =
        Table::new(["knob", "from", "to", "mean, points", "worst", "best", "cells changed", "plans lost"]);
    for Effect { variant: Variant { knob, from, to }, mean, worst, best, changed, lost } in effects {
        let points = |points: f64| if points.abs() < 5e-4 { "0".to_owned() } else { format!("{points:+.3}") };
        table.row(vec![
            knob,
            from,
            to,
            points(mean),
            points(worst),
            points(best),
            changed.to_string(),
            lost.to_string(),
        ]);
    }
    let rest = match without.is_empty() {
        true => "Every knob matters in some cell.\n".to_owned(),
        false => format!("No cell changes by {LEAST} points with: {}.\n", without.join(", ")),
    };
    format!("{}\n{rest}", table.to_markdown())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn variant(knob: &str, from: &str, to: &str) -> Variant {
        Variant { knob: knob.into(), from: from.into(), to: to.into() }
    }

    fn rows() -> Rows {
        let plans = [
            (variant(DEFAULTS, "", ""), [Some(1.0), Some(2.0), None]),
            (variant("a.b", "1", "2"), [Some(1.5), Some(1.75), None]),
            (variant("a.b", "1", "0.5"), [Some(1.0), Some(2.001), None]),
            (variant("c", "on", "off"), [Some(1.0), Some(2.0), None]),
            (variant("d", "on", "off"), [Some(1.0), None, None]),
        ];
        let row = |variant: &Variant, (cell, overhead): (usize, Option<f64>)| Row {
            variant: variant.clone(),
            cell: format!("g{cell} 50% 1s"),
            overhead,
        };
        let rows = plans.iter().flat_map(|(variant, overheads)| {
            overheads.iter().copied().enumerate().map(move |cell| row(variant, cell))
        });
        Rows { head: "code 1".into(), rows: rows.collect() }
    }

    #[test]
    fn rows_come_back_from_their_file() {
        let rows = rows();
        assert_eq!(Rows::parse(&rows.text()).expect("rows"), rows);
        let error = format!("{:#}", Rows::parse("# code\na,b,c\n").expect_err("no row"));
        assert_eq!(error, "line 2: 3 columns in place of 5");
    }

    #[test]
    fn effects_are_in_points_against_the_defaults() {
        let rows = rows();
        let cells: Vec<String> = (0..3).map(|cell| format!("g{cell} 50% 1s")).collect();
        let defaults = variant(DEFAULTS, "", "");
        let mut variants: Vec<Variant> = rows.rows.iter().map(|row| row.variant.clone()).collect();
        variants.dedup();
        let effects = variants[1..].iter().map(|variant| Effect::of(&rows, variant, &defaults, &cells));
        let text = markdown(effects.collect::<Option<_>>().expect("all cells"));
        let lines: Vec<&str> = text.lines().skip(2).collect();
        assert_eq!(
            lines,
            [
                "| d | on | off | 0 | 0 | 0 | 0 | 1 |",
                "| a.b | 1 | 2 | +0.125 | +0.500 | -0.250 | 2 | 0 |",
                "",
                "No cell changes by 0.01 points with: c.",
            ]
        );
        assert!(Effect::of(&rows, &variants[1], &defaults, &["h 50% 1s".into()]).is_none());
    }
}
