//! Random factors that make every repair a different one: exp(σ·N), N almost normally distributed.
//!
//! N is the sum of four uniform numbers of 32 levels each, so that a factor is a product of four of 32 numbers: much sooner made than an
//! exponential.

use rand::Rng;
use rand_chacha::ChaCha8Rng;

const LEVELS: usize = 32;

/// Factors of one spread.
pub(super) struct Noise {
    factors: Option<[f64; LEVELS]>,
}

impl Noise {
    /// With σ = 0 every factor is 1, and no random number is drawn.
    pub(super) fn new(sigma: f64) -> Self {
        // The variance of four of them is a third.
        let spread = sigma * 3f64.sqrt();
        let factor = |level: usize| (spread * ((level as f64 + 0.5) / LEVELS as f64 - 0.5)).exp();
        Self { factors: (sigma > 0.0).then(|| std::array::from_fn(factor)) }
    }

    pub(super) fn factor(&self, random: &mut ChaCha8Rng) -> f64 {
        let Some(factors) = &self.factors else { return 1.0 };
        let bits = random.random::<u32>() as usize;
        (0..4).map(|place| factors[bits >> (5 * place) & (LEVELS - 1)]).product()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::SeedableRng;

    #[test]
    fn logarithms_have_mean_0_and_the_spread_asked_for() {
        let mut random = ChaCha8Rng::seed_from_u64(0);
        let noise = Noise::new(0.4);
        let logarithms: Vec<f64> = (0..20_000).map(|_| noise.factor(&mut random).ln()).collect();
        let mean = logarithms.iter().sum::<f64>() / logarithms.len() as f64;
        let variance = logarithms.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / logarithms.len() as f64;
        assert!(mean.abs() < 0.01 && (variance.sqrt() - 0.4).abs() < 0.01, "{mean} {variance}");
        let before = random.clone();
        assert!((Noise::new(0.0).factor(&mut random) - 1.0).abs() < f64::EPSILON);
        assert_eq!(random, before);
    }
}
