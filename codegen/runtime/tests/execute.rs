//! Steps written by hand, executed: bits, random state, effects, bytes.

mod alone;
mod trained;

use alone::alone;
use rk_runtime::compare::{bytes, compare};
use rk_runtime::stepper::{Program, Stepper};
use rk_runtime::{Executor, tensors};
use rk_sample_steps::{Builder, Fool, call, f, i, network, two_masks, v};
use rk_step::{Data, ElementType, Instr, OutputRole, Role, Step, memory_account};
use rk_torch::{Device, memory};
use trained::{Left, assert_equal, trained};

fn executor(step: &Step) -> Executor {
    trained::executor(step).unwrap()
}

fn train(step: &Step, steps: usize) -> Left {
    trained(executor(step), step, steps, |_| ())
}

fn assert_same(step: &Step, other: &Step, what: &str) {
    assert_equal(&train(step, 3), &train(other, 3), what);
}

#[test]
fn the_original_is_deterministic() {
    let _alone = alone();
    assert_same(&network(), &network(), "a second process would do the same");
}

#[test]
fn foolish_schedules_compute_the_same_bits() {
    let _alone = alone();
    for step in [network(), two_masks()] {
        let (mut again, mut overwrites, mut copies, mut replays) = (0, 0, 0, 0);
        for seed in 0..25 {
            let foolish = Fool::schedule(&step, seed);
            for instr in &foolish.program.instrs {
                let Instr::Run(run) = instr else { continue };
                again += usize::from(run.again);
                replays += usize::from(run.state_in.is_some());
                if foolish.nodes[run.node.index()].overwrites.is_some() {
                    overwrites += usize::from(run.overwrite);
                    copies += usize::from(!run.overwrite);
                }
            }
            assert_same(&step, &foolish, &format!("{} with seed {seed}", step.name));
        }
        assert!(again > 50 && replays > 10, "{}: {again} second runs, {replays} replays", step.name);
        if step.name == "network" {
            assert!(overwrites > 10 && copies > 10, "{overwrites} in place, {copies} on a copy");
        }
    }
}

#[test]
fn two_draws_stay_two_masks() {
    let _alone = alone();
    let step = two_masks();
    let mut executor = executor(&step);
    executor.run().unwrap();
    let first = executor.output(0).unwrap().unwrap().copy();
    assert!(first.abs().sum(tch::Kind::Double).double_value(&[]) > 0.0, "the masks are equal");
    executor.run().unwrap();
    let second = executor.output(0).unwrap().unwrap();
    assert!(
        compare(2, "output", Some(&second), Some(&first)).unwrap().is_some(),
        "both steps drew the same masks"
    );
}

/// A schedule of the network that runs batch norm a second time.
fn batch_norm_again() -> Step {
    let step = network();
    let bn = step.nodes.iter().position(|n| n.name == "bn").unwrap() as u32;
    let again = |i: &Instr| matches!(i, Instr::Run(r) if r.again && r.node.0 == bn);
    (0..).map(|seed| Fool::schedule(&step, seed)).find(|s| s.program.instrs.iter().any(again)).unwrap()
}

#[test]
fn without_its_effects_batch_norm_updates_twice() {
    let _alone = alone();
    let step = batch_norm_again();
    let mut twice = step.clone();
    twice.nodes.iter_mut().flat_map(|n| &mut n.ops).for_each(|op| op.effects.clear());
    let differs: Vec<String> = train(&step, 1)
        .into_iter()
        .zip(train(&twice, 1))
        .filter(|(a, b)| a.1 != b.1)
        .map(|(a, _)| a.0)
        .collect();
    assert_eq!(differs, ["bn.running_mean", "bn.running_var"]);
}

#[test]
fn side_effects_happen_once() {
    let _alone = alone();
    let step = network();
    let mut executor = executor(&batch_norm_again());
    for k in 1..=3 {
        executor.run().unwrap();
        let count = step.args.iter().position(|a| a.name == "bn.num_batches_tracked").unwrap();
        // Synthesized counters start at 0 or 1.
        let count = executor.arg(count).unwrap().unwrap().int64_value(&[]);
        assert!(count == k || count == k + 1, "{count} after {k} steps");
    }
}

#[test]
fn the_measured_peak_is_the_account_of_real_sizes() {
    let _alone = alone();
    // A chain of element-wise nodes has no workspace, so account and measurement must agree to the byte.
    let mut b = Builder::new("chain");
    let x = b.arg("x", Role::Input, ElementType::F32, &[1024]);
    let mut h = x;
    for name in ["a", "b", "c"] {
        h = b.node(name, &[h], vec![call("exp.default", vec![v(0)], &[1])], &[(1, 4096)])[0];
    }
    let sum = b.node("sum", &[h], vec![call("sum.default", vec![v(0)], &[1])], &[(1, 4)])[0];
    b.output(OutputRole::Loss, "loss", sum);
    let step = b.finish();
    let measured = executor(&step).run().unwrap();
    assert_eq!((measured.peak_bytes, memory_account(&step).unwrap().peak), (8192, 8192));
    assert_eq!((measured.peak_node.as_str(), measured.excess), ("b", None));
}

#[test]
fn foolish_schedules_stay_within_their_account() {
    let _alone = alone();
    for seed in 0..10 {
        let step = Fool::schedule(&network(), seed);
        let measured = executor(&step).run().unwrap();
        let planned = memory_account(&step).unwrap().peak;
        assert_eq!(measured.excess, None, "seed {seed}");
        // Statistics and the loss are smaller than the alignment, nothing else is rounded.
        assert!(
            measured.peak_bytes <= planned && planned - measured.peak_bytes < 2048,
            "{measured:?} of {planned}"
        );
    }
}

#[test]
fn an_overwrite_saves_the_copy() {
    let _alone = alone();
    let mut b = Builder::new("inplace");
    let x = b.arg("x", Role::Input, ElementType::F32, &[1024]);
    let a = b.node("a", &[x], vec![call("exp.default", vec![v(0)], &[1])], &[(1, 4096)])[0];
    let r = b.node("r", &[a], vec![call("relu_.default", vec![v(0)], &[-1])], &[(0, 4096)])[0];
    b.last().overwrites = Some(0);
    b.output(OutputRole::Output, "0", r);
    let mut step = b.finish();
    assert_eq!(executor(&step).run().unwrap().peak_bytes, 4096);
    let Instr::Run(run) = &mut step.program.instrs[1] else { panic!() };
    run.overwrite = false;
    let operand = run.inputs[0];
    step.program.instrs.push(Instr::Drop(operand));
    assert_eq!(executor(&step).run().unwrap().peak_bytes, 8192);
    assert_eq!(memory_account(&step).unwrap().peak, 8192);
}

#[test]
fn gradients_do_not_count_and_generator_states_do() {
    let _alone = alone();
    let step = two_masks();
    let mut saving = step.clone();
    let slot = rk_step::Slot(saving.program.slots);
    saving.program.slots += 1;
    let Instr::Run(run) = &mut saving.program.instrs[0] else { panic!() };
    run.state_out = Some(slot);
    saving.program.instrs.push(Instr::Drop(slot));
    rk_step::validate::validate(&saving).unwrap();
    let (plain, with_state) = (executor(&step).run().unwrap(), executor(&saving).run().unwrap());
    assert_eq!(with_state.peak_bytes, plain.peak_bytes + 5056);
    // Two masks, both products and the output; the gradient comes last and does not count.
    assert_eq!(plain.peak_bytes, 5 * 256);
    assert_eq!(memory_account(&saving).unwrap().peak, 5 * 256 + 5056);
}

#[test]
fn a_missing_bytes_in_the_plan_is_named() {
    let _alone = alone();
    let mut b = Builder::new("lies");
    let x = b.arg("x", Role::Input, ElementType::F32, &[1024]);
    let a = b.node("a", &[x], vec![call("exp.default", vec![v(0)], &[1])], &[(1, 64)])[0];
    b.output(OutputRole::Output, "0", a);
    let excess = executor(&b.finish()).run().unwrap().excess.unwrap();
    assert_eq!((excess.node.as_str(), excess.planned_bytes, excess.measured_bytes), ("a", 64, 4096));
}

#[test]
fn gradients_of_several_runs_are_added_up() {
    let _alone = alone();
    let step = network();
    let gradients = |executor: &Executor| -> Vec<tch::Tensor> {
        let outputs = (0..step.outputs.len()).filter(|&i| step.outputs[i].role == OutputRole::Gradient);
        outputs.map(|i| executor.output(i).unwrap().unwrap().copy()).collect()
    };
    // Dropout: every run has its own gradients.
    let mut one_by_one = executor(&step);
    let runs: Vec<_> = (0..3)
        .map(|_| {
            one_by_one.run().unwrap();
            gradients(&one_by_one)
        })
        .collect();
    for lower in [false, true] {
        let step = if lower { rk_sample_steps::layout::lowered(&step, 1 << 16) } else { step.clone() };
        let mut executor = executor(&step);
        executor.run().unwrap();
        executor.accumulate().unwrap();
        executor.accumulate().unwrap();
        for (at, sum) in gradients(&executor).iter().enumerate() {
            let expected = &(&runs[0][at] + &runs[1][at]) + &runs[2][at];
            assert!(bytes(sum).unwrap() == bytes(&expected).unwrap(), "gradient {at}, lowered: {lower}");
        }
        executor.run().unwrap();
        assert!(bytes(&gradients(&executor)[0]).unwrap() != bytes(&(&runs[0][0] + &runs[1][0])).unwrap());
    }
}

#[test]
fn arguments_that_do_not_fit_are_refused() {
    let _alone = alone();
    let step = network();
    let args = tensors::synthesize(&step, 7, tch::Device::Cpu).unwrap();
    let refused = |at: usize, other: tch::Tensor| {
        let with = args
            .iter()
            .enumerate()
            .map(|(k, t)| if k == at { other.shallow_clone() } else { t.shallow_clone() });
        Executor::new(step.clone(), &with.collect::<Vec<_>>(), Device::Cpu).err().unwrap().to_string()
    };
    let messages = [
        Executor::new(step.clone(), &args[..3], Device::Cpu).err().unwrap().to_string(),
        refused(0, args[0].slice(0, 0, 8, 1)),
        refused(1, args[1].to_kind(tch::Kind::Double)),
        refused(1, args[1].t_copy().contiguous().t_()),
        refused(7, args[7].unsqueeze(0)),
    ];
    insta::assert_snapshot!(messages.join("\n"));
}

#[test]
fn errors_name_instruction_node_and_operator() {
    let _alone = alone();
    let build = |op: &str, args| {
        let mut b = Builder::new("broken");
        let x = b.arg("x", Role::Input, ElementType::F32, &[3, 4]);
        let y = b.node("layer1.fc", &[x], vec![call(op, args, &[1])], &[(1, 64)])[0];
        b.output(OutputRole::Output, "0", y);
        let step = b.finish();
        let args = tensors::synthesize(&step, 0, tch::Device::Cpu).unwrap();
        match Executor::new(step, &args, Device::Cpu) {
            Ok(mut executor) => executor.run().unwrap_err().to_string(),
            Err(e) => e.to_string(),
        }
    };
    let messages = [
        build("mm.default", vec![v(0), v(0)]),
        build("no_such_operator.default", vec![v(0)]),
        build("relu.default", vec![f(0.5), i(3)]),
        build("relu.default", vec![]),
    ];
    insta::assert_snapshot!(messages.join("\n"));
}

#[test]
fn a_failed_step_leaves_nothing_behind() {
    let _alone = alone();
    let mut b = Builder::new("late failure");
    let x = b.arg("x", Role::Input, ElementType::F32, &[3, 4]);
    let a = b.node("a", &[x], vec![call("exp.default", vec![v(0)], &[1])], &[(1, 48)])[0];
    let y = b.node("fc", &[a], vec![call("mm.default", vec![v(0), v(0)], &[1])], &[(1, 64)])[0];
    b.output(OutputRole::Output, "0", y);
    let mut executor = executor(&b.finish());
    let before = memory::read(Device::Cpu).unwrap().current;
    assert!(executor.run().is_err());
    assert_eq!(memory::read(Device::Cpu).unwrap().current, before);
}

#[test]
fn constants_and_strided_arguments() {
    let _alone = alone();
    let mut b = Builder::new("constants");
    let x = b.arg("x", Role::Input, ElementType::F32, &[2, 3]);
    b.step.args[0].spec.strides = Some(vec![1, 4]);
    b.step.args[0].spec.storage_bytes = Some(64);
    let data = "000000003f800000".as_bytes().chunks(8).map(|w| {
        // Little-endian: written as the bytes lie in memory.
        let w = u32::from_str_radix(std::str::from_utf8(w).unwrap(), 16).unwrap();
        w.to_le_bytes().iter().map(|b| format!("{b:02x}")).collect::<String>()
    });
    let c = b.constant(ElementType::F32, &[2, 1], Data::Hex(data.collect()));
    let y = b.node("mul", &[x, c], vec![call("mul.Tensor", vec![v(0), v(1)], &[2])], &[(2, 24)])[0];
    b.output(OutputRole::Output, "0", y);
    let mut executor = executor(&b.finish());
    executor.run().unwrap();
    let (x, y) = (executor.arg(0).unwrap().unwrap(), executor.output(0).unwrap().unwrap());
    assert_eq!(x.stride(), [1, 4]);
    assert_eq!(bytes(&y.get(1)).unwrap(), bytes(&x.get(1)).unwrap());
    assert_eq!(y.get(0).abs().sum(tch::Kind::Float).double_value(&[]), 0.0);
}

/// Steps that are timed in turns compute the same: what training left in one is where the other goes on.
#[test]
fn a_step_goes_on_where_another_one_stopped() {
    let _alone = alone();
    let step = network();
    let mut ours = Program::new("itself", executor(&step));
    let mut beside = Program::new("beside", executor(&step));
    for _ in 0..3 {
        ours.run().unwrap();
        ours.update(0.1).unwrap();
    }
    let state = |program: &Program| -> Vec<Vec<u8>> {
        let names = step.args.iter().map(|arg| program.state(&arg.name).unwrap().unwrap());
        names.map(|tensor| bytes(&tensor).unwrap()).collect()
    };
    let trained = state(&ours);
    assert_ne!(state(&beside), trained);
    beside.continue_from(&ours).unwrap();
    assert_eq!(state(&beside), trained);
    // Copies: what one does next is its own business.
    ours.update(0.1).unwrap();
    assert_eq!(state(&beside), trained);
    let mut another = network();
    another.args[0].name = "another".to_owned();
    let refused = Program::new("beside", executor(&another)).continue_from(&ours).unwrap_err().to_string();
    assert_eq!(refused, "beside has an argument \"another\" that the step does not have");
}
