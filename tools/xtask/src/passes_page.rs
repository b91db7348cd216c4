//! `cargo xtask docs`: writes docs/passes.md from the passes themselves and their lit examples.
//!
//! A pass is a file of passes/rewrite/src that holds a `PassSpec`. Its description and options are what `--help` shows;
//! its header, with fixed headings, says the rest; `lit-tests/passes/<pass>/example.mlir` is what the tests run. All
//! three are pasted and none is retyped.
//! Not here: a Rust parser. The specs are found by their text, which rustfmt keeps in one form.

use anyhow::{Context, Result, bail};

use crate::checkout::Checkout;

const SOURCES: &str = "passes/rewrite/src/";
const PAGE: &str = "docs/passes.md";
/// The headings that the header of every pass has, in this order; others may stand between and behind them.
const HEADINGS: [&str; 2] = ["Before and after", "Contract"];
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
    description: String,
    options: Vec<[String; 3]>,
    /// The header without its `//!`, Markdown.
    header: String,
}

impl Pass {
    /// Where the lit test may lie that the page shows, relative to the root; the first is the usual place.
    pub fn example_places(&self) -> [String; 2] {
        let name = self.name.strip_prefix("rk-").unwrap_or(&self.name);
        [name.to_owned(), name.replace('-', "_")]
            .map(|folder| format!("lit-tests/passes/{folder}/example.mlir"))
    }

    /// Reads a pass; nothing when the file holds none.
    ///
    /// # Errors
    /// When the file holds two, or a heading is missing or out of order.
    pub fn parse(file: &str, source: &str) -> Result<Option<Self>> {
        let Some((_, spec)) = source.split_once("PassSpec = PassSpec {") else { return Ok(None) };
        if spec.contains("PassSpec = PassSpec {") {
            bail!("{file}: two passes in one file; one pass, one file");
        }
        let field = |text: &str, name: &str| {
            let (_, rest) = text.split_once(&format!("{name}: \""))?;
            let end = rest.match_indices('"').find(|(at, _)| !rest[..*at].ends_with('\\'))?.0;
            // A string that goes on in the next line drops the break and the indentation there.
            let lines: Vec<&str> = rest[..end].split("\\\n").collect();
            let (first, more) = lines.split_first()?;
            let joined = more.iter().fold((*first).to_owned(), |text, line| text + line.trim_start());
            Some(joined.replace("\\\"", "\""))
        };
        let required =
            |name: &str| field(spec, name).with_context(|| format!("{file}: its PassSpec has no {name}"));
        let (name, description) = (required("argument")?, required("description")?);
        let specs = spec.split("OptionSpec {").skip(1);
        let options =
            specs.filter_map(|one| Some([field(one, "name")?, field(one, "default")?, field(one, "help")?]));
        let lines = source.lines().map_while(|line| line.strip_prefix("//!"));
        let header: Vec<&str> = lines.map(|line| line.strip_prefix(' ').unwrap_or(line)).collect();
        let title = format!("`--{name}`: ");
        if !header.first().is_some_and(|line| line.starts_with(&title)) {
            bail!("{file}:1: the header of this pass does not start with `//! {title}`");
        }
        let found: Vec<&str> = header.iter().filter_map(|line| line.strip_prefix("# ")).collect();
        let mut rest = found.iter();
        if let Some(missing) = HEADINGS.iter().find(|heading| !rest.any(|line| line == *heading)) {
            bail!("{file}: the header of {name} has no `# {missing}` in its place");
        }
        let options = options.collect();
        Ok(Some(Self { file: file.to_owned(), description, options, header: header.join("\n"), name }))
    }

    /// The place on the ladder of the stage that the pass establishes; behind all of them when it establishes none.
    fn rank(&self) -> usize {
        let established = self.header.split_once("stablishes `").and_then(|(_, rest)| rest.split('`').next());
        STAGES.iter().position(|stage| Some(*stage) == established).unwrap_or(STAGES.len())
    }

    fn section(&self, place: &str, example: &str) -> String {
        let mut text = format!("## `--{}`\n\n{}.\n", self.name, self.description.trim_end_matches('.'));
        if !self.options.is_empty() {
            text += "\n| option | default | meaning |\n|---|---|---|\n";
            for [name, default, help] in &self.options {
                let default = if default.is_empty() { "–".to_owned() } else { format!("`{default}`") };
                text += &format!("| `{name}` | {default} | {} |\n", help.replace('|', "\\|"));
            }
        }
        // The first paragraph repeats the name; what follows are the headings, one level below this section.
        let (first, rest) = self.header.split_once("\n\n").unwrap_or((&self.header, ""));
        let first = first.split_once("`: ").map_or(first, |(_, sentence)| sentence);
        text += &format!("\n{}\n", capital(&plain_links(first)));
        let mut fenced = false;
        for line in rest.trim_end().lines() {
            fenced ^= line.starts_with("```");
            let heading = line.strip_prefix("# ").filter(|_| !fenced);
            text +=
                &heading.map_or_else(|| format!("\n{}", plain_links(line)), |line| format!("\n### {line}\n"));
        }
        text + &format!("\n\n### Example\n\n`{place}`:\n\n```mlir\n{}\n```\n", example.trim_end())
    }
}

/// Rustdoc's links to items lead nowhere from a page: ``[`x`]`` becomes `` `x` ``.
fn plain_links(text: &str) -> String {
    text.replace("[`", "`").replace("`]", "`")
}

fn capital(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().into_iter().flat_map(char::to_uppercase).chain(letters).collect()
}

/// All passes, in the order of the stages they establish, then by name.
///
/// # Errors
/// When a header is incomplete.
fn passes(checkout: &Checkout) -> Result<Vec<Pass>> {
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
    let mut page = "# The passes\n\n<!-- Written by `cargo xtask docs` from passes/rewrite/src and lit-tests; do not edit. -->\n\n\
        In the order of the stages that they establish. The stages, the laws and the syntax are in [ir.md](ir.md); each\n\
        example is a lit test.\n"
        .to_owned();
    for pass in &passes {
        let places = pass.example_places();
        let place = places.iter().find(|place| checkout.path(place).exists()).unwrap_or(&places[0]);
        let example = checkout.read(place).with_context(|| format!("{}: its example", pass.file))?;
        page += &format!("\n{}", pass.section(place, &example));
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
//! `--rk-simplify`: from `dataflow` to `simplified`. One computation per node.
//!
//! # Before and after
//! ```mlir
//! # no heading
//! ```
//!
//! # How
//! Views move into bodies ([`crate::views`]).
//!
//! # Contract
//! Needs `dataflow`, establishes `simplified`.
//!
//! # Not here
//! Merging.

pub static PASS: PassSpec = PassSpec {
    name: \"Simplify\",
    argument: \"rk-simplify\",
    description: \"Makes one node of every \\\"real\\\" \\
                  computation\",
    options: &[OptionSpec { name: \"at-most\", default: \"\", help: \"nodes\" }],
    run: |cx| run(cx),
};
";

    #[test]
    fn a_pass_becomes_a_section() -> Result<()> {
        let pass = Pass::parse("simplify.rs", SOURCE)?.context("no pass")?;
        assert_eq!((pass.name.as_str(), pass.rank()), ("rk-simplify", 2));
        let expected = "\
## `--rk-simplify`

Makes one node of every \"real\" computation.

| option | default | meaning |
|---|---|---|
| `at-most` | – | nodes |

From `dataflow` to `simplified`. One computation per node.

### Before and after

```mlir
# no heading
```

### How

Views move into bodies (`crate::views`).

### Contract

Needs `dataflow`, establishes `simplified`.

### Not here

Merging.

### Example

`x/example.mlir`:

```mlir
func.func @f()
```
";
        assert_eq!(pass.section("x/example.mlir", "func.func @f()\n"), expected);
        Ok(())
    }

    #[test]
    fn what_a_header_lacks_is_named() {
        let error = |source: &str| Pass::parse("simplify.rs", source).unwrap_err().to_string();
        let without = SOURCE.replace("//! # Contract\n", "");
        assert_eq!(
            error(&without),
            "simplify.rs: the header of rk-simplify has no `# Contract` in its place"
        );
        let without = SOURCE.replace("//! `--rk-simplify`: from", "//! From");
        assert!(error(&without).starts_with("simplify.rs:1: the header of this pass does not start with"));
    }

    #[test]
    fn other_files_are_no_passes() -> Result<()> {
        assert!(
            Pass::parse("lib.rs", "//! The pipeline, and why each pass stands where it does.\n")?.is_none()
        );
        Ok(())
    }
}
