//! Training a step for a while, and everything that it leaves behind, byte by byte.

use rk_runtime::compare::bytes;
use rk_runtime::{Executor, Measured, RuntimeError, tensors};
use rk_step::Step;
use rk_torch::Device;

/// Tensors with their names.
pub type Left = Vec<(String, Vec<u8>)>;

/// A step on the CPU, with arguments and random numbers that are the same every time.
pub fn executor(step: &Step) -> Result<Executor, RuntimeError> {
    let args = tensors::synthesize(step, 7, tch::Device::Cpu)?;
    Device::Cpu.manual_seed(11)?;
    Executor::new(step.clone(), &args, Device::Cpu)
}

/// What is left after `steps` steps with updates: outputs of each, then arguments and the generator. `look` sees what each took.
pub fn trained(mut executor: Executor, step: &Step, steps: usize, mut look: impl FnMut(&Measured)) -> Left {
    let mut all = vec![];
    for k in 0..steps {
        look(&executor.run().unwrap());
        for (i, output) in step.outputs.iter().enumerate() {
            let tensor = executor.output(i).unwrap().unwrap();
            all.push((format!("{k} {:?} {}", output.role, output.name), bytes(&tensor).unwrap()));
        }
        executor.update(0.1).unwrap();
    }
    for (i, arg) in step.args.iter().enumerate() {
        all.push((arg.name.clone(), bytes(&executor.arg(i).unwrap().unwrap()).unwrap()));
    }
    all.push(("generator".into(), bytes(&Device::Cpu.generator_state().unwrap()).unwrap()));
    all
}

/// Whether two runs left the same bytes; `what` says between what they are compared.
pub fn assert_equal(expected: &Left, found: &Left, what: &str) {
    assert_eq!(expected.len(), found.len(), "{what}");
    for ((name, a), (_, b)) in expected.iter().zip(found) {
        assert!(a == b, "{what}: {name} differs");
    }
}
