//! The PTX that ptxas accepts, executed: every node of the test set, for both chips, aside and in place, against its machine code for the
//! CPU. And PTX that was damaged on purpose, which must not pass.

mod device;
mod nodes;
mod site;

use device::Storage;
use nodes::{CHAIN, bodies, loaded, made, norms, rows, run, sums, test_set};
use rand::{Rng as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;
use rk_dialect::pointwise::{Element, Elementwise};
use rk_kernels::cuda::{Chip, Ptx, calls_libdevice};
use rk_kernels::{Buffer, Signature};

/// Bytes from the first element to the last one that is touched.
fn bytes(offset: i64, shape: &[i64], strides: &[i64], element: Element) -> usize {
    let last: i64 = shape.iter().zip(strides).map(|(size, stride)| (size - 1) * stride).sum();
    (offset + last + 1) as usize * element.bytes() as usize
}

/// Random bytes of an element type: normal numbers, and special ones, of which a row would have one too many.
fn drawn(rng: &mut ChaCha8Rng, element: Element, bytes: usize, specials: bool) -> Vec<u8> {
    const SPECIAL: [f32; 8] = [0.0, -0.0, f32::INFINITY, f32::NEG_INFINITY, f32::NAN, 1e-40, 1.0, 65504.0];
    let mut made = Vec::new();
    while made.len() < bytes {
        let special = specials && rng.random_bool(0.33);
        let value = if special { SPECIAL[rng.random_range(0..8)] } else { rng.random_range(-4.0..4.0) };
        match element {
            Element::F64 => made.extend(f64::from(value).to_le_bytes()),
            Element::F32 => made.extend(value.to_le_bytes()),
            Element::Bf16 => made.extend(&value.to_le_bytes()[2..]),
            Element::F16 => made.extend((rng.random::<u16>() & 0xbfff).to_le_bytes()),
            _ => made.push(rng.random_range(0..2)),
        }
    }
    made
}

/// The storages of a kernel with random operands. The one that is overwritten holds an operand, too.
fn storages(body: &Elementwise, overwrites: Option<usize>, seed: u64) -> Vec<Storage> {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let specials = body.inner() == 0;
    let input = |index: usize| {
        let reads = body.reads.iter().filter(move |read| read.input == index);
        let sizes =
            reads.map(|read| (bytes(read.offset, &body.shape, &read.strides, read.element), read.element));
        sizes.max_by_key(|(bytes, _)| *bytes).expect("an input is read")
    };
    let mut one = |buffer: &Buffer| match *buffer {
        Buffer::Input(index) => {
            let (bytes, element) = input(index);
            Storage::read(drawn(&mut rng, element, bytes, specials), element.bytes() as usize)
        }
        Buffer::Output(index) => {
            let write = &body.writes[index];
            let size = bytes(0, &body.shape, &write.strides, write.element);
            let mut storage = Storage::write(size, write.element.bytes() as usize);
            if overwrites.is_some() && index == 0 {
                storage.bytes = drawn(&mut rng, write.element, size, specials);
            }
            storage
        }
    };
    Signature::of(body, overwrites).buffers.iter().map(&mut one).collect()
}

/// What the machine code leaves in the same storages.
fn on_cpu(body: &Elementwise, overwrites: Option<usize>, mut storages: Vec<Storage>) -> Vec<Vec<u8>> {
    let library = loaded(&[(body, overwrites)]);
    // Machine code may want its elements aligned.
    let mut aligned: Vec<Vec<u64>> =
        storages.iter().map(|one| vec![0; one.bytes.len().div_ceil(8)]).collect();
    let addresses: Vec<*mut std::ffi::c_void> =
        aligned.iter_mut().map(|one| one.as_mut_ptr().cast()).collect();
    for (storage, address) in storages.iter().zip(&addresses) {
        // SAFETY: both have as many bytes.
        unsafe { std::ptr::copy_nonoverlapping(storage.bytes.as_ptr(), address.cast(), storage.bytes.len()) };
    }
    run(&library, "k0", &Signature::of(body, overwrites), &addresses);
    for (storage, address) in storages.iter_mut().zip(&addresses) {
        // SAFETY: as above.
        unsafe {
            std::ptr::copy_nonoverlapping(address.cast(), storage.bytes.as_mut_ptr(), storage.bytes.len())
        };
    }
    storages.into_iter().map(|one| one.bytes).collect()
}

/// The numbers of a storage as f64.
fn numbers(element: Element, bytes: &[u8]) -> Vec<f64> {
    let f16 = |bits: u16| {
        let (exponent, fraction) = (i32::from(bits >> 10 & 31), f64::from(bits & 1023));
        let size = match exponent {
            0 => fraction * 2f64.powi(-24),
            31 => {
                if fraction == 0.0 {
                    f64::INFINITY
                } else {
                    f64::NAN
                }
            }
            _ => (fraction + 1024.0) * 2f64.powi(exponent - 25),
        };
        if bits >> 15 == 1 { -size } else { size }
    };
    let one = |bytes: &[u8]| match *bytes {
        [a, b, c, d, e, f, g, h] => f64::from_le_bytes([a, b, c, d, e, f, g, h]),
        [a, b, c, d] => f32::from_le_bytes([a, b, c, d]).into(),
        [a, b] if element == Element::F16 => f16(u16::from_le_bytes([a, b])),
        [a, b] => f32::from_le_bytes([0, 0, a, b]).into(),
        _ => f64::from(bytes[0]),
    };
    bytes.chunks_exact(element.bytes() as usize).map(one).collect()
}

/// The first element that differs: by a bit, or where sums, maxima or functions of a library are in it, by more than is due to the order of 350
/// additions and to the last rounding.
fn difference(
    body: &Elementwise,
    overwrites: Option<usize>,
    ours: &[Storage],
    theirs: &[Vec<u8>],
) -> Option<String> {
    let exact = body.inner() == 0 && !calls_libdevice(body);
    let buffers = Signature::of(body, overwrites).buffers;
    for ((buffer, ours), theirs) in buffers.iter().zip(ours).zip(theirs) {
        let Buffer::Output(output) = *buffer else { continue };
        let element = body.writes[output].element;
        let unit = match element {
            Element::F16 => 2f64.powi(-10),
            Element::Bf16 => 2f64.powi(-7),
            _ => 2f64.powi(-14),
        };
        let (ours, theirs) = (numbers(element, &ours.bytes), numbers(element, theirs));
        for (index, (a, b)) in ours.iter().zip(&theirs).enumerate() {
            let same = a.is_nan() && b.is_nan() || a.to_bits() == b.to_bits();
            let near = !exact && ((a - b).abs() <= unit * (b.abs() + 1.0) || a == b);
            if !same && !near {
                return Some(format!("output {output}, element {index}: {a:e} instead of {b:e}"));
            }
        }
    }
    None
}

/// Launches `text` in place of the kernel's own: what went wrong, if anything did.
fn wrong(body: &Elementwise, overwrites: Option<usize>, made: &Ptx, text: &str, seed: u64) -> Option<String> {
    let mut storages_here = storages(body, overwrites, seed);
    if let Err(error) = device::launch(made, text, &mut storages_here) {
        return Some(error.to_string());
    }
    difference(body, overwrites, &storages_here, &on_cpu(body, overwrites, storages(body, overwrites, seed)))
}

#[test]
fn every_kernel_of_the_test_set_computes_what_the_machine_code_does() {
    let all = [test_set(), sums(), rows(), norms()].concat();
    for (index, body) in all.iter().enumerate() {
        if calls_libdevice(body) && site::nvidia().is_none() {
            eprintln!("skipped: no libdevice for kernel {index}");
            continue;
        }
        for chip in [Chip::Sm80, Chip::Sm90] {
            let made = made(body, None, "k", chip);
            let found = wrong(body, None, &made, &made.text, index as u64);
            assert_eq!(found, None, "kernel {index} for {chip:?}: {body:?}\n{}", made.text);
            let approximate = made.text.contains(".approx") || made.text.contains(".full");
            assert!(!approximate || calls_libdevice(body), "kernel {index} is not exact\n{}", made.text);
        }
    }
}

#[test]
fn kernels_compute_in_place() {
    // What is overwritten is read where it is written, by the same thread.
    let in_place = |body: &Elementwise| {
        let (read, write) = (&body.reads[0], &body.writes[0]);
        let only = body.reads.iter().filter(|other| other.input == read.input).count() == 1;
        let same = read.input == 0
            && read.strides == write.strides
            && read.offset == 0
            && read.element == write.element;
        only && same && body.writes.len() == 1
    };
    let all: Vec<Elementwise> = [test_set(), rows()].concat().into_iter().filter(in_place).collect();
    assert!(all.len() > 20, "{}", all.len());
    for (index, body) in all.iter().enumerate() {
        if calls_libdevice(body) && site::nvidia().is_none() {
            continue;
        }
        let made = made(body, Some(0), "k", Chip::Sm80);
        let found = wrong(body, Some(0), &made, &made.text, index as u64);
        assert_eq!(found, None, "kernel {index}: {body:?}\n{}", made.text);
    }
}

#[test]
fn functions_of_one_float_are_those_of_the_machine_code_over_all_exponents() {
    const COUNT: usize = 60_000;
    // Bit patterns so far apart that all exponents come, with many mantissas.
    const STEP: u32 = 71_583;
    let t = format!("tensor<{COUNT}xf32>");
    for function in ["exp", "tanh", "sigmoid", "sqrt", "rsqrt", "reciprocal"] {
        let call = format!("aten.{function}.default");
        let text = format!(
            "rk.node @n {{ ^bb0(%x: {t}): %r = rk.aten \"{call}\"(%x) : ({t}) -> {t} rk.yield %r : {t} }}"
        );
        let body = &bodies(&text)[0];
        let made = made(body, None, "k", Chip::Sm80);
        let x: Vec<u8> = (0..COUNT as u32).flat_map(|index| (index * STEP).to_le_bytes()).collect();
        let storages = || vec![Storage::read(x.clone(), 4), Storage::write(4 * COUNT, 4)];
        let mut ours = storages();
        device::launch(&made, &made.text, &mut ours).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(difference(body, None, &ours, &on_cpu(body, None, storages())), None, "{function}");
    }
}

#[test]
fn addresses_beyond_four_gibibytes_are_reached() {
    let x = "tensor<2x3xf32, #rk.strided<[3000000000, 1]>>";
    let body = &bodies(&format!(
        "rk.node @far {{ ^bb0(%x: {x}): %r = rk.aten \"aten.neg.default\"(%x) : ({x}) -> tensor<2x3xf32> rk.yield %r : tensor<2x3xf32> }}"
    ))[0];
    let made = made(body, None, "k", Chip::Sm90);
    // Only the first row is there: the second is refused where it would lie.
    let (mut row, mut result) = ([0f32; 3], [0f32; 6]);
    let addresses = [row.as_mut_ptr() as u64, result.as_mut_ptr() as u64];
    let mut memory = rk_ptx::Memory::new();
    // SAFETY: both outlive the launch.
    unsafe {
        memory.allow(addresses[0], 12, false);
        memory.allow(addresses[1], 24, true);
    }
    let parameters: Vec<u64> = made.parameters.iter().map(|&buffer| addresses[buffer]).collect();
    let three = |numbers: [i64; 3]| numbers.map(|number| number as u32);
    let module = rk_ptx::Module::parse(&made.text).expect("parsed");
    match module.launch(&made.entry, three(made.grid), three(made.block), &parameters, &mut memory) {
        Err(rk_ptx::Error::Access { kind: "load", address, .. }) => {
            assert_eq!(address - addresses[0], 12_000_000_000);
        }
        other => panic!("{other:?}"),
    }
}

/// A text with the first line that holds `part` changed.
fn changed(text: &str, part: &str, by: impl Fn(&str) -> String) -> String {
    let line =
        text.lines().find(|line| line.contains(part)).unwrap_or_else(|| panic!("no {part} in\n{text}"));
    text.replacen(line, &by(line), 1)
}

/// Every change of the text, which names what was done, must be caught.
fn all_caught(body: &Elementwise, made: &Ptx, changes: &[(&str, String)]) {
    assert_eq!(wrong(body, None, made, &made.text, 1), None);
    for (what, text) in changes {
        assert_ne!(text, &made.text, "{what} changes nothing\n{text}");
        let caught = wrong(body, None, made, text, 1);
        eprintln!("{what}: {caught:?}");
        assert!(caught.is_some(), "{what} was not caught\n{text}");
    }
}

#[test]
fn damaged_loops_are_caught() {
    let body = &bodies(CHAIN)[0];
    let made = made(body, None, "k", Chip::Sm80);
    let text = &made.text;
    let without = |part: &str| changed(text, part, |_| String::new());
    let replaced = |part: &str, from: &str, to: &str| changed(text, part, |line| line.replace(from, to));
    all_caught(
        body,
        &made,
        &[
            ("no test of the bound", without("bra ")),
            ("a bound that is one too large", replaced("setp.gt", ", 18;", ", 19;")),
            ("a bound that is one too small", replaced("setp.gt", ", 18;", ", 17;")),
            ("a wrong stride", replaced("mad.lo.s32", ", 19,", ", 20,")),
            ("elements of eight bytes", replaced("mul.wide.u32", ", 4;", ", 8;")),
            ("no store", without("st.global")),
            ("a flushed product", replaced("mul.rn.f32", "mul.rn.f32", "mul.rn.ftz.f32")),
            ("a product that is rounded down", replaced("mul.rn.f32", "mul.rn.f32", "mul.rz.f32")),
            ("a sum that is a difference", replaced("add.rn.f32", "add.rn", "sub.rn")),
            ("another block", replaced("%ctaid.y", "%ctaid.y", "%ctaid.x")),
            ("a comparison that a NaN passes", replaced("setp.lt.f32", "setp.lt", "setp.ltu")),
        ],
    );
}

#[test]
fn damaged_sums_are_caught() {
    let body = &sums()[0];
    let made = made(body, None, "k", Chip::Sm80);
    let text = &made.text;
    let without = |part: &str| changed(text, part, |_| String::new());
    let replaced = |part: &str, from: &str, to: &str| changed(text, part, |line| line.replace(from, to));
    // The last jump is over the store, by all threads but the first.
    let last = text.lines().rfind(|line| line.contains("bra")).expect("a jump").to_owned();
    all_caught(
        body,
        &made,
        &[
            ("a shuffle over too few lanes", replaced("shfl.sync.bfly", ", 16, 31, -1", ", 16, 31, 65535")),
            ("a shuffle at another distance", replaced("shfl.sync.bfly", ", 16, 31", ", 8, 31")),
            ("every thread stores", without(&last)),
            ("a shuffle that one lane misses", changed(text, "shfl.sync", |line| format!("@%p1 {line}"))),
        ],
    );
}
