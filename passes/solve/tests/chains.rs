//! Chains: the curve of rotor and its baselines against exhaustive search and what is published of revolve.

#[allow(dead_code, reason = "shared with tests that need all of it")]
mod oracle;

use std::collections::BTreeMap;

use oracle::optimum;
use rk_plan::{Bytes, Graph, base_trace, judge, text, working_set};
use rk_solve::chain_dp::blocks::chain;
use rk_solve::chain_dp::rockmate::rockmate_stages;
use rk_solve::chain_dp::rotor::{Stage, curve, keep_everything, periodic, revolve, stages};
use rk_solve::synthetic::{self, Family};
use rk_solve::{Request, Solver, solve};

/// `sizes.len()` layers and a loss, then a backward node for each that reads the layer's input and the gradient.
fn layers(sizes: &[u64], times: impl Fn(usize) -> u64) -> Graph {
    let mut text = String::new();
    for (layer, bytes) in sizes.iter().enumerate() {
        let read = if layer == 0 { String::new() } else { format!("(f{})", layer - 1) };
        text += &format!("f{layer}{read} {bytes} {} fwd\n", times(layer));
    }
    let last = sizes.len() - 1;
    text += &format!("loss(f{last}) 1 {} fwd\n", times(sizes.len()));
    text += &format!("b{last}(loss, f{last}) {} 1 bwd\n", sizes[last]);
    for layer in (0..last).rev() {
        text += &format!("b{layer}(b{}, f{layer}) {} 1 bwd\n", layer + 1, sizes[layer]);
    }
    text::read(&text).unwrap_or_else(|error| panic!("{error}"))
}

fn plain(graph: &Graph) -> Vec<Stage> {
    stages(graph, 1, |graph, block| vec![keep_everything(graph, block)])
}

#[test]
fn a_curve_is_legal_falls_and_ends_where_nothing_is_smaller() {
    for sizes in [&[4, 4, 4, 4][..], &[3, 7, 2, 5], &[9, 1, 1, 6], &[5]] {
        let graph = layers(sizes, |layer| 1 + layer as u64 % 3);
        for stages in [plain(&graph), rockmate_stages(&graph, 1)] {
            let points = curve(&graph, stages);
            let fastest = points.first().expect("at least the given order");
            assert_eq!(fastest.1, graph.total_time(), "{sizes:?}");
            assert!(fastest.0 <= base_trace(&graph).peak);
            for (peak, time, sequence) in &points {
                let trace = judge(&graph, sequence).expect("legal");
                assert_eq!((trace.peak, trace.time), (*peak, *time));
                let best = optimum(&graph, *peak).expect("there is a plan");
                assert!(best <= time.0, "{sizes:?} at {peak}: {} beats the optimum {best}", time.0);
                assert!(time.0 <= 2 * best, "{sizes:?} at {peak}: {} instead of {best}", time.0);
            }
            assert!(points.windows(2).all(|pair| pair[0].0 > pair[1].0 && pair[0].1 < pair[1].1));
            let (smallest, _, _) = points.last().expect("a point");
            assert!(*smallest >= working_set(&graph).0);
        }
    }
}

/// More than any chain takes.
const IMPOSSIBLE: u64 = 1 << 40;

/// The least forward time of a chain with a number of places for inputs of blocks, that of the first one included. The input of
/// the very last block need not be kept.
fn recurrence(times: &[u64], free: usize, known: &mut BTreeMap<(usize, usize), u64>) -> u64 {
    if times.len() == 1 {
        return times[0];
    }
    if free == 0 {
        return IMPOSSIBLE;
    }
    if let Some(&time) = known.get(&(times.len(), free)) {
        return time;
    }
    let best = (1..times.len()).map(|middle| {
        let (left, right) = times.split_at(middle);
        left.iter().sum::<u64>() + recurrence(right, free - 1, known) + recurrence(left, free, known)
    });
    let best = best.min().expect("two or more blocks");
    known.insert((times.len(), free), best);
    best
}

/// An input and residual layers, each one block whose backward node reads an inner value; one tick per block.
fn blocks(layers: usize) -> Graph {
    let mut text = String::from("x0 8 1 fwd\n");
    for layer in 1..=layers {
        let before = layer - 1;
        text += &format!("h{layer}(x{before}) 8 1 fwd\nx{layer}(h{layer}, x{before}) 8 0 fwd\n");
    }
    text += &format!("loss(x{layers}) 1 1 fwd\nd{layers}(loss, h{layers}) 8 1 bwd\n");
    for layer in (1..layers).rev() {
        text += &format!("d{layer}(d{}, h{layer}) 8 1 bwd\n", layer + 1);
    }
    text::read(&text).unwrap_or_else(|error| panic!("{error}"))
}

#[test]
fn revolve_is_binomial_checkpointing() {
    for layers in 1..=14 {
        let graph = blocks(layers);
        let stages = plain(&graph);
        let times: Vec<u64> = stages.iter().map(|stage| stage.time).collect();
        assert_eq!(times, vec![1; layers + 2]);
        let backward = graph.total_time().0 - times.iter().sum::<u64>();
        for checkpoints in 1..=4 {
            let trace = judge(&graph, &revolve(&graph, &stages, checkpoints)).expect("legal");
            let least = recurrence(&times, checkpoints, &mut BTreeMap::new()) + backward;
            // The input has no backward node, so it need not run once more at the very end.
            let context = format!("{layers} layers, {checkpoints} checkpoints: {} for {least}", trace.time.0);
            assert!(trace.time.0 <= least && trace.time.0 + 1 >= least, "{context}");
        }
    }
}

/// Blocks of one tick with a tape of so many bytes, that only their own backward nodes read. Outputs are one byte, and gradients
/// four, so that most is there on the way back.
fn taped(layers: usize, tape: u64) -> Graph {
    let mut text = String::from("x0 1 0 fwd\n");
    for layer in 1..=layers {
        let before = layer - 1;
        text += &format!("h{layer}(x{before}) {tape} 1 fwd\nx{layer}(h{layer}, x{before}) 1 0 fwd\n");
    }
    text += &format!("loss(x{layers}) 1 0 fwd\nd(loss) 4 0 bwd\nd{layers}(d, h{layers}) 4 1 bwd\n");
    for layer in (1..layers).rev() {
        text += &format!("d{layer}(d{}, h{layer}) 4 1 bwd\n", layer + 1);
    }
    text::read(&text).unwrap_or_else(|error| panic!("{error}"))
}

/// `t(l, c) = r l - b(c + 1, r - 1)` with `b(c, r) = (c + r)! / (c! r!)` and the `r` with `b(c, r - 1) < l <= b(c, r)`: how many
/// steps run forward beside the `l` whose tapes are made, with places for `c` states. Source: Griewank and Walther, Algorithm
/// 799, ACM TOMS 26(1), 2000.
fn griewank_and_walther(steps: u64, places: u64) -> u64 {
    let binomial = |n: u64, k: u64| (0..k).fold(1, |product, i| product * (n - i) / (i + 1));
    let repetitions = (0..).find(|r| binomial(places + r, places) >= steps).expect("it grows");
    repetitions.checked_sub(1).map_or(0, |less| repetitions * steps - binomial(places + 1 + less, less))
}

#[test]
fn rotor_takes_the_published_makespans_of_equal_blocks() {
    for (steps, places) in [(1, 1), (2, 1), (10, 1), (10, 3), (25, 4)] {
        let least = recurrence(&vec![1; steps as usize], places as usize, &mut BTreeMap::new());
        assert_eq!(steps + griewank_and_walther(steps, places), least);
    }
    for layers in 2..=14 {
        let tape = 2 * layers as u64 + 8;
        let graph = taped(layers, tape);
        let (steps, base) = (layers as u64, graph.total_time().0);
        // With less than two tapes, all that is kept beside the one at work are states, of one byte each.
        let points = curve(&graph, plain(&graph)).into_iter().filter(|(peak, _, _)| peak.0 < 2 * tape);
        let found: Vec<u64> = points.map(|(_, time, _)| time.0 - base).collect();
        let published = (1..steps).rev().map(|places| griewank_and_walther(steps, places));
        assert_eq!(found, published.collect::<Vec<_>>(), "{layers} blocks");
    }
}

#[test]
fn periodic_checkpoints_run_each_layer_at_most_twice() {
    let graph = layers(&[8; 16], |_| 1);
    let stages = plain(&graph);
    let base = base_trace(&graph);
    let forward: u64 = stages.iter().map(|stage| stage.time).sum();
    let root = judge(&graph, &periodic(&graph, &stages, 4)).expect("legal");
    assert!(root.peak.0 * 3 < base.peak.0 * 2, "{} of {}", root.peak, base.peak);
    assert!(root.time > base.time && root.time.0 <= base.time.0 + forward);
    let all = judge(&graph, &periodic(&graph, &stages, stages.len())).expect("legal");
    assert!(all.peak >= root.peak);
}

#[test]
fn a_mask_that_every_layer_reads_does_not_hide_the_chain() {
    let mut text = String::from("mask 1 1 fwd\nx0 8 1 fwd\n");
    for layer in 1..=12 {
        let before = layer - 1;
        text += &format!("h{layer}(x{before}, mask) 8 1 fwd\nx{layer}(h{layer}, x{before}) 8 1 fwd\n");
    }
    text += "loss(x12) 1 1 fwd\nd12(loss, h12, mask) 8 1 bwd\n";
    for layer in (1..12).rev() {
        text += &format!("d{layer}(d{}, h{layer}, mask) 8 1 bwd\n", layer + 1);
    }
    let graph = text::read(&text).unwrap_or_else(|error| panic!("{error}"));
    let outputs = chain(&graph).into_iter().filter_map(|block| block.output);
    let names: Vec<&str> = outputs.map(|value| graph.value(value).name.as_str()).collect();
    assert!((1..=12).all(|layer| names.contains(&format!("x{layer}").as_str())), "{names:?}");
}

#[test]
fn classes_plan_deep_networks_as_well_as_options_on_every_block_do() {
    for (family, nodes, percent) in [(Family::Transformer, 700, 50), (Family::Bottleneck, 500, 60)] {
        let graph = synthetic::graph(family, nodes, 0);
        let budget = Bytes(base_trace(&graph).peak.0 / 100 * percent);
        let time = |solver| {
            let plan = solve(&Request { solver, ..Request::new(&graph, budget) }).plan.expect("a plan");
            assert!(plan.trace.peak <= budget);
            plan.trace.time.0
        };
        let (by_class, by_block) = (time(Solver::Classes), time(Solver::Rockmate));
        assert!(by_class <= by_block, "{family}: {by_class} instead of {by_block}");
    }
}
