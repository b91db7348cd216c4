//! The networks themselves, as the textbooks draw them.

use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use rk_plan::Graph;

use super::Family;
use super::layers::{Tape, Tensor};

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
    let mut tape = Tape::new(format!("{family}_{blocks}_{seed}"), seed % 2 == 1);
    let last = match family {
        Family::Residual | Family::Bottleneck => {
            residual(&mut tape, &shape, blocks, family == Family::Bottleneck)
        }
        Family::Transformer => transformer(&mut tape, &shape, blocks),
        Family::UNet => encoder_decoder(&mut tape, &shape, blocks, true),
        Family::SegNet => encoder_decoder(&mut tape, &shape, blocks, false),
        Family::DenseNet => dense(&mut tape, &shape, blocks),
        Family::MobileNet => mobile(&mut tape, &shape, blocks),
        Family::Vgg | Family::Layered => plain(&mut tape, &shape, blocks),
    };
    tape.backward(last)
}

/// Convolution, normalization, activation.
fn conv(tape: &mut Tape, x: Tensor, channels: u64, positions: u64) -> Tensor {
    let x = tape.linear("conv", x, channels, positions, 9);
    let x = tape.norm(x);
    tape.relu(x)
}

fn residual(tape: &mut Tape, shape: &Shape, blocks: usize, bottleneck: bool) -> Tensor {
    let data = tape.input(3, 4 * shape.positions);
    let mut x = conv(tape, data, shape.width, shape.positions);
    for (stage, blocks) in shape.stages(blocks).into_iter().enumerate() {
        let (width, positions) = (shape.width << stage, (shape.positions >> (2 * stage)).max(1));
        let outer = if bottleneck { 4 * width } else { width };
        for _ in 0..blocks {
            let skip = if x.channels == outer && x.positions == positions {
                x
            } else {
                let skip = tape.linear("conv", x, outer, positions, 1);
                tape.norm(skip)
            };
            let mut y = x;
            if bottleneck {
                let narrow = tape.linear("conv", y, width, y.positions, 1);
                let narrow = tape.norm(narrow);
                y = tape.relu(narrow);
            }
            y = conv(tape, y, width, positions);
            y = tape.linear("conv", y, outer, positions, if bottleneck { 1 } else { 9 });
            y = tape.norm(y);
            let sum = tape.add(y, skip);
            x = tape.relu(sum);
        }
    }
    tape.linear("head", x, 1000, (x.positions / 49).max(1), 1)
}

fn transformer(tape: &mut Tape, shape: &Shape, blocks: usize) -> Tensor {
    // Tokens of a batch of sequences; every token attends to a sequence.
    let (width, tokens) = (8 * shape.width, (shape.positions / 16).max(64));
    let (sequence, heads) = (tokens.min(1024), 8);
    let data = tape.input(1, tokens);
    let mut x = tape.linear("embed", data, width, tokens, 1);
    for _ in 0..blocks {
        let y = tape.norm(x);
        let [query, key, value] = [0; 3].map(|_| tape.linear("linear", y, width, tokens, 1));
        let scores = tape.product(query, key, heads * sequence, width / heads);
        let shares = tape.softmax(scores);
        let shares = tape.dropout(shares);
        let y = tape.product(shares, value, width, sequence);
        let y = tape.linear("linear", y, width, tokens, 1);
        let y = tape.dropout(y);
        x = tape.add(y, x);
        let y = tape.norm(x);
        let y = tape.linear("linear", y, 4 * width, tokens, 1);
        let y = tape.gelu(y);
        let y = tape.linear("linear", y, width, tokens, 1);
        let y = tape.dropout(y);
        x = tape.add(y, x);
    }
    let x = tape.norm(x);
    tape.linear("head", x, 4 * width, tokens, 1)
}

/// With skips a U-Net, without a SegNet; at least one block per level on each side.
fn encoder_decoder(tape: &mut Tape, shape: &Shape, blocks: usize, skips: bool) -> Tensor {
    let mut x = tape.input(3, 4 * shape.positions);
    let mut kept = Vec::new();
    let stages = shape.stages(blocks).map(|blocks| blocks.max(1));
    for (stage, blocks) in stages.into_iter().enumerate() {
        for _ in 0..blocks {
            x = conv(tape, x, shape.width << stage, x.positions);
        }
        kept.push(x);
        x = tape.pool(x);
    }
    x = conv(tape, x, shape.width << 4, x.positions);
    for (stage, blocks) in stages.into_iter().enumerate().rev() {
        x = tape.unpool(x);
        if skips && let Some(skip) = kept.get(stage) {
            // Pooling rounds down.
            x.positions = skip.positions;
            x = tape.concat(x, *skip);
        }
        for _ in 0..blocks {
            x = conv(tape, x, shape.width << stage, x.positions);
        }
    }
    tape.linear("head", x, 21, x.positions, 1)
}

fn dense(tape: &mut Tape, shape: &Shape, blocks: usize) -> Tensor {
    let growth = shape.width / 2;
    let data = tape.input(3, 4 * shape.positions);
    let mut x = conv(tape, data, shape.width, shape.positions);
    for blocks in shape.stages(blocks) {
        for _ in 0..blocks {
            let y = tape.norm(x);
            let y = tape.relu(y);
            let y = tape.linear("conv", y, 4 * growth, x.positions, 1);
            let y = tape.norm(y);
            let y = tape.relu(y);
            let y = tape.linear("conv", y, growth, x.positions, 9);
            x = tape.concat(x, y);
        }
        let y = tape.norm(x);
        let y = tape.relu(y);
        let y = tape.linear("conv", y, x.channels / 2, x.positions, 1);
        x = tape.pool(y);
    }
    tape.linear("head", x, 1000, (x.positions / 49).max(1), 1)
}

fn mobile(tape: &mut Tape, shape: &Shape, blocks: usize) -> Tensor {
    let data = tape.input(3, 4 * shape.positions);
    let mut x = conv(tape, data, shape.width, shape.positions);
    for (stage, blocks) in shape.stages(blocks).into_iter().enumerate() {
        for _ in 0..blocks {
            let y = tape.depthwise(x, (shape.positions >> (2 * stage)).max(1));
            let y = tape.norm(y);
            let y = tape.relu(y);
            let y = tape.linear("conv", y, shape.width << stage, y.positions, 1);
            let y = tape.norm(y);
            x = tape.relu(y);
        }
    }
    tape.linear("head", x, 1000, (x.positions / 49).max(1), 1)
}

fn plain(tape: &mut Tape, shape: &Shape, blocks: usize) -> Tensor {
    let mut x = tape.input(3, 4 * shape.positions);
    for (stage, blocks) in shape.stages(blocks).into_iter().enumerate() {
        for _ in 0..blocks {
            let y = tape.linear("conv", x, shape.width << stage, x.positions, 9);
            x = tape.relu(y);
        }
        x = tape.pool(x);
    }
    let x = tape.linear("head", x, 4096, (x.positions / 49).max(1), 1);
    let x = tape.dropout(x);
    tape.linear("head", x, 1000, x.positions, 1)
}
