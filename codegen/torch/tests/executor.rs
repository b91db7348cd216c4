//! The executor half: operators by name, prepared calls, the allocator and the generator.
//!
//! The counter is global, so the tests that read it share one lock.

use rk_torch::tch::{Kind, Tensor};
use rk_torch::{Device, Operator, Prepared, Settings, Slots, Value, memory};
use std::sync::{Mutex, MutexGuard, PoisonError};

static COUNTER: Mutex<()> = Mutex::new(());

fn counted() -> MutexGuard<'static, ()> {
    let guard = COUNTER.lock().unwrap_or_else(PoisonError::into_inner);
    memory::install().unwrap();
    guard
}

fn call(name: &str, args: &[Value]) -> Vec<Value> {
    Operator::find(name).unwrap().call(args).unwrap()
}

fn ints(values: &[i64]) -> Value {
    Value::List(values.iter().map(|&v| Value::Int(v)).collect())
}

fn ramp(shape: &[i64]) -> Tensor {
    Tensor::arange(shape.iter().product::<i64>(), (Kind::Float, tch::Device::Cpu)).reshape(shape)
}

#[test]
fn arguments_are_converted_by_schema() {
    let _guard = counted();
    let x = ramp(&[2, 3]);
    let sum =
        call("aten.add.Tensor", &[(&x).into(), (&x).into(), Value::Int(2)]).remove(0).into_tensor().unwrap();
    assert_eq!(sum, &x * 3.);
    let viewed = call("aten.view.default", &[(&x).into(), ints(&[3, -1])]).remove(0).into_tensor().unwrap();
    assert_eq!(viewed.size(), [3, 2]);
    let joined = call("aten.cat.default", &[Value::List(vec![(&x).into(), (&x).into()]), Value::Int(1)]);
    assert_eq!(joined[0_usize..].len(), 1);
    let parts = call("aten.split.Tensor", &[(&x).into(), Value::Int(1)]);
    assert!(matches!(&parts[0], Value::List(parts) if parts.len() == 2));
    let index = Tensor::from_slice(&[1_i64, 0]);
    let args = [(&x).into(), Value::List(vec![Value::None, (&index).into()])];
    let picked = call("aten.index.Tensor", &args).remove(0).into_tensor().unwrap();
    assert_eq!(picked, x.index_select(1, &index));
    let gelu = call("aten.gelu.default", &[(&x).into(), Value::Str("tanh".into())]);
    assert!(gelu[0].as_tensor_size() == [2, 3]);
    // dtype, layout, device, pin_memory
    let args = [ints(&[4]), Value::Int(7), Value::Int(0), Value::Str("cpu".into()), Value::Bool(false)];
    let zeros = call("aten.zeros.default", &args).remove(0).into_tensor().unwrap();
    assert_eq!((zeros.kind(), zeros.size()), (Kind::Double, vec![4]));
    let drawn = call("aten.bernoulli.default", &[(&x.ones_like()).into(), Value::None]);
    assert_eq!(drawn.len(), 1);
}

trait Size {
    fn as_tensor_size(&self) -> Vec<i64>;
}

impl Size for Value {
    fn as_tensor_size(&self) -> Vec<i64> {
        match self {
            Value::Tensor(tensor) => tensor.size(),
            _ => Vec::new(),
        }
    }
}

#[test]
fn a_number_in_the_place_of_a_tensor_does_not_promote() {
    let _guard = counted();
    let half = Tensor::from(1.5).to_kind(Kind::BFloat16);
    let product =
        call("aten.mul.Tensor", &[(&half).into(), Value::Float(2.0)]).remove(0).into_tensor().unwrap();
    assert_eq!(product.kind(), Kind::BFloat16);
}

#[test]
fn masked_out_gradients_are_none() {
    let _guard = counted();
    let (x, w) = (Tensor::ones([1, 1, 4, 4], (Kind::Float, tch::Device::Cpu)), ramp(&[1, 1, 3, 3]));
    let dy = Tensor::ones([1, 1, 2, 2], (Kind::Float, tch::Device::Cpu));
    let mask = Value::List(vec![Value::Bool(false), Value::Bool(true), Value::Bool(false)]);
    let (pair, zero, one) = (|v| ints(&[v, v]), Value::Int(1), Value::Bool(false));
    let args = [
        (&dy).into(),
        (&x).into(),
        (&w).into(),
        Value::None,
        pair(1),
        pair(0),
        pair(1),
        one,
        pair(0),
        zero,
        mask,
    ];
    let out = call("aten.convolution_backward.default", &args);
    assert!(matches!((&out[0], &out[1], &out[2]), (Value::None, Value::Tensor(_), Value::None)));
}

#[test]
fn errors_name_the_operator_and_the_argument() {
    let _guard = counted();
    let missing = Operator::find("aten.no_such_thing.default").unwrap_err();
    assert!(missing.message().contains("aten::no_such_thing.default"), "{missing}");
    assert!(Operator::find("relu").unwrap_err().message().contains("namespace.name.overload"));
    let relu = Operator::find("aten.relu.default").unwrap();
    let wrong = relu.call(&[Value::Str("x".into())]).unwrap_err();
    assert!(wrong.message().contains("aten::relu") && wrong.message().contains("'self'"), "{wrong}");
    assert!(relu.call(&[]).unwrap_err().message().contains("missing"));
    let mm = Operator::find("aten.mm.default").unwrap();
    let shapes = mm.call(&[(&ramp(&[2, 3])).into(), (&ramp(&[2, 3])).into()]).unwrap_err();
    assert!(shapes.message().contains("2x3"), "{shapes}");
}

#[test]
fn a_prepared_call_reads_and_writes_slots() {
    let _guard = counted();
    let mut slots = Slots::new(6).unwrap();
    slots.set(0, &ramp(&[4, 2])).unwrap();
    let op = |name| Operator::find(name).unwrap();
    let relu = Prepared::new(op("aten.relu.default"), &[Value::Slot(0)], &[Some(1)]).unwrap();
    let args = [Value::Slot(1), Value::Int(2)];
    let split = Prepared::new(op("aten.split.Tensor"), &args, &[Some(2), None]).unwrap();
    let list = Value::List(vec![Value::Slot(1), Value::Slot(2)]);
    let cat = Prepared::new(op("aten.cat.default"), &[list], &[Some(3)]).unwrap();
    for _ in 0..2 {
        relu.run(&mut slots).unwrap();
        split.run(&mut slots).unwrap();
        cat.run(&mut slots).unwrap();
    }
    assert_eq!(slots.get(3).unwrap().unwrap().size(), [6, 2]);
    assert!(slots.get(5).unwrap().is_none());
    let bias = Value::Slot(5);
    slots.set(4, &ramp(&[3, 2])).unwrap();
    let linear =
        Prepared::new(op("aten.linear.default"), &[Value::Slot(0), Value::Slot(4), bias], &[Some(3)]);
    linear.unwrap().run(&mut slots).unwrap();
    assert_eq!(slots.get(3).unwrap().unwrap().size(), [4, 3]);
    assert!(slots.set(6, &ramp(&[1])).unwrap_err().message().contains("slot 6"));
}

#[test]
fn the_allocator_counts_requested_bytes() {
    let _guard = counted();
    let before = memory::read(Device::Cpu).unwrap().current;
    memory::reset_peak(Device::Cpu).unwrap();
    let x = Tensor::zeros([1000], (Kind::Float, tch::Device::Cpu));
    assert_eq!(memory::read(Device::Cpu).unwrap().current - before, 4000);
    let y = &x + 1.;
    drop(x);
    let reading = memory::read(Device::Cpu).unwrap();
    assert_eq!((reading.current - before, reading.peak >= before + 8000), (4000, true));
    drop(y);
    assert_eq!(memory::read(Device::Cpu).unwrap().current, before);
}

#[test]
fn a_generator_state_replays_a_draw() {
    let _guard = counted();
    Device::Cpu.manual_seed(7).unwrap();
    let state = Device::Cpu.generator_state().unwrap();
    assert_eq!(state.size(), [5056]);
    let first = Tensor::rand([8], (Kind::Float, tch::Device::Cpu));
    assert_ne!(first, Tensor::rand([8], (Kind::Float, tch::Device::Cpu)));
    Device::Cpu.set_generator_state(&state).unwrap();
    assert_eq!(first, Tensor::rand([8], (Kind::Float, tch::Device::Cpu)));
}

#[test]
fn devices_are_parsed() {
    assert_eq!("cuda:1".parse::<Device>().unwrap(), Device::Cuda(1));
    assert_eq!("cuda".parse::<Device>().unwrap().to_string(), "cuda:0");
    for bad in ["", "gpu", "cuda:", "cuda:-1", "cuda:999", "CPU"] {
        assert!(bad.parse::<Device>().is_err(), "{bad}");
    }
}

/// Every setting of both devices can be set to another value, is then named as a difference, and can be put back. No GPU takes part.
#[test]
fn settings_are_read_set_and_compared() {
    for device in [Device::Cpu, Device::Cuda(0)] {
        let before = Settings::read(device).unwrap();
        let text = before.to_string();
        for word in text.split(' ') {
            let (name, value) = word.split_once('=').unwrap();
            let other = match value {
                "on" => "off",
                "off" => "on",
                "none" if !name.ends_with("version") => "ieee",
                "ieee" | "tf32" => "none",
                // Facts, and cuBLAS' kinds of sums and libraries.
                _ => continue,
            };
            let changed = Settings::parse(&format!("{name}={other}"));
            let said = changed.differences(device).unwrap();
            assert_eq!(said, [format!("{name} was {other} and is {value}")]);
            assert_eq!(changed.apply(device).unwrap(), [""; 0], "{name}={other}");
            assert_eq!(before.differences(device).unwrap().len(), 1, "{name}={other} changes more");
            assert_eq!(before.apply(device).unwrap(), [""; 0], "{name}={value}");
        }
        let foreign = Settings::parse("nobody=on gpu=other");
        assert_eq!(foreign.apply(device).unwrap().len(), 2);
        assert_eq!(Settings::read(device).unwrap(), before);
    }
    let pinned = || Settings::read(Device::Cuda(0)).unwrap().to_string();
    Device::Cuda(0).pin().unwrap();
    assert!(pinned().contains("cudnn_benchmark=off cudnn_deterministic=on"));
}
