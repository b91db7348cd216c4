//! What a part of the project does not name: sentences of docs/architecture.md that a text can break.
//!
//! Each row is a sentence, the files that it is about, and words that would make it false. Comments may say them, and so
//! may tests. A file that may do so for a reason stands beside the row, and a reason that is needed no more is a complaint.
//!
//! Not here: what a crate may use (`crate_graph`), and sentences about what code does, which have tests of their own.

use super::Files;
use super::circles::without_comments_and_tests;

struct Absent {
    /// What holds as long as the words are absent.
    sentence: &'static str,
    /// How the paths begin that it is about.
    rooms: &'static [&'static str],
    /// How the paths of exceptions begin, each with its reason.
    but: &'static [(&'static str, &'static str)],
    words: &'static [&'static str],
}

/// Everything that is compiled for the people who use rk, without the doors.
const LIBRARIES: &[&str] = &["vocabulary/", "passes/", "dialect/", "codegen/", "frontend/"];

/// `std::{` is among the words where modules of `std` are: each has to be named alone to be seen.
const ABSENT: &[Absent] = &[
    Absent {
        sentence: "plans know no clock and no file, and depend on nothing but arguments",
        rooms: &["passes/plan/src/"],
        but: &[],
        words: &[
            "std::{",
            "std::env",
            "std::fs",
            "std::io",
            "std::net",
            "std::process",
            "std::thread",
            "std::time",
        ],
    },
    Absent {
        sentence: "of the plans' world, only `passes/cache` touches files",
        rooms: &[
            "passes/plan/src/",
            "passes/solve/src/",
            "passes/report/src/",
            "passes/dtr/src/",
            "passes/classes/src/",
        ],
        but: &[("passes/solve/src/milp/child.rs", "asks Linux how large the process is, to limit its child")],
        words: &["std::{", "std::fs", "std::net", "write_whole"],
    },
    Absent {
        sentence: "the judge alone calls a schedule legal: nobody else makes a trace",
        rooms: &["passes/", "dialect/", "codegen/", "frontend/", "tools/"],
        but: &[
            ("passes/plan/src/judge.rs", "is the judge"),
            ("passes/rewrite/src/moves.rs", "puts the time with transfers into the judge's"),
            ("passes/rewrite/src/offload.rs", "puts the time with transfers into the judge's"),
            ("tools/plan/src/offload.rs", "puts the time with transfers into the judge's"),
            ("tools/xtask/", "has the word in this table"),
        ],
        words: &["Trace { "],
    },
    Absent {
        sentence: "nothing is drawn without a seed that the caller gave",
        rooms: LIBRARIES,
        but: &[("dialect/cc/Older.cpp", "gives LLVM what an older glibc lacks")],
        words: &[
            "from_entropy",
            "from_os_rng",
            "getrandom",
            "hash::RandomState",
            "hash_map::RandomState",
            "OsRng",
            "rand::random",
            "rand::rng",
            "random_device",
            "thread_rng",
        ],
    },
    Absent {
        sentence: "results depend on a clock only where a time limit ends a search or divides it",
        rooms: &["vocabulary/", "passes/", "dialect/", "codegen/src/", "codegen/step/", "codegen/kernels/"],
        but: &[
            ("passes/solve/src/portfolio/clock.rs", "is the clock of searches"),
            ("passes/solve/src/milp", "a solver that is not ours is stopped at its limit"),
        ],
        words: &["Instant::now", "SystemTime"],
    },
    Absent {
        sentence: "the dialect's verifier knows no budget",
        rooms: &["dialect/src/verify"],
        but: &[],
        words: &["budget", "host_budget", "Budget"],
    },
    Absent {
        sentence: "the frontend has no table of operators: it names none",
        rooms: &["frontend/src/"],
        but: &[],
        words: &["aten::", "aten."],
    },
    Absent {
        sentence: "kernels are made for a level of the architecture, not for the CPU at hand",
        rooms: &["codegen/kernels/src/", "codegen/src/"],
        but: &[],
        words: &[
            "available_parallelism",
            "is_aarch64_feature_detected",
            "is_x86_feature_detected",
            "LLVMGetHostCPUFeatures",
            "LLVMGetHostCPUName",
            "\"native\"",
        ],
    },
    Absent {
        sentence: "libcuda and libtorch_cuda are loaded and never linked",
        rooms: &["Cargo.toml", "vocabulary/", "passes/", "dialect/", "codegen/", "frontend/", "tools/"],
        but: &[("tools/xtask/", "has the words in this table")],
        words: &[
            "lib=cuda",
            "dylib=cuda",
            "lib=torch_cuda",
            "dylib=torch_cuda",
            "-lcuda",
            "-ltorch_cuda",
            "name = \"cuda\"",
            "dynamic-linking",
            "static-linking",
        ],
    },
    Absent {
        sentence: "no code of rk knows of the emulated GPU",
        rooms: &["vocabulary/", "passes/", "dialect/", "codegen/", "frontend/", "tools/"],
        but: &[
            ("tools/emulated-gpu/", "is the emulated GPU"),
            ("tools/xtask/", "has lists of exceptions, which name it"),
        ],
        words: &["emulated-gpu", "emulated_gpu", "_EMULATED_"],
    },
    Absent {
        sentence: "results go to standard output and everything else to standard error, which is for doors to say",
        rooms: &[
            "vocabulary/src/",
            "passes/plan/src/",
            "passes/solve/src/",
            "passes/report/src/",
            "passes/cache/src/",
            "passes/dtr/src/",
            "passes/classes/src/",
            "passes/rewrite/src/",
            "dialect/src/",
            "dialect/cc/",
            "codegen/src/",
            "codegen/step/src/",
            "codegen/kernels/src/",
            "codegen/torch/src/",
            "codegen/torch/cc/",
            "codegen/runtime/src/",
            "frontend/src/",
            "frontend/python/src/",
            "frontend/python/runtime/",
            "frontend/python/memory/src/",
        ],
        but: &[],
        words: &["eprint!", "eprintln!", "print!", "println!", "std::cerr", "std::cout", "printf"],
    },
];

/// Every word that stands where a sentence says that it does not, and every exception that is none.
pub fn absent(files: &Files) -> Vec<String> {
    complaints(files, ABSENT)
}

fn complaints(files: &Files, rows: &[Absent]) -> Vec<String> {
    let mut complaints = Vec::new();
    for row in rows {
        let mut needed = vec![false; row.but.len()];
        let about = |file: &str| is_code(file) && row.rooms.iter().any(|room| file.starts_with(room));
        for (file, text) in files.iter().filter(|(file, _)| about(file)) {
            let plain = if file.ends_with(".toml") { text.clone() } else { without_comments_and_tests(text) };
            for (number, line) in plain.lines().enumerate() {
                let Some(word) = row.words.iter().find(|word| names(line, word)) else { continue };
                match row.but.iter().position(|(exception, _)| file.starts_with(exception)) {
                    Some(at) => needed[at] = true,
                    None => complaints.push(format!("{file}:{}: `{word}`, but {}", number + 1, row.sentence)),
                }
            }
        }
        let idle = row.but.iter().zip(&needed).filter(|(_, needed)| !**needed);
        complaints.extend(idle.map(|((file, _), _)| {
            format!("{file} is no exception any more to: {}; strike it from absent.rs", row.sentence)
        }));
    }
    complaints
}

/// Whether the file is part of what is built, and no test, benchmark or example.
fn is_code(file: &str) -> bool {
    let ends = [".rs", ".cpp", ".h", ".td", "Cargo.toml", ".py"];
    let rooms = ["tests", "benches", "examples"];
    ends.iter().any(|end| file.ends_with(end))
        && !file.split('/').any(|part| rooms.contains(&part))
        && !file.ends_with("tests.rs")
}

/// Whether `word` stands in the line, and neither as the end nor as the beginning of a longer name, unless it ends in `_` itself.
fn names(line: &str, word: &str) -> bool {
    let of_name = |letter: char| letter.is_alphanumeric() || letter == '_';
    line.match_indices(word).any(|(at, _)| {
        let (before, after) = (line[..at].chars().next_back(), line[at + word.len()..].chars().next());
        let goes_back = word.starts_with(of_name) && before.is_some_and(of_name);
        let goes_on = word.ends_with(char::is_alphanumeric) && after.is_some_and(of_name);
        !goes_back && !goes_on
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(rows: &[Absent], of: &[(&str, &str)], expected: &[&str]) {
        let files = of.iter().map(|(file, text)| ((*file).to_owned(), (*text).to_owned())).collect();
        assert_eq!(complaints(&files, rows), expected);
    }

    #[test]
    fn a_word_that_breaks_a_sentence_is_named_with_its_line() {
        let row = Absent {
            sentence: "plans know no file",
            rooms: &["plan/src/"],
            but: &[("plan/src/disk", "is the disk")],
            words: &["std::fs", "std::{", "RK_"],
        };
        let some = [
            ("plan/src/lib.rs", "//! Not here: std::fs.\nuse std::fs_of_ours;\n\nuse std::fs;\n"),
            ("plan/src/group.rs", "use std::{env, fs};\n#[cfg(test)]\nmod tests {\n    use std::fs;\n}\n"),
            ("plan/src/disk/read.rs", "fn f() { std::fs::read(\"\"); }\n"),
            ("plan/src/named.rs", "const X: &str = \"RK_DISK\";\nfn a_RK_() {}\n"),
            ("plan/tests/all.rs", "use std::fs;\n"),
            ("solve/src/lib.rs", "use std::fs;\n"),
        ];
        let expected = [
            "plan/src/group.rs:1: `std::{`, but plans know no file",
            "plan/src/lib.rs:4: `std::fs`, but plans know no file",
            "plan/src/named.rs:1: `RK_`, but plans know no file",
        ];
        check(&[row], &some, &expected);
    }

    #[test]
    fn an_exception_that_is_none_is_named() {
        let row = Absent { sentence: "s", rooms: &["a/"], but: &[("a/b.rs", "for the test")], words: &["x"] };
        check(
            &[row],
            &[("a/b.rs", "xy\n")],
            &["a/b.rs is no exception any more to: s; strike it from absent.rs"],
        );
    }

    /// One line for each row that breaks it, so that no row is there for nothing.
    #[test]
    fn every_row_can_be_broken() {
        for row in ABSENT {
            for (room, word) in
                row.rooms.iter().flat_map(|room| row.words.iter().map(move |word| (room, word)))
            {
                let file = if room.ends_with('/') { format!("{room}x.rs") } else { (*room).to_owned() };
                let file = if *room == "dialect/src/verify" { format!("{room}.rs") } else { file };
                let files = Files::from([(file, format!("let x = {word};\n"))]);
                let found = complaints(&files, ABSENT);
                let broken = |line: &String| line.contains(":1: ") && line.contains(row.sentence);
                assert!(found.iter().any(broken), "{word} in {room}: {}", row.sentence);
            }
        }
    }
}
