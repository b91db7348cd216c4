//! Each way in which a log can be wrong, with the line and the reason that are reported.

use rk_dtr::{LogError, LogReader, Program};

const START: &str = r#"{"INSTRUCTION":"ANNOTATE","ANNOTATION":"START"}"#;
const WEIGHT: &str = r#"{"INSTRUCTION":"CONSTANT","NAME":"w"}
{"INSTRUCTION":"MEMORY","NAME":"w","MEMORY":"10"}"#;
const CALL: &str = r#"{"INSTRUCTION":"CALL","NAME":"f","ARGS":["w"],"RESULT":["a"],"TIME":"5"}"#;
const SIZE: &str = r#"{"INSTRUCTION":"MEMORY","NAME":"a","MEMORY":"40"}"#;

fn read(text: &str) -> Result<Program, LogError> {
    let mut reader = LogReader::new();
    text.lines().try_for_each(|line| reader.line(line.as_bytes()))?;
    reader.finish()
}

/// `lines` after START and a constant `w` (three lines) are refused like this.
#[track_caller]
fn refused(lines: &str, expected: &str) {
    let error = read(&format!("{START}\n{WEIGHT}\n{lines}")).expect_err("the log is wrong");
    assert_eq!(error.to_string(), expected);
}

#[test]
fn what_a_line_says_is_checked() {
    refused(r#"{"INSTRUCTION":"CALL","#, "line 4: not a log line: EOF while parsing a value, column 22");
    refused("[1, 2]", "line 4: not a log line: expected an object in braces");
    refused(r#"{"NAME":"x"}"#, "line 4: a line without INSTRUCTION");
    refused(r#"{"INSTRUCTION":"FROB"}"#, "line 4: unknown instruction 'FROB'");
    refused(r#"{"INSTRUCTION":"RELEASE"}"#, "line 4: RELEASE without NAME");
    refused(
        r#"{"INSTRUCTION":"RELEASE","NAME":7}"#,
        "line 4: not a log line: invalid type: integer `7`, expected a string, column 33",
    );
    refused(
        &format!("{CALL}\n{}", SIZE.replace("40", "-40")),
        "line 5: MEMORY must be a whole number of at least 0, not '-40'",
    );
    refused(
        &CALL.replace("\"5\"", "\"5ms\""),
        "line 4: TIME must be a whole number of at least 0, not '5ms'",
    );
}

#[test]
fn what_lines_say_together_is_checked() {
    refused(&CALL.replace(r#"["w"]"#, r#"["q"]"#), "line 4: undefined tensor 'q'");
    refused(r#"{"INSTRUCTION":"COPY","DST":"x","SRC":"q"}"#, "line 4: undefined tensor 'q'");
    refused(r#"{"INSTRUCTION":"COPY_FROM","DST":"q","SRC":"w"}"#, "line 4: undefined tensor 'q'");
    refused(&CALL.replace(r#"["a"]"#, "[]"), "line 4: CALL makes nothing");
    refused(&format!("{CALL}\n{WEIGHT}"), "line 5: expected MEMORY of 'a', found CONSTANT of 'w'");
    refused(&format!("{CALL}\n{SIZE}\n{SIZE}"), "line 6: expected ALIAS of 'a', found MEMORY of 'a'");
    refused(SIZE, "line 4: expected an instruction, found MEMORY of 'a'");
    refused(&format!("{CALL}\n{SIZE}"), "line 5: expected ALIAS of 'a', found the end of the log");
    for index in ["1", "-2", "99999999999"] {
        let alias = format!(r#"{{"INSTRUCTION":"ALIAS","NAME":"a","ALIAS":"{index}"}}"#);
        let expected = format!("line 6: ALIAS {index} is out of range: the call has 1 arguments");
        refused(&format!("{CALL}\n{SIZE}\n{alias}"), &expected);
    }
    let mutate = r#"{"INSTRUCTION":"MUTATE","NAME":"f_","ARGS":["w"],"MUTATE":[1],"TIME":"5"}"#;
    refused(mutate, "line 4: MUTATE 1 is out of range: the call has 1 arguments");
    refused(&mutate.replace("[1]", "[]"), "line 4: MUTATE makes nothing");
}

#[test]
fn what_cannot_be_added_up_is_refused() {
    let alias = r#"{"INSTRUCTION":"ALIAS","NAME":"a","ALIAS":"-1"}"#;
    let huge = SIZE.replace("40", "9223372036854775807");
    let expected = "line 6: the program is too large: its bytes pass 1152921504606846976";
    refused(&format!("{CALL}\n{huge}\n{alias}"), expected);
    let eternal = CALL.replace("\"5\"", "\"9000000000000000000\"");
    let expected = "line 6: the program is too large: its nanoseconds pass 1125899906842624";
    refused(&format!("{eternal}\n{SIZE}\n{alias}"), expected);
    refused(
        &format!("{CALL}\n{}", SIZE.replace("40", "99999999999999999999")),
        "line 5: MEMORY must be a whole number of at least 0, not '99999999999999999999'",
    );
}

#[test]
fn nothing_counts_before_start() {
    assert_eq!(
        read(WEIGHT).expect_err("no start").to_string(),
        r#"line 2: the log ends without {"INSTRUCTION":"ANNOTATE","ANNOTATION":"START"}"#
    );
    // Before START a line must be of a known kind, and nothing else.
    let program = read(&format!("{CALL}\n{SIZE}\n{START}\n{WEIGHT}")).expect("a constant is a program");
    assert_eq!((program.calls().count(), program.constants().0), (1, 10));
    assert_eq!(read("{}").expect_err("no kind").to_string(), "line 1: a line without INSTRUCTION");
}

#[test]
fn unknown_names_may_be_released_and_unknown_keys_are_ignored() {
    let lines = [
        START,
        WEIGHT,
        r#"{"INSTRUCTION":"RELEASE","NAME":"q"}"#,
        "",
        r#"{"INSTRUCTION":"RELEASE","NAME":"w","X":[{}]}"#,
    ];
    assert_eq!(read(&lines.join("\n")).expect("fine").steps().len(), 3);
}
