//! Where the recorded data lies, and its tables.

use std::path::{Path, PathBuf};

/// The folder `shared/data/simrd` beside the checkout, or below `RK_SHARED`.
pub fn folder() -> Option<PathBuf> {
    let named = std::env::var_os("RK_SHARED").map(PathBuf::from);
    let beside = || {
        Path::new(env!("CARGO_MANIFEST_DIR"))
            .ancestors()
            .skip(1)
            .map(|a| a.join("shared"))
            .find(|s| s.is_dir())
    };
    let found = named.or_else(beside).map(|shared| shared.join("data/simrd")).filter(|f| f.is_dir());
    if found.is_none() {
        eprintln!("SKIPPED: no shared/data/simrd beside the checkout and no RK_SHARED");
    }
    found
}

/// One line of a table with the names of its columns.
#[derive(Debug, Clone)]
pub struct Row(Vec<(String, String)>);

impl Row {
    pub fn get(&self, column: &str) -> Option<&str> {
        self.0.iter().find(|(name, _)| name == column).map(|(_, value)| value.as_str())
    }

    pub fn text(&self, column: &str) -> &str {
        self.get(column).unwrap_or_else(|| panic!("no column {column} in {self:?}"))
    }

    pub fn number(&self, column: &str) -> f64 {
        self.text(column).parse().unwrap()
    }
}

/// All rows of a csv file whose first lines may be comments.
pub fn rows(path: &Path) -> Vec<Row> {
    let text = std::fs::read_to_string(path).unwrap();
    let mut lines = text.lines().filter(|line| !line.starts_with('#')).map(fields);
    let header = lines.next().unwrap();
    lines.map(|line| Row(header.iter().cloned().zip(line).collect())).collect()
}

/// Quoted fields may hold commas.
fn fields(line: &str) -> Vec<String> {
    let (mut fields, mut quoted) = (vec![String::new()], false);
    for c in line.chars() {
        match c {
            '"' => quoted = !quoted,
            ',' if !quoted => fields.push(String::new()),
            c => fields.last_mut().unwrap().push(c),
        }
    }
    fields
}
