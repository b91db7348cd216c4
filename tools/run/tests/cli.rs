//! `rk-run` as users meet it: what it prints, its exit codes, one clear line for everything that can be wrong.

use std::path::Path;
use std::process::{Command, Output};

use rk_sample_steps::{Fool, network, two_masks};
use rk_step::file::seal;
use rk_step::{Instr, Run, Source, Step};

struct Folder(tempfile::TempDir);

impl Folder {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn path(&self) -> &Path {
        self.0.path()
    }

    fn with(self, name: &str, step: &Step) -> Self {
        rk_step::write(step, &self.path().join(name)).unwrap();
        self
    }

    fn text(self, name: &str, text: &str) -> Self {
        std::fs::write(self.path().join(name), text).unwrap();
        self
    }

    /// Runs in this folder, so that messages hold no path of this machine.
    fn run(&self, arguments: &[&str]) -> Output {
        Command::new(env!("CARGO_BIN_EXE_rk-run"))
            .args(arguments)
            .current_dir(self.path())
            .env("OMP_NUM_THREADS", "1")
            .env_remove("RK_LOG")
            .output()
            .unwrap()
    }

    /// Exit code and standard error.
    fn fails(&self, arguments: &[&str]) -> String {
        let output = self.run(arguments);
        assert!(output.stdout.is_empty(), "results on a failure: {output:?}");
        format!("{}: {}", output.status.code().unwrap(), String::from_utf8(output.stderr).unwrap().trim_end())
    }
}

fn json(output: &Output) -> serde_json::Value {
    serde_json::from_slice(&output.stdout).unwrap_or_else(|e| panic!("{e}: {output:?}"))
}

/// A schedule of the small network with second runs of everything that is hard.
fn rewritten() -> Step {
    let mut step = Fool::schedule(&network(), 3);
    step.plan.planned_peak_bytes = rk_step::memory_account(&step).unwrap().peak;
    step
}

#[test]
fn a_dash_is_standard_input() {
    let folder = Folder::new().with("net.rkx", &network());
    let mut command = Command::new(env!("CARGO_BIN_EXE_rk-run"));
    let input = std::fs::File::open(folder.path().join("net.rkx")).unwrap();
    let piped = command.args(["-", "--print"]).stdin(input).output().unwrap();
    assert_eq!(piped.stdout, folder.run(&["net.rkx", "--print"]).stdout);
    assert!(!piped.stdout.is_empty());
}

#[test]
fn three_steps_with_all_checks() {
    let folder = Folder::new().with("net.rkx", &rewritten());
    let output = folder.run(&["net.rkx", "--steps", "3", "--check=all", "--json"]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let json = json(&output);
    for key in [
        "budget_bytes",
        "planned_peak_bytes",
        "measured_peak_bytes",
        "arena_bytes",
        "step_seconds",
        "baseline_step_seconds",
        "baseline_peak_bytes",
        "max_abs_diff",
        "bit_equal",
        "device",
    ] {
        assert!(json.get(key).is_some(), "{key} is missing: {json}");
    }
    assert_eq!(json["bit_equal"], true);
    assert_eq!(json["max_abs_diff"], 0.0);
    assert_eq!(json["device"], "cpu");
    assert_eq!(json["baseline"], "original");
    assert_eq!(json["steps_compared"], 3);
    assert!(json["step_seconds"].as_f64().unwrap() > 0.0);
    assert!(json["baseline_peak_bytes"].as_u64().unwrap() > 0);
}

#[test]
fn gradients_are_added_up_before_the_update() {
    let folder = Folder::new().with("net.rkx", &rewritten());
    let run = |runs: &str| {
        json(&folder.run(&["net.rkx", "--steps", "2", "--accumulate", runs, "--check", "--json"]))
    };
    for runs in ["1", "3"] {
        assert_eq!(run(runs)["bit_equal"], true, "{runs}");
    }
    let none = folder.run(&["net.rkx", "--accumulate", "0"]);
    assert_eq!(none.status.code(), Some(2));
}

#[test]
fn without_a_check_there_is_no_verdict() {
    let folder = Folder::new().with("net.rkx", &rewritten());
    let json = json(&folder.run(&["net.rkx", "--json", "--repeat", "0"]));
    for key in ["bit_equal", "max_abs_diff", "baseline_step_seconds", "step_seconds", "budget_bytes"] {
        assert!(json[key].is_null(), "{key}: {json}");
    }
    assert!(json["measured_peak_bytes"].as_u64().unwrap() > 0);
}

#[test]
fn the_same_twice() {
    let folder = Folder::new().with("net.rkx", &rewritten());
    let run = || folder.run(&["net.rkx", "--json", "--repeat", "0", "--check"]).stdout;
    assert_eq!(run(), run());
}

/// A node that draws random numbers but does not say so draws others when it runs again.
fn forgets_its_state() -> Step {
    let mut step = two_masks();
    step.nodes.iter_mut().for_each(|n| n.random = false);
    let Instr::Run(first) = step.program.instrs[0].clone() else { panic!() };
    let old = first.outputs[0];
    let new = rk_step::Slot(step.program.slots);
    step.program.slots += 1;
    // Its last reader gets the mask of a second run.
    let last = step.program.instrs.iter().rposition(|i| matches!(i, Instr::Run(_))).unwrap();
    for instr in &mut step.program.instrs[last..] {
        match instr {
            Instr::Run(run) => run.inputs.iter_mut().filter(|s| **s == old).for_each(|s| *s = new),
            Instr::Drop(slot) => *slot = if *slot == old { new } else { *slot },
        }
    }
    let again = Run { again: true, outputs: vec![new], ..first };
    step.program.instrs.splice(last..last, [Instr::Drop(old), Instr::Run(again)]);
    step
}

#[test]
fn different_bits_have_their_own_exit_code() {
    let folder = Folder::new().with("net.rkx", &forgets_its_state());
    let output = folder.run(&["net.rkx", "--check", "--json", "--repeat", "0"]);
    assert_eq!(output.status.code(), Some(4));
    let (json, text) = (json(&output), String::from_utf8(output.stderr).unwrap());
    assert_eq!(json["bit_equal"], false);
    assert!(json["max_abs_diff"].as_f64().unwrap() >= 1.0, "{json}");
    let start = "rk-run: bits differ: step 1: gradient \"x\", against the original order differs in ";
    assert!(text.starts_with(start), "{text}");
}

#[test]
fn a_peak_above_the_budget_has_its_own_exit_code() {
    let mut step = rewritten();
    step.plan.budget_bytes = Some(4096);
    let folder = Folder::new().with("net.rkx", &step);
    let output = folder.run(&["net.rkx", "--json", "--repeat", "0"]);
    assert_eq!(output.status.code(), Some(5));
    assert!(json(&output)["measured_peak_bytes"].as_u64().unwrap() > 4096);
    insta::assert_snapshot!(String::from_utf8(output.stderr).unwrap());
}

#[test]
fn bad_files() {
    let text = rk_step::file::print(&network()).unwrap();
    let folder = Folder::new()
        .text("half.rkx", &text[..text.len() / 2])
        .text("ir.mlir", "module {}\n")
        .text("new.rkx", &text.replace("\"version\": 6", "\"version\": 7"))
        .text("flipped.rkx", &text.replace("\"slots\": 2", "\"slots\": 3"))
        .text("broken.rkx", &seal(&text.replace("\"outputs\": [17", "\"outputs\": [99999")))
        .text("index.rkx", &seal(&text.replace("{\"drop\":15}", "{\"drop\":0}")));
    let files = ["half.rkx", "ir.mlir", "new.rkx", "flipped.rkx", "broken.rkx", "index.rkx", "absent.rkx"];
    insta::assert_snapshot!(files.map(|f| folder.fails(&[f])).join("\n"));
}

#[test]
fn the_archive() {
    let mut step = network();
    step.source = Some(Source {
        archive: "net.pt".into(),
        sha256: "0".repeat(64),
        loss: "sum".into(),
        seed: 0,
        inputs: vec!["f32[16,32]".into()],
        inputs_file: None,
        inputs_sha256: None,
    });
    let missing = Folder::new().with("net.rkx", &step);
    let other = Folder::new().with("net.rkx", &step).text("net.pt", "other weights");
    let messages = [
        missing.fails(&["net.rkx"]),
        missing.fails(&["net.rkx", "--model", "elsewhere.pt"]),
        other.fails(&["net.rkx"]),
        other.fails(&["net.rkx", "--model", "net.pt"]),
    ];
    insta::assert_snapshot!(messages.join("\n"));
}

#[test]
fn the_device() {
    let folder = Folder::new().with("net.rkx", &network());
    let messages = [
        folder.fails(&["net.rkx", "--device", "cuda"]),
        folder.fails(&["net.rkx", "--device", "gpu"]),
        folder.fails(&["net.rkx", "--device", "cuda:-1"]),
    ];
    insta::assert_snapshot!(messages.join("\n"));
}

/// A step for CUDA where there is none: refused before anything runs.
#[test]
fn no_gpu() {
    if Path::new("/dev/nvidiactl").exists() {
        return;
    }
    let mut step = network();
    step.device = "cuda".into();
    let folder = Folder::new().with("net.rkx", &step);
    for (arguments, device) in [(&["net.rkx"][..], "cuda:0"), (&["net.rkx", "--device", "cuda:3"], "cuda:3")]
    {
        let expected = format!("8: rk-run: error: device {device} is not there: this machine has no GPU");
        assert_eq!(folder.fails(arguments), expected);
    }
}

#[test]
fn emulated_streams() {
    let lowered = rk_sample_steps::layout::on_streams(&Fool::schedule(&network(), 3), 1 << 16, 2);
    let folder = Folder::new().with("low.rkx", &lowered).with("net.rkx", &network());
    for order in ["program", "first", "last", "7"] {
        let arguments =
            ["low.rkx", "--check", "--steps", "2", "--json", "--repeat", "0", "--emulate-streams", order];
        let json = json(&folder.run(&arguments));
        assert_eq!((&json["bit_equal"], &json["outside_allocations"]), (&true.into(), &0.into()), "{json}");
    }
    let plain = folder.fails(&["net.rkx", "--emulate-streams", "last"]);
    assert_eq!(plain, "8: rk-run: error: the step is not lowered, so it has no streams");
    assert_eq!(folder.run(&["low.rkx", "--emulate-streams", "any"]).status.code(), Some(2));
}

#[test]
fn wrong_usage() {
    let folder = Folder::new().with("net.rkx", &network());
    for arguments in
        [&["net.rkx", "--steps", "0"][..], &["net.rkx", "--check=never"], &[], &["net.rkx", "--frobnicate"]]
    {
        assert_eq!(folder.run(arguments).status.code(), Some(2), "{arguments:?}");
    }
    assert_eq!(folder.run(&["--help"]).status.code(), Some(0));
    let version = folder.run(&["--version"]);
    assert_eq!(version.status.code(), Some(0));
    assert!(String::from_utf8_lossy(&version.stdout).contains("(torch 2."), "{version:?}");
}

#[test]
fn print_explains_the_program() {
    let folder = Folder::new().with("net.rkx", &network());
    insta::assert_snapshot!(String::from_utf8(folder.run(&["net.rkx", "--print"]).stdout).unwrap());
}

#[test]
fn the_table() {
    let folder = Folder::new().with("net.rkx", &rewritten());
    let output = folder.run(&["net.rkx", "--check", "--steps", "2", "--repeat", "0", "--threads", "1"]);
    insta::assert_snapshot!(String::from_utf8(output.stdout).unwrap());
}

#[test]
fn a_step_beside_another_one_and_the_times_of_its_nodes() {
    let folder = Folder::new().with("net.rkx", &rewritten()).with("plain.rkx", &network());
    let output = folder.run(&["net.rkx", "--beside", "plain.rkx", "--times", "net.times", "--json"]);
    let json = json(&output);
    assert!(json["step_over_beside"].as_f64().unwrap() > 0.0, "{json}");
    assert!(json["step_over_baseline"].is_null(), "nothing was checked: {json}");
    let times = std::fs::read_to_string(folder.path().join("net.times")).unwrap();
    let mut lines = times.lines();
    assert_eq!(lines.next(), Some("# rk times 1: nanoseconds per node on cpu, 1 threads"));
    let step = rewritten();
    let names: Vec<&str> = step.nodes.iter().map(|node| node.name.as_str()).collect();
    let timed: Vec<(&str, u64)> = lines
        .map(|line| line.split_once('\t').unwrap())
        .map(|(name, time)| (name, time.parse().unwrap()))
        .collect();
    assert_eq!(
        timed.iter().map(|(name, _)| *name).collect::<Vec<_>>(),
        names,
        "each node once, with its first run"
    );
    assert!(timed.iter().all(|(_, time)| *time > 0), "{times}");
}

#[test]
fn a_step_that_is_not_there_cannot_run_beside() {
    let folder = Folder::new().with("net.rkx", &network());
    assert!(folder.fails(&["net.rkx", "--beside", "gone.rkx"]).starts_with("6: rk-run: error: "));
}
