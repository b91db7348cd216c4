//! The rows of an experiment as a Markdown table.

use std::collections::BTreeMap;

use rk_solve::{SaveBudgets, Solver};

use super::defaults::Experiment;
use super::rows::Row;
use crate::report::Table;

pub fn of(experiment: Experiment, rows: &[&Row]) -> Table {
    match experiment {
        Experiment::Options => options(rows),
        Experiment::SolvingTime => solving_time(rows),
        Experiment::Performance => performance(rows),
    }
}

/// Items without repetition, in the order of their first.
pub fn distinct<T: PartialEq>(items: impl Iterator<Item = T>) -> Vec<T> {
    let mut found = Vec::new();
    items.for_each(|item| {
        if !found.contains(&item) {
            found.push(item);
        }
    });
    found
}

/// The best bound of any method, by network and budget.
pub fn bounds(rows: &[&Row]) -> BTreeMap<(String, u32), f64> {
    let mut bounds = BTreeMap::new();
    for row in rows {
        let bound: &mut f64 = bounds.entry((row.cell.network.clone(), row.cell.budget)).or_default();
        *bound = bound.max(row.bound);
    }
    bounds
}

/// The plan of a cell, or why there is none.
fn overhead(row: &Row) -> String {
    row.overhead.map_or_else(|| row.status.clone(), |overhead| format!("{overhead:.3}"))
}

/// A line per network, budget, method and spread; a column per number of options.
fn options(rows: &[&Row]) -> Table {
    let counts = distinct(rows.iter().filter_map(|row| row.cell.save).map(|save| save.count));
    let head = ["network", "budget", "method", "spread"].map(str::to_owned).into_iter();
    let mut table =
        Table::new(head.chain(counts.iter().map(|count| format!("{count} options: overhead %, s"))));
    let line = |row: &Row| {
        let cell = &row.cell;
        (cell.network.clone(), cell.budget, cell.method, cell.save.map(|save| save.spread))
    };
    for key in distinct(rows.iter().map(|row| line(row))) {
        let found = |count: u32| {
            let fits = |save: Option<SaveBudgets>| save.is_none_or(|save| save.count == count);
            rows.iter().find(|row| line(row) == key && fits(row.cell.save))
        };
        let (network, budget, method, spread) = key.clone();
        let spread = spread.map_or("none to choose".to_owned(), |spread| spread.to_string());
        let cells = counts.iter().enumerate().map(|(place, &count)| match found(count) {
            // Without options there is one plan, and it stands once.
            Some(row) if row.cell.save.is_some() || place == 0 => {
                format!("{}, {:.2}", overhead(row), row.seconds)
            }
            _ => "–".to_owned(),
        });
        table.row(
            [network, format!("{budget} %"), method.to_string(), spread].into_iter().chain(cells).collect(),
        );
    }
    table
}

fn solving_time(rows: &[&Row]) -> Table {
    let head = [
        "network",
        "nodes",
        "budget",
        "method",
        "first plan, s",
        "within 1 % of the bound, s",
        "proof, s",
        "ended, s",
        "overhead %",
        "best bound %",
    ];
    let mut table = Table::new(head);
    let bounds = bounds(rows);
    for row in rows {
        let bound = bounds[&(row.cell.network.clone(), row.cell.budget)];
        let seconds = |time: Option<f64>| time.map_or("–".to_owned(), |seconds| format!("{seconds:.3}"));
        table.row(vec![
            row.cell.network.clone(),
            row.nodes.to_string(),
            format!("{} %", row.cell.budget),
            row.cell.method.to_string(),
            seconds(row.first()),
            seconds(row.near(bound)),
            seconds(row.proof()),
            seconds(Some(row.seconds)),
            overhead(row),
            format!("{bound:.3}"),
        ]);
    }
    table
}

/// What the abstract of Rockmate (ICML 2023) says of all its networks: activations in a half to a fifth of the memory.
pub const ROCKMATE_BUDGETS: [u32; 2] = [20, 50];
/// The time that it says this takes, in percent.
pub const ROCKMATE_OVERHEADS: [u32; 2] = [10, 20];

/// A line per network and budget, a column per method that has a plan anywhere.
fn performance(rows: &[&Row]) -> Table {
    let methods: Vec<Solver> =
        distinct(rows.iter().filter(|row| row.overhead.is_some()).map(|row| row.cell.method));
    let head = ["network", "nodes", "budget"].map(str::to_owned).into_iter();
    let methods_head = methods.iter().map(|method| format!("{method} %"));
    let mut table = Table::new(
        head.chain(methods_head).chain(["best bound %", "Rockmate as published %"].map(str::to_owned)),
    );
    let bounds = bounds(rows);
    for (network, nodes, budget) in
        distinct(rows.iter().map(|row| (row.cell.network.clone(), row.nodes, row.cell.budget)))
    {
        let here = |row: &&&Row| row.cell.network == network && row.cell.budget == budget;
        let cells = methods.iter().map(|&method| {
            let row = rows.iter().filter(here).find(|row| row.cell.method == method);
            row.map_or("–".to_owned(), |row| overhead(row))
        });
        let [least, most] = ROCKMATE_BUDGETS;
        let [low, high] = ROCKMATE_OVERHEADS;
        let published =
            if (least..=most).contains(&budget) { format!("{low} to {high}") } else { "–".to_owned() };
        let bound = bounds[&(network.clone(), budget)];
        let last = [format!("{bound:.3}"), published];
        table.row(
            [network.clone(), nodes.to_string(), format!("{budget} %")]
                .into_iter()
                .chain(cells)
                .chain(last)
                .collect(),
        );
    }
    table
}
