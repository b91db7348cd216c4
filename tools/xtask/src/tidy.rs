//! `cargo xtask tidy`: the conventions that no compiler checks, as one test.
//!
//! Each rule is a function from the project's files to complaints, one line each, naming the file and the line. All
//! complaints are printed, so that one run is enough to mend them. Rules look at text, not at syntax: they are meant
//! to catch what people forget, and a rule that needs a parser is a rule for clippy.

mod absent;
mod border;
mod circles;
mod dependencies;
mod invariants;

use std::collections::BTreeMap;

use anyhow::{Result, bail};

use crate::checkout::Checkout;
use crate::passes_page::{self, Pass};

/// The longest file that needs no reason, in lines.
const LONG: usize = 500;

/// Longer files, each with its reason.
const LONG_WITH_REASON: [(&str, &str); 0] = [];

/// Files whose length is nobody's decision, or whose text is not ours.
const NOT_OURS: [&str; 2] = ["Cargo.lock", "LICENSE-APACHE"];

type LawPlace = (&'static str, fn(&str) -> bool);

/// Where each law is stated, guarded, judged and tested: a name for the message, and which files may hold it.
const LAW_PLACES: [LawPlace; 4] = [
    ("the dialect's documentation (dialect/td/Dialect.td)", |file| file == "dialect/td/Dialect.td"),
    ("the verifier (dialect/src/verify.rs)", |file| file.starts_with("dialect/src/verify")),
    ("the judge (passes/plan/src/judge.rs, transfer.rs)", |file| {
        file.starts_with("passes/plan/src/judge") || file.starts_with("passes/plan/src/transfer")
    }),
    ("a test (lit-tests, or a tests folder or module of passes/plan or dialect)", is_law_test),
];

/// The project's text files by their path, sorted.
type Files = BTreeMap<String, String>;

/// Checks every rule.
///
/// # Errors
/// Holds all complaints.
pub fn run(checkout: &Checkout) -> Result<()> {
    let mut files = Files::new();
    for file in checkout.files()? {
        // Binary files have no lines to look at.
        if let Ok(text) = String::from_utf8(std::fs::read(checkout.path(&file))?) {
            files.insert(file, text);
        }
    }
    let rules: [fn(&Files) -> Vec<String>; 15] = [
        headers,
        sizes,
        modules,
        passes,
        laws,
        left_overs,
        continued,
        machine_paths,
        licences,
        dependencies::dependencies,
        unit_tests,
        circles::circles,
        absent::absent,
        border::border,
        invariants::invariants,
    ];
    let mut complaints: Vec<String> = rules.iter().flat_map(|rule| rule(&files)).collect();
    complaints.extend(
        passes_page::run(checkout, &passes_page::Options { check: true }).err().map(|e| format!("{e:#}")),
    );
    if complaints.is_empty() {
        eprintln!("tidy: {} files keep {} rules", files.len(), rules.len());
        return Ok(());
    }
    bail!("{} complaints:\n  {}", complaints.len(), complaints.join("\n  "))
}

fn with_suffix<'a>(files: &'a Files, suffix: &'a str) -> impl Iterator<Item = (&'a String, &'a String)> {
    files.iter().filter(move |(file, _)| file.ends_with(suffix))
}

/// Every Rust file opens with prose.
fn headers(files: &Files) -> Vec<String> {
    let bare = with_suffix(files, ".rs").filter(|(_, text)| {
        let first = text.lines().find(|line| !line.trim().is_empty());
        !first.is_some_and(|line| line.starts_with("//! ") && line.len() > "//! ".len())
    });
    bare.map(|(file, _)| {
        format!("{file}:1: the first line is no `//!` header: what is it, and what is absent?")
    })
    .collect()
}

/// No file is longer than people read, unless the list above says why.
fn sizes(files: &Files) -> Vec<String> {
    let source =
        |file: &str| [".rs", ".cpp", ".cc", ".h", ".td", ".py", ".sh"].iter().any(|end| file.ends_with(end));
    let reason = |file: &str| LONG_WITH_REASON.iter().find(|(long, _)| *long == file);
    let mut complaints: Vec<String> = files
        .iter()
        .filter(|(file, text)| source(file) && text.lines().count() > LONG && reason(file).is_none())
        .map(|(file, text)| {
            format!("{file}: {} lines; above {LONG} it needs a reason in tidy.rs", text.lines().count())
        })
        .collect();
    for (file, _) in LONG_WITH_REASON {
        if files.get(file).is_none_or(|text| text.lines().count() <= LONG) {
            complaints
                .push(format!("{file} needs no reason for its length any more: strike it from tidy.rs"));
        }
    }
    complaints
}

/// Every file below a `src` folder belongs to a crate: some file one level up declares it. The compiler never sees another.
fn modules(files: &Files) -> Vec<String> {
    let mut complaints = Vec::new();
    for (file, _) in with_suffix(files, ".rs") {
        let Some((room, inner)) = file.rsplit_once("/src/") else { continue };
        let inner = inner.strip_suffix("/mod.rs").unwrap_or(inner.trim_end_matches(".rs"));
        if ["lib", "main"].contains(&inner) || inner.starts_with("bin/") {
            continue;
        }
        let (above, name) = inner.rsplit_once('/').unwrap_or(("", inner));
        let parents = match above {
            "" => ["lib.rs".to_owned(), "main.rs".to_owned()].to_vec(),
            above => [format!("{above}.rs"), format!("{above}/mod.rs")].to_vec(),
        };
        // A module of tests may lie beside the file that declares it.
        let folder = |file: &str| file.rsplit_once('/').map(|(folder, _)| folder.to_owned());
        let mut beside = with_suffix(files, ".rs").filter(|(other, _)| folder(other) == folder(file));
        let declares = |text: &str| has_word(text, &format!("mod {name};"));
        let by_path = |text: &str| text.contains(&format!("#[path = \"{name}.rs\"]"));
        let declared = parents
            .iter()
            .any(|parent| files.get(&format!("{room}/src/{parent}")).is_some_and(|text| declares(text)));
        if !declared && !beside.any(|(_, text)| by_path(text)) {
            complaints.push(format!("{file}: no `mod {name};` in {}", parents.join(" or ")));
        }
    }
    complaints
}

/// Every pass has its headings, its example and its refusals.
fn passes(files: &Files) -> Vec<String> {
    let mut complaints = Vec::new();
    let mut examples = Vec::new();
    for (file, text) in with_suffix(files, ".rs").filter(|(file, _)| file.starts_with("passes/rewrite/src/"))
    {
        let pass = match Pass::parse(file, text) {
            Ok(Some(pass)) => pass,
            Ok(None) => continue,
            Err(error) => {
                complaints.push(format!("{error:#}"));
                continue;
            }
        };
        let flag = format!("--{}", pass.name);
        let places = pass.example_places();
        match places.iter().find_map(|place| Some((place, files.get(place)?))) {
            None => complaints.push(format!("{file}: {} has no {}", pass.name, places[0])),
            Some((place, text)) if !text.contains("RUN:") || !text.contains(&flag) => {
                complaints.push(format!("{place}: no RUN line runs {flag}"));
            }
            Some(_) => {}
        }
        examples.extend(places);
    }
    for (file, _) in
        with_suffix(files, "/example.mlir").filter(|(file, _)| file.starts_with("lit-tests/passes/"))
    {
        if !examples.contains(file) {
            complaints.push(format!("{file}: no pass in passes/rewrite/src has this example"));
        }
    }
    complaints
}

fn is_law_test(file: &str) -> bool {
    file.starts_with("lit-tests/")
        || ["passes/plan/", "dialect/"].iter().any(|room| file.starts_with(room)) && file.contains("test")
}

/// The label of every law stands where it is stated, guarded, judged and tested.
fn laws(files: &Files) -> Vec<String> {
    let mut complaints = Vec::new();
    for law in (1..=7).chain(9..=12) {
        for (place, holds) in LAW_PLACES {
            if !files.iter().any(|(file, text)| holds(file) && names_law(text, law)) {
                complaints.push(format!("law S{law} is not named in {place}"));
            }
        }
    }
    complaints
}

/// Whether the text has the label `S3`, as a word or as the start of a name: `S3`, `s3_dropped`, `S3NeverDropped`.
fn names_law(text: &str, law: u32) -> bool {
    let (letters, number) = (text.as_bytes(), law.to_string());
    let label = |at: usize| {
        letters[at].eq_ignore_ascii_case(&b's')
            && letters[at + 1..].starts_with(number.as_bytes())
            && !letters.get(at + 1 + number.len()).is_some_and(u8::is_ascii_digit)
            && (at == 0 || !letters[at - 1].is_ascii_alphanumeric())
    };
    (0..letters.len()).any(label)
}

/// Nothing that was meant for an afternoon is left. The names are put together here, so that this file passes.
fn left_overs(files: &Files) -> Vec<String> {
    let words = ["dbg", "todo", "unimplemented"].map(|name| format!("{name}!"));
    matching_lines(with_suffix(files, ".rs"), |line| words.iter().find(|word| has_word(line, word)).cloned())
}

/// Every comment can be read alone, as an editor shows it: none goes on with the sentence of the one above.
fn continued(files: &Files) -> Vec<String> {
    matching_lines(with_suffix(files, ".rs"), |line| {
        line.trim_start()
            .strip_prefix("/// ")
            .filter(|text| text.starts_with("..."))
            .map(|_| "/// ...".to_owned())
    })
}

/// No path of somebody's machine.
fn machine_paths(files: &Files) -> Vec<String> {
    let paths = ["work", "home", "root", "Users", "tmp"].map(|folder| format!("/{folder}/"));
    let ours = files.iter().filter(|(file, _)| !NOT_OURS.contains(&file.as_str()));
    matching_lines(ours, |line| paths.iter().find(|path| has_word(line, path)).cloned())
}

/// One complaint per line in which `found` finds something.
fn matching_lines<'a>(
    files: impl Iterator<Item = (&'a String, &'a String)>,
    found: impl Fn(&str) -> Option<String>,
) -> Vec<String> {
    let mut complaints = Vec::new();
    for (file, text) in files {
        for (number, line) in text.lines().enumerate() {
            if let Some(word) = found(line) {
                complaints.push(format!("{file}:{}: `{word}` has no place here", number + 1));
            }
        }
    }
    complaints
}

/// Whether `word` stands in the line and is not the tail of something longer, as in `mytodo!` or `a/tmp/b`.
fn has_word(line: &str, word: &str) -> bool {
    line.match_indices(word).any(|(at, _)| {
        let before = line[..at].chars().next_back();
        !before.is_some_and(|c| c.is_alphanumeric() || "_-./}>".contains(c))
    })
}

/// The licence texts are there, and every crate says that they apply.
fn licences(files: &Files) -> Vec<String> {
    let texts =
        [("LICENSE-MIT", "Permission is hereby granted"), ("LICENSE-APACHE", "Version 2.0, January 2004")];
    let absent =
        texts.iter().filter(|(file, words)| !files.get(*file).is_some_and(|text| text.contains(words)));
    let mut complaints: Vec<String> =
        absent.map(|(file, _)| format!("{file} is missing or not that licence")).collect();
    for (file, text) in with_suffix(files, "Cargo.toml") {
        if text.contains("[package]") && !text.contains("license.workspace = true") {
            complaints.push(format!("{file}: no `license.workspace = true`"));
        }
    }
    complaints
}

/// A target with `test = false` has no unit tests: cargo would pass over them without a word.
fn unit_tests(files: &Files) -> Vec<String> {
    let mut complaints = Vec::new();
    let marked = |text: &str| ["#[test]", "#[cfg(test)]"].iter().any(|mark| text.contains(mark));
    for (manifest, text) in with_suffix(files, "Cargo.toml") {
        let room = manifest.trim_end_matches("Cargo.toml");
        for target in text.split("\n[").filter(|section| section.contains("\ntest = false")) {
            let path = target.split_once("\npath = \"").and_then(|(_, rest)| rest.split_once('"'));
            // A program below `src/bin` is one file; any other target may use all modules of the crate.
            let part =
                path.map_or("src/", |(path, _)| if path.starts_with("src/bin/") { path } else { "src/" });
            let part = format!("{room}{part}");
            for (file, _) in
                with_suffix(files, ".rs").filter(|(file, text)| file.starts_with(&part) && marked(text))
            {
                complaints.push(format!(
                    "{file} has tests that {manifest} keeps cargo from running: `test = false`"
                ));
            }
        }
    }
    complaints
}

#[cfg(test)]
mod tests {
    use super::*;

    fn files(of: &[(&str, &str)]) -> Files {
        of.iter().map(|(file, text)| ((*file).to_owned(), (*text).to_owned())).collect()
    }

    #[test]
    fn a_file_without_a_header_is_named() {
        let files = files(&[("a.rs", "//! What it is.\n"), ("b.rs", "use std::fs;\n"), ("c.rs", "//!\n")]);
        let named: Vec<String> = headers(&files).iter().map(|line| line[..4].to_owned()).collect();
        assert_eq!(named, ["b.rs", "c.rs"]);
    }

    #[test]
    fn a_long_file_needs_a_reason() {
        let files = files(&[
            ("a.rs", &"\n".repeat(LONG)),
            ("b.cpp", &"\n".repeat(LONG + 1)),
            ("c.mlir", &"\n".repeat(999)),
        ]);
        assert_eq!(sizes(&files), ["b.cpp: 501 lines; above 500 it needs a reason in tidy.rs"]);
    }

    #[test]
    fn a_file_that_no_module_declares_is_named() {
        let some = files(&[
            ("x/src/lib.rs", "pub(crate) mod a;\nmod b;\n#[path = \"b_tests.rs\"]\nmod tests;\n"),
            ("x/src/a.rs", "mod inner;\n"),
            ("x/src/a/inner.rs", ""),
            ("x/src/a/other.rs", ""),
            ("x/src/b/mod.rs", ""),
            ("x/src/b_tests.rs", ""),
            ("x/src/bin/tool.rs", ""),
            ("x/src/left.rs", ""),
            ("x/tests/t.rs", ""),
        ]);
        let expected = [
            "x/src/a/other.rs: no `mod other;` in a.rs or a/mod.rs",
            "x/src/left.rs: no `mod left;` in lib.rs or main.rs",
        ];
        assert_eq!(modules(&some), expected);
    }

    #[test]
    fn a_test_that_cargo_would_not_run_is_named() {
        let with_tests = format!("//! x\n#[{}]\nfn f() {{}}\n", "test");
        let some = files(&[
            ("x/Cargo.toml", "[package]\n\n[lib]\ntest = false # why\n\n[lints]\n"),
            ("x/src/lib.rs", "//! x\n"),
            ("x/src/inner.rs", &with_tests),
            ("y/Cargo.toml", "[package]\n\n[[bin]]\npath = \"src/bin/a.rs\"\ntest = false\n"),
            ("y/src/bin/a.rs", "//! x\n"),
            ("y/src/lib.rs", &with_tests),
        ]);
        let expected = "x/src/inner.rs has tests that x/Cargo.toml keeps cargo from running: `test = false`";
        assert_eq!(unit_tests(&some), [expected]);
    }

    #[test]
    fn law_labels_are_words() {
        assert!(
            names_law("fn s3_dropped()", 3)
                && names_law("Illegal::S3NeverDropped", 3)
                && names_law("(S3)", 3)
        );
        assert!(!names_law("S31", 3) && !names_law("pass3", 3) && !names_law("S4", 3) && !names_law("S", 3));
        assert!(names_law("Unlawful::S12OverHostBudget", 12) && !names_law("S1", 12) && !names_law("S12", 1));
    }

    #[test]
    fn a_law_without_a_judge_is_named() {
        let all = "S1 S2 S3 S4 S5 S6 S7 S9 S10 S11 S12";
        let mut some = files(&[
            ("dialect/td/Dialect.td", all),
            ("dialect/src/verify.rs", all),
            ("passes/plan/src/judge.rs", "S1 S2 S3 S5 S6 S7 S9 S10 S11 S12"),
            ("lit-tests/dialect/invalid.mlir", all),
        ]);
        assert_eq!(laws(&some), ["law S4 is not named in the judge (passes/plan/src/judge.rs, transfer.rs)"]);
        some.insert("passes/plan/src/judge/replay.rs".to_owned(), "fn s4_again()".to_owned());
        assert!(laws(&some).is_empty());
    }

    #[test]
    fn left_overs_and_machine_paths_are_named_with_their_line() {
        let marked = format!("//! x\nfn f() {{ {}!() }}\n", "todo");
        let home = format!("/{}/", "home");
        let path = format!("see {home}x/y\n");
        let files = files(&[("a.rs", marked.as_str()), ("b.md", path.as_str()), ("c.md", "a/tmp/b\n")]);
        assert_eq!(left_overs(&files), [format!("a.rs:2: `{}!` has no place here", "todo")]);
        assert_eq!(machine_paths(&files), [format!("b.md:1: `{home}` has no place here")]);
    }

    #[test]
    fn a_comment_that_goes_on_with_another_is_named() {
        let some = files(&[(
            "a.rs",
            "/// Moves, ...\nconst A: u8 = 1;\n    /// ... and looks.\n/// Ranges: 1...3\n",
        )]);
        assert_eq!(continued(&some), ["a.rs:3: `/// ...` has no place here"]);
    }

    #[test]
    fn a_pass_without_its_example_is_named() {
        let source = "//! `--rk-x`: s\n//! # Before and after\n//! # How\n//! # Contract\n//! # Not here\n\
            static PASS: PassSpec = PassSpec { argument: \"rk-x\", description: \"d\" };\n";
        let mut some =
            files(&[("passes/rewrite/src/x.rs", source), ("lit-tests/passes/y/example.mlir", "// RUN: y\n")]);
        let expected = [
            "passes/rewrite/src/x.rs: rk-x has no lit-tests/passes/x/example.mlir",
            "lit-tests/passes/y/example.mlir: no pass in passes/rewrite/src has this example",
        ];
        assert_eq!(passes(&some), expected);
        some.remove("lit-tests/passes/y/example.mlir");
        some.insert("lit-tests/passes/x/example.mlir".to_owned(), "// RUN: rk-opt %s --rk-x\n".to_owned());
        assert!(passes(&some).is_empty());
    }
}
