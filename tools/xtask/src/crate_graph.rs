//! The arrows between the crates: read from docs/architecture.md, compared with what `cargo metadata` says.
//!
//! The document is read by [`crate::drawing`]. The picture cannot lie, because an arrow that it does not have fails
//! the tests. A `may` is a ceiling: an arrow that is drawn but not used is no error.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, Result, bail};
use petgraph::algo::{astar, tarjan_scc};
use petgraph::graphmap::DiGraphMap;
use serde_json::Value;

use crate::checkout::Checkout;
use crate::drawing::{Drawing, PAGE};

/// One package of the resolved workspace.
struct Package {
    name: String,
    /// Relative to the root; only for packages of the workspace.
    folder: Option<String>,
    /// Names of ours among the direct dependencies of every kind: normal, build and dev.
    uses: BTreeSet<String>,
    /// Those of them that only its own tests use.
    only_tests_use: BTreeSet<String>,
    /// Ids of the dependencies that end up in what is built: normal and build.
    builds_with: Vec<String>,
    /// Ids of the dependencies of its own tests.
    tests_with: Vec<String>,
}

/// Prints what differs from the drawing.
///
/// # Errors
/// When something differs, or the drawing cannot be read.
pub fn run(checkout: &Checkout) -> Result<()> {
    let drawing = Drawing::parse(&checkout.read(PAGE)?)?;
    // For one platform only: else cargo downloads what other systems need.
    let platform = format!("{}-unknown-linux-gnu", std::env::consts::ARCH);
    let metadata = checkout.metadata(&["--locked", "--all-features", "--filter-platform", &platform])?;
    let root = metadata["workspace_root"].as_str().context("cargo metadata names no root")?.to_owned();
    let packages = packages(&metadata, &root)?;
    let wrong = compare(&drawing, &packages);
    if wrong.is_empty() {
        eprintln!("crate graph: {} crates are as drawn in {PAGE}", drawing.rooms.len());
        return Ok(());
    }
    bail!("the crates are not as drawn in {PAGE}:\n  {}", wrong.join("\n  "))
}

/// A door: a program or a package that people use. It may know everything, and nothing may know it.
fn is_door(folder: &str) -> bool {
    folder.starts_with("tools/") || folder == "frontend/python" || folder.starts_with("frontend/python/")
}

fn packages(metadata: &Value, root: &str) -> Result<BTreeMap<String, Package>> {
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let members: BTreeSet<String> = list(&metadata["workspace_members"]).iter().map(&text).collect();
    let all = list(&metadata["packages"]);
    let is_ours = |package: &Value| members.contains(&text(&package["id"]));
    let ours: BTreeSet<String> = all.iter().filter(|p| is_ours(p)).map(|p| text(&p["name"])).collect();
    let mut found = BTreeMap::new();
    for package in &all {
        let manifest = text(&package["manifest_path"]);
        let folder =
            manifest.strip_prefix(root).map(|rest| rest.trim_end_matches("Cargo.toml").trim_matches('/'));
        let dependencies = list(&package["dependencies"]);
        let uses = |dev: bool| -> BTreeSet<String> {
            let of_kind = dependencies.iter().filter(|used| (used["kind"] == "dev") == dev);
            of_kind.map(|used| text(&used["name"])).filter(|name| ours.contains(name)).collect()
        };
        let (built, tested) = (uses(false), uses(true));
        let entry = Package {
            name: text(&package["name"]),
            folder: folder.filter(|_| is_ours(package)).map(str::to_owned),
            only_tests_use: tested.difference(&built).cloned().collect(),
            uses: built.union(&tested).cloned().collect(),
            builds_with: Vec::new(),
            tests_with: Vec::new(),
        };
        found.insert(text(&package["id"]), entry);
    }
    for node in list(&metadata["resolve"]["nodes"]) {
        let id = text(&node["id"]);
        let package =
            found.get_mut(&id).with_context(|| format!("cargo metadata resolves an unknown {id}"))?;
        for dependency in list(&node["deps"]) {
            let built = list(&dependency["dep_kinds"]).iter().any(|kind| kind["kind"] != "dev");
            let known = if built { &mut package.builds_with } else { &mut package.tests_with };
            known.push(text(&dependency["pkg"]));
        }
    }
    Ok(found)
}

/// Everything that differs, one line each, in the order of the crates' names.
fn compare(drawing: &Drawing, packages: &BTreeMap<String, Package>) -> Vec<String> {
    let mut wrong = Vec::new();
    let doors: BTreeSet<&str> = packages
        .values()
        .filter(|package| package.folder.as_deref().is_some_and(is_door))
        .map(|package| package.name.as_str())
        .collect();
    let ours = || packages.iter().filter_map(|(id, package)| Some((id, package, package.folder.as_deref()?)));
    for (id, Package { name, uses, only_tests_use, .. }, folder) in ours() {
        let tests = drawing.is_for_tests(name);
        let for_tests =
            |used: &String| (tests || only_tests_use.contains(used)) && drawing.is_for_tests(used);
        let shared = |used: &String| doors.contains(name.as_str()) && drawing.is_for_doors(used);
        let closed = |used: &&String| doors.contains(used.as_str()) && !for_tests(used) && !shared(used);
        for used in uses.iter().filter(closed) {
            wrong.push(format!("{name} -> {used}: nothing may depend on what lies in tools/"));
        }
        let Some(room) = drawing.rooms.get(name) else {
            if !is_door(folder) {
                wrong.push(format!("{name} ({folder}) is not drawn"));
            }
            continue;
        };
        if room.folder != folder {
            wrong.push(format!("{name} is drawn in {} and lies in {folder}", room.folder));
        }
        if !is_door(folder) {
            for used in
                uses.iter().filter(|used| !doors.contains(used.as_str()) && !room.may_use.contains(*used))
            {
                wrong.push(format!("{name} -> {used}: this arrow is not drawn"));
            }
        }
        for family in &room.must_not_reach {
            if let Some(path) = path_to(packages, id, &drawing.families[family]) {
                wrong.push(format!("{name} must not reach {family}, but does: {}", path.join(" -> ")));
            }
        }
    }
    let arrows: DiGraphMap<&str, ()> = ours()
        .flat_map(|(_, package, _)| package.uses.iter().map(|used| (package.name.as_str(), used.as_str())))
        .collect();
    for circle in tarjan_scc(&arrows).into_iter().filter(|circle| circle.len() > 1) {
        let names: BTreeSet<&str> = circle.into_iter().collect();
        let names: Vec<&str> = names.into_iter().collect();
        // cargo allows it where an arrow is for tests only.
        wrong.push(format!("{}: these crates use each other", names.join(", ")));
    }
    let present: BTreeSet<&str> = ours().map(|(_, package, _)| package.name.as_str()).collect();
    for name in drawing.rooms.keys().filter(|name| !present.contains(name.as_str())) {
        wrong.push(format!("{name} is drawn and does not exist"));
    }
    wrong.sort();
    wrong
}

/// The shortest way from a package to one of `targets` along what it and its tests are built with, if there is one.
fn path_to(
    packages: &BTreeMap<String, Package>,
    from: &str,
    targets: &BTreeSet<String>,
) -> Option<Vec<String>> {
    let mut arrows: DiGraphMap<&str, ()> = DiGraphMap::new();
    for (id, package) in packages {
        let own_tests = if id == from { package.tests_with.as_slice() } else { &[] };
        arrows.extend(package.builds_with.iter().chain(own_tests).map(|next| (id.as_str(), next.as_str())));
    }
    let is_target =
        |id| id != from && packages.get(id).is_some_and(|package| targets.contains(&package.name));
    let (_, path) = astar(&arrows, from, is_target, |_| 1, |_| 0)?;
    Some(path.into_iter().map(|id| packages[id].name.clone()).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_crate_graph_is_as_drawn() {
        // The message is what matters, so it is not left to `Debug`, which may put a backtrace around it.
        let result = Checkout::find().and_then(|checkout| run(&checkout));
        assert!(result.is_ok(), "{:#}", result.unwrap_err());
    }

    const DRAWN: &str = "\
<!-- crate-graph -->
| world | crate | folder | may use | must not reach |
|---|---|---|---|---|
| plans | `plan` | `passes/plan` | – | MLIR |
| plans | `solve` | `passes/solve` | `plan` | MLIR |
<!-- /crate-graph -->
<!-- crate-families -->
| family | crates |
|---|---|
| MLIR | `melior` `mlir-sys` |
<!-- /crate-families -->";

    fn check(crates: &str, expected: &[&str]) -> Result<()> {
        check_drawn(DRAWN, crates, expected)
    }

    /// Each line is `name folder: dependencies`, the folder `-` for a crate that is not ours. A star behind what only tests use.
    fn check_drawn(drawn: &str, crates: &str, expected: &[&str]) -> Result<()> {
        let mut packages = BTreeMap::new();
        for line in crates.lines() {
            let (head, uses) = line.split_once(':').context("no colon")?;
            let (name, folder) = head.trim().split_once(' ').context("no folder")?;
            let (mut tests_with, mut builds_with) = (Vec::new(), Vec::new());
            for used in uses.split_whitespace() {
                match used.strip_suffix('*') {
                    Some(used) => tests_with.push(used.to_owned()),
                    None => builds_with.push(used.to_owned()),
                }
            }
            let ours = |used: &&String| !["melior", "log"].contains(&used.as_str());
            let package = Package {
                name: name.to_owned(),
                folder: (folder != "-").then(|| folder.to_owned()),
                uses: builds_with.iter().chain(&tests_with).filter(ours).cloned().collect(),
                only_tests_use: tests_with.iter().filter(ours).cloned().collect(),
                builds_with,
                tests_with,
            };
            packages.insert(name.to_owned(), package);
        }
        assert_eq!(compare(&Drawing::parse(drawn)?, &packages), expected);
        Ok(())
    }

    #[test]
    fn what_is_drawn_passes() -> Result<()> {
        check(
            "plan passes/plan: log\nsolve passes/solve: plan\nopt tools/opt: solve melior\nlog -:\nmelior -:",
            &[],
        )
    }

    #[test]
    fn an_arrow_that_is_not_drawn_is_named() -> Result<()> {
        let expected = ["plan -> solve: this arrow is not drawn"];
        check("plan passes/plan: solve\nsolve passes/solve:", &expected)
    }

    #[test]
    fn crates_that_use_each_other_in_tests_are_named() -> Result<()> {
        let expected = ["plan -> solve: this arrow is not drawn", "plan, solve: these crates use each other"];
        check("plan passes/plan: solve*\nsolve passes/solve: plan", &expected)
    }

    #[test]
    fn a_family_is_found_behind_other_crates() -> Result<()> {
        let expected = [
            "plan must not reach MLIR, but does: plan -> log -> melior",
            "solve must not reach MLIR, but does: solve -> plan -> log -> melior",
        ];
        check("plan passes/plan: log\nsolve passes/solve: plan\nlog -: melior\nmelior -:", &expected)
    }

    #[test]
    fn doors_and_unknown_crates_are_named() -> Result<()> {
        let expected = [
            "extra (passes/extra) is not drawn",
            "plan -> opt: nothing may depend on what lies in tools/",
            "solve is drawn and does not exist",
        ];
        check("plan passes/plan: opt\nopt tools/opt:\nextra passes/extra:", &expected)
    }

    #[test]
    fn only_tests_may_use_what_is_for_tests() -> Result<()> {
        let end = "<!-- /crate-graph -->";
        let drawn = DRAWN.replace(end, &format!("| tests | `judge` | `tools/judge` | – | – |\n{end}"));
        let rest = "solve passes/solve:\njudge tools/judge:";
        check_drawn(&drawn, &format!("plan passes/plan: judge*\n{rest}"), &[])?;
        let two = drawn.replace(end, &format!("| tests | `court` | `tools/court` | – | – |\n{end}"));
        check_drawn(&two, &format!("plan passes/plan:\ncourt tools/court: judge\n{rest}"), &[])?;
        let expected = ["plan -> judge: nothing may depend on what lies in tools/"];
        check_drawn(&drawn, &format!("plan passes/plan: judge\n{rest}"), &expected)?;
        let expected = ["plan -> opt: nothing may depend on what lies in tools/"];
        check_drawn(&drawn, &format!("plan passes/plan: opt*\nopt tools/opt:\n{rest}"), &expected)
    }

    #[test]
    fn only_doors_may_use_what_they_share() -> Result<()> {
        let end = "<!-- /crate-graph -->";
        let drawn = DRAWN.replace(end, &format!("| manners | `cli` | `tools/cli` | – | – |\n{end}"));
        let rest = "solve passes/solve:\ncli tools/cli:\nopt tools/opt: cli";
        check_drawn(&drawn, &format!("plan passes/plan:\n{rest}"), &[])?;
        let expected = ["plan -> cli: nothing may depend on what lies in tools/"];
        check_drawn(&drawn, &format!("plan passes/plan: cli\n{rest}"), &expected)
    }

    #[test]
    fn metadata_tells_builds_from_tests_and_ours_from_others() -> Result<()> {
        let package = |name: &str, folder: &str, uses: &[&str]| {
            let uses: Vec<Value> = uses.iter().map(|name| json!({ "name": name })).collect();
            json!({ "id": name, "name": name, "manifest_path": format!("{folder}/Cargo.toml"), "dependencies": uses })
        };
        let edge = |to: &str, kind: Value| json!({ "pkg": to, "dep_kinds": [{ "kind": kind }] });
        let metadata = json!({
            "workspace_members": ["plan", "solve"],
            "packages": [
                package("plan", "/rk/passes/plan", &["log", "melior"]),
                package("solve", "/rk/passes/solve", &["plan"]),
                package("log", "/registry/log", &[]),
                package("melior", "/registry/melior", &[]),
            ],
            "resolve": { "nodes": [
                { "id": "plan", "deps": [edge("log", Value::Null), edge("melior", json!("dev"))] },
                { "id": "solve", "deps": [edge("plan", json!("build"))] },
            ] },
        });
        let packages = packages(&metadata, "/rk")?;
        let folders = ["plan", "log"].map(|name| packages[name].folder.as_deref());
        assert_eq!(folders, [Some("passes/plan"), None]);
        assert_eq!(
            (&packages["plan"].builds_with, &packages["plan"].tests_with),
            (&vec!["log".to_owned()], &vec!["melior".to_owned()])
        );
        // What the tests of `plan` use is its own affair: `solve` is not built with it.
        assert_eq!(
            compare(&Drawing::parse(DRAWN)?, &packages),
            ["plan must not reach MLIR, but does: plan -> melior"]
        );
        Ok(())
    }
}
