//! What is queued on a capturing stream becomes a node of a graph, behind what that stream and the events it waited for had captured.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::thread::ThreadId;

use crate::order::Order;
use crate::result::{Answer, CAPTURE_INVALIDATED, CAPTURE_UNJOINED};
use crate::work::Work;

/// Work with what it waits for, and the stream on which it was queued.
#[derive(Clone)]
pub struct Node {
    pub work: Arc<Work>,
    pub after: Vec<usize>,
    pub stream: usize,
}

/// A capture that is going on.
pub struct Capture {
    pub origin: usize,
    pub thread: ThreadId,
    /// Whether calls that may disturb it are forbidden to its thread alone; else to nobody.
    pub strict: bool,
    pub invalid: bool,
    pub nodes: Vec<Node>,
    /// By stream that takes part: what its next work comes behind.
    pub tails: BTreeMap<usize, Vec<usize>>,
}

impl Capture {
    /// # Errors
    /// When the capture was spoiled before.
    pub fn add(&mut self, stream: usize, work: Arc<Work>) -> Answer {
        if self.invalid {
            return Err(CAPTURE_INVALIDATED);
        }
        let after = self.tails.insert(stream, vec![self.nodes.len()]).unwrap_or_default();
        self.nodes.push(Node { work, after, stream });
        Ok(())
    }

    /// Lets a stream wait, which takes part from now on.
    pub fn join(&mut self, stream: usize, nodes: &[usize]) {
        let tail = self.tails.entry(stream).or_default();
        tail.extend_from_slice(nodes);
        tail.sort_unstable();
        tail.dedup();
    }

    /// The nodes, if all of them come before the end of the origin.
    ///
    /// # Errors
    /// When the capture was spoiled, or a stream was not joined.
    pub fn end(self) -> Answer<Vec<Node>> {
        if self.invalid {
            return Err(CAPTURE_INVALIDATED);
        }
        let mut joined = vec![false; self.nodes.len()];
        let mut left = self.tails.get(&self.origin).cloned().unwrap_or_default();
        while let Some(node) = left.pop() {
            if !std::mem::replace(&mut joined[node], true) {
                left.extend_from_slice(&self.nodes[node].after);
            }
        }
        if joined.iter().all(|joined| *joined) { Ok(self.nodes) } else { Err(CAPTURE_UNJOINED) }
    }
}

/// Nodes in an order that their edges allow.
pub fn in_order<'a>(nodes: &'a [Node], order: &mut Order) -> Vec<&'a Node> {
    let mut waits: Vec<usize> = nodes.iter().map(|node| node.after.len()).collect();
    let mut ready: Vec<usize> = (0..nodes.len()).filter(|&node| waits[node] == 0).collect();
    let mut run = Vec::with_capacity(nodes.len());
    while !ready.is_empty() {
        let chosen = order.choose(&ready, |&node| (nodes[node].stream, node as u64));
        let next = ready.remove(chosen);
        run.push(&nodes[next]);
        for (later, node) in nodes.iter().enumerate() {
            if node.after.contains(&next) {
                waits[later] -= 1;
                if waits[later] == 0 {
                    ready.push(later);
                }
            }
        }
    }
    run
}
