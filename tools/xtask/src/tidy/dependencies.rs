//! Dependencies that nobody needs: every one is named by a source that is built with it.
//!
//! What a crate declares for its build script is named there, what it declares for everybody is named outside of tests, and what the
//! workspace declares is used by some crate. cargo builds what is declared for nothing, and a wheel carries its licence.
//!
//! Not here: features of dependencies, and names that only macros make.

use super::circles::without_comments_and_tests;
use super::{Files, has_word, with_suffix};

/// Dependencies that no source names which is built with them, each with its reason.
const UNNAMED_WITH_REASON: [(&str, &str, &str); 5] = [
    ("codegen/torch/Cargo.toml", "torch-sys", "tells its direct dependants only where libtorch is"),
    (
        "tools/emulated-gpu/Cargo.toml",
        "cc",
        "for the part of its build script that lies in codegen/torch/build",
    ),
    ("tools/emulated-gpu/Cargo.toml", "rk-torch", "tells where libtorch is"),
    (
        "frontend/python/memory/Cargo.toml",
        "cc",
        "for the part of its build script that lies in codegen/torch/build",
    ),
    ("frontend/python/memory/Cargo.toml", "rk-torch", "tells where libtorch is, and has a header"),
];

/// For what a dependency is declared.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Normal,
    Build,
    Dev,
    /// For all crates of the workspace, each of which may use it.
    Workspace,
}

/// Every dependency that is not used.
pub fn dependencies(files: &Files) -> Vec<String> {
    let manifests: Vec<&str> =
        with_suffix(files, "Cargo.toml").filter_map(|(file, _)| file.strip_suffix("Cargo.toml")).collect();
    let crate_of = |file: &str| {
        manifests.iter().filter(|room| file.starts_with(**room)).max_by_key(|room| room.len()).copied()
    };
    let mut complaints = Vec::new();
    for room in &manifests {
        let manifest = format!("{room}Cargo.toml");
        // Per source, the text and who is built with it; of a file in `src`, all of it with its tests, and the rest with everybody.
        let mut sources: Vec<(Kind, String)> = Vec::new();
        for (file, text) in with_suffix(files, ".rs").filter(|(file, _)| crate_of(file) == Some(*room)) {
            let begins = |folder: &&str| file[room.len()..].starts_with(*folder);
            if ["build.rs", "build/"].iter().any(begins) {
                sources.push((Kind::Build, text.clone()));
                continue;
            }
            sources.push((Kind::Dev, text.clone()));
            if !["tests/", "benches/", "examples/"].iter().any(begins) {
                sources.push((Kind::Normal, without_comments_and_tests(text)));
            }
        }
        for Declared { line, name, kind } in declared(&files[&manifest]) {
            if kind == Kind::Workspace {
                let asks = format!("{name}.workspace = true");
                let asks_for_more = format!("{name} = {{ workspace = true");
                let lines = || manifests.iter().flat_map(|room| files[&format!("{room}Cargo.toml")].lines());
                if !lines().any(|line| line.starts_with(&asks) || line.starts_with(&asks_for_more)) {
                    complaints.push(format!("{manifest}:{line}: {name} is used by no crate"));
                }
                continue;
            }
            let word = name.replace('-', "_");
            let names =
                |text: &str| ["::", ";", " as "].iter().any(|end| has_word(text, &format!("{word}{end}")));
            let used = |by: Kind| sources.iter().any(|(kind, text)| *kind == by && names(text));
            let excused =
                UNNAMED_WITH_REASON.iter().any(|(file, known, _)| *file == manifest && *known == name);
            if used(kind) == excused {
                let what = match kind {
                    _ if excused => "is named: strike it from dependencies.rs",
                    Kind::Normal if used(Kind::Dev) => "is used by tests only: it is a dev-dependency",
                    Kind::Build => "is not used by the build script",
                    _ => "is used by no source",
                };
                complaints.push(format!("{manifest}:{line}: {name} {what}"));
            }
        }
    }
    complaints
}

/// A dependency as a manifest declares it.
struct Declared<'a> {
    line: usize,
    name: &'a str,
    kind: Kind,
}

/// The dependencies of a manifest, of every kind.
fn declared(manifest: &str) -> impl Iterator<Item = Declared<'_>> {
    let mut section = None;
    manifest.lines().enumerate().filter_map(move |(index, line)| {
        if let Some(header) = line.strip_prefix('[') {
            section = match header.trim_end_matches(']') {
                "workspace.dependencies" => Some(Kind::Workspace),
                header if header.ends_with("build-dependencies") => Some(Kind::Build),
                header if header.ends_with("dev-dependencies") => Some(Kind::Dev),
                header if header.ends_with("dependencies") => Some(Kind::Normal),
                _ => None,
            };
            return None;
        }
        let name = line.split(['.', '=', ' ']).next();
        let name = name.filter(|name| !name.is_empty() && !name.starts_with('#'))?;
        Some(Declared { line: index + 1, name, kind: section? })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn files(of: &[(&str, &str)]) -> Files {
        of.iter().map(|(file, text)| ((*file).to_owned(), (*text).to_owned())).collect()
    }

    #[test]
    fn a_dependency_that_no_source_names_is_named() {
        let manifest = "[package]\nname = \"x\"\n[dependencies]\nserde.workspace = true\n# why\nrk-plan = { path = \"p\" }\n\n\
                        [dev-dependencies]\nlog = \"1\"\n[lib]\nname = \"x\"\n";
        let some = files(&[
            ("x/Cargo.toml", manifest),
            ("x/src/lib.rs", "use rk_plan::Graph;\n//! No serde here.\n"),
            ("x/inner/Cargo.toml", "[package]\n"),
            ("x/inner/src/lib.rs", "use log::info;\n"),
        ]);
        let expected =
            ["x/Cargo.toml:4: serde is used by no source", "x/Cargo.toml:9: log is used by no source"];
        assert_eq!(dependencies(&some), expected);
    }

    #[test]
    fn a_dependency_of_another_kind_than_what_uses_it_is_named() {
        let manifest = "[package]\n[dependencies]\nlog.workspace = true\nserde.workspace = true\ncc.workspace = true\n\
                        [build-dependencies]\nrand = { workspace = true }\ncc.workspace = true\n\
                        [target.'cfg(unix)'.dependencies]\nlibc = \"1\"\n";
        let some = files(&[
            (
                "Cargo.toml",
                "[workspace.dependencies]\nlog = \"1\"\nserde = \"1\"\ncc = \"1\"\nrand = \"1\"\nran = \"1\"\n",
            ),
            ("x/Cargo.toml", manifest),
            ("x/build.rs", "fn main() { cc::Build::new() }\n"),
            (
                "x/src/lib.rs",
                "use serde::Serialize; // and log::info\n#[cfg(test)]\nmod tests {\n    use rand::Rng;\n}\n",
            ),
            ("x/tests/t.rs", "use log::info;\n"),
        ]);
        let expected = [
            "Cargo.toml:6: ran is used by no crate",
            "x/Cargo.toml:3: log is used by tests only: it is a dev-dependency",
            "x/Cargo.toml:5: cc is used by no source",
            "x/Cargo.toml:7: rand is not used by the build script",
            "x/Cargo.toml:10: libc is used by no source",
        ];
        assert_eq!(dependencies(&some), expected);
    }
}
