//! Whole steps: where the chain is cut, which backward node goes where, and what the report says.

use std::sync::Arc;

use rk_classes::{Arg, Call, Node, Operator, Role, Source, Step, StepBuilder, Ty, find, report};
use rk_plan::ValueId;

/// Makes a network node by node.
struct Net {
    builder: StepBuilder,
    backward: bool,
}

const ROWS: i64 = 8;
const WIDTH: i64 = 16;

impl Net {
    fn parameter(&mut self, shape: &[i64]) -> ValueId {
        self.builder.resident(Ty::dense("f32", 4, shape), Source::Parameter { trainable: true })
    }

    /// A node with one call; integers after the values.
    fn op(&mut self, path: &str, name: &str, inputs: &[ValueId], ints: &[i64], shape: &[i64]) -> ValueId {
        let mut args = vec![Arg::Value; inputs.len()];
        args.extend(ints.iter().map(|&int| Arg::Int(int)));
        let operator = Operator {
            name: format!("aten.{name}"),
            args,
            results: vec![Arc::new(Ty::dense("f32", 4, shape))],
            ..Operator::default()
        };
        let node = Node {
            name: format!("{path}.{name}"),
            path: path.to_owned(),
            backward: self.backward,
            inputs: inputs.to_vec(),
            calls: vec![Call { operator, operands: (0..inputs.len()).collect() }],
            yields: vec![inputs.len()],
            ..Node::default()
        };
        self.builder.node(node).expect("inputs come first")[0]
    }
}

/// Embedding, residual layers, head and loss, with their backward. In `two_styles`, every other layer adds f(x) + x.
fn network(layers: usize, two_styles: bool) -> Step {
    let mut net = Net { builder: StepBuilder::default(), backward: false };
    let hidden = [ROWS, WIDTH];
    let ids = net.builder.resident(Ty::dense("i64", 8, &[ROWS]), Source::Input);
    let table = net.parameter(&[100, WIDTH]);
    let mut x = net.op("embed", "embedding.default", &[table, ids], &[-1], &hidden);
    x = net.op("act", "relu.default", &[x], &[], &hidden);
    let mut saved = Vec::new();
    for layer in 0..layers {
        let path = |part: &str| format!("h.{layer}{part}");
        let weights = [net.parameter(&[WIDTH, WIDTH]), net.parameter(&[WIDTH, WIDTH])];
        let up = net.op(&path(".up"), "mm.default", &[x, weights[0]], &[], &hidden);
        let act = net.op(&path(".act"), "gelu.default", &[up], &[], &hidden);
        let down = net.op(&path(".down"), "mm.default", &[act, weights[1]], &[], &hidden);
        saved.push((x, up, act, weights));
        let sum = if two_styles && layer % 2 == 1 { [down, x] } else { [x, down] };
        x = net.op(&path(""), "add.Tensor", &sum, &[1], &hidden);
    }
    let weight = net.parameter(&[WIDTH, 100]);
    let logits = net.op("head", "mm.default", &[x, weight], &[], &[ROWS, 100]);
    let loss = net.op("loss", "sum.default", &[logits], &[], &[]);
    net.builder.returned(loss, Role::Loss);
    net.backward = true;
    let one = net.op("loss", "ones.default", &[], &[], &[ROWS, 100]);
    let mut gradient = net.op("head", "mm_backward.left", &[one, weight], &[], &hidden);
    let of_head = net.op("head", "mm_backward.right", &[x, one], &[], &[WIDTH, 100]);
    net.builder.returned(of_head, Role::Gradient(Some(weight)));
    for (layer, (x, up, act, weights)) in saved.into_iter().enumerate().rev() {
        let path = |part: &str| format!("h.{layer}{part}");
        let act_gradient = net.op(&path(".down"), "mm_backward.left", &[gradient, weights[1]], &[], &hidden);
        let down = net.op(&path(".down"), "mm_backward.right", &[act, gradient], &[], &[WIDTH, WIDTH]);
        let up_gradient = net.op(&path(".act"), "gelu_backward.default", &[act_gradient, up], &[], &hidden);
        let branch = net.op(&path(".up"), "mm_backward.left", &[up_gradient, weights[0]], &[], &hidden);
        let up = net.op(&path(".up"), "mm_backward.right", &[x, up_gradient], &[], &[WIDTH, WIDTH]);
        // Without a path: the sum of the two gradients of x.
        gradient = net.op("", "add.Tensor", &[gradient, branch], &[1], &hidden);
        net.builder.returned(up, Role::Gradient(Some(weights[0])));
        net.builder.returned(down, Role::Gradient(Some(weights[1])));
    }
    let of_table =
        net.op("embed", "embedding_dense_backward.default", &[gradient, ids], &[100], &[100, WIDTH]);
    net.builder.returned(of_table, Role::Gradient(Some(table)));
    net.builder.finish()
}

#[test]
fn a_chain_of_equal_layers() {
    insta::assert_snapshot!(report::text(&find(&network(4, false))), @r"
    6 blocks in 3 classes (3 by text), forward 3 (3 by text), 3 of equal cost; 48 nodes in 14 cost classes
    class 0: embed..act
    class 1 x4: h.0, h.1, h.2, h.3
    class 2: head..loss
    ");
}

#[test]
fn text_comparison_takes_two_styles_for_two_classes() {
    insta::assert_snapshot!(report::text(&find(&network(6, true))), @r"
    8 blocks in 3 classes (4 by text), forward 3 (4 by text), 3 of equal cost; 68 nodes in 14 cost classes
    class 0: embed..act
    class 1 x6: h.0, h.1, h.2, h.3, h.4, h.5
    class 2: head..loss
    ");
}

#[test]
fn classes_do_not_grow_with_depth() {
    let classes = |layers| find(&network(layers, true)).members(|block| block.class).len();
    assert_eq!([classes(2), classes(8), classes(40)], [3, 3, 3]);
}

#[test]
fn backward_nodes_are_tied_to_their_block() {
    let step = network(3, false);
    let found = find(&step);
    for (id, node) in step.nodes() {
        let block = &found.blocks[found.block_of[id.index()]].name;
        match node.path.split('.').nth(1) {
            Some(layer) if node.path.starts_with("h.") => {
                assert_eq!(*block, format!("h.{layer}"), "{}", node.name)
            }
            _ if node.path.is_empty() => assert!(block.starts_with("h."), "{}", node.name),
            _ => assert!(!block.starts_with("h."), "{}", node.name),
        }
    }
}

#[test]
fn without_a_chain_repeats_are_found_among_nodes() {
    // Two values cross every step, as in a cell with two states.
    let mut net = Net { builder: StepBuilder::default(), backward: false };
    let hidden = [ROWS, WIDTH];
    let weight = net.parameter(&[WIDTH, WIDTH]);
    let x = net.builder.resident(Ty::dense("f32", 4, &hidden), Source::Input);
    let mut h = net.op("first", "mm.default", &[x, weight], &[], &hidden);
    let mut c = net.op("second", "mm.default", &[x, weight], &[], &hidden);
    for _ in 0..12 {
        let gates: Vec<ValueId> =
            (0..3).map(|_| net.op("cell", "mm.default", &[h, weight], &[], &hidden)).collect();
        let gates: Vec<ValueId> =
            gates.into_iter().map(|gate| net.op("cell", "sigmoid.default", &[gate], &[], &hidden)).collect();
        c = net.op("cell", "mul.Tensor", &[c, gates[0]], &[], &hidden);
        c = net.op("cell", "add.Tensor", &[c, gates[1]], &[1], &hidden);
        h = net.op("cell", "mul.Tensor", &[c, gates[2]], &[], &hidden);
    }
    let last = net.op("last", "add.Tensor", &[h, c], &[1], &hidden);
    net.builder.returned(last, Role::Output);
    let found = find(&net.builder.finish());
    let sizes: Vec<usize> = found.members(|block| block.class).iter().map(Vec::len).collect();
    assert!(sizes.iter().any(|&size| size >= 10), "{}", report::text(&found));
}

#[test]
fn the_same_step_gives_the_same_report() {
    let step = network(5, true);
    assert_eq!(report::text(&find(&step)), report::text(&find(&step)));
}

#[test]
fn an_empty_step_has_no_blocks() {
    assert!(find(&StepBuilder::default().finish()).blocks.is_empty());
}
