//! How a part of the parameters is written: one line of meaning, type, default and legal values for each knob.

/// A knob: a number that tunes the planner.
#[derive(Clone, Debug, PartialEq)]
pub struct Knob {
    /// The name of its part, a dot, and its own: `race.newcomers`.
    pub name: String,
    /// Its unit and its effect.
    pub effect: &'static str,
    /// What it is set to.
    pub value: f64,
    /// The least and the greatest legal value.
    pub range: (f64, f64),
    /// Only whole numbers are legal.
    pub is_whole: bool,
}

impl Knob {
    /// The value times `factor`, as near as is legal; none where that is the value itself.
    pub fn scaled(&self, factor: f64) -> Option<f64> {
        let exact = (self.value * factor).clamp(self.range.0, self.range.1);
        let scaled = if self.is_whole { exact.round() } else { exact };
        (scaled != self.value).then_some(scaled)
    }
}

/// A share of something.
pub(super) const SHARE: (f64, f64) = (0.0, 1.0);
/// A number of things. Products of two of them and of a number of nodes have to stay below 2^63.
pub(super) const COUNT: (f64, f64) = (1.0, 1e6);
/// A factor of a quantity that may be tiny.
pub(super) const FACTOR: (f64, f64) = (1e-6, 1e6);

/// The struct of a part, its defaults, how it is read from a file, and the list of its knobs.
macro_rules! part {
    ($(#[$meta:meta])* $part:ident {
        $(#[doc = $effect:literal] $field:ident: $type:ty = $value:expr, $range:expr;)*
    }) => {
        $(#[$meta])*
        #[derive(Clone, Debug, PartialEq, serde::Deserialize)]
        #[serde(default, deny_unknown_fields)]
        pub struct $part { $(#[doc = $effect] pub $field: $type,)* }

        impl Default for $part {
            fn default() -> Self {
                Self { $($field: $value,)* }
            }
        }

        impl $part {
            pub(super) fn knobs(&self, part: &str) -> Vec<$crate::params::Knob> {
                vec![$($crate::params::Knob {
                    name: format!("{part}.{}", stringify!($field)),
                    effect: $effect.trim_ascii_start(),
                    value: self.$field as f64,
                    range: $range,
                    is_whole: <$type>::MAX as f64 != f64::MAX,
                },)*]
            }
        }
    };
}

pub(super) use part;
