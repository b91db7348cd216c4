//! A program in the floating point numbers that solvers take, and what they answer.

use super::{LARGEST, Milp};

/// A program, scaled: the largest coefficient of a row and the largest cost are at most 2^13.
pub(super) struct Scaled {
    pub(super) columns: Vec<Column>,
    pub(super) rows: Vec<Row>,
}

pub(super) struct Column {
    pub(super) cost: f64,
    pub(super) lower: f64,
    pub(super) upper: f64,
    pub(super) integer: bool,
}

/// `sum of coefficient * column <= most`.
pub(super) struct Row {
    pub(super) terms: Vec<(usize, f64)>,
    pub(super) most: f64,
}

/// What a solver says, in scaled units. Nothing of it is checked yet.
pub(super) enum Raw {
    /// Solved; nothing costs less than the bound.
    Optimal {
        bound: f64,
        values: Vec<f64>,
    },
    /// The time was over.
    Stopped {
        bound: f64,
        values: Vec<f64>,
    },
    /// The nodes were.
    NodeLimit {
        bound: f64,
        values: Vec<f64>,
    },
    Infeasible,
    Failed,
}

impl Raw {
    /// `end, bound, values` as 8-byte numbers.
    pub(super) fn to_bytes(&self) -> Vec<u8> {
        let (end, bound, values): (f64, f64, &[f64]) = match self {
            Self::Optimal { bound, values } => (0.0, *bound, values),
            Self::Stopped { bound, values } => (1.0, *bound, values),
            Self::NodeLimit { bound, values } => (4.0, *bound, values),
            Self::Infeasible => (2.0, 0.0, &[]),
            Self::Failed => (3.0, 0.0, &[]),
        };
        [end, bound].iter().chain(values).flat_map(|number| number.to_le_bytes()).collect()
    }
}

impl Milp {
    pub(super) fn scaled(&self, relaxed: bool) -> Scaled {
        let scale = self.cost_scale();
        let columns = self.columns.iter().map(|column| Column {
            cost: column.cost as f64 / scale,
            lower: column.lower as f64,
            upper: column.upper as f64,
            integer: column.integer && !relaxed,
        });
        let rows = self.rows.iter().map(|row| {
            let sizes = || row.terms.iter().map(|term| term.1.unsigned_abs());
            let divisor = sizes().fold(0, gcd).max(1);
            let scale = divisor as f64 * power(sizes().max().unwrap_or(0) / divisor);
            Row {
                terms: row
                    .terms
                    .iter()
                    .map(|&(var, coefficient)| (var.index(), coefficient as f64 / scale))
                    .collect(),
                most: row.most as f64 / scale,
            }
        });
        Scaled { columns: columns.collect(), rows: rows.collect() }
    }

    /// What costs are divided by.
    pub(super) fn cost_scale(&self) -> f64 {
        power(self.columns.iter().map(|column| column.cost).max().unwrap_or(0))
    }
}

/// The least power of two that brings a number down to [`LARGEST`].
fn power(number: u64) -> f64 {
    let mut shift = 0;
    while number >> shift > LARGEST {
        shift += 1;
    }
    (1u64 << shift) as f64
}

/// The greatest common divisor; that of a number and zero is the number.
pub(super) fn gcd(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { gcd(b, a % b) }
}
