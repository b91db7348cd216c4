//! Inputs made from a specification and a seed: the importer and the runtime make the same ones.
//!
//! `f32[8,3,224,224]` is a tensor of N(0,1); `i64[2,64]` is uniform in [0,2), `i64[2,64]:0..50257` in the given
//! range; `i1[4]` is uniform in {false, true}. Numbers come from ChaCha8 with the seed and the position of the
//! input, so they are the same on every machine, and making one input does not depend on the others.

use crate::device::Device;
use crate::element::kind;
use crate::error::{Error, ErrorKind, Result};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use rk_vocabulary::ElementType;
use std::fmt;
use std::str::FromStr;
use tch::Tensor;

/// Shape, element type and range of one input.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InputSpec {
    /// Element type.
    pub dtype: ElementType,
    /// Sizes.
    pub sizes: Vec<i64>,
    /// For integers: the half-open range of values.
    pub range: (i64, i64),
}

/// The range of integers when none is given: valid as index, class and truth value almost everywhere.
const DEFAULT_RANGE: (i64, i64) = (0, 2);

/// Inputs on a device. One that is given twice (ids that are labels, too) stays one tensor there; different views of one storage (ids and the
/// ids behind them) become tensors of their own, so that every input is one argument of the step.
///
/// # Errors
/// When the device has no room for them.
pub fn on_device(inputs: &[Tensor], device: Device) -> Result<Vec<Tensor>> {
    let mut moved: Vec<Tensor> = Vec::with_capacity(inputs.len());
    let storages: Vec<_> = inputs.iter().map(storage).collect();
    for (at, input) in inputs.iter().enumerate() {
        let mut shared =
            (0..at).filter(|&other| storages[at].is_some() && storages[other] == storages[at]).peekable();
        let apart = shared.peek().is_some();
        moved.push(match shared.find(|&other| is_same(input, &inputs[other])) {
            Some(same) => moved[same].shallow_clone(),
            None if apart => input.f_to_device(device.to_tch())?.f_detach_copy()?,
            None => input.f_to_device(device.to_tch())?,
        });
    }
    Ok(moved)
}

/// Whether two tensors of one storage are the same elements in the same places.
fn is_same(one: &Tensor, other: &Tensor) -> bool {
    let layout = |of: &Tensor| (of.data_ptr(), of.kind(), of.size(), of.stride());
    layout(one) == layout(other)
}

/// Where the storage of a tensor begins; `None` without elements, or without a storage (a sparse tensor, which the recorder refuses by name).
fn storage(tensor: &Tensor) -> Option<*mut std::ffi::c_void> {
    let first = || tensor.f_as_strided(&[1_i64][..], &[1_i64][..], 0).ok();
    (tensor.numel() > 0).then(first).flatten().map(|first| first.data_ptr())
}

/// No input is larger than this many elements (8 GiB of f32): a typing error should not eat the machine.
const MOST_ELEMENTS: i64 = 1 << 31;

impl InputSpec {
    /// A specification with the default range.
    pub fn new(dtype: ElementType, sizes: Vec<i64>) -> Self {
        Self { dtype, sizes, range: DEFAULT_RANGE }
    }

    /// Makes the `position`-th input of a step from `seed`, on the CPU, contiguous.
    ///
    /// # Errors
    /// When libtorch cannot make a tensor of this type.
    pub fn make(&self, seed: u64, position: u64) -> Result<Tensor> {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        rng.set_stream(position);
        let count = self.sizes.iter().product::<i64>().max(0) as usize;
        let flat = if self.dtype.is_float() {
            Tensor::f_from_slice(&normal(&mut rng, count))?
        } else {
            let (low, high) = self.range;
            let ints: Vec<i64> = (0..count).map(|_| rng.random_range(low..high)).collect();
            Tensor::f_from_slice(&ints)?
        };
        let unnamed = || Error::new(format!("torch's bindings have no name for {}", self.dtype));
        Ok(flat.f_to_kind(kind(self.dtype).ok_or_else(unnamed)?)?.f_reshape(&self.sizes)?)
    }
}

/// Box-Muller: two uniform numbers make two normal ones. Written out so that no library version changes them.
fn normal(rng: &mut ChaCha8Rng, count: usize) -> Vec<f32> {
    let mut out = Vec::with_capacity(count + 1);
    while out.len() < count {
        let radius = (-2. * (1. - rng.random::<f64>()).ln()).sqrt();
        let angle = std::f64::consts::TAU * rng.random::<f64>();
        out.push((radius * angle.cos()) as f32);
        out.push((radius * angle.sin()) as f32);
    }
    out.truncate(count);
    out
}

impl fmt::Display for InputSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sizes: Vec<String> = self.sizes.iter().map(i64::to_string).collect();
        write!(f, "{}[{}]", self.dtype, sizes.join(","))?;
        if self.range != DEFAULT_RANGE {
            write!(f, ":{}..{}", self.range.0, self.range.1)?;
        }
        Ok(())
    }
}

impl FromStr for InputSpec {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let bad = |why: &str| {
            Error::of(
                ErrorKind::Inputs,
                format!("input '{text}': {why}; write it like f32[8,3,224,224] or i64[2,64]:0..100"),
            )
        };
        let (head, rest) = text.split_once('[').ok_or_else(|| bad("'[' is missing"))?;
        let (sizes, suffix) = rest.split_once(']').ok_or_else(|| bad("']' is missing"))?;
        let dtype: ElementType = match head.trim() {
            // What people are used to write.
            "bool" => ElementType::Bool,
            "u8" => ElementType::U8,
            name => name.parse().map_err(|error: String| bad(&error))?,
        };
        let mut parsed = Vec::new();
        for size in sizes.split(',').map(str::trim).filter(|_| !sizes.trim().is_empty()) {
            let size: i64 = size.parse().map_err(|_| bad(&format!("size '{size}' is not a number")))?;
            if size < 0 {
                return Err(bad("a size is negative"));
            }
            parsed.push(size);
        }
        let elements = parsed.iter().try_fold(1_i64, |n, &size| n.checked_mul(size));
        if elements.is_none_or(|n| n > MOST_ELEMENTS) {
            return Err(bad("it has more than 2^31 elements"));
        }
        let mut spec = Self::new(dtype, parsed);
        if let Some(range) = suffix.strip_prefix(':') {
            let (low, high) = range.split_once("..").ok_or_else(|| bad("the range is not LOW..HIGH"))?;
            let number = |s: &str| s.trim().parse::<i64>().map_err(|_| bad("the range is not LOW..HIGH"));
            spec.range = (number(low)?, number(high)?);
            if spec.range.0 >= spec.range.1 {
                return Err(bad("the range is empty"));
            }
            if dtype.is_real() {
                return Err(bad("a range is for integers"));
            }
        } else if !suffix.is_empty() {
            return Err(bad("something follows ']'"));
        }
        Ok(spec)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn specifications_survive_their_spelling() {
        for text in ["f32[8,3,224,224]", "i64[2,64]:0..50257", "bf16[]", "i1[4]", "i64[3]:-5..7"] {
            assert_eq!(text.parse::<InputSpec>().unwrap().to_string(), text);
        }
        assert_eq!("bool[ 2 , 3 ]".parse::<InputSpec>().unwrap().to_string(), "i1[2,3]");
    }

    #[test]
    fn nonsense_is_refused() {
        for text in [
            "",
            "f32",
            "f32[",
            "f32[2",
            "f33[2]",
            "f32[2]x",
            "f32[-1]",
            "f32[a]",
            "f32[2]:0..3",
            "i64[2]:3..3",
            "i64[2]:3",
            "f32[99999999999]",
            "f32[9999999999,9999999999,9999999999]",
            "f32[2,]",
        ] {
            assert!(text.parse::<InputSpec>().is_err(), "{text}");
        }
    }

    #[test]
    fn every_input_is_one_storage() {
        let all = Tensor::arange(10, (tch::Kind::Int64, tch::Device::Cpu));
        let square = all.narrow(0, 0, 9).view([3, 3]);
        let (ids, labels) = (all.narrow(0, 0, 9), all.narrow(0, 1, 9));
        let given = [
            ids.shallow_clone(),
            labels,
            ids,
            square.tr(),
            square,
            Tensor::zeros([0], (tch::Kind::Float, tch::Device::Cpu)),
        ];
        let there = on_device(&given, Device::Cpu).unwrap();
        assert_eq!(there, given);
        let address = |at: usize| there[at].data_ptr();
        assert_eq!((address(0), address(2)), (given[0].data_ptr(), given[0].data_ptr()));
        let apart: std::collections::BTreeSet<_> = [0, 1, 3, 4].map(|at| storage(&there[at])).into();
        assert_eq!(apart.len(), 4);
    }

    #[test]
    fn the_same_seed_gives_the_same_numbers() {
        let spec: InputSpec = "f32[1000]".parse().unwrap();
        let (a, b, c) = (spec.make(1, 0).unwrap(), spec.make(1, 0).unwrap(), spec.make(1, 1).unwrap());
        assert_eq!(a, b);
        assert_ne!(a, c);
        let mean = a.mean(tch::Kind::Float).double_value(&[]);
        let spread = a.std(false).double_value(&[]);
        assert!(mean.abs() < 0.1 && (spread - 1.).abs() < 0.1, "{mean} {spread}");
        let ints = "i64[100]:-3..4".parse::<InputSpec>().unwrap().make(0, 0).unwrap();
        assert_eq!((ints.min().int64_value(&[]), ints.max().int64_value(&[])), (-3, 3));
    }
}
