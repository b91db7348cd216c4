//! Types for indices, bytes and time, and the budget as a person writes it.
//!
//! Time is counted in integer ticks; a graph says how many ticks make one of its own units, so that decimal costs stay
//! exact. There is no floating point here: fractions of a peak are ratios of integers, rounded up to a byte.
//!
//! Not here: what a budget counts. That is the scope of the caller.

use std::fmt;
use std::iter::Sum;
use std::ops::{Add, AddAssign};
use std::str::FromStr;

/// A node of a [`Graph`](crate::Graph): its position in the given order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeId(pub u32);

/// A value of a [`Graph`](crate::Graph), numbered in the order of the producers and of their outputs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ValueId(pub u32);

macro_rules! index {
    ($name:ident) => {
        impl $name {
            /// The index into the tables of the graph.
            pub fn index(self) -> usize {
                self.0 as usize
            }

            /// The id with this index. Indices beyond `u32::MAX` do not exist in any graph and saturate.
            pub fn from_index(index: usize) -> Self {
                Self(u32::try_from(index).unwrap_or(u32::MAX))
            }
        }
    };
}
index!(NodeId);
index!(ValueId);

/// A number of bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Bytes(pub u64);

/// A time in ticks of the graph ([`Graph::ticks_per_unit`](crate::Graph::ticks_per_unit)).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Time(pub u64);

macro_rules! amount {
    ($name:ident) => {
        impl Add for $name {
            type Output = Self;
            // A graph is refused before its totals come near the limit; saturating keeps even absurd sums ordered.
            fn add(self, other: Self) -> Self {
                Self(self.0.saturating_add(other.0))
            }
        }
        impl AddAssign for $name {
            fn add_assign(&mut self, other: Self) {
                *self = *self + other;
            }
        }
        impl Sum for $name {
            fn sum<I: Iterator<Item = Self>>(items: I) -> Self {
                items.fold(Self(0), Add::add)
            }
        }
    };
}
amount!(Bytes);
amount!(Time);

impl fmt::Display for Bytes {
    /// Binary units where they are exact ("12KiB"), plain bytes otherwise ("12289B"): printing never rounds.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let units = [("PiB", 50), ("TiB", 40), ("GiB", 30), ("MiB", 20), ("KiB", 10)];
        match units.iter().find(|(_, shift)| self.0 != 0 && self.0.trailing_zeros() >= *shift) {
            Some((unit, shift)) => write!(f, "{}{unit}", self.0 >> shift),
            None => write!(f, "{}B", self.0),
        }
    }
}

/// Bytes in decimal text with a readable unit, rounded up in the third digit ("2.40 GiB"): for messages only.
pub fn readable(bytes: Bytes) -> String {
    let units = [("EiB", 60u32), ("PiB", 50), ("TiB", 40), ("GiB", 30), ("MiB", 20), ("KiB", 10)];
    match units.iter().find(|(_, shift)| bytes.0 >> shift != 0) {
        Some((unit, shift)) => {
            let hundredths = (u128::from(bytes.0) * 100).div_ceil(1u128 << shift);
            format!("{}.{:02} {unit}", hundredths / 100, hundredths % 100)
        }
        None => format!("{} B", bytes.0),
    }
}

/// A budget as written: an amount, or a part of the peak without rematerialization.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Budget {
    /// An absolute number of bytes.
    Bytes(Bytes),
    /// `numerator / denominator` of the base peak.
    Fraction {
        /// Not zero.
        numerator: u64,
        /// Not zero.
        denominator: u64,
    },
}

/// Why a text is not a budget.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BudgetError {
    /// No digits, a sign, several points, NaN, ...
    NotANumber {
        /// The whole text.
        text: String,
        /// The part in front of the unit.
        number: String,
    },
    /// What follows the number is unknown.
    UnknownUnit {
        /// The whole text.
        text: String,
        /// The part behind the number.
        unit: String,
    },
    /// Nothing fits in nothing.
    Zero {
        /// The whole text.
        text: String,
    },
    /// More than an unsigned 64-bit number of bytes.
    TooLarge {
        /// The whole text.
        text: String,
    },
    /// A share above the whole: a step takes no more than its peak.
    AboveTheWhole {
        /// The whole text.
        text: String,
    },
    /// A part of a byte.
    PartOfAByte {
        /// The whole text.
        text: String,
    },
}

impl BudgetError {
    /// The same of an option that has another name than `budget`.
    pub fn about(&self, option: &str) -> String {
        match self {
            Self::NotANumber { text, number } => {
                format!(
                    "{option} {text:?}: {number:?} is not a positive decimal number; write bytes, 2GiB or 60%"
                )
            }
            Self::UnknownUnit { text, unit } => format!(
                "{option} {text:?}: unknown unit {unit:?}; use B, KB, MB, GB, TB, KiB, MiB, GiB, TiB or %"
            ),
            Self::Zero { text } => format!("{option} {text:?} is zero"),
            Self::TooLarge { text } => format!("{option} {text:?} is too large: more than 16 EiB"),
            Self::AboveTheWhole { text } => {
                format!(
                    "{option} {text:?}: a share lies above 0% and up to 100%; a larger budget is given in bytes"
                )
            }
            Self::PartOfAByte { text } => format!(
                "{option} {text:?}: a plain number is bytes and must be whole; write 50% for a fraction of the peak"
            ),
        }
    }
}

impl fmt::Display for BudgetError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.about("budget"))
    }
}

impl std::error::Error for BudgetError {}

impl Budget {
    /// Like `parse`, and a plain number with a point is a fraction of the base peak ("0.5"), as `check_schedule.py` reads it.
    ///
    /// # Errors
    /// [`BudgetError`] says which part of the text is not understood.
    pub fn parse_with_fractions(text: &str) -> Result<Self, BudgetError> {
        let (number, unit) = split(text);
        if unit.is_empty() && number.contains('.') { fraction(text, number, 1) } else { text.parse() }
    }

    /// The bytes meant, given the peak without rematerialization. Fractions are rounded up to a byte.
    pub fn resolve(self, base_peak: Bytes) -> Bytes {
        match self {
            Self::Bytes(bytes) => bytes,
            Self::Fraction { numerator, denominator } => {
                let exact = u128::from(base_peak.0) * u128::from(numerator);
                Bytes(u64::try_from(exact.div_ceil(u128::from(denominator))).unwrap_or(u64::MAX))
            }
        }
    }
}

impl FromStr for Budget {
    type Err = BudgetError;

    /// Reads "2GiB", "500MB", "12KiB", plain bytes, or a percentage of the base peak ("60%", "62.5 %").
    fn from_str(text: &str) -> Result<Self, BudgetError> {
        let (number, unit) = split(text);
        if unit == "%" {
            return fraction(text, number, 100);
        }
        let scale: u128 = match unit {
            "" | "B" => 1,
            "kB" | "KB" => 1_000,
            "MB" => 1_000_000,
            "GB" => 1_000_000_000,
            "TB" => 1_000_000_000_000,
            "PB" => 1_000_000_000_000_000,
            "EB" => 1_000_000_000_000_000_000,
            "ZB" => 1_000_000_000_000_000_000_000,
            "KiB" => 1 << 10,
            "MiB" => 1 << 20,
            "GiB" => 1 << 30,
            "TiB" => 1 << 40,
            "PiB" => 1 << 50,
            "EiB" => 1 << 60,
            "ZiB" => 1 << 70,
            _ if number.is_empty() => return Err(not_a_number(text, text.trim())),
            _ => return Err(BudgetError::UnknownUnit { text: text.into(), unit: unit.into() }),
        };
        let (digits, denominator) = decimal(text, number)?;
        if denominator != 1 && scale == 1 {
            return Err(BudgetError::PartOfAByte { text: text.into() });
        }
        // Rounded down: a budget of 0.3KiB must not become 308 bytes.
        let bytes = digits.checked_mul(scale).map(|product| product / denominator);
        match bytes.and_then(|bytes| u64::try_from(bytes).ok()) {
            Some(0) => Err(BudgetError::Zero { text: text.into() }),
            Some(bytes) => Ok(Self::Bytes(Bytes(bytes))),
            None => Err(BudgetError::TooLarge { text: text.into() }),
        }
    }
}

impl fmt::Display for Budget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bytes(bytes) => bytes.fmt(f),
            Self::Fraction { numerator, denominator } => write!(f, "{numerator}/{denominator} of the peak"),
        }
    }
}

pub(crate) fn split(text: &str) -> (&str, &str) {
    let text = text.trim();
    let end = text.find(|c: char| !(c.is_ascii_digit() || c == '.')).unwrap_or(text.len());
    (&text[..end], text[end..].trim_start())
}

fn not_a_number(text: &str, number: &str) -> BudgetError {
    BudgetError::NotANumber { text: text.into(), number: number.into() }
}

/// "12.5" as (125, 10).
pub(crate) fn decimal(text: &str, number: &str) -> Result<(u128, u128), BudgetError> {
    let (whole, part) = number.split_once('.').unwrap_or((number, ""));
    let digits = format!("{whole}{}", part.trim_end_matches('0'));
    let good = !whole.is_empty() && digits.bytes().all(|b| b.is_ascii_digit());
    if !good || part.len() > 18 {
        return Err(not_a_number(text, number));
    }
    let denominator = 10u128.pow(part.trim_end_matches('0').len() as u32);
    let digits = digits.parse().map_err(|_| BudgetError::TooLarge { text: text.into() })?;
    Ok((digits, denominator))
}

fn fraction(text: &str, number: &str, of: u128) -> Result<Budget, BudgetError> {
    let (digits, denominator) = decimal(text, number)?;
    let too_large = |_| BudgetError::TooLarge { text: text.into() };
    let numerator = u64::try_from(digits).map_err(too_large)?;
    let denominator = u64::try_from(denominator * of).map_err(too_large)?;
    match numerator {
        0 => Err(BudgetError::Zero { text: text.into() }),
        _ if numerator > denominator => Err(BudgetError::AboveTheWhole { text: text.into() }),
        _ => Ok(Budget::Fraction { numerator, denominator }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(text: &str) -> u64 {
        match text.parse::<Budget>() {
            Ok(budget) => budget.resolve(Bytes(1001)).0,
            Err(error) => panic!("{error}"),
        }
    }

    #[test]
    fn budgets_as_people_write_them() {
        assert_eq!(bytes("2GiB"), 2 << 30);
        assert_eq!(bytes("500MB"), 500_000_000);
        assert_eq!(bytes("12KiB"), 12 << 10);
        assert_eq!(bytes("1.5 KiB"), 1536);
        assert_eq!(bytes("4096"), 4096);
        assert_eq!(bytes("50%"), 501, "half of 1001 bytes, rounded up");
        assert_eq!(bytes("62.5 %"), 626);
        assert_eq!(Budget::parse_with_fractions("0.5").map(|b| b.resolve(Bytes(1001))), Ok(Bytes(501)));
        assert_eq!(Budget::parse_with_fractions("1.0").map(|b| b.resolve(Bytes(1001))), Ok(Bytes(1001)));
        assert_eq!(Budget::parse_with_fractions("17").map(|b| b.resolve(Bytes(1001))), Ok(Bytes(17)));
    }

    #[test]
    fn nonsense_is_refused_by_name() {
        type E = BudgetError;
        let error = |text: &str| text.parse::<Budget>().expect_err(text);
        assert!(matches!(error("0"), E::Zero { .. }));
        assert!(matches!(error("0%"), E::Zero { .. }));
        assert!(matches!(error("100.1%"), E::AboveTheWhole { .. }));
        assert!(matches!(Budget::parse_with_fractions("1.1"), Err(E::AboveTheWhole { .. })));
        assert!(matches!(error("-1"), E::NotANumber { .. }));
        assert!(matches!(error("NaN"), E::NotANumber { .. }));
        assert!(matches!(error(""), E::NotANumber { .. }));
        assert!(matches!(error("1.2.3"), E::NotANumber { .. }));
        assert!(matches!(error("10ZB"), E::TooLarge { .. }));
        assert!(matches!(error("99999999999999999999"), E::TooLarge { .. }));
        assert!(matches!(error("5 %%"), E::UnknownUnit { .. }));
        assert!(matches!(error("7 bananas"), E::UnknownUnit { .. }));
        assert!(matches!(error("0.5"), E::PartOfAByte { .. }));
        insta::assert_snapshot!(error("2GIB"), @r#"budget "2GIB": unknown unit "GIB"; use B, KB, MB, GB, TB, KiB, MiB, GiB, TiB or %"#);
        insta::assert_snapshot!(error("lots").about("host-budget"), @r#"host-budget "lots": "lots" is not a positive decimal number; write bytes, 2GiB or 60%"#);
    }

    #[test]
    fn bytes_print_exactly() {
        let texts: Vec<String> = [0, 12 << 10, 12289, 3 << 40].map(|b| Bytes(b).to_string()).into();
        assert_eq!(texts, ["0B", "12KiB", "12289B", "3TiB"]);
        assert_eq!(readable(Bytes(2_600_000_000)), "2.43 GiB");
    }
}
