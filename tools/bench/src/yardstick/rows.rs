//! One row per cell, and the file of them: CSV behind a head of `#` lines that say which code ran where.

use std::fmt::Write as _;
use std::path::Path;

use anyhow::{Context, Result, bail};

/// What names a cell.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Key {
    /// What its mean is taken over: the kind of network.
    pub family: String,
    pub graph: String,
    /// Of the peak without recomputation, in percent.
    pub budget: u32,
    /// Seconds, as they are typed.
    pub limit: String,
}

/// What planning one cell gave.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    pub key: Key,
    pub nodes: usize,
    /// The word of `rk-plan`.
    pub status: String,
    /// Milliseconds until there was a plan.
    pub first: Option<f64>,
    /// Extra time of the plan, in percent.
    pub overhead: Option<f64>,
    /// What no plan is below, in percent.
    pub bound: f64,
    /// Bytes of the arena over the logical peak.
    pub arena: Option<f64>,
    /// Seconds of the whole.
    pub seconds: f64,
}

impl Row {
    /// Plan and bound meet, or there is a proof that nothing fits.
    pub fn is_proven(&self) -> bool {
        ["optimal", "infeasible"].contains(&self.status.as_str())
    }

    fn csv(&self) -> String {
        let Key { family, graph, budget, limit } = &self.key;
        let gap = self.overhead.map(|overhead| (overhead - self.bound).max(0.0));
        let number =
            |value: Option<f64>, digits| value.map_or(String::new(), |value| format!("{value:.digits$}"));
        let (first, overhead, gap) = (number(self.first, 1), number(self.overhead, 4), number(gap, 4));
        let (bound, arena, seconds) =
            (number(Some(self.bound), 4), number(self.arena, 4), number(Some(self.seconds), 3));
        let (nodes, status) = (self.nodes, &self.status);
        format!(
            "{family},{graph},{nodes},{budget},{limit},{status},{first},{overhead},{bound},{gap},{arena},{seconds}"
        )
    }

    fn parse(line: &str) -> Result<Self> {
        let fields: Vec<&str> = line.split(',').collect();
        let [family, graph, nodes, budget, limit, status, first, overhead, bound, _, arena, seconds] =
            fields[..]
        else {
            bail!("{} columns in place of {}", fields.len(), COLUMNS.split(',').count());
        };
        let number = |text: &str| text.parse::<f64>().with_context(|| format!("{text:?} is not a number"));
        let maybe = |text: &str| if text.is_empty() { Ok(None) } else { number(text).map(Some) };
        Ok(Self {
            key: Key {
                family: family.into(),
                graph: graph.into(),
                budget: budget.parse()?,
                limit: limit.into(),
            },
            nodes: nodes.parse()?,
            status: status.into(),
            first: maybe(first)?,
            overhead: maybe(overhead)?,
            bound: number(bound)?,
            arena: maybe(arena)?,
            seconds: number(seconds)?,
        })
    }
}

const COLUMNS: &str =
    "family,graph,nodes,budget %,limit s,status,first ms,overhead %,bound %,gap,arena/peak,seconds";

/// A file of rows.
pub struct Rows {
    /// Lines about the code and the machine, without their `#`.
    pub head: Vec<String>,
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
        let (mut head, mut rows) = (Vec::new(), Vec::new());
        for (number, line) in text.lines().enumerate() {
            match line.strip_prefix("# ") {
                Some(about) => head.push(about.to_owned()),
                None if line == COLUMNS => {}
                None => rows.push(Row::parse(line).with_context(|| format!("line {}", number + 1))?),
            }
        }
        Ok(Self { head, rows })
    }

    /// The text of the file.
    pub fn text(&self) -> String {
        let mut text = String::new();
        for line in &self.head {
            let _ = writeln!(text, "# {line}");
        }
        let _ = writeln!(text, "{COLUMNS}");
        for row in &self.rows {
            let _ = writeln!(text, "{}", row.csv());
        }
        text
    }

    /// The row of a cell.
    pub fn find(&self, key: &Key) -> Option<&Row> {
        self.rows.iter().find(|row| row.key == *key)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_read_as_they_were_written() {
        let text = format!(
            "# code abc\n{COLUMNS}\n\
             unet,unet_7_11,120,60,0.2,feasible,1.5,9.8527,8.2176,1.6351,1.0004,0.197\n\
             unet,unet_7_11,120,25,10,infeasible,,,0.0000,,,0.001\n"
        );
        let rows = Rows::parse(&text).unwrap();
        assert_eq!((rows.head.len(), rows.rows.len()), (1, 2));
        assert_eq!((rows.rows[0].overhead, rows.rows[1].overhead), (Some(9.8527), None));
        assert!(!rows.rows[0].is_proven() && rows.rows[1].is_proven());
        assert_eq!(rows.text(), text);
        assert_eq!(rows.find(&rows.rows[1].key), Some(&rows.rows[1]));
        let torn = Rows::parse(&text[..text.len() - 12]).err().map(|error| format!("{error:#}"));
        assert_eq!(torn.as_deref(), Some("line 4: 9 columns in place of 12"));
    }
}
