//! Networks through all tools on the emulated GPU: recorded there, planned, lowered for CUDA, and run beside eager PyTorch and the order
//! of the original, with the same kernels below. The first step is queued launch by launch, the second is captured, the others are replays.

mod emulated;

use std::path::PathBuf;
use std::process::Output;
use std::sync::{Mutex, OnceLock, PoisonError};

use emulated::{Gpu, archives, tool};
use rk_step::{Instr, Role};
use serde_json::Value;

struct Bench {
    folder: tempfile::TempDir,
    gpu: Gpu,
}

impl Bench {
    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn tool(&self, name: &str, arguments: &[&str], variables: &[(&str, &str)]) -> Output {
        let mut command = self.gpu.command(&tool(name));
        command.args(arguments).current_dir(self.folder.path()).envs(variables.iter().copied());
        command.output().unwrap()
    }

    fn made(&self, name: &str, arguments: &[&str]) {
        let output = self.tool(name, arguments, &[]);
        assert!(output.status.success(), "{name} {arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    }
}

const MODELS: [&str; 6] = ["mlp", "resnet", "gpt2", "gpt2_dropout", "masks", "attention"];

/// The archives, recorded on the GPU once for all tests of this file.
fn bench() -> Option<&'static Bench> {
    static BENCH: OnceLock<Option<Bench>> = OnceLock::new();
    BENCH
        .get_or_init(|| {
            let models = [&MODELS[..], &["overlap"]].concat();
            let bench = Bench { folder: archives(&models)?, gpu: Gpu::new() };
            for model in MODELS {
                let (archive, raw) = (format!("{model}.pt"), format!("{model}.mlir"));
                let mut arguments = vec![&*archive, "--device", "cuda", "--measure", "1", "-o", &raw];
                arguments.extend((model == "attention").then_some("--deterministic"));
                bench.made("rk-import", &arguments);
            }
            Some(bench)
        })
        .as_ref()
}

/// How a step is made from what was recorded.
#[derive(Clone, Copy)]
struct Plan {
    model: &'static str,
    budget: &'static str,
    streams: u32,
    /// Whether pointwise nodes run as generated kernels, those with ATen's bits.
    fused: bool,
}

impl Plan {
    const fn of(model: &'static str, budget: &'static str, streams: u32) -> Self {
        Self { model, budget, streams, fused: false }
    }

    /// Its step file.
    fn step(self, bench: &Bench) -> String {
        static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
        let _alone = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
        let Self { model, budget, streams, fused } = self;
        let name = format!("{model}-{budget}-{streams}-{fused}");
        let (mlir, step) = (format!("{name}.mlir"), format!("{name}.rkx"));
        if !bench.path(&step).exists() {
            let (raw, budget) = (format!("{model}.mlir"), format!("--budget={budget}"));
            let lower = format!("--rk-lower=streams={streams}");
            let mut arguments = vec![raw.as_str()];
            if fused {
                arguments.extend(["--rk-dataflow", "--rk-simplify", "--rk-fuse=alone=true"]);
            }
            arguments.extend(["--rematerialize", &budget, &lower, "-o", &mlir]);
            bench.made("rk-opt", &arguments);
            bench.made("rk-translate", &[&mlir, "--to", "step", "-o", &step]);
        }
        step
    }
}

fn json(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|e| panic!("{e}: {}", String::from_utf8_lossy(&output.stderr)))
}

/// Four training steps, and what the report says of them.
fn trained(bench: &Bench, step: &str, more: &[&str], variables: &[(&str, &str)]) -> Output {
    let mut arguments =
        vec![step, "--device", "cuda", "--steps", "4", "--repeat", "0", "--check=all", "--json"];
    arguments.extend_from_slice(more);
    bench.tool("rk-run", &arguments, variables)
}

/// The same bits as eager PyTorch and the original order, in an arena as large as the budget, in these orders of the streams. The last
/// step has been a replay, in one graph, or in `graphs` and more.
fn check(plan: Plan, more: &[&str], orders: &[&str]) {
    check_in(plan, more, orders, None);
}

fn check_in(plan: Plan, more: &[&str], orders: &[&str], graphs: Option<u64>) {
    let Some(bench) = bench() else { return };
    let step = plan.step(bench);
    for order in orders {
        let output = trained(bench, &step, more, &[("RK_EMULATED_ORDER", order)]);
        let json = json(&output);
        let what = format!("{step}, order {order}: {json}");
        assert_eq!(json["bit_equal"], true, "{what} {}", String::from_utf8_lossy(&output.stderr));
        assert_eq!(json["outside_allocations"], 0, "{what}");
        let number = |key: &str| json[key].as_u64().unwrap_or_else(|| panic!("{key}: {what}"));
        // On a GPU the arena counts as a whole, with what its packing wastes.
        assert_eq!(number("measured_peak_bytes"), number("arena_bytes"), "{what}");
        assert!(number("arena_bytes") * 100 <= number("budget_bytes") * 101, "{what}");
        match graphs {
            None => assert_eq!((number("graphs"), number("queued_launches")), (1, 0), "{what}"),
            Some(least) => {
                assert!(number("graphs") >= least, "{what}");
                let (captured, queued) = (number("captured_launches"), number("queued_launches"));
                assert!(captured > 3 * queued && queued > 0, "{what}");
            }
        }
    }
}

/// As on the CPU it is one argument, and eager PyTorch is given it twice.
#[test]
fn a_tensor_given_twice_is_one_argument() {
    let Some(bench) = bench() else { return };
    bench.made("rk-import", &["overlap.pt", "--inputs", "same.pt", "--device", "cuda", "-o", "overlap.mlir"]);
    let step = rk_step::read(&bench.path(&Plan::of("overlap", "100%", 1).step(bench))).unwrap();
    assert_eq!(step.args.iter().filter(|arg| arg.role == Role::Input).count(), 1);
    check(Plan::of("overlap", "100%", 1), &[], &["0"]);
}

/// First stream first, last stream first, at random.
const ORDERS: &[&str] = &["1", "2", "3"];

#[test]
fn an_mlp() {
    check(Plan::of("mlp", "100%", 1), &[], &["0"]);
    check(Plan::of("mlp", "60%", 2), &[], ORDERS);
}

#[test]
fn convolutions_and_batch_norm() {
    check(Plan::of("resnet", "100%", 1), &[], &["0"]);
    check(Plan::of("resnet", "60%", 2), &[], ORDERS);
}

#[test]
fn a_gpt2() {
    check(Plan::of("gpt2", "100%", 1), &[], &["0"]);
    check(Plan::of("gpt2", "60%", 2), &[], ORDERS);
}

#[test]
fn a_gpt2_with_dropout() {
    check_in(Plan::of("gpt2_dropout", "100%", 1), &[], &["0"], Some(4));
    check_in(Plan::of("gpt2_dropout", "100%", 2), &[], &["2"], Some(4));
    check_in(Plan::of("gpt2_dropout", "60%", 1), &["--accumulate", "2"], &["0"], Some(4));
    check_in(Plan::of("gpt2_dropout", "60%", 2), &[], ORDERS, Some(4));
}

/// Activations so large that their masks are drawn again, from a state that is in the plan with the bytes that the IR says.
#[test]
fn masks_are_drawn_again() {
    let Some(bench) = bench() else { return };
    let plan = Plan::of("masks", "50%", 1);
    let step = rk_step::read(&bench.path(&plan.step(bench))).unwrap();
    let saved = |instr: &Instr| matches!(instr, Instr::Run(run) if run.state_out.is_some());
    assert!(step.program.instrs.iter().any(saved), "no state is saved");
    let json = json(&trained(bench, &plan.step(bench), &[], &[]));
    assert_eq!((&json["bit_equal"], &json["outside_allocations"]), (&true.into(), &0.into()), "{json}");
}

/// Attention leaves the seed of its mask in the host's memory, for its backward call to read when that is queued: neither is in a graph.
#[test]
fn what_is_in_the_hosts_memory_is_not_captured() {
    check_in(Plan::of("attention", "100%", 1), &[], &["0"], Some(4));
    check_in(Plan::of("attention", "60%", 2), &["--accumulate", "2"], ORDERS, Some(4));
}

/// Without `--deterministic` bits of attention vary from run to run, and the comparison says so.
#[test]
fn sums_in_any_order_are_seen() {
    let Some(bench) = bench() else { return };
    bench.made("rk-import", &["attention.pt", "--device", "cuda", "-o", "varying.mlir"]);
    bench.made("rk-opt", &["varying.mlir", "--rk-lower=budget=100%", "-o", "varying.lowered.mlir"]);
    bench.made("rk-translate", &["varying.lowered.mlir", "--to", "step", "-o", "varying.rkx"]);
    let output = trained(bench, "varying.rkx", &[], &[]);
    assert_eq!((output.status.code(), &json(&output)["bit_equal"]), (Some(4), &false.into()));
}

/// The comparison would notice a graph that does nothing, in the captured step and in a replay.
#[test]
fn a_lost_graph_is_seen() {
    let Some(bench) = bench() else { return };
    let step = Plan::of("gpt2_dropout", "60%", 2).step(bench);
    let graphs = json(&trained(bench, &step, &[], &[]))["graphs"].as_u64().unwrap();
    for lost in [0, graphs - 1, graphs + graphs / 2, 2 * graphs] {
        let fault = format!("4:{lost}");
        let output = trained(bench, &step, &[], &[("RK_EMULATED_FAULT", &fault)]);
        assert!(!output.status.success(), "graph {lost} was not missed");
    }
}

#[test]
fn gradients_are_added_up() {
    check(Plan::of("gpt2", "60%", 1), &["--accumulate", "3"], &["0"]);
    check(Plan::of("gpt2", "60%", 2), &["--accumulate", "3"], &["2"]);
}

const FUSED: Plan = Plan { model: "resnet", budget: "60%", streams: 2, fused: true };

#[test]
fn generated_kernels() {
    check(Plan { budget: "100%", streams: 1, ..FUSED }, &[], &["0"]);
    check(FUSED, &[], ORDERS);
}

/// A parameter that is off by 16 bytes, or in another's place, in the first run and in the captured one.
#[test]
fn wrong_parameters_of_a_kernel_are_seen() {
    let Some(bench) = bench() else { return };
    let file = FUSED.step(bench);
    let step = rk_step::read(&bench.path(&file)).unwrap();
    assert!(step.library.as_ref().is_some_and(|library| !library.ptx.is_empty()));
    let runs = step.program.instrs.iter().filter_map(|instr| match instr {
        Instr::Run(run) => Some(run),
        Instr::Drop(_) => None,
    });
    let kernels = runs.filter(|run| step.nodes[run.node.index()].kernel.is_some()).count();
    assert!(kernels > 10, "{kernels}");
    for (kind, run) in [(2, 1), (2, 2), (3, 1), (3, 2)] {
        // The rehearsal launches every kernel once; what is wrong in it is thrown away.
        let fault = format!("{kind}:{}", run * kernels + kernels / 2);
        let output = trained(bench, &file, &[], &[("RK_EMULATED_FAULT", &fault)]);
        assert!(!output.status.success(), "{fault} was not seen");
    }
}
