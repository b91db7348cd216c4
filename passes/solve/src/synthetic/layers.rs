//! A tape of layers and its differentiation.

use std::collections::BTreeMap;

use super::{Bytes, Graph, GraphBuilder, Kind, NodeSpec, OutputSpec, Time, ValueId, finish};

/// What a tensor is, to the layers that read it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Tensor {
    pub(super) value: ValueId,
    /// Features per position.
    pub(super) channels: u64,
    /// Positions: batch times resolution.
    pub(super) positions: u64,
}

/// Bytes of a number.
const NUMBER: u64 = 4;
// The roofline of these networks is their own and fixed: their times are part of the benchmarks that planners are compared on. What real
// calls are estimated to take is in `rk_vocabulary::roofline`.
/// Operations per nanosecond of the roofline.
const ARITHMETIC: u64 = 15_000;
/// Bytes per nanosecond of the roofline.
const TRAFFIC: u64 = 900;

impl Tensor {
    fn bytes(&self) -> u64 {
        NUMBER * self.channels * self.positions
    }
}

/// What differentiation needs to know about a layer.
struct Layer {
    name: &'static str,
    inputs: Vec<Tensor>,
    output: Tensor,
    saves: Vec<ValueId>,
    time: u64,
    weight: Option<u64>,
}

/// Layers laid down so far.
pub(super) struct Tape {
    builder: GraphBuilder,
    layers: Vec<Layer>,
    /// What the step is fed with: has no gradient.
    data: Option<ValueId>,
    /// Add what graphs imported from real models have.
    rich: bool,
}

impl Tape {
    pub(super) fn new(name: String, rich: bool) -> Self {
        Self { builder: GraphBuilder::new(name), layers: Vec::new(), data: None, rich }
    }

    fn node(&mut self, spec: NodeSpec) -> ValueId {
        // Reads are outputs of this builder and sums stay far below its limits.
        let id = self.builder.add(spec).unwrap_or_else(|error| unreachable!("{error}"));
        self.builder.output(id, 0).unwrap_or(ValueId(0))
    }

    /// The data that the step is fed with.
    pub(super) fn input(&mut self, channels: u64, positions: u64) -> Tensor {
        let bytes = Bytes(NUMBER * channels * positions);
        let outputs = vec![OutputSpec { name: "input".into(), bytes, pinned: false }];
        let once = self.rich;
        let value = self.node(NodeSpec {
            name: "input".into(),
            kind: Kind::Forward,
            time: Time(1),
            outputs,
            once,
            ..NodeSpec::default()
        });
        self.data = Some(value);
        Tensor { value, channels, positions }
    }

    /// A layer with its arithmetic, its weights, and what it saves: operands (by index), its output, or a small extra one.
    fn layer(
        &mut self,
        name: &'static str,
        inputs: &[Tensor],
        out: (u64, u64),
        work: u64,
        weight: Option<u64>,
        saves: Saves,
    ) -> Tensor {
        let (channels, positions) = out;
        let bytes = NUMBER * channels * positions;
        let traffic: u64 = bytes + inputs.iter().map(Tensor::bytes).sum::<u64>();
        let time = 1 + (work / ARITHMETIC).max(traffic / TRAFFIC);
        let reads: Vec<ValueId> = inputs.iter().map(|tensor| tensor.value).collect();
        let mut outputs = vec![OutputSpec { name: name.into(), bytes: Bytes(bytes), pinned: false }];
        let mut spec = NodeSpec {
            name: name.into(),
            kind: Kind::Forward,
            time: Time(time),
            reads: reads.clone(),
            ..NodeSpec::default()
        };
        if let Saves::Extra(bytes) = saves {
            outputs.push(OutputSpec { name: format!("{name}_saved"), bytes: Bytes(bytes), pinned: false });
        }
        if self.rich && work > 0 {
            spec.workspace = Bytes(bytes / 4);
        }
        if self.rich && matches!(saves, Saves::Output) && inputs.len() == 1 {
            spec.overwrites = Some(reads[0]);
        }
        if name == "dropout" {
            spec.state = Bytes(if self.rich { 5056 } else { 0 });
        }
        spec.outputs = outputs;
        let output = self.node(spec);
        let saves = match saves {
            Saves::Nothing => Vec::new(),
            Saves::Inputs => reads,
            Saves::Output => vec![output],
            Saves::Extra(_) => vec![ValueId(output.0 + 1)],
        };
        let output = Tensor { value: output, channels, positions };
        self.layers.push(Layer { name, inputs: inputs.to_vec(), output, saves, time, weight });
        output
    }

    /// Weights and multiplications: `taps` per output channel, input channel and position.
    pub(super) fn linear(
        &mut self,
        name: &'static str,
        x: Tensor,
        channels: u64,
        positions: u64,
        taps: u64,
    ) -> Tensor {
        let weight = NUMBER * taps * channels * x.channels;
        let work = 2 * taps * channels * x.channels * positions;
        self.layer(name, &[x], (channels, positions), work, Some(weight), Saves::Inputs)
    }

    /// One filter per channel.
    pub(super) fn depthwise(&mut self, x: Tensor, positions: u64) -> Tensor {
        self.layer(
            "depthwise",
            &[x],
            (x.channels, positions),
            18 * x.channels * positions,
            Some(36 * x.channels),
            Saves::Inputs,
        )
    }

    /// Normalization: reads its input again.
    pub(super) fn norm(&mut self, x: Tensor) -> Tensor {
        self.layer("norm", &[x], (x.channels, x.positions), 0, Some(2 * NUMBER * x.channels), Saves::Inputs)
    }

    /// An activation whose derivative follows from its output.
    pub(super) fn relu(&mut self, x: Tensor) -> Tensor {
        self.layer("relu", &[x], (x.channels, x.positions), 0, None, Saves::Output)
    }

    /// An activation whose derivative needs its input.
    pub(super) fn gelu(&mut self, x: Tensor) -> Tensor {
        self.layer("gelu", &[x], (x.channels, x.positions), 0, None, Saves::Inputs)
    }

    /// Drops at random; saves a mask of one byte per number.
    pub(super) fn dropout(&mut self, x: Tensor) -> Tensor {
        self.layer("dropout", &[x], (x.channels, x.positions), 0, None, Saves::Extra(x.bytes() / NUMBER))
    }

    /// Takes the largest of four; saves which.
    pub(super) fn pool(&mut self, x: Tensor) -> Tensor {
        let positions = (x.positions / 4).max(1);
        self.layer("pool", &[x], (x.channels, positions), 0, None, Saves::Extra(x.channels * positions))
    }

    /// Puts each number in four places.
    pub(super) fn unpool(&mut self, x: Tensor) -> Tensor {
        self.layer("unpool", &[x], (x.channels, 4 * x.positions), 0, None, Saves::Nothing)
    }

    /// Adds two tensors.
    pub(super) fn add(&mut self, x: Tensor, y: Tensor) -> Tensor {
        self.layer("add", &[x, y], (x.channels, x.positions), 0, None, Saves::Nothing)
    }

    /// Puts the channels of two tensors side by side.
    pub(super) fn concat(&mut self, x: Tensor, y: Tensor) -> Tensor {
        self.layer("concat", &[x, y], (x.channels + y.channels, x.positions), 0, None, Saves::Nothing)
    }

    /// The product of two activations: `channels` per position out of sums over `inner`.
    pub(super) fn product(&mut self, x: Tensor, y: Tensor, channels: u64, inner: u64) -> Tensor {
        let work = 2 * channels * inner * x.positions;
        self.layer("matmul", &[x, y], (channels, x.positions), work, None, Saves::Inputs)
    }

    /// Shares of attention: saves them.
    pub(super) fn softmax(&mut self, x: Tensor) -> Tensor {
        self.layer("softmax", &[x], (x.channels, x.positions), 0, None, Saves::Output)
    }

    /// The loss, and everything backwards.
    pub(super) fn backward(mut self, x: Tensor) -> Graph {
        let loss = self.layer("loss", &[x], (1, 1), 0, None, Saves::Inputs);
        let mut gradients: BTreeMap<ValueId, Vec<ValueId>> = BTreeMap::new();
        gradients.insert(loss.value, Vec::new());
        for layer in std::mem::take(&mut self.layers).into_iter().rev() {
            let Some(parts) = gradients.remove(&layer.output.value) else { continue };
            let gradient = self.accumulate(parts, &layer);
            if let Some(weight) = layer.weight {
                let reads = gradient.iter().chain(&layer.saves).copied().collect();
                let (bytes, pinned) = if self.rich { (weight, true) } else { (0, false) };
                self.emit(format!("{}_dw", layer.name), layer.time, reads, bytes, pinned);
            }
            // A sum hands its gradient on as it is.
            if layer.name == "add" {
                for input in &layer.inputs {
                    gradients.entry(input.value).or_default().extend(gradient);
                }
                continue;
            }
            for (index, input) in layer.inputs.iter().enumerate() {
                if Some(input.value) == self.data {
                    continue;
                }
                // The product rule: the gradient of one factor needs the other one.
                let other = layer.saves.get(1 - index.min(1)).filter(|_| layer.inputs.len() == 2);
                // The gradient of a linear layer needs no activation.
                let linear = layer.weight.is_some() && layer.name != "norm";
                let saves: Vec<ValueId> = match other {
                    Some(other) => vec![*other],
                    None if linear => Vec::new(),
                    None => layer.saves.clone(),
                };
                let reads = gradient.iter().copied().chain(saves).collect();
                let made = self.emit(format!("d_{}", layer.name), layer.time, reads, input.bytes(), false);
                gradients.entry(input.value).or_default().push(made);
            }
        }
        finish(self.builder)
    }

    /// The sum of the gradients that have come together at a value.
    fn accumulate(&mut self, parts: Vec<ValueId>, layer: &Layer) -> Option<ValueId> {
        if parts.len() < 2 {
            return parts.first().copied();
        }
        let bytes = layer.output.bytes();
        Some(self.emit("accumulate".into(), 1 + parts.len() as u64 * bytes / TRAFFIC, parts, bytes, false))
    }

    fn emit(&mut self, name: String, time: u64, reads: Vec<ValueId>, bytes: u64, pinned: bool) -> ValueId {
        let outputs = vec![OutputSpec { name: name.clone(), bytes: Bytes(bytes), pinned }];
        self.node(NodeSpec {
            name,
            kind: Kind::Backward,
            time: Time(time),
            reads,
            outputs,
            ..NodeSpec::default()
        })
    }
}

/// What a layer keeps for its derivative.
#[derive(Clone, Copy)]
enum Saves {
    Nothing,
    Inputs,
    Output,
    /// A second output of that many bytes.
    Extra(u64),
}
