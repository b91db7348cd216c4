//! Circles of files: within a crate, what one module uses does not use it back.
//!
//! A reader who follows the arrows then comes to an end, and a module can be read, tested and moved after what stands below it. The rule
//! reads `use` items and paths that begin with `crate::`, `super::` or the name of a module below, and follows what modules pass on by `pub use`. A
//! module may use those below it whatever they use: it is what declares them.
//!
//! Not here: paths that macros make, methods of types, and what only tests use. Arrows between crates are in `crate_graph`.

use std::collections::{BTreeMap, BTreeSet};

use petgraph::algo::tarjan_scc;
use petgraph::graphmap::DiGraphMap;

use super::Files;

/// Circles that are meant, each with its reason: a folder, and the modules in it.
const WITH_REASON: &[(&str, &[&str], &str)] = &[
    (
        "dialect/src",
        &["pass", "raw::pass"],
        "MLIR calls back: a pass is handed to it, and what it runs is that pass",
    ),
    (
        "dialect/src",
        &[
            "diagnostic",
            "raw::attr",
            "raw::block",
            "raw::context",
            "raw::module",
            "raw::op",
            "raw::shim",
            "raw::ty",
            "raw::value",
        ],
        "handles lead to each other as MLIR's own objects do: an op to its block, a block to its ops",
    ),
];

/// Every circle that has no reason, and every reason that has no circle.
pub fn circles(files: &Files) -> Vec<String> {
    complaints(files, WITH_REASON)
}

fn complaints(files: &Files, with_reason: &[(&str, &[&str], &str)]) -> Vec<String> {
    let mut complaints = Vec::new();
    let mut needed = BTreeSet::new();
    for room in rooms(files) {
        for circle in circles_of(files, room) {
            match with_reason.iter().find(|(folder, modules, _)| *folder == room && *modules == circle) {
                Some((folder, modules, _)) => _ = needed.insert((*folder, *modules)),
                None => complaints.push(format!("{room}: these files use each other: {}", circle.join(", "))),
            }
        }
    }
    let idle = with_reason.iter().filter(|(folder, modules, _)| !needed.contains(&(*folder, *modules)));
    complaints.extend(idle.map(|(folder, modules, _)| {
        format!("{folder}: {} are no circle any more: strike it from circles.rs", modules.join(", "))
    }));
    complaints
}

/// The source folders of all crates.
fn rooms(files: &Files) -> BTreeSet<&str> {
    let roots = ["/lib.rs", "/main.rs"];
    let room = |file: &'_ String| -> Option<usize> {
        let length = roots.iter().find_map(|root| file.strip_suffix(root))?.len();
        file[..length].ends_with("/src").then_some(length)
    };
    files.keys().filter_map(|file| room(file).map(|length| &file[..length])).collect()
}

/// The circles of a crate, each sorted.
fn circles_of(files: &Files, room: &str) -> Vec<Vec<String>> {
    let modules: Modules = files
        .iter()
        .filter_map(|(file, text)| {
            let inner = file.strip_prefix(room)?.strip_prefix('/')?.strip_suffix(".rs")?;
            let inner = inner.strip_suffix("/mod").unwrap_or(inner);
            let name =
                if ["lib", "main"].contains(&inner) { String::new() } else { inner.replace('/', "::") };
            Some((name, used(&without_comments_and_tests(text))))
        })
        .collect();
    let mut arrows: DiGraphMap<&str, ()> = DiGraphMap::new();
    for (from, used) in &modules {
        for one in used {
            let to = absolute(&modules, from, &one.path).and_then(|path| resolved(&modules, &path, 0));
            if let Some(to) = to.filter(|to| to != from && !is_below(to, from)) {
                arrows.add_edge(from, to, ());
            }
        }
    }
    let circles = tarjan_scc(&arrows).into_iter().filter(|circle| circle.len() > 1);
    let sorted = circles.map(|circle| {
        let names: BTreeSet<&str> = circle.into_iter().collect();
        names.into_iter().map(str::to_owned).collect()
    });
    let sorted: BTreeSet<Vec<String>> = sorted.collect();
    sorted.into_iter().collect()
}

/// What each module uses, by its path from the root of the crate, which itself has none.
type Modules = BTreeMap<String, Vec<Used>>;

/// One path that a module names.
#[derive(Debug, PartialEq)]
struct Used {
    path: String,
    /// The name under which the module passes it on.
    passed_on: Option<String>,
}

fn is_below(inner: &str, outer: &str) -> bool {
    outer.is_empty() || inner.strip_prefix(outer).is_some_and(|rest| rest.starts_with("::"))
}

fn joined(outer: &str, inner: &str) -> String {
    if outer.is_empty() { inner.to_owned() } else { format!("{outer}::{inner}") }
}

/// A path from the root of the crate; `None` if it leads into another crate.
fn absolute(modules: &Modules, from: &str, path: &str) -> Option<String> {
    if let Some(rest) = path.strip_prefix("crate::") {
        return Some(rest.to_owned());
    }
    let (mut from, mut path) = (from, path.strip_prefix("self::").unwrap_or(path));
    let relative = path.starts_with("super::");
    while let Some(rest) = path.strip_prefix("super::") {
        (from, path) = (from.rsplit_once("::").map_or("", |(above, _)| above), rest);
    }
    let first = path.split("::").next().unwrap_or_default();
    (relative || modules.contains_key(&joined(from, first))).then(|| joined(from, path))
}

/// The module that holds what a path names.
fn resolved<'m>(modules: &'m Modules, path: &str, passed: usize) -> Option<&'m str> {
    let parts: Vec<&str> = path.split("::").collect();
    let (name, used, rest) = (0..=parts.len()).rev().find_map(|length| {
        let (name, used) = modules.get_key_value(&parts[..length].join("::"))?;
        Some((name, used, &parts[length..]))
    })?;
    let next = rest.first().and_then(|first| {
        let passed_on = used.iter().find(|one| one.passed_on.as_deref() == Some(*first))?;
        Some(joined(&absolute(modules, name, &passed_on.path)?, &rest[1..].join("::")))
    });
    match next {
        // A name that is passed on in a circle leads nowhere.
        Some(next) if passed < 8 => resolved(modules, next.trim_end_matches(':'), passed + 1),
        _ => Some(name),
    }
}

/// The text without what follows `//`, and up to the tests at its end.
pub(super) fn without_comments_and_tests(text: &str) -> String {
    let mut plain = String::new();
    let mut lines = text.lines().peekable();
    while let Some(line) = lines.next() {
        let tests = line == "#[cfg(test)]"
            && lines.peek().is_some_and(|next| next.contains("mod ") && next.ends_with('{'));
        if tests {
            break;
        }
        plain += line.split("//").next().unwrap_or_default();
        plain.push('\n');
    }
    plain
}

/// Every path of a `use` item, and every other one that begins with `crate` or `super`.
fn used(text: &str) -> Vec<Used> {
    let mut found = Vec::new();
    let mut begin = 0;
    while let Some(at) = text[begin..].find("use ").map(|at| begin + at) {
        begin = at + "use ".len();
        let line = text[..at].rsplit('\n').next().unwrap_or_default().trim();
        let is_public = line.starts_with("pub");
        if line.is_empty() || (is_public && line.split_whitespace().count() == 1) {
            let end = text[begin..].find(';').map_or(text.len(), |end| begin + end);
            expand(&text[begin..end], "", is_public, &mut found);
        }
    }
    for root in ["crate::", "super::"] {
        for (at, _) in text.match_indices(root) {
            let before = text[..at].chars().next_back();
            if !before.is_some_and(|letter| letter.is_alphanumeric() || "_:$".contains(letter)) {
                let rest = &text[at..];
                let end = rest.find(|letter: char| !letter.is_alphanumeric() && !"_:".contains(letter));
                let path = rest[..end.unwrap_or(rest.len())].trim_end_matches(':');
                found.push(Used { path: path.to_owned(), passed_on: None });
            }
        }
    }
    found
}

/// The paths of a `use` item, braces taken apart.
fn expand(item: &str, outer: &str, is_public: bool, found: &mut Vec<Used>) {
    let item = item.trim();
    if let Some((path, inner)) = item.strip_suffix('}').and_then(|item| item.split_once('{')) {
        let outer = joined(outer, path.trim_end_matches(':'));
        let mut depth = 0;
        let parts = inner.split(|letter| {
            depth += i32::from(letter == '{') - i32::from(letter == '}');
            letter == ',' && depth == 0
        });
        for part in parts.filter(|part| !part.trim().is_empty()) {
            expand(part, &outer, is_public, found);
        }
        return;
    }
    let (path, name) = item.split_once(" as ").unwrap_or((item, ""));
    let path = if path == "self" { outer.to_owned() } else { joined(outer, path) };
    let last = path.rsplit("::").next().unwrap_or_default().to_owned();
    let passed_on = is_public.then(|| if name.is_empty() { last } else { name.to_owned() });
    found.push(Used { path, passed_on });
}

#[cfg(test)]
mod tests {
    use super::*;

    fn files(of: &[(&str, &str)]) -> Files {
        of.iter().map(|(file, text)| ((*file).to_owned(), (*text).to_owned())).collect()
    }

    #[test]
    fn files_that_use_each_other_are_named_unless_there_is_a_reason() {
        let some = files(&[
            ("x/src/lib.rs", "mod a;\nmod b;\nmod c;\npub use c::inner::{Deep, self as other};\n"),
            ("x/src/a.rs", "use crate::b::{\n    B, // first\n    other::{C, D},\n};\n"),
            ("x/src/b.rs", "pub fn f() -> crate::Deep { crate::Deep }\n"),
            ("x/src/c.rs", "mod inner;\nuse inner::Deep;\n"),
            ("x/src/c/inner.rs", "use super::super::a;\n"),
            ("y/src/main.rs", "mod a;\n"),
            ("y/src/a.rs", "use crate::b::B;\n"),
        ]);
        let circle: (&str, &[&str], &str) = ("x/src", &["a", "b", "c::inner"], "for the test");
        assert_eq!(complaints(&some, &[]), ["x/src: these files use each other: a, b, c::inner"]);
        assert!(complaints(&some, &[circle]).is_empty());
        let idle = ("y/src", circle.1, circle.2);
        let expected = ["y/src: a, b, c::inner are no circle any more: strike it from circles.rs"];
        assert_eq!(complaints(&some, &[circle, idle]), expected);
    }

    #[test]
    fn a_module_may_use_what_it_declares_and_tests_may_use_all() {
        let some = files(&[
            ("x/src/lib.rs", "mod a;\nmod b;\nfn f() { a::g() }\n"),
            (
                "x/src/a.rs",
                "mod inner;\nuse inner::g;\nuse std::b::B;\n#[cfg(test)]\nmod tests {\n    use crate::b::B;\n}\n",
            ),
            ("x/src/a/inner.rs", "use super::A;\n//! Not [`crate::b`].\n"),
            ("x/src/b.rs", "use crate::a::A;\nuse crate::f;\n"),
        ]);
        assert_eq!(complaints(&some, &[]), Vec::<String>::new());
    }
}
