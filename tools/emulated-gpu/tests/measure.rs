//! Costs measured on the emulated GPU: by its own time, which says what an operator takes, and under settings that those who run the step
//! have, too. cuDNN is emulated as far as its choice goes: another algorithm has another workspace (cc/fallback.cpp).

mod emulated;

use std::path::PathBuf;
use std::process::Output;

use emulated::{Gpu, archives, tool};

struct Bench {
    folder: tempfile::TempDir,
    gpu: Gpu,
}

type Variables<'a> = &'a [(&'a str, &'a str)];

/// With the archives of `models.py`; none without Python.
fn bench(models: &[&str]) -> Option<Bench> {
    Some(Bench { folder: archives(models)?, gpu: Gpu::new() })
}

impl Bench {
    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn tool(&self, name: &str, arguments: &[&str], variables: Variables<'_>) -> Output {
        let mut command = self.gpu.command(&tool(name));
        command.args(arguments).current_dir(self.folder.path()).envs(variables.iter().copied());
        let output = command.output().unwrap();
        let message = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{name} {arguments:?}: {message}");
        output
    }

    /// The text of an import.
    fn imported(&self, model: &str, how: &[&str], variables: Variables<'_>) -> String {
        let archive = format!("{model}.pt");
        let arguments: Vec<&str> =
            [archive.as_str(), "--device", "cuda", "-o", "raw.mlir"].iter().chain(how).copied().collect();
        self.tool("rk-import", &arguments, variables);
        std::fs::read_to_string(self.path("raw.mlir")).unwrap()
    }

    /// A step file of the last import.
    fn lowered(&self) {
        self.tool(
            "rk-opt",
            &["raw.mlir", "--rematerialize", "--budget=70%", "--rk-lower", "-o", "l.mlir"],
            &[],
        );
        self.tool("rk-translate", &["l.mlir", "--to", "step", "-o", "l.rkx"], &[]);
    }
}

/// Nanoseconds of the operators of this name.
fn times(text: &str, operator: &str) -> Vec<u64> {
    let named = text.lines().filter(|line| line.contains(operator));
    named
        .map(|line| line.split("cost <").nth(1).unwrap().split(' ').next().unwrap().parse().unwrap())
        .collect()
}

/// Of the device's time two microseconds go by in each operator, and one nanosecond for each byte that it touches. The host takes
/// five to queue one, which must not be seen; of this machine's clock nothing can be.
#[test]
fn times_are_those_of_the_device() {
    let Some(bench) = bench(&["mlp"]) else { return };
    let bytes = 16 * 32 * 4;
    for how in [&["--measure", "3"][..], &["--measure", "3", "--measure-all"]] {
        let text = bench.imported("mlp", how, &[]);
        assert!(text.contains("rk.cost_model = \"measured\""));
        assert_eq!(times(&text, "\"aten.gelu.default\""), [2000 + 2 * bytes; 4], "{how:?}");
        assert_eq!(text, bench.imported("mlp", how, &[]), "{how:?}: times vary");
    }
}

/// What is written in place is a copy, which is not in the time; who draws leaves the generator alone.
#[test]
fn calls_are_repeated_without_a_trace() {
    let Some(bench) = bench(&["resnet", "dropout"]) else { return };
    let without_times = |text: &str| -> Vec<String> {
        text.lines().skip(1).map(|line| line.split(" cost <").next().unwrap().to_owned()).collect()
    };
    for model in ["resnet", "dropout"] {
        let (plain, measured) =
            (bench.imported(model, &[], &[]), bench.imported(model, &["--measure", "2"], &[]));
        assert_eq!(without_times(&plain), without_times(&measured), "{model}");
    }
    let mut in_place = times(&bench.imported("resnet", &["--measure", "2"], &[]), "\"aten.relu_.default\"");
    in_place.sort_unstable();
    in_place.dedup();
    // Behind the stem, in the blocks, in the last block.
    assert_eq!(in_place, [4 * 16 * 4 * 4, 4 * 8 * 8 * 8, 4 * 8 * 16 * 16].map(|numbers| 2000 + 4 * numbers));
}

#[test]
fn whoever_races_algorithms_measures_and_runs_without() {
    let Some(bench) = bench(&["resnet"]) else { return };
    let races: Variables<'_> = &[("RK_EMULATED_BENCHMARK", "1")];
    let how = &["--measure", "1"];
    let text = bench.imported("resnet", how, &[]);
    assert!(text.contains("cudnn_benchmark=off cudnn_deterministic=on"), "{}", text.lines().next().unwrap());
    assert_eq!(text, bench.imported("resnet", how, races));
    bench.lowered();
    let step = rk_step::read(&bench.path("l.rkx")).unwrap();
    assert!(step.settings.is_some_and(|settings| settings.contains("cudnn_benchmark=off")));
    for variables in [&[], races] {
        let output = bench.tool("rk-run", &["l.rkx", "--check=all", "--steps", "2", "--json"], variables);
        let json: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!((&json["outside_allocations"], &json["bit_equal"]), (&0.into(), &true.into()), "{json}");
        assert_eq!(String::from_utf8_lossy(&output.stderr), "");
    }
}

#[test]
fn what_cannot_be_set_is_said() {
    let Some(bench) = bench(&["mlp"]) else { return };
    bench.imported("mlp", &[], &[]);
    bench.lowered();
    let arguments = ["l.rkx", "--repeat", "0"];
    let output = bench.tool("rk-run", &arguments, &[("CUBLAS_WORKSPACE_CONFIG", ":16:8")]);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(said.contains("CUBLAS_WORKSPACE_CONFIG was unset and is :16:8"), "{said}");
    assert_eq!(bench.tool("rk-run", &arguments, &[]).stderr, b"");
}
