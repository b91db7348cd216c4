//! Code once per class, in the file: a node whose calls are those of an earlier node has that node's number in place of them.
//!
//! Calls name locals and no paths, so the nodes of equal blocks have the same calls to the letter; in a deep network most
//! nodes do. In memory every node has its own, so that nobody else needs to know.

use std::collections::HashMap;
use std::fmt;

use serde::de::{Deserializer, SeqAccess, Visitor};
use serde_json::Value as Json;

use super::{Call, Step};
use crate::error::Invalid;

/// In the JSON of a step, puts numbers of earlier nodes in place of calls that stand there already.
pub(crate) fn share(step: &mut Json) {
    let Some(nodes) = step.get_mut("nodes").and_then(Json::as_array_mut) else { return };
    let mut first: HashMap<String, usize> = HashMap::new();
    for (at, node) in nodes.iter_mut().enumerate() {
        let Some(calls) = node.get_mut("ops") else { continue };
        let earlier = *first.entry(calls.to_string()).or_insert(at);
        if earlier < at {
            *calls = Json::from(earlier);
        }
    }
}

/// Stands for the calls of another node between parsing and [`resolve`]: no operator is called nothing.
fn reference(node: u32) -> Call {
    Call { op: String::new(), args: Vec::new(), results: vec![Some(node)], effects: Vec::new() }
}

/// Calls, or the number of the node that has them.
pub(crate) fn calls<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<Call>, D::Error> {
    struct Calls;
    impl<'de> Visitor<'de> for Calls {
        type Value = Vec<Call>;

        fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
            formatter.write_str("a list of calls, or the number of the node that has them")
        }

        fn visit_u64<E: serde::de::Error>(self, node: u64) -> Result<Vec<Call>, E> {
            u32::try_from(node).map(|node| vec![reference(node)]).map_err(E::custom)
        }

        fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Vec<Call>, A::Error> {
            let mut calls = Vec::new();
            while let Some(call) = items.next_element()? {
                calls.push(call);
            }
            Ok(calls)
        }
    }
    deserializer.deserialize_any(Calls)
}

/// Gives every node its calls.
///
/// # Errors
/// A number that is not that of an earlier node.
pub(crate) fn resolve(step: &mut Step) -> Result<(), Invalid> {
    for at in 0..step.nodes.len() {
        let [Call { op, args, results, .. }] = &step.nodes[at].ops[..] else { continue };
        let (true, [Some(other)]) = (op.is_empty() && args.is_empty(), &results[..]) else { continue };
        let other = *other as usize;
        if other >= at {
            return Err(Invalid {
                place: format!("nodes[{at}] {:?}", step.nodes[at].name),
                message: format!("its calls are said to be those of node {other}, which is no earlier node"),
            });
        }
        step.nodes[at].ops = step.nodes[other].ops.clone();
    }
    Ok(())
}
