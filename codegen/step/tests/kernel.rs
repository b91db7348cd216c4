//! Generated kernels in a step file: they survive writing and reading, and what does not fit is refused by name.

mod sample;

use rk_step::kernel::{Buffer, Geometry, Kernel, Launch, Library, Ptx};
use rk_step::launch_schedule::{Address, LaunchSchedule, Region, Work};
use rk_step::validate::validate;
use rk_step::{Slot, Step, file};

/// The sample block with a kernel for `norm`.
fn with_kernel() -> Step {
    let mut step = sample::block();
    step.library = Some(Library { level: "x86-64-v3".into(), elf: "7f454c4600".into(), ptx: vec![] });
    step.nodes[0].kernel = Some(Kernel {
        aside: Launch {
            symbol: "k".into(),
            buffers: vec![Buffer::Input(0), Buffer::Output(0)],
            geometry: None,
        },
        in_place: None,
        inputs: vec![sample::spec(&[1024])],
        outputs: vec![sample::spec(&[1024])],
        rows: 1024,
        row_elements: 1,
        nearness: None,
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
    let damages: [(Damage, &str); 11] = [
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
        (|_, kernel| kernel.aside.geometry = Some(THREADS), "launches \"k\" with threads that cpu has not"),
        (|step, _| step.library.as_mut().unwrap().ptx = vec![ptx()], "is not for cpu"),
        (|step, _| step.device = "cuda".into(), "library: is not for cuda"),
        (
            |step, kernel| {
                (step.device, step.library) = ("cuda".into(), Some(cuda_library()));
                kernel.aside.geometry = Some(Geometry { block: [2048, 1, 1], ..THREADS });
            },
            "launches \"k\" with threads that cuda has not",
        ),
        (
            |step, kernel| {
                (step.device, step.library) = ("cuda".into(), Some(cuda_library()));
                (kernel.aside.geometry, kernel.aside.symbol) = (Some(THREADS), "other".into());
            },
            "launches \"other\", which is not in the library",
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

const THREADS: Geometry = Geometry { grid: [4, 1, 1], block: [256, 1, 1] };

fn ptx() -> Ptx {
    Ptx { symbol: "k".into(), text: ".version 8.0".into() }
}

fn cuda_library() -> Library {
    Library { level: "sm_90".into(), elf: String::new(), ptx: vec![ptx()] }
}

/// A kernel's launch carries its threads and the places of its tensors.
#[test]
fn the_sequence_has_the_arguments_of_a_kernel() {
    let mut step = sample::lowered();
    let mut kernel = with_kernel().nodes[0].kernel.take().unwrap();
    kernel.aside.geometry = Some(THREADS);
    step.nodes[0].kernel = Some(kernel);
    (step.device, step.library) = ("cuda".into(), Some(cuda_library()));
    let mut layout = step.layout.take().unwrap();
    layout.target = "cuda".into();
    step.layout = Some(layout.clone());
    validate(&step).unwrap();
    let work = &LaunchSchedule::of(&step, &layout).unwrap().launches[0].work;
    let (x, norm) = (Region::Resident(Slot(0)), Region::Arena);
    let parameters = vec![Address { region: x, offset: 0 }, Address { region: norm, offset: 8192 }];
    assert_eq!(*work, Work::Kernel { symbol: "k".into(), geometry: Some(THREADS), parameters });
}
