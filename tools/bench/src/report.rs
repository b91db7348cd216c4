//! Markdown tables, and their place in a document.

use std::fmt::Write as _;
use std::path::Path;

use anyhow::{Context, Result, bail};
use rk_vocabulary::write_output;

/// A table under construction; every row has as many cells as the head.
pub struct Table {
    head: Vec<String>,
    rows: Vec<Vec<String>>,
}

impl Table {
    pub fn new<S: Into<String>>(head: impl IntoIterator<Item = S>) -> Self {
        Table { head: head.into_iter().map(Into::into).collect(), rows: Vec::new() }
    }

    pub fn row(&mut self, cells: Vec<String>) {
        debug_assert_eq!(cells.len(), self.head.len());
        self.rows.push(cells);
    }

    /// A row that begins with these cells and says why there are no others.
    pub fn failure(&mut self, cells: &[&str], error: &anyhow::Error) {
        let mut row: Vec<String> = cells.iter().map(|&cell| cell.to_owned()).collect();
        row.push(format!("{error:#}").replace('|', "/"));
        row.resize(self.head.len(), String::new());
        self.rows.push(row);
    }

    pub fn to_markdown(&self) -> String {
        let mut text = format!("| {} |\n|{}\n", self.head.join(" | "), "---|".repeat(self.head.len()));
        for row in &self.rows {
            let _ = writeln!(text, "| {} |", row.join(" | "));
        }
        text
    }
}

/// Puts `text` between the markers `<!-- name -->` and `<!-- /name -->` of a document, or prints it.
///
/// # Errors
/// When the document cannot be read or written, or lacks the markers.
pub fn publish(document: Option<&Path>, name: &str, text: &str) -> Result<()> {
    let Some(path) = document else {
        return Ok(write_output(Path::new("-"), text.as_bytes())?);
    };
    let old = std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    let (open, close) = (format!("<!-- {name} -->\n"), format!("<!-- /{name} -->"));
    let (Some(start), Some(end)) = (old.find(&open), old.find(&close)) else {
        bail!("{}: no place for this table; add the lines {} and {close}", path.display(), open.trim());
    };
    let new = format!("{}{text}{}", &old[..start + open.len()], &old[end..]);
    std::fs::write(path, new).with_context(|| format!("cannot write {}", path.display()))
}

/// Bytes for people: "12.3 MiB".
pub fn mib(bytes: f64) -> String {
    format!("{:.1} MiB", bytes / (1024.0 * 1024.0))
}
