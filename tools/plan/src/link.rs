//! The link of the command line, `--bandwidth`, `--latency` and `--host-budget`, in the ticks of a graph.

use anyhow::{Result, bail};
use rk_plan::transfer::{Latency, LinkError, Rate, nothing_fits, per_second};
use rk_plan::{Bytes, Graph, Host, readable};

/// Reads a rate.
pub fn parse_rate(text: &str) -> Result<Rate, String> {
    text.parse().map_err(|error| match error {
        LinkError::Still(_) => {
            format!("'{text}' moves nothing; leave --offload out to plan without transfers")
        }
        _ => format!("'{text}' is no rate such as 25GB/s or 12.5GiB/s"),
    })
}

/// Reads a latency.
pub fn parse_latency(text: &str) -> Result<Latency, String> {
    text.parse().map_err(|_: LinkError| format!("'{text}' is no latency such as 10us, 500ns or 1ms"))
}

/// The link in ticks, and the unit of time that the graph was taken to have if it names none that is known.
pub fn host(
    graph: &Graph,
    rate: Rate,
    latency: Latency,
    budget: Option<Bytes>,
) -> Result<(Host, Option<&'static str>)> {
    if let Some(budget) = budget
        && let Some(least) = nothing_fits(graph, budget)
    {
        let (name, bytes) = (&least.name, readable(least.bytes));
        bail!(
            "--host-budget {}: the smallest value, '{name}', has {bytes}; nothing could wait there",
            readable(budget)
        );
    }
    let known = per_second(graph.time_unit());
    let ticks = u128::from(known.unwrap_or(1_000_000)) * u128::from(graph.ticks_per_unit());
    Ok((Host::behind(rate, latency, ticks, budget), known.is_none().then_some("us")))
}
