//! A module as data: nodes with costs, runs in order, classes where they are known. For scripts and notebooks.
//!
//! ```json
//! {"name": "step", "stage": "scheduled", "nodes": [{"name": "layer1.0.conv1", "operators": ["aten.convolution.default"], ...}],
//!  "schedule": [{"run": "layer1.0.conv1"}, {"drop": "layer1.0.relu"}, {"run": "layer1.0.relu", "again": true}]}
//! ```
//!
//! From stage `blocks` on there are `blocks`, and `classes` with every block in exactly one:
//! `"classes": [{"id": 0, "members": ["layer1.0", "layer1.1"]}]`. A scheduled step whose plan has a layout has `"offsets"`, as `rk-plan --json` does. Where values
//! wait in host memory there are lines `{"offload": NAME}`, `{"fetch": NAME}` and `{"wait": NAME}`; `"host": true` marks the wait for, and the
//! drop of, a copy there. Stages before `simplified` have no nodes; their calls are listed as `operators` of the step.

use std::collections::BTreeMap;

use rk_dialect::blocks::{self, ClassedBlock};
use rk_dialect::ops::{self, AtenOp, DropOp, Execution, NodeOp, StepOp, Transfer, WaitOp};
use rk_dialect::{Attr, Op, PlanSummary, Recorded, Stage, Value, names, transfers};
use serde_json::{Map, Value as Json, json};

/// One step of a module.
pub fn to_json<'c>(step: StepOp<'c>, module: Op<'c>) -> Json {
    let mut json = Map::new();
    json.insert("name".into(), step.symbol().into());
    json.insert("stage".into(), step.stage().as_str().into());
    for name in Recorded::NAMES {
        json.extend(module.get(name).map(|value| (short(name), plain(value))));
    }
    for name in PlanSummary::NAMES.into_iter().filter(|name| *name != PlanSummary::OFFSETS) {
        json.extend(step.op().get(name).map(|value| (short(name), plain(value))));
    }
    let runs: Vec<Execution<'c>> = step.body().ops().into_iter().filter_map(Execution::of).collect();
    if step.stage() < Stage::Simplified {
        let calls = step.body().ops().into_iter().filter_map(AtenOp::of);
        json.insert("operators".into(), calls.map(|call| call_json(call)).collect());
        return Json::Object(json);
    }
    let places = ops::nodes_by_symbol(module);
    let first = runs.iter().filter(|run| !run.is_again());
    let mut of_step: Vec<(usize, NodeOp<'c>, Execution<'c>)> =
        first.filter_map(|run| places.get(run.symbol()).map(|&(place, node)| (place, node, *run))).collect();
    of_step.sort_unstable_by_key(|(place, ..)| *place);
    json.insert("nodes".into(), of_step.into_iter().map(|(_, node, run)| node_json(node, run)).collect());
    if let Some(blocks) = blocks::of(step) {
        json.insert("blocks".into(), blocks.iter().map(block_json).collect());
        json.insert("classes".into(), classes_json(&blocks));
    }
    if step.stage() >= Stage::Scheduled {
        json.insert("schedule".into(), step.body().ops().into_iter().filter_map(line_json).collect());
        json.extend(PlanSummary::of(step).offsets.map(|all| ("offsets".into(), all.into())));
    }
    Json::Object(json)
}

fn short(name: &str) -> String {
    name.trim_start_matches("rk.").to_owned()
}

fn plain(value: Attr<'_>) -> Json {
    (value.as_i64().map(Json::from))
        .or_else(|| value.as_str().map(Json::from))
        .unwrap_or_else(|| value.to_string().into())
}

fn call_json(call: AtenOp<'_>) -> Json {
    json!({
        "operator": call.operator(),
        "path": call.module_path(),
        "backward": call.is_backward(),
        "time_ns": call.cost().map(|cost| cost.time),
        "workspace_bytes": call.cost().map(|cost| cost.workspace),
    })
}

fn node_json(node: NodeOp<'_>, run: Execution<'_>) -> Json {
    let bytes =
        |values: Vec<Value<'_>>| values.into_iter().map(|value| value.ty().bytes()).collect::<Vec<_>>();
    json!({
        "name": node.symbol(),
        "path": node.calls().last().map(|call| call.module_path()),
        "operators": node.calls().into_iter().map(AtenOp::operator).collect::<Vec<_>>(),
        "inputs": run.inputs().into_iter().map(names::of).collect::<Vec<_>>(),
        "output_bytes": bytes(run.outputs()),
        "time_ns": node.cost().map(|cost| cost.time),
        "workspace_bytes": node.cost().map(|cost| cost.workspace),
        "backward": node.is_backward(),
        "random": node.is_random(),
        "once": node.is_once(),
        "block": node.block(),
        "node_class": node.node_class(),
        "overwrites": node.overwrites(),
    })
}

fn block_json(block: &ClassedBlock<'_>) -> Json {
    json!({
        "name": block.name,
        "class": block.class,
        "forward_class": block.forward_class,
        "spelling": block.spelling,
        "cost_class": block.cost_class,
    })
}

/// Every class with its blocks, in order of their first block.
fn classes_json(blocks: &[ClassedBlock<'_>]) -> Json {
    let mut members: BTreeMap<i64, Vec<&str>> = BTreeMap::new();
    blocks.iter().for_each(|block| members.entry(block.class).or_default().push(block.name));
    members.into_iter().map(|(id, members)| json!({"id": id, "members": members})).collect()
}

fn line_json(op: Op<'_>) -> Option<Json> {
    if let Some(run) = Execution::of(op) {
        let mut line = json!({"run": run.symbol()});
        for (name, on) in [("again", run.is_again()), ("overwrite", run.is_overwrite())] {
            if on {
                line[name] = true.into();
            }
        }
        return Some(line);
    }
    let line = |what: &str, value: Value<'_>| {
        // A copy in host memory has the name of its value.
        let mut line = json!({what: names::of(transfers::origin(value))});
        if value.ty().is_host() && what != "fetch" {
            line["host"] = true.into();
        }
        Some(line)
    };
    match (Transfer::of(op), WaitOp::of(op), DropOp::of(op)) {
        (Some(Transfer::Offload(offload)), ..) => line("offload", offload.value()?),
        (Some(Transfer::Fetch(fetch)), ..) => line("fetch", fetch.copy()?),
        (_, Some(wait), _) => line("wait", wait.value()?),
        (.., Some(drop)) => line("drop", drop.value()?),
        _ => None,
    }
}
