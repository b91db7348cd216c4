//! The link between device and host as people write it, in the ticks of a graph.

use std::str::FromStr;

use super::{Engine, Host};
use crate::graph::{Graph, Value};
use crate::units::{Budget, BudgetError, Bytes, Time, decimal, split};

/// Bytes per second: "25GB/s", "12.5 GiB/s".
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rate(pub u64);

/// Nanoseconds in front of each transfer: "10us".
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Latency(pub u64);

/// Why a text is no rate or no latency.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LinkError {
    /// No bytes per second.
    #[error("{0:?} is no rate such as 25GB/s or 12.5GiB/s")]
    NoRate(String),
    /// Zero bytes per second.
    #[error("{0:?} moves nothing; leave offload out to plan without transfers")]
    Still(String),
    /// No time, a negative one, or more than an hour.
    #[error("{0:?} is no latency such as 10us, 500ns or 1ms")]
    NoLatency(String),
}

impl FromStr for Rate {
    type Err = LinkError;

    fn from_str(text: &str) -> Result<Self, LinkError> {
        let wrong = || LinkError::NoRate(text.to_owned());
        let bytes = text.trim().strip_suffix("/s").ok_or_else(wrong)?;
        match bytes.parse() {
            Ok(Budget::Bytes(bytes)) => Ok(Self(bytes.0)),
            Err(BudgetError::Zero { .. }) => Err(LinkError::Still(text.to_owned())),
            _ => Err(wrong()),
        }
    }
}

impl FromStr for Latency {
    type Err = LinkError;

    fn from_str(text: &str) -> Result<Self, LinkError> {
        let wrong = || LinkError::NoLatency(text.to_owned());
        let (number, unit) = split(text);
        let per_unit = 1_000_000_000 / u128::from(per_second(unit).ok_or_else(wrong)?);
        let (digits, denominator) = decimal(text, number).map_err(|_| wrong())?;
        let doubled = digits.checked_mul(2 * per_unit).ok_or_else(wrong)?;
        let nanoseconds = (doubled + denominator) / (2 * denominator);
        // An hour is more than any copy waits.
        match u64::try_from(nanoseconds) {
            Ok(nanoseconds) if nanoseconds <= 3_600_000_000_000 => Ok(Self(nanoseconds)),
            _ => Err(wrong()),
        }
    }
}

/// How many of a unit of time make a second, for `s`, `ms`, `us` and `ns`.
pub fn per_second(unit: &str) -> Option<u64> {
    Some(match unit.trim().to_lowercase().as_str() {
        "s" | "sec" | "second" | "seconds" => 1,
        "ms" | "millisecond" | "milliseconds" => 1_000,
        "us" | "µs" | "μs" | "microsecond" | "microseconds" => 1_000_000,
        "ns" | "nanosecond" | "nanoseconds" => 1_000_000_000,
        _ => return None,
    })
}

impl Host {
    /// A link with the same rate and latency in both directions, where so many ticks make a second.
    pub fn behind(rate: Rate, latency: Latency, ticks_per_second: u128, budget: Option<Bytes>) -> Self {
        let (mut bytes, mut ticks) = (u128::from(rate.0), ticks_per_second);
        let common = gcd(bytes, ticks);
        (bytes, ticks) = (bytes / common, ticks / common);
        while ticks > u128::from(u64::MAX) {
            // A little slower, never faster.
            (bytes, ticks) = (bytes / 2, ticks.div_ceil(2));
        }
        let latency = (u128::from(latency.0) * ticks_per_second).div_ceil(1_000_000_000);
        let clamped = |number: u128| u64::try_from(number).unwrap_or(u64::MAX);
        let engine = Engine { bytes: clamped(bytes), ticks: clamped(ticks), latency: Time(clamped(latency)) };
        Self { offload: engine, fetch: engine, budget }
    }
}

/// The smallest value that is larger than a host's budget, if every value that could be moved is: then nothing could ever wait there.
pub fn nothing_fits(graph: &Graph, budget: Bytes) -> Option<&Value> {
    let could = graph.values().iter().filter(|value| !value.pinned && value.bytes.0 > 0);
    could.min_by_key(|value| value.bytes).filter(|least| least.bytes > budget)
}

fn gcd(one: u128, other: u128) -> u128 {
    if other == 0 { one.max(1) } else { gcd(other, one % other) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_and_latencies_as_people_write_them() {
        assert_eq!("25GB/s".parse(), Ok(Rate(25_000_000_000)));
        assert_eq!(" 12.5 GiB/s".parse(), Ok(Rate(25 << 29)));
        for text in ["", "25GB", "-25GB/s", "50%/s", "fast/s", "25 GB/h"] {
            assert_eq!(text.parse::<Rate>(), Err(LinkError::NoRate(text.to_owned())));
        }
        assert_eq!("0GB/s".parse::<Rate>(), Err(LinkError::Still("0GB/s".to_owned())));
        for (text, expected) in [("10us", 10_000), ("0s", 0), ("1.5 µs", 1_500), ("0.6ns", 1), ("1h", 0)] {
            let latency = text.parse::<Latency>();
            assert_eq!(latency.ok(), (text != "1h").then_some(Latency(expected)), "{text}");
        }
        for text in ["", "10", "-1us", "3601s", "3 parsecs", "1e3us", "99999999999999999999999999999999s"] {
            assert_eq!(text.parse::<Latency>(), Err(LinkError::NoLatency(text.to_owned())));
        }
    }

    #[test]
    fn a_link_in_ticks_is_never_faster() {
        let host = Host::behind(Rate(25_000_000_000), Latency(1_500), 1_000_000, None);
        assert_eq!(host.offload, Engine { bytes: 25_000, ticks: 1, latency: Time(2) });
        let slow = Host::behind(Rate(7), Latency(0), 2 * u128::from(u64::MAX), Some(Bytes(1)));
        assert_eq!((slow.fetch.bytes, slow.fetch.ticks, slow.budget), (3, u64::MAX, Some(Bytes(1))));
    }
}
