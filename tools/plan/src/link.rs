//! The link of the command line, `--bandwidth`, `--latency` and `--host-budget`, in the ticks of a graph.

use anyhow::{Result, bail};
use rk_plan::{Budget, Bytes, Engine, Graph, Host, Time, readable};

/// Bytes per second as people write them: "25GB/s", "12.5 GiB/s".
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rate(pub u64);

/// Nanoseconds, as in "10us".
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Latency(pub u64);

/// Reads a rate.
pub fn parse_rate(text: &str) -> Result<Rate, String> {
    let wrong = || format!("'{text}' is no rate such as 25GB/s or 12.5GiB/s");
    let bytes = text.trim().strip_suffix("/s").ok_or_else(wrong)?;
    match bytes.parse() {
        Ok(Budget::Bytes(bytes)) => Ok(Rate(bytes.0)),
        Err(rk_plan::BudgetError::Zero { .. }) => {
            Err(format!("'{text}' moves nothing; leave --offload out to plan without transfers"))
        }
        _ => Err(wrong()),
    }
}

/// Reads a latency.
pub fn parse_latency(text: &str) -> Result<Latency, String> {
    let wrong = || format!("'{text}' is no latency such as 10us, 500ns or 1ms");
    let trimmed = text.trim();
    let end = trimmed.find(|letter: char| letter.is_alphabetic()).unwrap_or(trimmed.len());
    let (number, unit) = (trimmed[..end].trim(), &trimmed[end..]);
    let per_unit = per_second(unit).ok_or_else(wrong)?;
    let number: f64 = number.parse().map_err(|_| wrong())?;
    let nanoseconds = number * (1e9 / per_unit as f64);
    // An hour is more than any copy waits.
    if (0.0..=3.6e12).contains(&nanoseconds) { Ok(Latency(nanoseconds.round() as u64)) } else { Err(wrong()) }
}

/// How many of a unit of time make a second.
fn per_second(unit: &str) -> Option<u64> {
    Some(match unit.trim().to_lowercase().as_str() {
        "s" | "sec" | "second" | "seconds" => 1,
        "ms" | "millisecond" | "milliseconds" => 1_000,
        "us" | "µs" | "μs" | "microsecond" | "microseconds" => 1_000_000,
        "ns" | "nanosecond" | "nanoseconds" => 1_000_000_000,
        _ => return None,
    })
}

/// The link in ticks, and the unit of time that the graph was taken to have if it names none that is known.
pub fn host(
    graph: &Graph,
    rate: Rate,
    latency: Latency,
    budget: Option<Bytes>,
) -> Result<(Host, Option<&'static str>)> {
    if let Some(budget) = budget {
        enough_for_a_value(graph, budget)?;
    }
    let known = per_second(graph.time_unit());
    let ticks = u128::from(known.unwrap_or(1_000_000)) * u128::from(graph.ticks_per_unit());
    let (mut bytes, mut per) = (u128::from(rate.0), ticks);
    let common = gcd(bytes, per);
    (bytes, per) = (bytes / common, per / common);
    while per > u128::from(u64::MAX) {
        // A little slower, never faster.
        (bytes, per) = ((bytes / 2).max(1), per.div_ceil(2));
    }
    let latency = (u128::from(latency.0) * ticks).div_ceil(1_000_000_000);
    let engine = Engine {
        bytes: u64::try_from(bytes).unwrap_or(u64::MAX),
        ticks: u64::try_from(per).unwrap_or(u64::MAX),
        latency: Time(u64::try_from(latency).unwrap_or(u64::MAX)),
    };
    Ok((Host { offload: engine, fetch: engine, budget }, known.is_none().then_some("us")))
}

/// A host's budget in which no value could ever wait is a mistake.
fn enough_for_a_value(graph: &Graph, budget: Bytes) -> Result<()> {
    let could = graph.values().iter().filter(|value| !value.pinned && value.bytes.0 > 0);
    if let Some(least) = could.min_by_key(|value| value.bytes)
        && least.bytes > budget
    {
        let (name, bytes) = (&least.name, readable(least.bytes));
        bail!(
            "--host-budget {}: the smallest value, '{name}', has {bytes}; nothing could wait there",
            readable(budget)
        );
    }
    Ok(())
}

fn gcd(one: u128, other: u128) -> u128 {
    if other == 0 { one.max(1) } else { gcd(other, one % other) }
}
