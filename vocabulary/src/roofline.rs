//! A roofline model of an operator's time, for calls that nobody timed.
//!
//! time = launch + max(bytes moved / bandwidth, operations / throughput). Operations are counted for convolutions, matrix
//! products and fused attention, with two per multiply-add; every other operator is bound by memory. The ceilings describe
//! middling machines: the model ranks operators, it does not predict seconds. Source: Williams, Waterman, Patterson,
//! "Roofline", CACM 2009.
//!
//! The package for Python takes the ceilings from here and counts operations with PyTorch's own counter, which knows more
//! operators. Not here: the times of made-up networks (`rk_solve::synthetic`), which are part of fixed benchmarks.

/// What a kind of device can do.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Roofline {
    /// Bytes per second from memory.
    pub bandwidth: f64,
    /// Operations per second in dense linear algebra.
    pub throughput: f64,
    /// Seconds that any call takes, however small.
    pub launch: f64,
}

impl Roofline {
    /// Two desktop cores.
    pub const CPU: Self = Self { bandwidth: 20e9, throughput: 100e9, launch: 1e-6 };
    /// A data-centre GPU in tf32.
    pub const GPU: Self = Self { bandwidth: 2e12, throughput: 100e12, launch: 4e-6 };

    /// That of a device by its name in torch, `cpu` or `cuda:0`. What is no CPU is a GPU.
    pub fn of_device(name: &str) -> Self {
        if name.split(':').next() == Some("cpu") { Self::CPU } else { Self::GPU }
    }

    /// Nanoseconds of one call.
    pub fn nanos(self, bytes: f64, operations: f64) -> u64 {
        nanos(self.launch + (bytes / self.bandwidth).max(operations / self.throughput))
    }

    /// Nanoseconds that one kernel saves when it keeps a result of so many bytes to itself: the result is neither written
    /// nor read again, and one launch less is made.
    pub fn nanos_saved(self, bytes: f64) -> u64 {
        nanos(self.launch + 2. * bytes / self.bandwidth)
    }
}

fn nanos(seconds: f64) -> u64 {
    (seconds * 1e9).round() as u64
}

/// What the model reads of a call: an ATen operator and the sizes of its tensors.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Call<'a> {
    /// The operator without namespace and overload: `addmm`.
    pub operator: &'a str,
    /// Sizes of the tensors among the arguments, in order; `None` where a tensor has none that is known.
    pub operands: Vec<Option<Vec<i64>>>,
    /// Sizes of the results.
    pub results: Vec<Option<Vec<i64>>>,
    /// The arguments in schema order, as far as they are truth values.
    pub args: Vec<Truth>,
}

/// An argument, as far as it is made of truth values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Truth {
    /// One truth value.
    One(bool),
    /// A list, of which `true` elements are counted.
    List(Vec<bool>),
    /// Anything else.
    Other,
}

impl Call<'_> {
    /// Operations of one run, two per multiply-add; 0 for operators that are bound by memory.
    pub fn operations(&self) -> f64 {
        self.counted().unwrap_or(0.)
    }

    fn counted(&self) -> Option<f64> {
        let operand = |index: usize| self.operands.get(index)?.as_deref();
        let result = |index: usize| self.results.get(index)?.as_deref();
        match self.operator {
            "convolution"
            | "_convolution"
            | "convolution_overrideable"
            | "mkldnn_convolution"
            | "cudnn_convolution" => Some(self.convolution(result(0)?, operand(0)?, operand(1)?)),
            "convolution_backward" => {
                // The last argument tells which gradients are wanted; that of the bias is a sum.
                let wanted = match self.args.last() {
                    Some(Truth::List(mask)) => mask.iter().take(2).filter(|&&wanted| wanted).count(),
                    _ => 2,
                };
                Some(self.convolution(operand(0)?, operand(1)?, operand(2)?) * wanted as f64)
            }
            "mm" | "bmm" => Some(2. * elements(operand(0)?) * *operand(1)?.last()? as f64),
            "addmm" | "baddbmm" => Some(2. * elements(operand(1)?) * *operand(2)?.last()? as f64),
            name if name.starts_with("_scaled_dot_product") => {
                let backward = name.ends_with("_backward");
                // Backward reads the gradient first; it makes five products where forward makes two.
                let first = usize::from(backward);
                let (query, key) = (operand(first)?, operand(first + 1)?);
                let keys = *key.iter().rev().nth(1)? as f64;
                Some(elements(query) * keys * if backward { 10. } else { 4. })
            }
            _ => None,
        }
    }

    /// Each output element (each input element when transposed) meets every weight of one filter.
    fn convolution(&self, output: &[i64], input: &[i64], weight: &[i64]) -> f64 {
        let filter = weight.iter().skip(1).product::<i64>() as f64;
        // Among the first eight arguments, `transposed` is the only truth value of ATen's convolutions; those that name a
        // library have others there, which are taken for it.
        let transposed = self.args.iter().take(8).any(|arg| *arg == Truth::One(true));
        2. * filter * elements(if transposed { input } else { output })
    }
}

fn elements(sizes: &[i64]) -> f64 {
    sizes.iter().product::<i64>() as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sizes(all: &[&[i64]]) -> Vec<Option<Vec<i64>>> {
        all.iter().map(|sizes| Some(sizes.to_vec())).collect()
    }

    fn operations(operator: &str, operands: &[&[i64]], results: &[&[i64]], args: &[Truth]) -> f64 {
        let (operands, results) = (sizes(operands), sizes(results));
        Call { operator, operands, results, args: args.to_vec() }.operations()
    }

    #[test]
    fn a_multiply_add_is_two_operations() {
        assert_eq!(operations("mm", &[&[2, 3], &[3, 5]], &[&[2, 5]], &[]), 60.);
        assert_eq!(operations("addmm", &[&[5], &[2, 3], &[3, 5]], &[&[2, 5]], &[]), 60.);
        assert_eq!(operations("bmm", &[&[7, 2, 3], &[7, 3, 5]], &[&[7, 2, 5]], &[]), 420.);
        let (query, key): (&[i64], &[i64]) = (&[1, 1, 4, 8], &[1, 1, 6, 8]);
        assert_eq!(
            operations("_scaled_dot_product_flash_attention", &[query, key, key], &[query], &[]),
            768.
        );
        assert_eq!(operations("relu", &[query], &[query], &[]), 0.);
        assert_eq!(operations("mm", &[&[2, 3]], &[&[2, 5]], &[]), 0., "an operand is missing");
    }

    #[test]
    fn convolutions_know_their_direction_and_the_gradients_that_are_wanted() {
        let (image, weight, output): (&[i64], &[i64], &[i64]) = (&[1, 3, 8, 8], &[4, 3, 3, 3], &[1, 4, 6, 6]);
        let plain = 2. * 27. * 144.;
        let forward = |args| operations("convolution", &[image, weight], &[output], args);
        assert_eq!(forward(&[Truth::Other, Truth::One(false)]), plain);
        assert_eq!(forward(&[Truth::Other, Truth::One(true)]), 2. * 27. * 192.);
        let backward = |mask: [bool; 3]| {
            let args = [Truth::List(mask.to_vec())];
            operations("convolution_backward", &[output, image, weight], &[], &args)
        };
        assert_eq!(backward([false, true, true]), plain);
        assert_eq!(backward([true, true, false]), 2. * plain);
    }

    #[test]
    fn the_higher_of_two_ceilings_holds() {
        assert_eq!(Roofline::CPU.nanos(20_000., 0.), 2000);
        assert_eq!(Roofline::CPU.nanos(20_000., 1e6), 11_000);
        assert_eq!(Roofline::CPU.nanos_saved(20_000.), 3000);
        assert_eq!(Roofline::of_device("cpu"), Roofline::CPU);
        assert_eq!(Roofline::of_device("cuda:1"), Roofline::GPU);
    }
}
