//! The border between Rust and libtorch: every function of `codegen/torch/cc/shim.h` catches what is thrown in it.
//!
//! An exception that crossed into Rust would end the process. The rule reads the header for names and the first line of each
//! definition: it hands everything to `rk::guarded`, or its name stands below with the reason why nothing is thrown.

use super::{Files, with_suffix};

const HEADER: &str = "codegen/torch/cc/shim.h";

/// How the names of functions end that are not guarded, each with its reason.
const UNGUARDED: &[(&str, &str)] = &[
    ("_free", "destructors throw nothing"),
    ("rk_torch_version", "gives a constant"),
    ("rk_arena_base", "gives a field"),
    ("rk_arena_leave", "stores and clears"),
    ("rk_arena_counts", "gives fields"),
    ("rk_memory_read", "gives counters"),
    ("rk_memory_reset_peak", "sets a counter"),
    ("rk_slots_new", "has no text to give, and catches by itself"),
];

/// Every function of the header that is not there or not guarded, and every reason that no function needs.
pub fn border(files: &Files) -> Vec<String> {
    complaints(files, UNGUARDED)
}

fn complaints(files: &Files, unguarded: &[(&str, &str)]) -> Vec<String> {
    let Some(header) = files.get(HEADER) else { return Vec::new() };
    let room = HEADER.trim_end_matches("shim.h");
    let mut complaints = Vec::new();
    let mut needed = vec![false; unguarded.len()];
    for name in header.lines().filter_map(function) {
        let definitions = with_suffix(files, ".cpp").filter(|(file, _)| file.starts_with(room));
        let mut found = definitions.filter_map(|(file, text)| Some((file, body(text, name)?)));
        let Some((file, (number, first))) = found.next() else {
            complaints.push(format!("{HEADER}: {name} is defined in no file beside it"));
            continue;
        };
        let excused = unguarded.iter().position(|(end, _)| name.ends_with(end));
        match (first.starts_with("return rk::guarded("), excused) {
            (true, _) => {}
            (false, Some(at)) => needed[at] = true,
            (false, None) => {
                complaints.push(format!("{file}:{number}: {name} does not begin with `return rk::guarded(`"))
            }
        }
    }
    let idle = unguarded.iter().zip(&needed).filter(|(_, needed)| !**needed);
    complaints.extend(
        idle.map(|((end, _), _)| format!("no function is excused by {end}: strike it from border.rs")),
    );
    complaints
}

/// The name of the function that a line declares or defines.
fn function(line: &str) -> Option<&str> {
    let line = line.strip_prefix("extern \"C\" ").unwrap_or(line);
    let (before, _) = line.split_once('(').filter(|_| !line.starts_with([' ', '/', '#', '}']))?;
    let name = before.rsplit([' ', '*']).next()?;
    (name.starts_with("rk_") && name.len() < before.len()).then_some(name)
}

/// The line of a function's definition, and the first line of its body.
fn body<'a>(text: &'a str, name: &str) -> Option<(usize, &'a str)> {
    let mut lines = text.lines().enumerate().skip_while(|(_, line)| function(line) != Some(name));
    let (number, head) = lines.next()?;
    let inside = head.split_once('{').map_or("", |(_, rest)| rest).trim();
    let first = if inside.is_empty() { lines.next()?.1.trim() } else { inside };
    Some((number + 1, first))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_function_that_catches_nothing_is_named() {
        let header = "struct RkOp;\nconst char* rk_a(int x);\nvoid rk_b_free(RkOp* b);\n// rk_c(1)\nvoid* rk_d(void);\nconst char* rk_e(\n    int x);\n";
        let one = "extern \"C\" {\n\nconst char* rk_a(int x) {\n  return rk::guarded([&] { rk_c(x); });\n}\n\nvoid rk_b_free(RkOp* b) { delete b; }\n";
        let other =
            "static int rk_c(int x) { throw x; }\nextern \"C\" void* rk_d(void) { return new int; }\n";
        let texts = [("shim.h", header), ("one.cpp", one), ("other.cpp", other)];
        let files = texts.map(|(file, text)| (format!("codegen/torch/cc/{file}"), text.to_owned())).into();
        let unguarded = [("_free", "for the test"), ("rk_z", "for the test")];
        let expected = [
            "codegen/torch/cc/other.cpp:2: rk_d does not begin with `return rk::guarded(`",
            "codegen/torch/cc/shim.h: rk_e is defined in no file beside it",
            "no function is excused by rk_z: strike it from border.rs",
        ];
        assert_eq!(complaints(&files, &unguarded), expected);
    }
}
