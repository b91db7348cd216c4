//! `cargo xtask docs`: writes docs/passes.md from the headers of the passes and their lit examples.
//!
//! A pass is a file of passes/rewrite/src whose header starts with `# NAME: sentence`. The fixed headings below it and
//! `lit-tests/passes/<pass>/example.mlir` are pasted, so the page shows only what the tests run.

use anyhow::{Context, Result, bail};

use crate::checkout::Checkout;

const SOURCES: &str = "passes/rewrite/src/";
const PAGE: &str = "docs/passes.md";
/// The headings that every pass has, in this order.
pub const HEADINGS: [&str; 5] = ["What it does", "Why", "Stages", "Limits", "Example"];
/// The ladder of stages; the page lists the passes in the order of what they establish.
const STAGES: [&str; 7] = ["raw", "dataflow", "simplified", "blocks", "costed", "scheduled", "lowered"];

#[derive(clap::Args)]
pub struct Options {
    /// Write nothing; fail when the page is not what would be written
    #[arg(long)]
    pub check: bool,
}

/// One pass, as its file describes it.
#[derive(Debug)]
pub struct Pass {
    /// As on the command line: `rk-simplify`.
    pub name: String,
    /// The file, relative to the root.
    pub file: String,
    summary: String,
    /// The text below each of `HEADINGS`.
    sections: Vec<String>,
}

impl Pass {
    /// The lit test that the page shows, relative to the root.
    pub fn example(&self) -> &str {
        &self.sections[4]
    }

    /// Reads the header of a pass; nothing when the file is no pass.
    ///
    /// # Errors
    /// When a heading is missing or out of order.
    pub fn parse(file: &str, source: &str) -> Result<Option<Self>> {
        let header: Vec<&str> =
            source.lines().map_while(|line| line.strip_prefix("//!")).map(str::trim_end).collect();
        let title = header.first().and_then(|line| line.strip_prefix(" # "));
        let Some((name, summary)) = title.and_then(|title| title.split_once(": ")) else { return Ok(None) };
        let mut sections: Vec<Vec<&str>> = Vec::new();
        for line in &header[1..] {
            let line = line.strip_prefix(' ').unwrap_or(line);
            let heading = HEADINGS.get(sections.len());
            let text =
                heading.and_then(|heading| line.strip_prefix(heading)).filter(|rest| rest.starts_with("  "));
            match (text, sections.last_mut()) {
                (Some(text), _) => sections.push(vec![text.trim()]),
                (None, Some(section)) => section.push(line.trim()),
                (None, None) => {}
            }
        }
        if let Some(missing) = HEADINGS.get(sections.len()) {
            bail!("{file}: the header of {name} has no line `{missing}  ...` in its place");
        }
        let join = |lines: Vec<&str>| lines.join(" ").split_whitespace().collect::<Vec<_>>().join(" ");
        let mut sections: Vec<String> = sections.into_iter().map(join).collect();
        // The path ends at the first space: what follows is prose.
        sections[4] = sections[4].split_whitespace().next().unwrap_or_default().to_owned();
        Ok(Some(Self { name: name.to_owned(), file: file.to_owned(), summary: summary.to_owned(), sections }))
    }

    /// The place of the stage that the pass establishes on the ladder, the last one named after `==>`.
    fn rank(&self) -> usize {
        let stages = &self.sections[2];
        let established = stages.rsplit("==>").next().unwrap_or(stages);
        STAGES.iter().rposition(|stage| established.contains(stage)).unwrap_or(STAGES.len())
    }

    fn section(&self, example: &str) -> String {
        let mut text = format!("## `--{}`\n\n{}\n\n", self.name, sentence(&self.summary));
        for (heading, body) in HEADINGS.iter().zip(&self.sections).take(4) {
            text += &format!("- **{heading}.** {}\n", sentence(body));
        }
        text + &format!("\nFrom `{}`:\n\n```mlir\n{}\n```\n", self.example(), example.trim_end())
    }
}

/// The text with a capital and a full stop.
fn sentence(text: &str) -> String {
    let mut letters = text.chars();
    let capital: String = letters.next().into_iter().flat_map(char::to_uppercase).collect();
    let stop = if text.ends_with(['.', '!', '?']) { "" } else { "." };
    capital + letters.as_str() + stop
}

/// All passes, in the order of the stages they establish, then by name.
///
/// # Errors
/// When a header is incomplete.
pub fn passes(checkout: &Checkout) -> Result<Vec<Pass>> {
    let mut passes = Vec::new();
    for file in checkout.files()? {
        if file.starts_with(SOURCES) && file.ends_with(".rs") {
            passes.extend(Pass::parse(&file, &checkout.read(&file)?)?);
        }
    }
    passes.sort_by_key(|pass| (pass.rank(), pass.name.clone()));
    Ok(passes)
}

/// Writes the page, or compares it.
///
/// # Errors
/// When an example is missing, or the page on disk is another one and `--check` was given.
pub fn run(checkout: &Checkout, options: &Options) -> Result<()> {
    let passes = passes(checkout)?;
    let mut page = "# The passes\n\n<!-- Written by `cargo xtask docs` from the headers in passes/rewrite/src; do not edit. -->\n\n\
        In the order of the stages that they establish. The stages, the laws and the syntax are in [ir.md](ir.md); each\n\
        example is a lit test.\n"
        .to_owned();
    for pass in &passes {
        let example = checkout.read(pass.example()).with_context(|| format!("{}: its example", pass.file))?;
        page += &format!("\n{}", pass.section(&example));
    }
    if options.check {
        if checkout.read(PAGE).ok().as_deref() != Some(page.as_str()) {
            bail!("{PAGE} is out of date: cargo xtask docs");
        }
        eprintln!("docs: {PAGE} shows {} passes as they are", passes.len());
        return Ok(());
    }
    checkout.write(PAGE, &page)?;
    eprintln!("docs: wrote {PAGE}: {} passes", passes.len());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOURCE: &str = "\
//! # rk-simplify: fold views into the node that owns the storage
//!
//! What it does  Merges a node that only makes views with the producer of their base,
//!               wherever it stands.
//! Why           Views cost no bytes
//! Stages        dataflow ==> simplified
//! Limits        Refuses a view of two bases.
//! Example       lit-tests/passes/simplify/example.mlir

use melior;
";

    #[test]
    fn a_header_becomes_a_section() -> Result<()> {
        let pass = Pass::parse("simplify.rs", SOURCE)?.context("no pass")?;
        assert_eq!((pass.name.as_str(), pass.rank()), ("rk-simplify", 2));
        let expected = "\
## `--rk-simplify`

Fold views into the node that owns the storage.

- **What it does.** Merges a node that only makes views with the producer of their base, wherever it stands.
- **Why.** Views cost no bytes.
- **Stages.** Dataflow ==> simplified.
- **Limits.** Refuses a view of two bases.

From `lit-tests/passes/simplify/example.mlir`:

```mlir
func.func @f()
```
";
        assert_eq!(pass.section("func.func @f()\n"), expected);
        Ok(())
    }

    #[test]
    fn a_missing_heading_is_named() {
        let source = SOURCE.replace("//! Limits        Refuses a view of two bases.\n", "");
        let error = Pass::parse("simplify.rs", &source).unwrap_err().to_string();
        assert_eq!(error, "simplify.rs: the header of rk-simplify has no line `Limits  ...` in its place");
    }

    #[test]
    fn other_files_are_no_passes() -> Result<()> {
        assert!(
            Pass::parse("lib.rs", "//! The pipeline, and why each pass stands where it does.\n")?.is_none()
        );
        Ok(())
    }
}
