//! Generated kernels in a step file: they survive writing and reading, and what does not fit is refused by name.

mod sample;

use rk_step::kernel::{Buffer, Kernel, Launch, Library};
use rk_step::validate::validate;
use rk_step::{Step, file};

/// The sample block with a kernel for `norm`.
fn with_kernel() -> Step {
    let mut step = sample::block();
    step.library = Some(Library { level: "x86-64-v3".into(), elf: "7f454c4600".into() });
    step.nodes[0].kernel = Some(Kernel {
        aside: Launch { symbol: "k".into(), buffers: vec![Buffer::Input(0), Buffer::Output(0)] },
        in_place: None,
        inputs: vec![sample::spec(&[1024])],
        outputs: vec![sample::spec(&[1024])],
        rows: 1024,
        row_elements: 1,
    });
    step
}

#[test]
fn kernels_survive_the_file() {
    let step = with_kernel();
    let text = file::print(&step).expect("printed");
    assert_eq!(file::parse(text.as_bytes(), "k.rkx").expect("read"), step);
    assert_eq!(step.library.as_ref().expect("a library").bytes(), [0x7f, b'E', b'L', b'F', 0]);
    assert_eq!(step.without_kernels(), sample::block());
}

#[test]
fn what_does_not_fit_is_refused() {
    type Damage = fn(&mut Step, &mut Kernel);
    let damages: [(Damage, &str); 6] = [
        (|step, _| step.library = None, "the step has no library"),
        (|step, _| step.library.as_mut().unwrap().elf = "7f45".into(), "is no shared object in hexadecimal"),
        (|_, kernel| kernel.outputs.clear(), "has other inputs or outputs than the node"),
        (|_, kernel| kernel.rows = u64::MAX, "has too many rows"),
        (
            |_, kernel| kernel.aside.buffers[1] = Buffer::Output(1),
            "launches \"k\" with Output(1), which the node has not",
        ),
        (
            |_, kernel| kernel.in_place = Some(kernel.aside.clone()),
            "does not fit what the node overwrites or draws",
        ),
    ];
    for (damage, message) in damages {
        let mut step = with_kernel();
        let mut kernel = step.nodes[0].kernel.take().expect("a kernel");
        damage(&mut step, &mut kernel);
        step.nodes[0].kernel = Some(kernel);
        let refused = validate(&step).expect_err(message).to_string();
        assert!(refused.contains(message), "{refused} instead of {message}");
    }
}
