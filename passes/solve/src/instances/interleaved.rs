//! Instances whose lives overlap without containing one another: several micro-batches first in, first out.
//!
//! The problem of [`crate::instances`] is then a knapsack with one constraint per event. The choice is a heuristic: begin with
//! what holds least, mend what does not fit, then take what saves the most time for the scarcest bytes as long as it
//! fits. The bound is Lagrange's: a price per byte at every event, found by subgradient steps; at fixed prices each instance
//! chooses by itself.
//!
//! Source: Fisher, "The Lagrangian relaxation method for solving integer programming problems" (Management Science, 1981);
//! Toyoda's weights for the greedy (Management Science, 1975).

use crate::instances::{Choice, Run, Unmet, highest};

/// Steps of the subgradient method.
const STEPS: usize = 60;

/// See [`crate::instances::choose`].
pub(crate) fn choose(run: &Run, budget: u64) -> Result<Choice, Unmet> {
    let least = |instance| {
        let options = run.variants(instance).iter().enumerate();
        options.min_by_key(|(_, variant)| (variant.held, variant.time)).map_or(0, |(place, _)| place)
    };
    let mut choice: Vec<usize> = (0..run.instances.len()).map(least).collect();
    mend(run, budget, &mut choice);
    let (event, peak) = highest(&run.loads(&choice));
    if peak > budget {
        return Err(Unmet { smallest: peak, event });
    }
    improve(run, budget, &mut choice);
    Ok(run.chosen(choice, bound(run, budget)))
}

/// Bytes beyond the budget, over all events.
fn excess(loads: &[u64], budget: u64) -> u64 {
    loads.iter().map(|&load| load.saturating_sub(budget)).fold(0, u64::saturating_add)
}

/// The loads after one instance has changed its variant.
fn moved(run: &Run, loads: &[u64], choice: &[usize], instance: usize, variant: usize) -> Vec<u64> {
    let (life, options) = (run.instances[instance], run.variants(instance));
    let mut after = loads.to_vec();
    for (event, load) in after.iter_mut().enumerate().take(life.to + 1).skip(life.from) {
        let before = run.takes(instance, &options[choice[instance]], event);
        *load = *load - before + run.takes(instance, &options[variant], event);
    }
    after
}

/// All changes of one instance.
fn moves(run: &Run, choice: &[usize]) -> Vec<(usize, usize)> {
    let all =
        (0..choice.len()).flat_map(|one| (0..run.variants(one).len()).map(move |variant| (one, variant)));
    all.filter(|&(instance, variant)| choice[instance] != variant).collect()
}

/// Changes that bring the loads nearer to the budget, the best first.
fn mend(run: &Run, budget: u64, choice: &mut [usize]) {
    let mut loads = run.loads(choice);
    while excess(&loads, budget) > 0 {
        let (worst, _) = highest(&loads);
        let there = |&(instance, _): &(usize, usize)| {
            (run.instances[instance].from..=run.instances[instance].to).contains(&worst)
        };
        let tried = moves(run, choice).into_iter().filter(there).map(|(instance, variant)| {
            let after = moved(run, &loads, choice, instance, variant);
            (excess(&after, budget), run.variants(instance)[variant].time, instance, variant)
        });
        let Some((left, _, instance, variant)) = tried.min() else { return };
        if left >= excess(&loads, budget) {
            return;
        }
        loads = moved(run, &loads, choice, instance, variant);
        choice[instance] = variant;
    }
}

/// Faster variants that fit, those first that save the most for the share of the room that they take.
fn improve(run: &Run, budget: u64, choice: &mut [usize]) {
    let mut loads = run.loads(choice);
    loop {
        let mut best: Option<(f64, usize, usize)> = None;
        for (instance, variant) in moves(run, choice) {
            let (options, life) = (run.variants(instance), run.instances[instance]);
            let (now, then) = (&options[choice[instance]], &options[variant]);
            if then.time >= now.time {
                continue;
            }
            let mut price = 0.0;
            let fits = (life.from..=life.to).all(|event| {
                let (before, after) = (run.takes(instance, now, event), run.takes(instance, then, event));
                let room = budget - loads[event];
                price += after.saturating_sub(before) as f64 / (room as f64 + 1.0);
                after <= before.saturating_add(room)
            });
            let worth = (now.time - then.time) as f64 / (price + 1e-9);
            if fits && best.is_none_or(|(most, ..)| worth > most) {
                best = Some((worth, instance, variant));
            }
        }
        let Some((_, instance, variant)) = best else { return };
        loads = moved(run, &loads, choice, instance, variant);
        choice[instance] = variant;
    }
}

/// No choice that fits takes less time.
pub(crate) fn bound(run: &Run, budget: u64) -> u64 {
    let mut prices = vec![0.0f64; run.events.len()];
    let (mut best, mut step) = (0.0f64, 1.0f64);
    for _ in 0..STEPS {
        // Prices up to each event, so that what is held over a life is a difference.
        let sums: Vec<f64> = std::iter::once(0.0)
            .chain(prices.iter().scan(0.0, |sum, price| {
                *sum += price;
                Some(*sum)
            }))
            .collect();
        let mut own: Vec<Vec<usize>> = vec![Vec::new(); run.instances.len()];
        for (event, about) in run.events.iter().enumerate() {
            if let Some(instance) = about.runs {
                own[instance].push(event);
            }
        }
        let mut value = 0.0;
        let mut choice = Vec::with_capacity(run.instances.len());
        for (instance, life) in run.instances.iter().enumerate() {
            let priced = |(place, variant): (usize, &crate::instances::Variant)| {
                let mut cost =
                    variant.time as f64 + variant.held as f64 * (sums[life.to + 1] - sums[life.from]);
                for &event in &own[instance] {
                    let more = run.takes(instance, variant, event) as f64 - variant.held as f64;
                    cost += more * prices[event];
                }
                (cost, place)
            };
            let options = run.variants(instance).iter().enumerate().map(priced);
            let least = options.min_by(|left, right| left.0.total_cmp(&right.0)).unwrap_or((0.0, 0));
            value += least.0;
            choice.push(least.1);
        }
        for (event, price) in prices.iter().enumerate() {
            value -= price * (budget as f64 - run.events[event].beside as f64);
        }
        best = best.max(value);
        let loads = run.loads(&choice);
        let over: Vec<f64> = loads.iter().map(|&load| load as f64 - budget as f64).collect();
        let norm: f64 = over
            .iter()
            .zip(&prices)
            .map(|(over, price)| if *over > 0.0 || *price > 0.0 { over * over } else { 0.0 })
            .sum();
        if norm == 0.0 {
            break;
        }
        let scale = step * value.abs().max(1.0) * 0.1 / norm;
        prices.iter_mut().zip(&over).for_each(|(price, over)| *price = (*price + scale * over).max(0.0));
        step *= 0.93;
    }
    // Sums of doubles: a little less is surely a bound.
    (best * (1.0 - 1e-9)).floor().max(0.0) as u64
}
