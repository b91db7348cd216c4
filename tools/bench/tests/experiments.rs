//! Rockmate's experiments in miniature: rows, figures and tables; a run that goes on is the run that was not interrupted; errors are one line.

use std::path::Path;
use std::process::{Command, Output};

const NETWORKS: &str = "made-up:transformer-120-0,made-up:residual-120-0";

/// An experiment in a folder of its own, on graphs that need no Python.
fn run(folder: &Path, experiment: &str, more: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_rk-bench"))
        .args([experiment, "--networks", NETWORKS, "--budgets", "80,60", "--time-limit", "50ms", "--cache"])
        .arg(folder)
        .args(more)
        .output()
        .expect("rk-bench starts")
}

fn rows(folder: &Path, experiment: &str) -> String {
    std::fs::read_to_string(folder.join(format!("{experiment}.csv"))).expect("rows")
}

/// The rows without what a clock says.
fn plans(rows: &str) -> Vec<Vec<String>> {
    let plan = |text: &str| text.split_once(':').map_or(text.to_owned(), |(_, overhead)| overhead.to_owned());
    let line = |line: &str| {
        let mut fields: Vec<String> = line.split(',').map(str::to_owned).collect();
        if fields.len() == 12 && !line.starts_with("network") {
            fields[10].clear();
            fields[11] = fields[11].split(' ').map(plan).collect::<Vec<_>>().join(" ");
        }
        fields
    };
    rows.lines().map(line).collect()
}

/// Runs an experiment whole, and then again from a part of its rows.
fn goes_on(experiment: &str, cells: usize, more: &[&str]) {
    let folder = tempfile::tempdir().expect("a folder");
    let whole = run(folder.path(), experiment, more);
    assert!(whole.status.success(), "{whole:?}");
    let table = String::from_utf8(whole.stdout).expect("text");
    assert!(table.starts_with("| network | ") && table.contains("made-up:residual-120-0"), "{table}");
    let all = rows(folder.path(), experiment);
    assert_eq!(all.lines().count(), 4 + cells, "{all}");
    assert!(all.contains(",optimal,") && all.contains("auto"), "{all}");
    let drawn =
        |end: &str| std::fs::read(folder.path().join(format!("{experiment}.{end}"))).expect("a figure");
    assert!(drawn("svg").starts_with(b"<svg") && drawn("png").starts_with(b"\x89PNG"));

    let kept: Vec<&str> = all.lines().take(4 + cells / 2).collect();
    std::fs::write(folder.path().join(format!("{experiment}.csv")), kept.join("\n") + "\n").expect("written");
    let again = run(folder.path(), experiment, more);
    assert!(again.status.success(), "{again:?}");
    let said = String::from_utf8(again.stderr).expect("text");
    assert!(said.contains(&format!("{} of {cells} plans to make; ", cells - cells / 2)), "{said}");
    let resumed = rows(folder.path(), experiment);
    assert!(resumed.starts_with(&kept.join("\n")), "{resumed}\nwas\n{all}");
    assert_eq!(plans(&resumed), plans(&all));

    // Nothing is left to do: the same file, and the same table.
    let third = run(folder.path(), experiment, more);
    assert_eq!(rows(folder.path(), experiment), resumed);
    let tables = [third.stdout, again.stdout].map(|table| String::from_utf8(table).expect("text"));
    assert_eq!(tables[0], tables[1]);
}

#[test]
fn options_go_on_where_they_stopped() {
    // Two networks, two budgets; two methods with two counts and three spreads, and auto.
    goes_on("options", 2 * 2 * (2 * 2 * 3 + 1), &["--counts", "2,8"]);
}

#[test]
fn solving_time_goes_on_where_it_stopped() {
    goes_on("solving-time", 2 * 2 * 3, &["--methods", "rockmate,rotor,auto"]);
}

#[test]
fn performance_goes_on_where_it_stopped() {
    goes_on("performance", 2 * 2 * 4, &["--methods", "auto,rockmate,dtr,greedy"]);
}

/// Rows that were made elsewhere, or by another planner, can be shown by everybody; only going on with them would mix the two.
#[test]
fn rows_of_another_machine_are_shown_and_not_gone_on_with() {
    let folder = tempfile::tempdir().expect("a folder");
    let ours = run(folder.path(), "performance", &["--methods", "greedy"]);
    assert!(ours.status.success(), "{ours:?}");
    let all = rows(folder.path(), "performance");
    let head: Vec<&str> = all.lines().take_while(|line| line.starts_with("# ")).collect();
    let others = [("machine", "# machine Abacus, 10 of its beads"), ("planner", "# planner revision 1")];
    for (kind, theirs) in others {
        let line =
            head.iter().find(|line| line.starts_with(&format!("# {kind}"))).expect("a line of the head");
        let path = folder.path().join("theirs.csv");
        std::fs::write(&path, all.replace(line, theirs)).expect("written");
        let path = path.to_str().expect("a plain path");
        let shown = run(folder.path(), "performance", &["--methods", "greedy", "--rows", path]);
        assert!(shown.status.success(), "{shown:?}");
        assert_eq!(shown.stdout, ours.stdout);
        assert!(String::from_utf8_lossy(&shown.stderr).contains(&theirs[2..]), "{shown:?}");
        let more = refused(folder.path(), "performance", &["--methods", "greedy,rotor", "--rows", path]);
        let [theirs, ours] = [theirs, line].map(|line| &line[2..]);
        assert!(more.contains(&format!("is of '{theirs}', not of '{ours}': name another file")), "{more}");
    }
}

#[test]
fn documented_tables_are_made_of_the_rows_beside_them_on_any_machine() {
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs");
    let page = std::fs::read_to_string(docs.join("experiments.md")).expect("the page");
    let folder = tempfile::tempdir().expect("a folder");
    for experiment in ["options", "solving-time", "performance"] {
        let done = Command::new(env!("CARGO_BIN_EXE_rk-bench"))
            .arg(experiment)
            .arg("--rows")
            .arg(docs.join(format!("planner/{experiment}.csv")))
            .arg("--plot")
            .arg(folder.path().join(experiment))
            .output()
            .expect("rk-bench starts");
        assert!(done.status.success(), "{done:?}");
        let table = String::from_utf8(done.stdout).expect("text");
        let (begin, end) = (format!("<!-- {experiment} -->\n"), format!("<!-- /{experiment} -->"));
        let shown = page.split(&begin).nth(1).and_then(|rest| rest.split(&end).next()).expect("a table");
        assert_eq!(table.trim(), shown.trim(), "{experiment}");
    }
}

#[test]
fn the_table_goes_into_a_document() {
    let folder = tempfile::tempdir().expect("a folder");
    let page = folder.path().join("page.md");
    std::fs::write(&page, "before\n<!-- performance -->\nold\n<!-- /performance -->\nafter\n")
        .expect("written");
    let path = page.to_str().expect("a plain path");
    let done = run(folder.path(), "performance", &["--methods", "greedy,rotor", "--document", path]);
    assert!(done.status.success() && done.stdout.is_empty(), "{done:?}");
    let text = std::fs::read_to_string(&page).expect("text");
    assert!(text.starts_with("before\n<!-- performance -->\n| network |"), "{text}");
    assert!(text.ends_with("|\n<!-- /performance -->\nafter\n") && !text.contains("old"), "{text}");
}

/// What is wrong with a command line, in one line that begins with these words.
fn refused(folder: &Path, experiment: &str, more: &[&str]) -> String {
    let done = run(folder, experiment, more);
    assert!(!done.status.success() && done.stdout.is_empty(), "{done:?}");
    let said = String::from_utf8(done.stderr).expect("text");
    let errors: Vec<&str> =
        said.lines().filter(|line| line.starts_with("rk-bench: ") || line.starts_with("error: ")).collect();
    assert_eq!(errors.len(), 1, "{said}");
    errors[0].to_owned()
}

/// The large networks of the papers take minutes to trace.
#[test]
fn it_says_how_long_it_takes() {
    let folder = tempfile::tempdir().expect("a folder");
    for (more, tracing) in [(&[][..], "half a minute"), (&["--paper"], "up to five minutes")] {
        let done = run(folder.path(), "performance", &[&["--methods", "greedy"], more].concat());
        assert!(done.status.success(), "{done:?}");
        let said = String::from_utf8_lossy(&done.stderr);
        let wanted =
            format!("about 0 s of one idle core, and {tracing} for each network that is not traced yet");
        assert!(said.contains(&wanted), "{said}");
        std::fs::remove_file(folder.path().join("performance.csv")).expect("removed");
    }
}

#[test]
fn what_cannot_be_is_one_error() {
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path();
    let unknown = refused(folder, "options", &["--counts", "8", "--spreads", "random"]);
    assert!(
        unknown.contains("unknown spread \"random\"; there are linear, geometric and mirrored"),
        "{unknown}"
    );
    assert!(refused(folder, "options", &["--counts", "0"]).contains("0 is not in 1..=1000"));
    assert!(refused(folder, "performance", &["--methods", "magic"]).contains("unknown solver \"magic\""));
    assert!(refused(folder, "performance", &["--budgets", "0"]).contains("'--budgets <BUDGETS>'"));
    // A name is wrong before anything is planned.
    let network = refused(folder, "performance", &["--networks", "made-up:vgg"]);
    assert_eq!(network, "rk-bench: network 'made-up:vgg': 'vgg' is not FAMILY-NODES-SEED");
    let file = refused(folder, "performance", &["--networks", "missing.json"]);
    assert!(file.starts_with("rk-bench: network 'missing.json': cannot read missing.json"), "{file}");
    assert!(!folder.join("performance.csv").exists());
    // Rows of another seed are not gone on with.
    assert!(run(folder, "performance", &["--methods", "greedy"]).status.success());
    let other = refused(folder, "performance", &["--methods", "greedy", "--seed", "1"]);
    assert!(
        other.contains("seed 0, limit 50 ms") && other.ends_with("name another file with --rows"),
        "{other}"
    );
    std::fs::write(folder.join("torn.csv"), "a,b\n").expect("written");
    let torn = folder.join("torn.csv");
    let torn = refused(folder, "performance", &["--rows", torn.to_str().expect("a plain path")]);
    assert!(torn.ends_with("torn.csv: line 1: 2 columns in place of 12"), "{torn}");
}
