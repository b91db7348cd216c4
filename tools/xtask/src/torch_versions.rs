//! The Python tests with other versions of torch than that of `.venv`: with one, with the newest, with all of them.
//!
//! The package is the same for all; only its extension for lowered steps is linked to one torch, and the tests that need it skip
//! themselves with another one. `cargo xtask matrix` writes a table row by row, so that it can be had one version at a time.
//! Not here: which versions there are, and how their environments are made (`setup::beside`).

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::checkout::Checkout;
use crate::setup::beside;
use crate::{process, python};

const PAGE: &str = "docs/torch-versions.md";

/// What CI runs with the newest torch, within its time: the bits, the budgets, every codegen that works with any torch, what rk
/// takes from inside of torch, and what is known of GPUs without one. `cargo xtask test --torch` runs everything.
const CORE: [&str; 10] = [
    "bits",
    "counter",
    "distributed",
    "hard_places",
    "inductor",
    "objects",
    "options",
    "program",
    "torch",
    "without_a_gpu",
];

/// Runs all Python tests with one version of torch.
///
/// # Errors
/// When its environment cannot be made, or a test fails.
pub fn test(checkout: &Checkout, version: &str) -> Result<()> {
    let interpreter = beside::interpreter(checkout, version)?;
    process::show(python::pytest(checkout, &interpreter)?.arg("tests"))
}

/// Runs the core of the Python tests with the newest torch.
///
/// # Errors
/// As [`test()`].
pub fn test_newest(checkout: &Checkout) -> Result<()> {
    let newest = beside::versions(checkout)?.pop().context("there is no version of torch")?;
    let interpreter = beside::interpreter(checkout, &newest)?;
    let files = CORE.map(|name| format!("tests/test_{name}.py"));
    process::show(python::pytest(checkout, &interpreter)?.args(files))
}

#[derive(clap::Args)]
pub struct MatrixOptions {
    /// Only these versions, for example `--torch 2.11.0,2.15.0`; the rows of the others stay
    #[arg(long, value_delimiter = ',')]
    torch: Vec<String>,
}

/// Runs all Python tests with each version of torch, and writes the rows of docs/torch-versions.md.
///
/// # Errors
/// When an environment cannot be made, or pytest does not come to its end. Tests that fail are in the table, and an error at the end.
pub fn matrix(checkout: &Checkout, options: &MatrixOptions) -> Result<()> {
    let versions = if options.torch.is_empty() { beside::versions(checkout)? } else { options.torch.clone() };
    let report = std::env::temp_dir().join(format!("rk-matrix-{}.xml", std::process::id()));
    let mut failed = Vec::new();
    for version in versions {
        let interpreter = beside::interpreter(checkout, &version)?;
        let commit = commit(checkout)?;
        eprintln!("matrix: torch {version}");
        let mut pytest = python::pytest(checkout, &interpreter)?;
        // Its exit status says that a test failed; the report says which.
        let outcome = process::show(pytest.arg("--junitxml").arg(&report).arg("tests"));
        let text = std::fs::read_to_string(&report).map_err(|_| match outcome {
            Err(error) => error,
            Ok(()) => anyhow::anyhow!("pytest wrote no report"),
        })?;
        std::fs::remove_file(&report)?;
        let counts = Counts::read(&text).context("the report of pytest is not understood")?;
        let row = counts.row(&version, &python_version(&interpreter)?, &commit);
        write_row(checkout, "matrix", &format!("| {version} |"), &row)?;
        if !counts.failures.is_empty() {
            failed.push(version);
        }
    }
    if failed.is_empty() { Ok(()) } else { bail!("tests failed with torch {}", failed.join(", ")) }
}

/// What the tests are run on: a commit, with a plus if the checkout has more than that. The page is left out, because rows are written to it.
fn commit(checkout: &Checkout) -> Result<String> {
    let git = |arguments: &[&str]| {
        process::capture(Command::new("git").args(arguments).current_dir(checkout.path(".")))
    };
    let changes = git(&["status", "--porcelain", "--", ".", &format!(":!{PAGE}")])?;
    let plus = if changes.trim().is_empty() { "" } else { "+" };
    Ok(format!("{}{plus}", git(&["rev-parse", "--short=10", "HEAD"])?.trim()))
}

fn python_version(interpreter: &Path) -> Result<String> {
    let ask = "import platform; print(platform.python_version())";
    Ok(process::capture(Command::new(interpreter).args(["-c", ask]))?.trim().to_owned())
}

/// What came of the tests, from the report that pytest writes for CI servers.
#[derive(Debug, PartialEq, Eq)]
struct Counts {
    passed: usize,
    skipped: usize,
    failures: Vec<String>,
}

impl Counts {
    /// Reads pytest's own XML, which has one `testcase` for each test, with what happened to it inside.
    fn read(report: &str) -> Option<Self> {
        let (_, cases) = report.split_once("<testsuite ")?;
        let mut counts = Self { passed: 0, skipped: 0, failures: Vec::new() };
        for case in cases.split("<testcase ").skip(1) {
            if case.contains("<failure ") || case.contains("<error ") {
                let attribute = |name: &str| case.split_once(&format!("{name}=\""))?.1.split('"').next();
                // `classname` has `name` in it, and comes first.
                let class = attribute("classname")?;
                let name = case.split_once("\" name=\"")?.1.split('"').next()?;
                counts.failures.push(format!("{}::{name}", class.rsplit('.').next()?));
            } else if case.contains("<skipped ") {
                counts.skipped += 1;
            } else {
                counts.passed += 1;
            }
        }
        Some(counts)
    }

    fn row(&self, version: &str, python: &str, commit: &str) -> String {
        let failures: Vec<String> = self.failures.iter().map(|name| format!("`{name}`")).collect();
        let failures = if failures.is_empty() { "none".to_owned() } else { failures.join(", ") };
        format!("| {version} | {python} | {commit} | {} | {} | {failures} |\n", self.passed, self.skipped)
    }
}

/// Puts a row into a table of docs/torch-versions.md, in place of the one that starts the same way. The order of the others stays.
///
/// # Errors
/// When the page has no such table.
pub fn write_row(checkout: &Checkout, table: &str, start: &str, row: &str) -> Result<()> {
    checkout.write(PAGE, &with_row(&checkout.read(PAGE)?, table, start, row)?)
}

fn with_row(page: &str, table: &str, start: &str, row: &str) -> Result<String> {
    let [begin, end] = [format!("<!-- {table} -->\n"), format!("<!-- /{table} -->")];
    let (head, rest) = page.split_once(&begin).with_context(|| format!("{PAGE} has no table `{table}`"))?;
    let (rows, tail) = rest.split_once(&end).with_context(|| format!("`{table}` of {PAGE} has no end"))?;
    let mut lines: Vec<&str> = rows.split_inclusive('\n').collect();
    match lines.iter_mut().find(|line| line.starts_with(start)) {
        Some(line) => *line = row,
        None => lines.push(row),
    }
    Ok(format!("{head}{begin}{}{end}{tail}", lines.concat()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_is_counted() {
        let report = r#"<testsuites><testsuite tests="3"><testcase classname="tests.test_a" name="one" time="1" />
            <testcase classname="tests.test_a" name="two[60%]" time="1"><failure message="x">y</failure></testcase>
            <testcase classname="tests.test_b" name="three" time="0"><skipped type="s">z</skipped></testcase></testsuite>"#;
        let failures = vec!["test_a::two[60%]".to_owned()];
        let counts = Counts::read(report);
        assert_eq!(counts, Some(Counts { passed: 1, skipped: 1, failures }));
        let row = counts.map(|counts| counts.row("2.15.0", "3.11.7", "0123456789+"));
        assert_eq!(row.as_deref(), Some("| 2.15.0 | 3.11.7 | 0123456789+ | 1 | 1 | `test_a::two[60%]` |\n"));
        assert_eq!(Counts::read("no report"), None);
    }

    #[test]
    fn a_row_is_put_in_or_replaced() -> Result<()> {
        let [begin, end] = ["<!-- matrix -->\n", "<!-- /matrix -->"];
        let page = format!("a\n{begin}{end}\nb\n");
        let page = with_row(&page, "matrix", "| 2.11.0 |", "| 2.11.0 | old |\n")?;
        let page = with_row(&page, "matrix", "| 2.15.0 |", "| 2.15.0 | x |\n")?;
        let page = with_row(&page, "matrix", "| 2.11.0 |", "| 2.11.0 | new |\n")?;
        assert_eq!(page, format!("a\n{begin}| 2.11.0 | new |\n| 2.15.0 | x |\n{end}\nb\n"));
        assert!(with_row(&page, "smoke", "| 2.11.0 |", "").is_err());
        Ok(())
    }

    /// Every file of the core is there.
    #[test]
    fn the_core_is_there() -> Result<()> {
        let checkout = Checkout::find()?;
        for name in CORE {
            assert!(
                checkout.path(format!("frontend/python/tests/test_{name}.py")).is_file(),
                "{name} is not"
            );
        }
        Ok(())
    }
}
