//! The networks themselves, as the textbooks draw them.

use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use rk_plan::Graph;

use super::Family;
use super::layers::{SlottedTimeline, Tensor};

/// What a seed decides.
struct Shape {
    /// Channels of the first stage.
    width: u64,
    /// Batch times resolution of the first stage.
    positions: u64,
    /// The share of the blocks in each of four stages.
    shares: [u64; 4],
}

impl Shape {
    fn new(seed: u64) -> Self {
        if seed == 0 {
            return Self { width: 64, positions: 8 * 56 * 56, shares: [1, 1, 1, 1] };
        }
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        let side = 8 * random.random_range(4..=14);
        Self {
            width: 8 * random.random_range(3..=16),
            positions: random.random_range(1..=32) * side * side,
            shares: std::array::from_fn(|_| random.random_range(1..=4)),
        }
    }

    /// Blocks per stage, the remainder to the later ones.
    fn stages(&self, blocks: usize) -> [usize; 4] {
        let sum: u64 = self.shares.iter().sum();
        let mut passed = 0;
        std::array::from_fn(|stage| {
            let before = blocks as u64 * passed / sum;
            passed += self.shares[stage];
            (blocks as u64 * passed / sum - before) as usize
        })
    }
}

/// A network of that many blocks.
pub(super) fn build(family: Family, blocks: usize, seed: u64) -> Graph {
    let shape = Shape::new(seed);
    let mut timeline = SlottedTimeline::new(format!("{family}_{blocks}_{seed}"), seed % 2 == 1);
    let last = match family {
        Family::Residual | Family::Bottleneck => {
            residual(&mut timeline, &shape, blocks, family == Family::Bottleneck)
        }
        Family::Transformer => transformer(&mut timeline, &shape, blocks),
        Family::UNet => encoder_decoder(&mut timeline, &shape, blocks, true),
        Family::SegNet => encoder_decoder(&mut timeline, &shape, blocks, false),
        Family::DenseNet => dense(&mut timeline, &shape, blocks),
        Family::MobileNet => mobile(&mut timeline, &shape, blocks),
        Family::Vgg | Family::Layered => plain(&mut timeline, &shape, blocks),
    };
    timeline.backward(last)
}

/// Convolution, normalization, activation.
fn conv(timeline: &mut SlottedTimeline, x: Tensor, channels: u64, positions: u64) -> Tensor {
    let x = timeline.linear("conv", x, channels, positions, 9);
    let x = timeline.norm(x);
    timeline.relu(x)
}

fn residual(timeline: &mut SlottedTimeline, shape: &Shape, blocks: usize, bottleneck: bool) -> Tensor {
    let data = timeline.input(3, 4 * shape.positions);
    let mut x = conv(timeline, data, shape.width, shape.positions);
    for (stage, blocks) in shape.stages(blocks).into_iter().enumerate() {
        let (width, positions) = (shape.width << stage, (shape.positions >> (2 * stage)).max(1));
        let outer = if bottleneck { 4 * width } else { width };
        for _ in 0..blocks {
            let skip = if x.channels == outer && x.positions == positions {
                x
            } else {
                let skip = timeline.linear("conv", x, outer, positions, 1);
                timeline.norm(skip)
            };
            let mut y = x;
            if bottleneck {
                let narrow = timeline.linear("conv", y, width, y.positions, 1);
                let narrow = timeline.norm(narrow);
                y = timeline.relu(narrow);
            }
            y = conv(timeline, y, width, positions);
            y = timeline.linear("conv", y, outer, positions, if bottleneck { 1 } else { 9 });
            y = timeline.norm(y);
            let sum = timeline.add(y, skip);
            x = timeline.relu(sum);
        }
    }
    timeline.linear("head", x, 1000, (x.positions / 49).max(1), 1)
}

fn transformer(timeline: &mut SlottedTimeline, shape: &Shape, blocks: usize) -> Tensor {
    // Tokens of a batch of sequences; every token attends to a sequence.
    let (width, tokens) = (8 * shape.width, (shape.positions / 16).max(64));
    let (sequence, heads) = (tokens.min(1024), 8);
    let data = timeline.input(1, tokens);
    let mut x = timeline.linear("embed", data, width, tokens, 1);
    for _ in 0..blocks {
        let y = timeline.norm(x);
        let [query, key, value] = [0; 3].map(|_| timeline.linear("linear", y, width, tokens, 1));
        let scores = timeline.product(query, key, heads * sequence, width / heads);
        let shares = timeline.softmax(scores);
        let shares = timeline.dropout(shares);
        let y = timeline.product(shares, value, width, sequence);
        let y = timeline.linear("linear", y, width, tokens, 1);
        let y = timeline.dropout(y);
        x = timeline.add(y, x);
        let y = timeline.norm(x);
        let y = timeline.linear("linear", y, 4 * width, tokens, 1);
        let y = timeline.gelu(y);
        let y = timeline.linear("linear", y, width, tokens, 1);
        let y = timeline.dropout(y);
        x = timeline.add(y, x);
    }
    let x = timeline.norm(x);
    timeline.linear("head", x, 4 * width, tokens, 1)
}

/// With skips a U-Net, without a SegNet; at least one block per level on each side.
fn encoder_decoder(timeline: &mut SlottedTimeline, shape: &Shape, blocks: usize, skips: bool) -> Tensor {
    let mut x = timeline.input(3, 4 * shape.positions);
    let mut kept = Vec::new();
    let stages = shape.stages(blocks).map(|blocks| blocks.max(1));
    for (stage, blocks) in stages.into_iter().enumerate() {
        for _ in 0..blocks {
            x = conv(timeline, x, shape.width << stage, x.positions);
        }
        kept.push(x);
        x = timeline.pool(x);
    }
    x = conv(timeline, x, shape.width << 4, x.positions);
    for (stage, blocks) in stages.into_iter().enumerate().rev() {
        x = timeline.unpool(x);
        if skips && let Some(skip) = kept.get(stage) {
            // Pooling rounds down.
            x.positions = skip.positions;
            x = timeline.concat(x, *skip);
        }
        for _ in 0..blocks {
            x = conv(timeline, x, shape.width << stage, x.positions);
        }
    }
    timeline.linear("head", x, 21, x.positions, 1)
}

fn dense(timeline: &mut SlottedTimeline, shape: &Shape, blocks: usize) -> Tensor {
    let growth = shape.width / 2;
    let data = timeline.input(3, 4 * shape.positions);
    let mut x = conv(timeline, data, shape.width, shape.positions);
    for blocks in shape.stages(blocks) {
        for _ in 0..blocks {
            let y = timeline.norm(x);
            let y = timeline.relu(y);
            let y = timeline.linear("conv", y, 4 * growth, x.positions, 1);
            let y = timeline.norm(y);
            let y = timeline.relu(y);
            let y = timeline.linear("conv", y, growth, x.positions, 9);
            x = timeline.concat(x, y);
        }
        let y = timeline.norm(x);
        let y = timeline.relu(y);
        let y = timeline.linear("conv", y, x.channels / 2, x.positions, 1);
        x = timeline.pool(y);
    }
    timeline.linear("head", x, 1000, (x.positions / 49).max(1), 1)
}

fn mobile(timeline: &mut SlottedTimeline, shape: &Shape, blocks: usize) -> Tensor {
    let data = timeline.input(3, 4 * shape.positions);
    let mut x = conv(timeline, data, shape.width, shape.positions);
    for (stage, blocks) in shape.stages(blocks).into_iter().enumerate() {
        for _ in 0..blocks {
            let y = timeline.depthwise(x, (shape.positions >> (2 * stage)).max(1));
            let y = timeline.norm(y);
            let y = timeline.relu(y);
            let y = timeline.linear("conv", y, shape.width << stage, y.positions, 1);
            let y = timeline.norm(y);
            x = timeline.relu(y);
        }
    }
    timeline.linear("head", x, 1000, (x.positions / 49).max(1), 1)
}

fn plain(timeline: &mut SlottedTimeline, shape: &Shape, blocks: usize) -> Tensor {
    let mut x = timeline.input(3, 4 * shape.positions);
    for (stage, blocks) in shape.stages(blocks).into_iter().enumerate() {
        for _ in 0..blocks {
            let y = timeline.linear("conv", x, shape.width << stage, x.positions, 9);
            x = timeline.relu(y);
        }
        x = timeline.pool(x);
    }
    let x = timeline.linear("head", x, 4096, (x.positions / 49).max(1), 1);
    let x = timeline.dropout(x);
    timeline.linear("head", x, 1000, x.positions, 1)
}
