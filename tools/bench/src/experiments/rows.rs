//! One row per cell, and the file of them: CSV behind a head of `#` lines that say what the rows depend on.

use std::fmt;
use std::iter::repeat;
use std::path::Path;

use anyhow::{Context, Result, bail};
use rk_solve::{SaveBudgets, Solver};
use rk_vocabulary::write_whole;

/// What is planned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cell {
    pub network: String,
    /// Of the peak without recomputation, in percent.
    pub budget: u32,
    pub method: Solver,
    /// The options of a block, where they are chosen.
    pub save: Option<SaveBudgets>,
}

impl fmt::Display for Cell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}% {}", self.network, self.budget, self.method)?;
        self.save.map_or(Ok(()), |save| write!(f, " {} {}", save.count, save.spread))
    }
}

/// What planning it gave.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    pub cell: Cell,
    pub nodes: usize,
    /// `optimal`, `feasible`, `infeasible`, or `none`: no plan, and no proof that there is none.
    pub status: String,
    /// The peak of the plan, in percent of the one without recomputation.
    pub peak: Option<f64>,
    /// Extra time of the plan, in percent.
    pub overhead: Option<f64>,
    /// What no plan in any order is below, in percent.
    pub bound: f64,
    /// Seconds of the whole; all seconds are those of the processor.
    pub seconds: f64,
    /// Every better plan: seconds, and its overhead.
    pub plans: Vec<(f64, f64)>,
}

impl Row {
    /// Seconds until there was a plan.
    pub fn first(&self) -> Option<f64> {
        self.plans.first().map(|plan| plan.0)
    }

    /// Seconds until there was a plan that takes at most 1 % more than `bound`, in percent, allows.
    pub fn near(&self, bound: f64) -> Option<f64> {
        let enough = 1.01 * (100.0 + bound) - 100.0;
        self.plans.iter().find(|plan| plan.1 <= enough).map(|plan| plan.0)
    }

    /// Seconds until the plan was proven to be the best. That nothing fits is not proven by the method, but by what all share.
    pub fn proof(&self) -> Option<f64> {
        (self.status == "optimal").then_some(self.seconds)
    }

    fn csv(&self) -> String {
        let Cell { network, budget, method, save } = &self.cell;
        let options = save.map_or(",".into(), |save| format!("{},{}", save.count, save.spread));
        let number = |value: Option<f64>| value.map_or(String::new(), |value| format!("{value:.4}"));
        let plans: Vec<String> = self.plans.iter().map(|(at, over)| format!("{at:.4}:{over:.4}")).collect();
        let (nodes, status, bound, seconds) = (self.nodes, &self.status, self.bound, self.seconds);
        format!(
            "{network},{nodes},{budget},{method},{options},{status},{},{},{bound:.4},{seconds:.4},{}",
            number(self.peak),
            number(self.overhead),
            plans.join(" ")
        )
    }

    fn parse(line: &str) -> Result<Self> {
        let fields: Vec<&str> = line.split(',').collect();
        let [network, nodes, budget, method, count, spread, status, peak, overhead, bound, seconds, plans] =
            fields[..]
        else {
            bail!("{} columns in place of {}", fields.len(), COLUMNS.split(',').count());
        };
        let number = |text: &str| text.parse::<f64>().with_context(|| format!("{text:?} is not a number"));
        let maybe = |text: &str| if text.is_empty() { Ok(None) } else { number(text).map(Some) };
        let plan = |text: &str| -> Result<(f64, f64)> {
            let (at, overhead) = text.split_once(':').with_context(|| format!("{text:?} is no plan"))?;
            Ok((number(at)?, number(overhead)?))
        };
        let save = match count {
            "" => None,
            count => Some(SaveBudgets { count: count.parse()?, spread: spread.parse()? }),
        };
        Ok(Self {
            cell: Cell { network: network.into(), budget: budget.parse()?, method: method.parse()?, save },
            nodes: nodes.parse()?,
            status: status.into(),
            peak: maybe(peak)?,
            overhead: maybe(overhead)?,
            bound: number(bound)?,
            seconds: number(seconds)?,
            plans: plans.split(' ').filter(|text| !text.is_empty()).map(plan).collect::<Result<_>>()?,
        })
    }
}

const COLUMNS: &str = "network,nodes,budget %,method,options,spread,status,peak %,overhead %,bound %,seconds,\
                       plans (seconds:overhead %)";

/// A file of rows.
pub struct Rows {
    /// Lines about what was asked, with which planner, and where it ran, without their `#`.
    head: Vec<String>,
    rows: Vec<Row>,
}

impl Rows {
    /// The rows of a file, or none if there is no file. Those of another machine or another planner can be shown as they are:
    /// [`Rows::go_on`] comes before adding to them.
    ///
    /// # Errors
    /// When it cannot be read, a line is no row, or it is of something else than `asked`, the first line of the head.
    pub fn open(path: &Path, asked: &str) -> Result<Self> {
        if !path.exists() {
            return Ok(Self { head: vec![asked.to_owned()], rows: Vec::new() });
        }
        let text =
            std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
        let found = Self::parse(&text).with_context(|| path.display().to_string())?;
        found.ensure_head(path, &[asked.to_owned()])?;
        Ok(found)
    }

    /// From here on rows are added.
    ///
    /// # Errors
    /// When the rows that there are were made otherwise than `head` says: two machines, or two planners, do not mix.
    pub fn go_on(&mut self, path: &Path, head: Vec<String>) -> Result<()> {
        if !self.rows.is_empty() {
            self.ensure_head(path, &head)?;
        }
        self.head = head;
        Ok(())
    }

    /// Who made the rows: the head without what was asked.
    pub fn makers(&self) -> String {
        self.head.get(1..).unwrap_or_default().join(", ")
    }

    fn ensure_head(&self, path: &Path, wanted: &[String]) -> Result<()> {
        let had = self.head.iter().map(String::as_str).chain(repeat("something unknown"));
        if let Some((had, wanted)) = had.zip(wanted).find(|(had, wanted)| had != wanted) {
            bail!("{} is of '{had}', not of '{wanted}': name another file with --rows", path.display());
        }
        Ok(())
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

    pub fn find(&self, cell: &Cell) -> Option<&Row> {
        self.rows.iter().find(|row| row.cell == *cell)
    }

    /// Adds a row as it will be read from the file: with the digits that it has there.
    pub fn add(&mut self, row: &Row) -> Result<()> {
        self.rows.push(Row::parse(&row.csv())?);
        Ok(())
    }

    /// Writes the file: these cells in their order, then what else there is. It is whole at any time.
    pub fn write(&self, path: &Path, cells: &[Cell]) -> Result<()> {
        let others = self.rows.iter().filter(|row| !cells.contains(&row.cell));
        let rows = cells.iter().filter_map(|cell| self.find(cell)).chain(others).map(Row::csv);
        let head = self.head.iter().map(|line| format!("# {line}")).chain([COLUMNS.to_owned()]);
        let text = head.chain(rows).map(|line| line + "\n").collect::<String>();
        if let Some(folder) = path.parent() {
            std::fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
        }
        write_whole(path, text.as_bytes()).with_context(|| format!("cannot write {}", path.display()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_read_as_they_were_written() {
        let lines = [
            "gpt2-4,321,50,rockmate,24,linear,feasible,49.9000,4.2000,0.0000,0.5000,0.1000:9.0000 0.3000:4.2000",
            "gpt2-4,321,20,auto,,,infeasible,,,0.0000,0.0100,",
        ];
        for line in lines {
            assert_eq!(Row::parse(line).unwrap().csv(), line);
        }
        let torn = format!("{:#}", Row::parse(&lines[0][..40]).unwrap_err());
        assert_eq!(torn, "7 columns in place of 12");
    }

    #[test]
    fn times_are_read_off_the_plans() {
        let row = Row::parse("n,9,50,auto,,,optimal,50,4.0,4.0,0.7,0.1:9.0 0.3:4.9 0.6:4.0").unwrap();
        assert_eq!((row.first(), row.near(4.0), row.proof()), (Some(0.1), Some(0.3), Some(0.7)));
        let open = Row { status: "feasible".into(), ..row };
        assert_eq!((open.near(2.0), open.proof()), (None, None));
    }
}
