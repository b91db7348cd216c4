//! The choice among variants against all choices there are.

use crate::instances::{Event, Instance, Run, Unmet, Variant, choose, highest, interleaved};

/// A small generator of numbers, so that the cases are the same everywhere.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, below: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % below
    }
}

fn classes(dice: &mut Dice) -> Vec<Vec<Variant>> {
    let variant = |dice: &mut Dice| {
        let held = dice.roll(20);
        Variant {
            held,
            forward: held + dice.roll(9),
            backward: held + dice.roll(15),
            time: 10 + dice.roll(30),
        }
    };
    (0..2).map(|_| (0..1 + dice.roll(3)).map(|_| variant(dice)).collect()).collect()
}

/// Forward and backward halves in a random order; with `nested`, last in first out.
fn step(dice: &mut Dice, count: usize, nested: bool) -> Run {
    let mut run = Run { classes: classes(dice), ..Run::default() };
    let mut open: Vec<usize> = Vec::new();
    while run.instances.len() < count || !open.is_empty() {
        let event = run.events.len();
        let beside = dice.roll(10);
        if dice.roll(6) == 0 {
            run.events.push(Event { runs: None, beside });
        } else if run.instances.len() < count && (open.is_empty() || dice.roll(5) < 3) {
            open.push(run.instances.len());
            run.instances.push(Instance { class: dice.roll(2) as usize, from: event, to: event });
            run.events.push(Event { runs: open.last().copied(), beside });
        } else {
            let place = if nested { open.len() - 1 } else { dice.roll(open.len() as u64) as usize };
            let instance = open.remove(place);
            run.events.push(Event { runs: Some(instance), beside });
            run.instances[instance].to = event;
        }
    }
    run
}

/// The least time within the budget, and the least peak, over all choices.
fn brute_force(run: &Run, budget: u64) -> (Option<u64>, u64) {
    let (mut best, mut smallest) = (None, u64::MAX);
    let mut choice = vec![0; run.instances.len()];
    loop {
        let (_, peak) = highest(&run.loads(&choice));
        smallest = smallest.min(peak);
        if peak <= budget {
            best = Some(best.map_or(run.time(&choice), |time: u64| time.min(run.time(&choice))));
        }
        let Some(place) = (0..choice.len()).find(|&place| choice[place] + 1 < run.variants(place).len())
        else {
            return (best, smallest);
        };
        choice[place] += 1;
        choice[..place].fill(0);
    }
}

#[test]
fn nested_instances_get_the_best_choice_and_the_smallest_budget() {
    let mut dice = Dice(1);
    for case in 0..400 {
        let run = step(&mut dice, 1 + case % 6, true);
        let budget = 15 + dice.roll(60);
        let (best, smallest) = brute_force(&run, budget);
        match choose(&run, budget) {
            Ok(choice) => {
                assert_eq!((Some(choice.time), choice.lower_bound), (best, choice.time), "case {case}");
                assert!(choice.peak <= budget);
                assert_eq!((choice.event, choice.peak), highest(&run.loads(&choice.variants)));
            }
            Err(unmet) => assert_eq!((None, smallest), (best, unmet.smallest), "case {case}"),
        }
    }
}

#[test]
fn interleaved_instances_get_a_choice_that_fits_and_a_bound() {
    let mut dice = Dice(2);
    let (mut found, mut fitting) = (0, 0);
    for case in 0..400 {
        let run = step(&mut dice, 1 + case % 6, false);
        let budget = 25 + dice.roll(60);
        let (best, _) = brute_force(&run, budget);
        fitting += usize::from(best.is_some());
        match interleaved::choose(&run, budget) {
            Ok(choice) => {
                let best = best.expect("it was found");
                assert!(
                    choice.peak <= budget && choice.lower_bound <= best && best <= choice.time,
                    "case {case}"
                );
                found += 1;
            }
            Err(Unmet { smallest, .. }) => assert!(smallest > budget),
        }
    }
    assert!(found * 100 >= fitting * 97, "{found} of {fitting} found");
}

#[test]
fn a_backward_half_frees_nothing_where_another_follows() {
    let keep = Variant { held: 10, forward: 10, backward: 14, time: 30 };
    let events = [0, 0, 0].map(|one| Event { runs: Some(one), beside: 0 }).to_vec();
    let run =
        Run { classes: vec![vec![keep]], instances: vec![Instance { class: 0, from: 0, to: 2 }], events };
    assert_eq!(run.loads(&[0]), [10, 24, 14]);
}

/// The graph is kept for a second backward pass, so that every call is open to the end.
#[test]
fn halves_of_instances_with_others_open_inside_are_counted() {
    let mut dice = Dice(3);
    for case in 0..200 {
        let mut run = step(&mut dice, 1 + case % 6, true);
        let last = run.events.len() - 1;
        run.instances.iter_mut().for_each(|one| one.to = last);
        let budget = 25 + dice.roll(80);
        let (best, smallest) = brute_force(&run, budget);
        match choose(&run, budget) {
            Ok(choice) => {
                assert!(choice.peak <= budget, "case {case}");
                let best = best.expect("it was found");
                assert!(choice.lower_bound <= best && best <= choice.time, "case {case}");
            }
            Err(unmet) => assert!(unmet.smallest >= smallest, "case {case}"),
        }
    }
}

#[test]
fn a_bound_says_more_than_that_everything_is_kept() {
    let keep = Variant { held: 10, forward: 10, backward: 10, time: 30 };
    let drop = Variant { held: 1, forward: 10, backward: 10, time: 40 };
    let events = |order: [usize; 8]| order.map(|one| Event { runs: Some(one), beside: 0 }).to_vec();
    let instances = (0..4).map(|one| Instance { class: 0, from: one, to: one + 4 }).collect();
    let run = Run { classes: vec![vec![keep, drop]], instances, events: events([0, 1, 2, 3, 0, 1, 2, 3]) };
    let choice = choose(&run, 31).expect("three may keep");
    assert_eq!(choice.time, 3 * 30 + 40);
    assert!(choice.lower_bound > 4 * 30, "{}", choice.lower_bound);
}

#[test]
fn many_equal_layers_are_soon_chosen_for() {
    let variants = [(4, 100), (31, 81), (57, 73), (103, 70)];
    let variants = variants.map(|(held, time)| Variant {
        held: held * 1_000_003,
        forward: 110_000_000,
        backward: 150_000_000,
        time,
    });
    let layers = 48;
    let instance = |one| Instance { class: 0, from: one, to: 2 * layers - 1 - one };
    let runs = (0..layers).chain((0..layers).rev());
    let run = Run {
        classes: vec![variants.to_vec()],
        instances: (0..layers).map(instance).collect(),
        events: runs.map(|one| Event { runs: Some(one), beside: 1_000 + one as u64 }).collect(),
    };
    let choice = choose(&run, 48 * 45_000_000).expect("it fits");
    assert_eq!(choice.lower_bound, choice.time);
    assert!(choice.variants.contains(&1) && choice.variants.contains(&2));
}
