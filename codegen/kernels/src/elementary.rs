//! `exp` and `tanh` in f32 as arithmetic, so that LLVM can vectorize the loop around them; a call into libm it cannot.
//!
//! The polynomials and the reduction of the argument are those of the Cephes library (S. L. Moshier, *Methods and Programs for
//! Mathematical Functions*, 1989; `expf.c`, `tanhf.c`), with fused multiplications and additions. Over all floats `exp` is within 1 unit in
//! the last place of the exact value, `tanh` within 2, and `sigmoid`, made of `exp`, within 3 wherever ATen's formula,
//! 1 / (1 + exp(-x)), does not itself overflow. The tests compare with 64-bit results over all exponents.
//!
//! Subnormal results, overflow, infinities, NaN and the sign of zero are those of the C standard; no branches, only selects.

use crate::scalar::Writer;
use rk_dialect::pointwise::Element;

/// From the highest power: (exp(r) - 1 - r) / r^2 for |r| <= ln(2) / 2.
const EXP: [f32; 6] = [1.987_569_2E-4, 1.398_2E-3, 8.333_452E-3, 4.166_579_6E-2, 1.666_666_5E-1, 5E-1];
/// From the highest power of x^2: (tanh(x) - x) / x^3 for |x| < 0.625.
const TANH: [f32; 5] = [-5.704_988_7E-3, 2.063_909E-2, -5.373_971_6E-2, 1.333_144_2E-1, -3.333_328E-1];
/// Added to a small number it leaves the number rounded to an integer in the last bits: 1.5 * 2^23.
const ROUNDER: f32 = 12_582_912.0;
/// ln(2) as the sum of two floats.
const LN_2: (f32, f32) = (std::f32::consts::LN_2, -1.904_654_3E-9);
/// Below, the exponential rounds to zero; above, to infinity.
const RANGE: (f32, f32) = (-104.0, 89.0);
/// Where `tanh` goes from its polynomial to the exponential.
const SMALL: f32 = 0.625;

impl Writer<'_> {
    /// e^x = 2^n · e^r with n the nearest integer to x / ln(2).
    pub(crate) fn exp(&mut self, x: &str) -> String {
        // Zeros are selected, not computed: a result that underflows costs an x86-64 some 150 cycles, and half of a causal mask does.
        let (zero, lowest, highest) = (self.float(0.0), self.float(RANGE.0), self.float(RANGE.1));
        let vanishes = self.plain(&format!("arith.cmpf olt, {x}, {lowest} : f32"));
        let x = self.f32(&format!("arith.select {vanishes}, {zero}, {x}"));
        let overflows = self.plain(&format!("arith.cmpf ogt, {x}, {highest} : f32"));
        let x = self.f32(&format!("arith.select {overflows}, {highest}, {x}"));
        let rounder = self.float(ROUNDER);
        let log2_e = self.float(std::f32::consts::LOG2_E);
        let shifted = self.fma(&x, &log2_e, &rounder);
        let n = self.f32(&format!("arith.subf {shifted}, {rounder}"));
        let (high, low) = (self.float(-LN_2.0), self.float(-LN_2.1));
        let r = self.fma(&n, &high, &x);
        let r = self.fma(&n, &low, &r);
        let q = self.polynomial(&EXP, &r);
        let square = self.f32(&format!("arith.mulf {r}, {r}"));
        let rest = self.fma(&q, &square, &r);
        let one = self.float(1.0);
        let power = self.f32(&format!("arith.addf {rest}, {one}"));
        // 2^n in two factors: n is down to -150 and up to 128, where one float would not hold it.
        let bits = self.plain(&format!("arith.bitcast {shifted} : f32 to i32"));
        let from = self.plain(&format!("arith.constant {} : i32", ROUNDER.to_bits()));
        let n = self.plain(&format!("arith.subi {bits}, {from} : i32"));
        let shift = self.plain("arith.constant 1 : i32");
        let half = self.plain(&format!("arith.shrsi {n}, {shift} : i32"));
        let other = self.plain(&format!("arith.subi {n}, {half} : i32"));
        let (half, other) = (self.power_of_two(&half), self.power_of_two(&other));
        let scaled = self.f32(&format!("arith.mulf {power}, {half}"));
        let value = self.f32(&format!("arith.mulf {scaled}, {other}"));
        self.f32(&format!("arith.select {vanishes}, {zero}, {value}"))
    }

    /// A polynomial of |x| where it is small, 1 - 2 / (e^(2 |x|) + 1) elsewhere, with the sign of x.
    pub(crate) fn tanh(&mut self, x: &str) -> String {
        let size = self.intrinsic("fabs", "f32", &[x]);
        let square = self.f32(&format!("arith.mulf {size}, {size}"));
        let q = self.polynomial(&TANH, &square);
        let q = self.f32(&format!("arith.mulf {q}, {square}"));
        let near = self.fma(&size, &q, &size);
        let twice = self.f32(&format!("arith.addf {size}, {size}"));
        let power = self.exp(&twice);
        let (one, two) = (self.float(1.0), self.float(2.0));
        let sum = self.f32(&format!("arith.addf {power}, {one}"));
        let rest = self.f32(&format!("arith.divf {two}, {sum}"));
        let far = self.f32(&format!("arith.subf {one}, {rest}"));
        let small = self.float(SMALL);
        let is_small = self.plain(&format!("arith.cmpf olt, {size}, {small} : f32"));
        let value = self.f32(&format!("arith.select {is_small}, {near}, {far}"));
        self.intrinsic("copysign", "f32", &[&value, x])
    }

    /// Horner's rule, from the highest power.
    fn polynomial(&mut self, coefficients: &[f32], x: &str) -> String {
        let mut value = self.float(coefficients[0]);
        for &coefficient in &coefficients[1..] {
            let next = self.float(coefficient);
            value = self.fma(&value, x, &next);
        }
        value
    }

    /// The float 2^n of an i32 between -126 and 127, by its exponent field.
    fn power_of_two(&mut self, n: &str) -> String {
        let bias = self.plain("arith.constant 127 : i32");
        let place = self.plain("arith.constant 23 : i32");
        let field = self.plain(&format!("arith.addi {n}, {bias} : i32"));
        let bits = self.plain(&format!("arith.shli {field}, {place} : i32"));
        self.plain(&format!("arith.bitcast {bits} : i32 to f32"))
    }

    fn float(&mut self, number: f32) -> String {
        self.number(f64::from(number), Element::F32)
    }

    fn fma(&mut self, a: &str, b: &str, c: &str) -> String {
        self.intrinsic("fma", "f32", &[a, b, c])
    }

    fn f32(&mut self, operation: &str) -> String {
        self.op("f32", operation)
    }
}
