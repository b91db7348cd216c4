//! `--pack`: files as MiniMalloc's, read and written; every layout is checked here, pair by pair, with the offsets of the file that was written.

use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;

/// Packs a text in a folder of its own; the folder's `out.csv`, if it was written.
fn pack(text: &str, more: &[&str]) -> (Output, Option<String>) {
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::write(folder.path().join("in.csv"), text).expect("written");
    let done = run(folder.path(), &[&["--pack", "in.csv"], more].concat());
    (done, std::fs::read_to_string(folder.path().join("out.csv")).ok())
}

fn run(folder: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_rk-plan"));
    command.current_dir(folder).args(arguments).env_remove("RK_LOG").output().expect("rk-plan starts")
}

fn said(done: &Output) -> String {
    String::from_utf8_lossy(&done.stderr).into_owned()
}

fn text(done: &Output) -> String {
    String::from_utf8_lossy(&done.stdout).into_owned()
}

/// Lower, upper, size and offset of every row.
fn rows(text: &str) -> Vec<[u64; 4]> {
    let mut lines = text.lines();
    assert_eq!(lines.next(), Some("id,lower,upper,size,offset"));
    let numbers =
        |line: &str| line.split(',').skip(1).map(|cell| cell.parse().expect("a number")).collect::<Vec<_>>();
    lines.map(|line| numbers(line).try_into().expect("four numbers")).collect()
}

/// The height of a layout in which no two meet.
fn height(text: &str) -> u64 {
    let rows = rows(text);
    for (at, [lower, upper, size, offset]) in rows.iter().enumerate() {
        for [other_lower, other_upper, other_size, other_offset] in &rows[..at] {
            let in_time = lower < other_upper && other_lower < upper;
            let in_space = *offset < other_offset + other_size && *other_offset < offset + size;
            assert!(!(in_time && in_space), "row {at} meets another one");
        }
    }
    rows.iter().map(|[_, _, size, offset]| offset + size).max().unwrap_or(0)
}

/// Five buffers that fill a rectangle of 30 moments and 10 bytes, and two that need nothing.
const FULL: &str =
    "id,lower,upper,size\na,0,12,7\nb,0,20,3\nc,12,30,2\nd,12,20,5\ne,20,30,8\nnone,3,9,0\n\nlast,29,30,0\n";

#[test]
fn a_full_rectangle_is_packed_without_a_gap() {
    let (done, _) = pack(FULL, &["--capacity", "10"]);
    assert!(done.status.success(), "{done:?}");
    assert_eq!(height(&text(&done)), 10);
    assert_eq!(said(&done), "rk-plan: in.csv: 7 buffers in 10 bytes; no layout has less than 10\n");
    let ids: Vec<String> = text(&done)
        .lines()
        .skip(1)
        .map(|line| line.split(',').next().unwrap_or_default().to_owned())
        .collect();
    assert_eq!(ids, ["a", "b", "c", "d", "e", "none", "last"], "rows keep their order");
    assert_eq!(text(&pack(FULL, &["--capacity", "10"]).0), text(&done), "the same every time");
}

#[test]
fn columns_may_stand_in_any_order_and_moments_may_be_far_apart() {
    let far = "size,id,upper,lower\r\n4,x,18446744073709551615,9000000000000000000\r\n4,y,9000000000000000000,5\r\n";
    let (done, out) = pack(far, &["--packed", "out.csv"]);
    assert!(done.status.success() && done.stdout.is_empty(), "{done:?}");
    let out = out.expect("a file");
    assert_eq!(height(&out), 4, "one ends where the other begins: {out}");
    assert!(out.contains("\nx,9000000000000000000,18446744073709551615,4,0\n"), "{out}");
}

#[test]
fn what_cannot_fit_is_told_from_what_was_not_found() {
    let (done, out) = pack(FULL, &["--capacity", "9", "--packed", "out.csv"]);
    assert_eq!((done.status.code(), out), (Some(2), None));
    assert!(
        done.stdout.is_empty() && said(&done).contains("no layout fits in 9 bytes: the lowest"),
        "{done:?}"
    );
    // At every moment 5 bytes are needed, and yet no layout has less than 6: found and proven by trying all of them.
    let gap = "id,lower,upper,size\na,0,2,3\nb,3,7,1\nc,0,5,1\nd,5,6,3\ne,4,6,1\nf,2,4,2\ng,3,5,1\nh,2,3,2\n";
    let (done, out) =
        pack(gap, &["--capacity", "5", "--packed", "out.csv", "--json", "--time-limit", "50ms"]);
    assert_eq!((done.status.code(), out), (Some(3), None));
    let none: Value = serde_json::from_slice(&done.stdout).expect("JSON");
    assert_eq!(
        (&none["arena_bytes"], &none["lower_bound_bytes"], &none["offsets"]),
        (&6.into(), &5.into(), &Value::Null)
    );
    assert!(said(&done).contains("no layout was found that fits in 5 bytes: the lowest"), "{}", said(&done));
    assert_eq!(height(&text(&pack(gap, &["--capacity", "6"]).0)), 6);
}

#[test]
fn a_dash_is_standard_output() {
    let (done, _) = pack(FULL, &["--packed", "-"]);
    let (_, out) = pack(FULL, &["--packed", "out.csv"]);
    assert!(text(&done).contains(&out.expect("a file")), "{done:?}");
}

/// Rectangles cut into pieces by a generator with a fixed seed: the uncut one is a layout.
#[test]
fn cut_rectangles_fit_again_with_a_little_room() {
    let mut state = 7u64;
    let mut below = |limit: u64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % limit
    };
    for _ in 0..5 {
        let mut pieces = vec![[0u64, 1000, 4096]];
        while pieces.len() < 60 {
            let [lower, upper, size] = pieces.swap_remove(below(pieces.len() as u64) as usize);
            if below(2) == 0 && upper - lower > 1 {
                let middle = lower + 1 + below(upper - lower - 1);
                pieces.extend([[lower, middle, size], [middle, upper, size]]);
            } else if size > 1 {
                let low = 1 + below(size - 1);
                pieces.extend([[lower, upper, low], [lower, upper, size - low]]);
            } else {
                pieces.push([lower, upper, size]);
            }
        }
        let line = |(at, [lower, upper, size]): (usize, &[u64; 3])| format!("p{at},{lower},{upper},{size}\n");
        let rows: String = pieces.iter().enumerate().map(line).collect();
        let (done, _) =
            pack(&format!("id,lower,upper,size\n{rows}"), &["--capacity", "4300", "--time-limit", "2s"]);
        assert!(done.status.success(), "{}", said(&done));
        assert!((4096..=4300).contains(&height(&text(&done))));
    }
}

#[test]
fn what_is_wrong_is_one_line() {
    let wrong = |text: &str, more: &[&str]| {
        let (done, _) = pack(text, more);
        assert!(done.status.code() == Some(1) && done.stdout.is_empty(), "{done:?}");
        said(&done).trim_end().trim_start_matches("rk-plan: in.csv: ").to_owned()
    };
    let row = |row: &str| wrong(&format!("id,lower,upper,size\n{row}\n"), &[]);
    assert_eq!(wrong("", &[]), "line 1: there must be a row of names: id,lower,upper,size");
    assert_eq!(wrong("id,lower,upper,size\n", &[]), "there are no buffers");
    assert_eq!(
        wrong("id,lower,upper,size,gaps\n", &[]),
        "line 1: column 'gaps' is none of id, lower, upper, size"
    );
    assert_eq!(wrong("id,lower,size\n", &[]), "line 1: column 'upper' is missing");
    assert_eq!(wrong("id,lower,upper,size,id\n", &[]), "line 1: column 'id' is there twice");
    assert_eq!(row("a,0,1"), "line 2: 3 columns in place of 4");
    assert_eq!(row("a,3,3,1"), "line 2: 'a' must end above 3, here it is 3");
    assert_eq!(row("a,0,x,1"), "line 2: upper must be a whole number from 0 to 2^64 - 1, here it is 'x'");
    assert_eq!(
        row("a,0,1,4611686018427387904\nb,0,1,1"),
        "line 3: the sizes up to 'b' add up to more than 2^62 bytes"
    );
    assert_eq!(
        wrong(FULL, &["--capacity", "50%"]),
        "rk-plan: --capacity '50%': a share of what? Write bytes, such as 1MiB"
    );
    assert!(
        wrong(FULL, &["--packed", "nowhere/out.csv"]).starts_with("rk-plan: cannot write nowhere/out.csv")
    );
    assert!(wrong(FULL, &["--budget", "50%"]).contains("cannot be used with"));
    let folder = tempfile::tempdir().expect("a folder");
    let missing = run(folder.path(), &["--pack", "missing.csv"]);
    assert!(said(&missing).starts_with("rk-plan: cannot read missing.csv: "), "{missing:?}");
}
