//! Save budgets: for how many bytes a block of [`crate::chain_dp::rockmate`] gets an option each, and how they are spread.
//!
//! All lie between nothing and everything that the block would keep, nothing is always among them, and everything is an option anyhow.
//! Rockmate's users choose the number; `rk-bench options` says what the choice is worth.

use std::fmt;
use std::str::FromStr;

/// How many save budgets a block has, and where they lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SaveBudgets {
    /// At least one.
    pub count: u32,
    /// Where they lie.
    pub spread: Spread,
}

impl Default for SaveBudgets {
    fn default() -> Self {
        Self { count: 24, spread: Spread::Linear }
    }
}

/// Where save budgets lie between nothing and everything.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Spread {
    /// At equal distances.
    #[default]
    Linear,
    /// Each the same part of the one above, down to a thousandth of everything: close to each other near nothing.
    Geometric,
    /// The same from above: close to each other near everything.
    Mirrored,
}

/// The smallest part of everything that is not nothing, in a geometric spread.
const SMALLEST: f64 = 1.0 / 1024.0;

impl SaveBudgets {
    /// The budgets of a block that would keep `most` bytes, in decreasing order, the last one nothing.
    pub(crate) fn of(self, most: i128) -> impl Iterator<Item = i128> {
        let count = i128::from(self.count.max(1));
        (0..count).rev().map(move |step| match self.spread {
            Spread::Linear => most * step / count,
            _ if step == 0 => 0,
            Spread::Geometric => part(most, (count - step) as f64 / (count - 1) as f64),
            Spread::Mirrored => most - part(most, step as f64 / (count - 1) as f64),
        })
    }
}

/// What is left of `most` after this share of the way to [`SMALLEST`].
fn part(most: i128, share: f64) -> i128 {
    (most as f64 * SMALLEST.powf(share)) as i128
}

impl Spread {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Linear, Self::Geometric, Self::Mirrored];

    /// The name that people type.
    pub fn name(self) -> &'static str {
        match self {
            Self::Linear => "linear",
            Self::Geometric => "geometric",
            Self::Mirrored => "mirrored",
        }
    }
}

impl fmt::Display for Spread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// The text names no spread.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown spread {0:?}; there are linear, geometric and mirrored")]
pub struct UnknownSpread(String);

impl FromStr for Spread {
    type Err = UnknownSpread;

    fn from_str(text: &str) -> Result<Self, UnknownSpread> {
        let found = Self::ALL.into_iter().find(|spread| spread.name() == text);
        found.ok_or_else(|| UnknownSpread(text.into()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_spread_falls_from_below_everything_to_nothing() {
        for spread in Spread::ALL {
            assert_eq!(spread.name().parse(), Ok(spread));
            for count in [1, 2, 3, 24, 100] {
                let budgets: Vec<i128> = SaveBudgets { count, spread }.of(1 << 30).collect();
                assert_eq!((budgets.len(), budgets.last()), (count as usize, Some(&0)), "{spread} {count}");
                assert!(budgets[0] < 1 << 30 && budgets.is_sorted_by(|above, below| above > below));
            }
        }
        let spread = |spread| SaveBudgets { count: 3, spread }.of(1024).collect::<Vec<_>>();
        assert_eq!(spread(Spread::Linear), [682, 341, 0]);
        assert_eq!(spread(Spread::Geometric), [32, 1, 0]);
        assert_eq!(spread(Spread::Mirrored), [1023, 992, 0]);
    }
}
