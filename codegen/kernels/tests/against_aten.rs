//! Kernels against ATen on random shapes, strides and element types: Rust makes the nodes, their machine code and their PTX, Python calls
//! the machine code and ATen (`against_aten.py`), and every element must be equal or within the stated distance. The PTX is executed by rk-ptx on the
//! same tensors, every access checked, and its results are compared in the same way, and with those of the machine code bit by bit
//! where both do the same arithmetic.
//!
//! The seed is fixed, so a failure is the same everywhere.

mod cases;
mod device;
mod site;

use std::path::Path;
use std::process::Command;

use cases::{Case, Tensor, cases};
use device::Storage;
use rk_dialect::pointwise::{Element, Elementwise, Formula};
use rk_dialect::{Context, ops};
use rk_kernels::cpu::{Request, library};
use rk_kernels::cuda::{Chip, calls_libdevice, ptx};
use rk_kernels::{Buffer, KernelError, Signature};
use serde_json::{Value as Json, json};

/// Compares what lies in `folder` with ATen; `made` is `cpu` or `ptx`.
fn compare(python: &Path, folder: &Path, made: &str, kernels: usize) {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/against_aten.py");
    let run = Command::new(python).arg(script).arg(folder).arg(made).output().expect("Python runs");
    let said = String::from_utf8_lossy(&run.stdout);
    assert!(run.status.success(), "{made}: {said}{}", String::from_utf8_lossy(&run.stderr));
    assert!(said.contains(&format!("{kernels} kernels")), "every case was compared: {said}");
}

/// What PTX cannot be made of, and says so: nothing to launch, and sums in f64.
fn has_no_ptx(body: &Elementwise) -> bool {
    let outer = &body.shape[..body.shape.len() - body.inner()];
    let sums = body.steps.iter().map(|step| (step.formula.is_reduction(), step.element));
    let sums = sums.chain(body.reduction.iter().map(|sum| (true, sum.element)));
    outer.contains(&0) || sums.into_iter().any(|sum| sum == (true, Element::F64))
}

/// Whether machine code and PTX do the same arithmetic: not sums, whose order differs, and not functions of libm and libdevice.
fn same_arithmetic(body: &Elementwise) -> bool {
    body.inner() == 0 && !calls_libdevice(body)
}

/// Bits as numbers of an element type, a NaN like any other.
fn canonical(bytes: &[u8], element: &str) -> Vec<u64> {
    let (size, exponent) = match element {
        "f64" => (8, 0x7ff0_0000_0000_0000),
        "f32" => (4, 0x7f80_0000),
        "bf16" => (2, 0x7f80),
        "f16" => (2, 0x7c00),
        _ => (1, u64::MAX >> 1),
    };
    let number = |bytes: &[u8]| bytes.iter().rev().fold(0, |number, &byte| number << 8 | u64::from(byte));
    let sign = 1u64 << (8 * size - 1);
    let same = |bits: u64| if bits & (sign - 1) > exponent { exponent + 1 } else { bits };
    bytes.chunks_exact(size).map(|bytes| same(number(bytes))).collect()
}

/// The tensors of a file, one behind the other.
fn tensors<'a>(path: &Path, tensors: impl Iterator<Item = &'a Tensor>) -> Vec<(Vec<u8>, usize)> {
    let bytes = std::fs::read(path).expect("Python has written it");
    let mut at = 0;
    tensors
        .map(|tensor| {
            at += tensor.bytes();
            (bytes[at - tensor.bytes()..at].to_vec(), tensor.element_bytes())
        })
        .collect()
}

/// Elements of a space that takes seconds to go through; it is done for f32 alone.
const MANY: i64 = 100_000;

/// Runs the PTX of a case on the tensors in `folder` and leaves its results there; `false` if that was not done.
fn execute(folder: &Path, number: usize, case: &Case, body: &Elementwise, libdevice: &Path) -> bool {
    if body.elements() > MANY && case.inputs[0].element != "f32" {
        return false;
    }
    let chip = if number.is_multiple_of(2) { Chip::Sm80 } else { Chip::Sm90 };
    let libdevice = calls_libdevice(body).then_some(libdevice);
    let made = match ptx(body, None, &format!("n{number}"), chip, libdevice) {
        Err(KernelError::Unsupported(_)) if has_no_ptx(body) => return false,
        made => made.unwrap_or_else(|error| panic!("n{number}: {error}")),
    };
    let inputs = tensors(&folder.join(format!("{number}.inputs")), case.inputs.iter());
    let outputs: Vec<(usize, usize)> =
        case.results().map(|result| (result.bytes(), result.element_bytes())).collect();
    let buffers = Signature::of(body, None).buffers;
    let storage = |buffer: &Buffer| match *buffer {
        Buffer::Input(index) => Storage::read(inputs[index].0.clone(), inputs[index].1),
        Buffer::Output(index) => Storage::write(outputs[index].0, outputs[index].1),
    };
    let mut storages: Vec<Storage> = buffers.iter().map(storage).collect();
    if let Err(error) = device::launch(&made, &made.text, &mut storages) {
        panic!("n{number}: {error}\n{}\n{}", case.node(number), made.text);
    }
    let on_cpu = tensors(&folder.join(format!("{number}.cpu")), case.results());
    let mut results = Vec::new();
    for (index, tensor) in case.results().enumerate() {
        let place = buffers.iter().position(|buffer| *buffer == Buffer::Output(index)).expect("an output");
        let bytes = &storages[place].bytes;
        if same_arithmetic(body) {
            let (ours, theirs) =
                (canonical(bytes, tensor.element), canonical(&on_cpu[index].0, tensor.element));
            let differs = ours.iter().zip(&theirs).position(|(ours, theirs)| ours != theirs);
            assert_eq!(differs, None, "n{number}: PTX and machine code differ\n{}", case.node(number));
        }
        results.extend_from_slice(bytes);
    }
    std::fs::write(folder.join(format!("{number}.ptx")), results).expect("written");
    true
}

#[test]
fn every_kernel_gives_atens_elements() {
    let Some(python) = site::python() else {
        eprintln!("skipped: no Python with torch beside LIBTORCH");
        return;
    };
    let cases = cases();
    let text: String = cases.iter().enumerate().map(|(number, case)| case.node(number)).collect();
    let context = Context::new();
    let module = context.parse(&text, "cases.mlir").unwrap_or_else(|errors| panic!("{}", errors[0]));
    let bodies: Vec<Elementwise> = (ops::nodes(module.op()).into_iter())
        .map(|node| Elementwise::of(node).unwrap_or_else(|reason| panic!("{reason}\n{}", node.op())))
        .collect();
    let requests: Vec<Request<'_>> = (bodies.iter().enumerate())
        .map(|(number, body)| Request { symbol: format!("n{number}"), body, overwrites: None })
        .collect();
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::write(folder.path().join("kernels.so"), library(&requests).expect("a library"))
        .expect("written");
    let described = cases.iter().zip(&bodies).enumerate().map(|(number, (case, body))| {
        let signature = Signature::of(body, None);
        let buffer = |buffer: &Buffer| match buffer {
            Buffer::Input(index) => json!({"x": index}),
            Buffer::Output(index) => json!({"result": index}),
        };
        json!({
            "symbol": format!("n{number}"),
            "inputs": case.inputs.iter().map(Tensor::json).collect::<Vec<_>>(),
            "calls": case.calls,
            "results": case.results().map(Tensor::json).collect::<Vec<_>>(),
            "plain": case.plain,
            "buffers": signature.buffers.iter().map(buffer).collect::<Vec<_>>(),
            "rows": signature.rows,
            "ulps": body.ulps(),
        })
    });
    let described: Vec<Json> = described.collect();
    std::fs::write(folder.path().join("cases.json"), json!(described).to_string()).expect("written");
    compare(&python, folder.path(), "cpu", cases.len());
    let Some(nvidia) = site::nvidia() else {
        eprintln!("skipped: no libdevice beside torch");
        return;
    };
    let libdevice = nvidia.join("lib/libdevice.10.bc");
    let (threads, folder) =
        (std::thread::available_parallelism().map_or(1, usize::from).min(8), folder.path());
    let part = &|first: usize| {
        let numbers = (first..cases.len()).step_by(threads);
        numbers.filter(|&number| execute(folder, number, &cases[number], &bodies[number], &libdevice)).count()
    };
    let executed: usize = std::thread::scope(|scope| {
        let parts: Vec<_> = (0..threads).map(|first| scope.spawn(move || part(first))).collect();
        parts
            .into_iter()
            .map(|part| part.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
            .sum()
    });
    // The others have no elements, too many, or sums in f64.
    assert!(executed > cases.len() / 2, "{executed} of {}", cases.len());
    compare(&python, folder, "ptx", executed);
}

#[test]
fn functions_that_are_called_in_a_library_are_known() {
    let node = |ty: &str, call: &str| {
        let t = format!("tensor<4x{ty}>");
        let text = format!(
            "rk.node @n {{ ^bb0(%x: {t}): %r = rk.aten \"aten.{call}.default\"(%x) : ({t}) -> {t} rk.yield %r : {t} }}"
        );
        let context = Context::new();
        let module = context.parse(&text, "node.mlir").unwrap_or_else(|errors| panic!("{}", errors[0]));
        Elementwise::of(ops::nodes(module.op())[0]).expect("pointwise")
    };
    for (ty, call, calls) in [
        ("f64", "exp", true),
        ("f64", "tanh", true),
        ("f64", "sigmoid", true),
        ("f32", "exp", false),
        ("f32", "tanh", false),
        ("f32", "sqrt", false),
        ("f64", "rsqrt", false),
        ("bf16", "abs", false),
    ] {
        let body = node(ty, call);
        assert_eq!(calls_libdevice(&body), calls, "{call} of {ty}");
        let made = ptx(&body, None, "k", Chip::Sm80, None);
        assert_eq!(matches!(&made, Err(KernelError::Unsupported(_))), calls, "{call} of {ty}: {made:?}");
    }
    assert!(!node("f64", "exp").steps.iter().any(|step| step.formula == Formula::Log));
}
