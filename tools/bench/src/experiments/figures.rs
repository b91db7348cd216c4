//! The rows of an experiment as a figure: which panels, which curves.

use super::defaults::Experiment;
use super::rows::Row;
use super::tables::{ROCKMATE_BUDGETS, ROCKMATE_OVERHEADS, bounds, distinct};
use crate::plot::{Axis, Band, Curve, Figure, Panel};

pub fn of(experiment: Experiment, rows: &[&Row]) -> Figure {
    match experiment {
        Experiment::Options => options(rows),
        Experiment::SolvingTime => solving_time(rows),
        Experiment::Performance => performance(rows),
    }
}

/// A panel of overheads and one of seconds for each network and budget.
fn options(rows: &[&Row]) -> Figure {
    let mut panels = Vec::new();
    for (network, budget) in distinct(rows.iter().map(|row| (&row.cell.network, row.cell.budget))) {
        let here: Vec<&Row> = rows
            .iter()
            .filter(|row| row.cell.network == *network && row.cell.budget == budget)
            .copied()
            .collect();
        let counts: Vec<u32> = here.iter().filter_map(|row| row.cell.save).map(|save| save.count).collect();
        let (low, high) =
            (counts.iter().min().copied().unwrap_or(1), counts.iter().max().copied().unwrap_or(1));
        let curves = |value: fn(&Row) -> Option<f64>| {
            let name = |row: &Row| match row.cell.save {
                Some(save) => format!("{}, {}", row.cell.method, save.spread),
                None => row.cell.method.to_string(),
            };
            let curve = |label: String| {
                let rows = here.iter().filter(|row| name(row) == label);
                let points = rows.flat_map(|row| {
                    // What has nothing to choose is level.
                    let at = row.cell.save.map_or(vec![low, high], |save| vec![save.count]);
                    at.into_iter().filter_map(move |count| Some((f64::from(count), value(row)?)))
                });
                Curve { points: points.collect(), label }
            };
            distinct(here.iter().map(|row| name(row))).into_iter().map(curve).collect::<Vec<_>>()
        };
        let across = || Axis::logarithmic("options per block");
        let title = |what: &str| format!("{network}, {budget} % of its peak: {what}");
        panels.push(Panel {
            title: title("plans"),
            across: across(),
            up: Axis::linear("overhead, %"),
            curves: curves(|row| row.overhead),
            band: None,
        });
        panels.push(Panel {
            title: title("time"),
            across: across(),
            up: Axis::logarithmic("seconds"),
            curves: curves(|row| row.overhead.and(Some(row.seconds))),
            band: None,
        });
    }
    Figure { title: "Options per block, and how they are spread".into(), columns: 2, panels }
}

/// The kind of network: what stands before the depth.
fn family(network: &str) -> &str {
    match network {
        name if name.starts_with("gpt2") => "GPT-2",
        name if name.contains("residual") || name.starts_with("resnet") => "ResNet",
        name if name.starts_with("regnet") => "RegNet",
        name => name.split('-').next().unwrap_or(name),
    }
}

/// A time of a row, if there is one.
type Time<'a> = &'a dyn Fn(&Row) -> Option<f64>;

/// For each kind of network how long it takes until the first plan, until one near the best bound, and until the proof.
fn solving_time(rows: &[&Row]) -> Figure {
    let bounds = bounds(rows);
    let mut panels = Vec::new();
    for (family, budget) in distinct(rows.iter().map(|row| (family(&row.cell.network), row.cell.budget))) {
        let here = || {
            rows.iter()
                .filter(move |row| self::family(&row.cell.network) == family && row.cell.budget == budget)
        };
        let methods = distinct(here().map(|row| row.cell.method));
        let curves = |value: Time| {
            let curve = |&method| {
                let points = here().filter(|row| row.cell.method == method);
                let mut points: Vec<(f64, f64)> =
                    points.filter_map(|row| Some((row.nodes as f64, value(row)?))).collect();
                points.sort_by(|one, other| one.0.total_cmp(&other.0));
                Curve { label: format!("{method}"), points }
            };
            methods.iter().map(curve).collect::<Vec<_>>()
        };
        let near = |row: &Row| row.near(bounds[&(row.cell.network.clone(), row.cell.budget)]);
        let shown: [(&str, Time); 3] =
            [("first plan", &Row::first), ("within 1 % of the bound", &near), ("proof", &Row::proof)];
        for (what, value) in shown {
            panels.push(Panel {
                title: format!("{family}, {budget} %: {what}"),
                across: Axis::logarithmic("nodes of the graph"),
                up: Axis::logarithmic("seconds"),
                curves: curves(value),
                band: None,
            });
        }
    }
    Figure { title: "Solving time over depth".into(), columns: 3, panels }
}

/// Plans that take more are not drawn: the others would lie on one line.
const MOST: f64 = 60.0;

/// A panel per network: overhead against the peak of the plan.
fn performance(rows: &[&Row]) -> Figure {
    let panels = distinct(rows.iter().map(|row| &row.cell.network)).into_iter().map(|network| {
        let here = || rows.iter().filter(move |row| row.cell.network == *network);
        let curves = distinct(here().map(|row| row.cell.method)).into_iter().map(|method| {
            let points = here().filter(|row| row.cell.method == method);
            let mut points: Vec<(f64, f64)> = points
                .filter_map(|row| Some((row.peak?, row.overhead?)))
                .filter(|point| point.1 <= MOST)
                .collect();
            points.sort_by(|one, other| one.0.total_cmp(&other.0));
            Curve { label: method.to_string(), points }
        });
        Panel {
            title: network.clone(),
            across: Axis::linear("peak of the plan, % of the peak without recomputation"),
            up: Axis::linear("overhead, %, up to 60"),
            curves: curves.collect(),
            band: Some(Band {
                label: "Rockmate, as published".into(),
                across: ROCKMATE_BUDGETS.map(f64::from),
                up: ROCKMATE_OVERHEADS.map(f64::from),
            }),
        }
    });
    Figure { title: "Overhead against peak".into(), columns: 2, panels: panels.collect() }
}
