//! The page of a run: memory adds up to what a choice counts, every call has its row, and names are text.

use rk_plan::{Bytes, Time};
use rk_report::{CalledPlan, CalledStep, calls_html};
use rk_solve::{Event, Instance, Run, Variant, choose};

fn plan(name: &str, held: u64, forward: u64, backward: u64, time: u64, again: usize) -> CalledPlan {
    CalledPlan {
        graph: "<Block>".to_owned(),
        name: name.to_owned(),
        codegen: "fx".to_owned(),
        numbers: Variant { held, forward, backward, time },
        base_time: 10_000,
        again,
    }
}

/// Three layers forward, the caller between, three layers backward; the last two keep all.
fn step() -> CalledStep {
    CalledStep {
        about: "Device cpu".to_owned(),
        budget: Bytes(4096),
        needs: None,
        measured: Some(Bytes(3000)),
        lower_bound: Time(31_000),
        stands: Bytes(100),
        plans: vec![
            plan("checkpoint", 100, 900, 1400, 14_000, 3),
            plan("keep all", 700, 900, 1000, 10_000, 0),
        ],
        calls: vec![(0, 0, 6), (1, 1, 5), (1, 2, 4)],
        moments: vec![
            (Some(0), 0),
            (Some(1), 64),
            (Some(2), 128),
            (None, 512),
            (Some(2), 64),
            (Some(1), 32),
            (Some(0), 0),
        ],
    }
}

#[test]
fn memory_adds_up_to_what_the_choice_counts() {
    let step = step();
    let run = Run {
        classes: step.plans.iter().map(|plan| vec![plan.numbers]).collect(),
        instances: step.calls.iter().map(|&(class, from, to)| Instance { class, from, to }).collect(),
        events: step.moments.iter().map(|&(runs, beside)| Event { runs, beside }).collect(),
    };
    let chosen = choose(&run, 4096).expect("it fits");
    let levels = step.levels();
    let most = levels.iter().copied().max().expect("there are moments");
    assert_eq!(most, Bytes(chosen.peak + 100));
    assert_eq!(levels.iter().position(|&level| level == most), Some(chosen.event));
    // Between the calls all three hold something: 100 + 700 + 700, 512 beside, 100 there all the time.
    assert_eq!(levels[3], Bytes(2112));
}

#[test]
fn the_page_tells_the_sequence_and_asks_no_network() {
    let page = calls_html(&[step(), step()]);
    assert_eq!(page, calls_html(&[step(), step()]));
    for asks in ["src=", "href=", "url(", "@import", "fetch(", "<link", "<!--", "<Block>"] {
        assert!(!page.contains(asks), "{asks}");
    }
    // 34 us instead of 30, and 31 at least.
    let told = "3 calls of 1 graph. Peak 2.07 KiB (2.93 KiB measured), within a budget of 4.00 KiB, held by what runs between the calls; \
                13.33 % more time than without recomputing; every choice needs at least 3.33 %.";
    assert!(page.contains("Step 2 of 2") && page.contains(told), "{page}");
    assert!(page.contains("<td>checkpoint</td><td>fx</td><td>1</td><td>100 B</td>"), "{page}");
    assert_eq!(page.matches("<td>keep all</td><td>700 B</td>").count(), 4, "two calls in each of two steps");
    let unmet = CalledStep { needs: Some(Bytes(8192)), ..step() };
    assert!(calls_html(&[unmet]).contains("nothing fits: the smallest budget known to do is 8.00 KiB."));
    assert!(calls_html(&[]).contains("Nothing has been planned"));
}

#[test]
fn numbers_that_contradict_each_other_are_seen() {
    assert!(step().is_sound());
    let plan = CalledStep { calls: vec![(2, 0, 6), (1, 1, 5), (1, 2, 4)], ..step() };
    let end = CalledStep { calls: vec![(0, 0, 7), (1, 1, 5), (1, 2, 4)], ..step() };
    let closed = CalledStep { calls: vec![(0, 0, 6), (1, 1, 5), (1, 2, 3)], ..step() };
    let nobody = CalledStep { moments: vec![(Some(3), 0)], calls: vec![], ..step() };
    for wrong in [plan, end, closed, nobody] {
        assert!(!wrong.is_sound(), "{wrong:?}");
    }
}
