//! Training steps of made-up networks, for benchmarks and tests: any size, any seed, always the same.
//!
//! A network is laid down layer by layer on a tape; the backward half mirrors it, as differentiation would: each layer
//! reads the gradient of what it made and what it saved, gradients that meet are added, and each weight gets a gradient of
//! its own. Sizes follow from channels, resolution and batch; times from a roofline (arithmetic against memory traffic).
//!
//! Seed 0 is the textbook network of a family. Other seeds vary width, batch and the share of the stages, and half of them
//! add what graphs imported from real models have: workspaces, layers with a second output, dropout with generator state,
//! activations that may overwrite their operand, weight gradients that the step returns, effects that happen once.
//!
//! Not here: real models (`tools/import`), and tiny graphs for exhaustive search (the oracle of the tests).

use std::fmt;
use std::str::FromStr;

use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use rk_plan::{Bytes, Graph, GraphBuilder, Kind, NodeSpec, OutputSpec, Time, ValueId};

mod layers;
mod networks;

/// A kind of network.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Family {
    /// Residual blocks of two convolutions in four stages.
    Residual,
    /// Residual blocks of three convolutions in four stages.
    Bottleneck,
    /// Attention and a perceptron per block.
    Transformer,
    /// Encoder and decoder with skips at four levels.
    UNet,
    /// Layers that read everything before them, in four stages.
    DenseNet,
    /// Depthwise and pointwise convolutions.
    MobileNet,
    /// Plain convolutions and pools.
    Vgg,
    /// Encoder and decoder whose only skips are pooling indices.
    SegNet,
    /// Random edges between random sizes: no training step at all.
    Layered,
}

impl Family {
    /// All of them.
    pub const ALL: [Self; 9] = [
        Self::Residual,
        Self::Bottleneck,
        Self::Transformer,
        Self::UNet,
        Self::DenseNet,
        Self::MobileNet,
        Self::Vgg,
        Self::SegNet,
        Self::Layered,
    ];

    /// The name that people type.
    pub fn name(self) -> &'static str {
        match self {
            Self::Residual => "residual",
            Self::Bottleneck => "bottleneck",
            Self::Transformer => "transformer",
            Self::UNet => "unet",
            Self::DenseNet => "densenet",
            Self::MobileNet => "mobilenet",
            Self::Vgg => "vgg",
            Self::SegNet => "segnet",
            Self::Layered => "layered",
        }
    }
}

impl fmt::Display for Family {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Family {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let found = Self::ALL.into_iter().find(|family| family.name() == text);
        found.ok_or_else(|| {
            format!("unknown family {text:?}; there are {}", Self::ALL.map(Self::name).join(", "))
        })
    }
}

/// A training step of about `nodes` nodes: as many blocks as come closest from below, at least one.
pub fn graph(family: Family, nodes: usize, seed: u64) -> Graph {
    if family == Family::Layered {
        return layered(nodes.max(2), seed);
    }
    let build = |blocks| networks::build(family, blocks, seed);
    let (one, nine) = (build(1).len(), build(9).len());
    // Blocks are of one size, but a stage begins with a few nodes more.
    let mut blocks = (8 * nodes.saturating_sub(one) / (nine - one).max(1)).max(1);
    let mut graph = build(blocks);
    while graph.len() > nodes && blocks > 1 {
        blocks -= 1;
        graph = build(blocks);
    }
    loop {
        let larger = build(blocks + 1);
        if larger.len() > nodes {
            return graph;
        }
        (blocks, graph) = (blocks + 1, larger);
    }
}

/// Random layered graphs as in the literature on scheduling: layers of random width, edges mostly from the layer before.
fn layered(nodes: usize, seed: u64) -> Graph {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let mut builder = GraphBuilder::new(format!("layered_{nodes}_{seed}"));
    let widest = ((nodes as f64).sqrt() as usize).max(2);
    let (mut before, mut layer, mut all) = (Vec::new(), Vec::new(), Vec::<ValueId>::new());
    let mut left = 0;
    for position in 0..nodes {
        if left == 0 {
            left = random.random_range(1..=widest);
            before = std::mem::take(&mut layer);
        }
        left -= 1;
        let mut reads: Vec<ValueId> =
            before.iter().copied().filter(|_| random.random_bool(1.5 / widest as f64)).collect();
        if reads.is_empty() && !before.is_empty() {
            reads.push(before[random.random_range(0..before.len())]);
        }
        if all.len() > 1 && random.random_bool(0.3) {
            reads.push(all[random.random_range(0..all.len())]);
        }
        let bytes = Bytes(random.random_range(1..=1000));
        let spec = NodeSpec {
            name: format!("n{position}"),
            time: Time(random.random_range(1..=1000)),
            reads,
            outputs: vec![OutputSpec { name: String::new(), bytes, pinned: false }],
            ..NodeSpec::default()
        };
        // Reads are earlier outputs and sums are small, so neither error can occur.
        let Ok(id) = builder.add(spec) else { continue };
        layer.extend(builder.output(id, 0));
        all.extend(builder.output(id, 0));
    }
    finish(builder)
}

/// Every generator adds at least one node.
fn finish(builder: GraphBuilder) -> Graph {
    builder.finish().unwrap_or_else(|error| unreachable!("{error}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use rk_plan::{base_trace, working_set};

    #[test]
    fn sizes_are_near_and_graphs_are_worth_planning() {
        for family in Family::ALL {
            for (nodes, seed) in [(200, 0), (1000, 1), (1000, 2)] {
                let made = graph(family, nodes, seed);
                assert!(made.len() <= nodes && made.len() > nodes / 2, "{family}: {} of {nodes}", made.len());
                assert_eq!(made, graph(family, nodes, seed));
                let share = working_set(&made).0.0 as f64 / base_trace(&made).peak.0 as f64;
                assert!(share < 0.95, "{family} {nodes} {seed}: working set {share}");
            }
        }
    }

    #[test]
    fn seeds_bring_every_optional_field() {
        let graphs: Vec<Graph> = (1..9).map(|seed| graph(Family::Transformer, 300, seed)).collect();
        let any =
            |test: fn(&rk_plan::Node) -> bool| graphs.iter().any(|graph| graph.nodes().iter().any(test));
        assert!(any(|node| node.workspace.0 > 0) && any(|node| node.once) && any(|node| node.state.0 > 0));
        assert!(any(|node| node.writes.len() > 1) && any(|node| node.overwrites.is_some()));
        assert!(graphs.iter().any(|graph| graph.values().iter().any(|value| value.pinned)));
    }
}
