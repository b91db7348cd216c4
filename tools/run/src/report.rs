//! What `rk-run` prints: one JSON object, or a table for people.

use rk_runtime::Report;
use rk_step::Plan;
use rk_step::explain::bytes;
use serde_json::{Value, json};

/// One JSON object on one line. A number that is not there (no check, no budget) or not finite is `null`.
pub fn json(plan: &Plan, report: &Report) -> String {
    let verdict = report.verdict.as_ref();
    let difference = verdict.and_then(|v| v.difference.as_ref());
    let counts = report.measured.counts;
    let queued = report.measured.queued;
    let max_abs = verdict.map(|_| difference.map_or(0.0, |d| d.max_abs));
    let object = json!({
        "budget_bytes": plan.budget_bytes,
        "planned_peak_bytes": plan.planned_peak_bytes,
        "measured_peak_bytes": report.measured.peak_bytes,
        "arena_bytes": plan.arena_bytes,
        "outside_allocations": counts.map(|c| c.outside),
        "placed_allocations": counts.map(|c| c.placed),
        "moved_results": counts.map(|c| c.moved),
        "graphs": queued.map(|q| q.graphs),
        "captured_launches": queued.map(|q| q.captured),
        "queued_launches": queued.map(|q| q.launches),
        "step_seconds": report.step_seconds,
        "baseline_step_seconds": report.baseline_step_seconds,
        "step_over_baseline": report.step_over_baseline,
        "step_over_beside": report.step_over_beside,
        "nodes_over_beside": report.nodes_over_beside,
        "baseline_peak_bytes": report.baseline_peak_bytes,
        "max_abs_diff": max_abs,
        "bit_equal": verdict.map(|_| difference.is_none()),
        "device": report.device,
        "threads": report.threads,
        "resident_bytes": report.measured.resident_bytes,
        "peak_node": report.measured.peak_node,
        "reruns": report.reruns,
        "baseline": report.baseline,
        "planned_baseline_peak_bytes": plan.base_peak_bytes,
        "eager_peak_bytes": report.eager_peak_bytes,
        "stated_ulps": report.nearness.map(|near| near.ulps),
        "stated_terms": report.nearness.map(|near| near.terms),
        "distance_ulps": verdict.and_then(|v| v.distance.as_ref()).map(|d| d.ulps),
        "distance_abs": verdict.and_then(|v| v.distance.as_ref()).map(|d| d.max_abs),
        "largest_distance": verdict.and_then(|v| v.distance.as_ref()).map(ToString::to_string),
        "steps_compared": verdict.map(|v| v.steps),
        "tensors_compared": verdict.map(|v| v.tensors),
        "first_difference": difference.map(ToString::to_string),
        "excess": report.measured.excess.as_ref().map_or(Value::Null, |e| json!({
            "node": e.node,
            "planned_bytes": e.planned_bytes,
            "measured_bytes": e.measured_bytes,
        })),
        "status": plan.status,
        "solver": plan.solver,
    });
    format!("{object}\n")
}

/// One line per number.
pub fn table(plan: &Plan, report: &Report) -> String {
    let mut rows: Vec<(&str, String)> = vec![
        ("device", format!("{}, {} threads", report.device, report.threads)),
        ("budget", plan.budget_bytes.map_or("unlimited".into(), bytes)),
        ("planned peak", bytes(plan.planned_peak_bytes)),
        ("measured peak", format!("{} at {}", bytes(report.measured.peak_bytes), report.measured.peak_node)),
    ];
    if let (Some(arena), Some(counts)) = (plan.arena_bytes, report.measured.counts) {
        let text = format!("{}, {} allocations outside", bytes(arena), counts.outside);
        rows.push(("arena", text));
    }
    if let Some(queued) = report.measured.queued {
        let text =
            format!("{} graphs with {} launches, {} queued", queued.graphs, queued.captured, queued.launches);
        rows.push(("launches", text));
    }
    if let Some(peak) = report.baseline_peak_bytes {
        rows.push(("peak without second runs", bytes(peak)));
    }
    rows.push(("second runs", report.reruns.to_string()));
    if let Some(seconds) = report.step_seconds {
        let mut text = format!("{:.2} ms", seconds * 1e3);
        if let (Some(name), Some(baseline)) = (report.baseline, report.baseline_step_seconds) {
            let ratio = report.step_over_baseline.unwrap_or(seconds / baseline);
            text += &format!(" ({ratio:.3}x of {:.2} ms, {name})", baseline * 1e3);
        }
        rows.push(("time per step", text));
        if let Some(ratio) = report.step_over_beside {
            rows.push(("the step beside it", format!("{ratio:.3}x of its time")));
        }
    }
    if let Some(excess) = &report.measured.excess {
        let (planned, measured) = (bytes(excess.planned_bytes), bytes(excess.measured_bytes));
        rows.push(("more than planned", format!("{}: {measured} instead of {planned}", excess.node)));
    }
    if let Some(verdict) = &report.verdict {
        let text = match &verdict.difference {
            None => format!("equal: {} tensors over {} steps", verdict.tensors, verdict.steps),
            Some(difference) => format!("DIFFER: {difference}"),
        };
        rows.push(("bits", text));
        if let Some(near) = &report.nearness {
            let stated =
                format!("stated for a kernel: {} ulp, sums of up to {} terms", near.ulps, near.terms);
            let found = verdict.distance.as_ref().map_or("none".to_owned(), |distance| {
                format!("{:.1} ulp of the largest element, {distance}", distance.ulps)
            });
            rows.push(("distance from ATen", format!("{found} ({stated})")));
        }
    }
    rows.iter().map(|(name, value)| format!("{name:<26}{value}\n")).collect()
}
