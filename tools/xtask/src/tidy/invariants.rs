//! Every sentence that a page calls an invariant says what would fail if it were false.
//!
//! In the paragraph after `**Invariant:**` stands `Checked by`, with names in backticks up to the bracket that closes: tests in Rust or
//! Python, rules of tidy, or files of `lit-tests`. The rule asks that each is there. A test that is given another name, or is taken away,
//! takes its sentence along.
//!
//! Not here: whether a test shows what the sentence says. That is for whoever writes the sentence, and breaks the code once to see.

use std::collections::BTreeSet;

use super::{Files, with_suffix};

const MARK: &str = "**Invariant:**";
const CHECKED: &str = "(Checked by";

/// Every invariant that names no check, or one that is not there.
pub fn invariants(files: &Files) -> Vec<String> {
    let pages = || with_suffix(files, ".md").filter(|(_, text)| text.contains(MARK));
    let functions = functions(files);
    let mut complaints = Vec::new();
    for (page, text) in pages() {
        for (at, _) in text.match_indices(MARK) {
            let line = text[..at].lines().count() + 1;
            let rest = &text[at + MARK.len()..];
            let end = [MARK, "\n\n"].iter().filter_map(|end| rest.find(end)).min().unwrap_or(rest.len());
            let names = checks(&rest[..end]);
            if names.is_empty() {
                complaints.push(format!(
                    "{page}:{line}: an invariant without `Checked by`: write its test, or no invariant"
                ));
            }
            let unknown =
                names.into_iter().filter(|name| !functions.contains(name) && !files.contains_key(*name));
            complaints.extend(unknown.map(|name| {
                format!("{page}:{line}: `{name}` is no function and no file that could check it")
            }));
        }
    }
    complaints
}

/// What stands in backticks behind `Checked by`, up to the end of the bracket.
fn checks(sentence: &str) -> Vec<&str> {
    let Some((_, rest)) = sentence.split_once(CHECKED) else { return Vec::new() };
    let inside = rest.split_once(')').map_or(rest, |(inside, _)| inside);
    inside.split('`').skip(1).step_by(2).collect()
}

/// The names of all functions of Rust and Python.
fn functions(files: &Files) -> BTreeSet<&str> {
    let of = |suffix, word: &'static str| {
        with_suffix(files, suffix).flat_map(move |(_, text)| {
            text.split(word).skip(1).filter_map(|rest| rest.split(['(', '<']).next())
        })
    };
    of(".rs", "fn ").chain(of(".py", "def ")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_invariant_without_a_check_that_is_there_is_named() {
        let page = "# A page\n\n**Invariant:** no file. (Checked by\n`words`, `test_b`; more by `lit/a.mlir`.) It is `so`.\n\
                    **Invariant:** no clock.\n\n(Checked by `words`.)\n**Invariant:** no net. (Checked by `gone`.)\n";
        let texts = [
            ("docs/a.md", page),
            ("docs/b.md", "No invariant."),
            ("lit/a.mlir", ""),
            ("tests/a.py", "def test_b(x):\n    pass\n"),
            ("x/src/lib.rs", "fn words() {}\n"),
        ];
        let files = texts.map(|(file, text)| (file.to_owned(), text.to_owned())).into();
        let expected = [
            "docs/a.md:5: an invariant without `Checked by`: write its test, or no invariant",
            "docs/a.md:8: `gone` is no function and no file that could check it",
        ];
        assert_eq!(invariants(&files), expected);
    }
}
