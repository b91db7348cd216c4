//! What the judge of transfers says, a second time and differently: lives as intervals that follow from events of each value, and
//! time as three actors (the runs, two copy engines) that act when something ends.
//!
//! [`play`] takes the true duration of every run and copy from outside and counts the bytes that are there at every moment, so that it can
//! show that both peaks hold for every timing.

use std::collections::VecDeque;

use rk_plan::{Direction, Graph, Sequence, Transfer, may_overwrite};

/// A piece of storage: from the point before run `first` to the point behind run `last`.
#[derive(Clone, Copy, Debug)]
pub struct Life {
    pub bytes: u64,
    pub first: usize,
    pub last: usize,
}

/// All storage on the device and in host memory, or which law is broken ("S10", "S11").
pub fn lives(
    graph: &Graph,
    runs: &Sequence,
    transfers: &[Transfer],
) -> Result<(Vec<Life>, Vec<Life>), &'static str> {
    let (mut device, mut host) = (Vec::new(), Vec::new());
    let n = runs.0.len();
    for (index, about) in graph.values().iter().enumerate() {
        let made: Vec<usize> = (0..n).filter(|&run| runs.0[run] == about.producer).collect();
        let read = |run: usize| graph.node(runs.0[run]).reads.iter().any(|value| value.index() == index);
        let mine: Vec<&Transfer> = transfers.iter().filter(|one| one.value.index() == index).collect();
        if mine.iter().any(|one| about.pinned || one.start >= one.end || one.end > n || one.start <= made[0])
        {
            return Err("S10");
        }
        let mut open = mine.len();
        for (turn, &born) in made.iter().enumerate() {
            let until = made.get(turn + 1).copied().unwrap_or(n);
            // Of this production: begun before the next one is made.
            let mut own: Vec<&&Transfer> =
                mine.iter().filter(|one| (born + 1..=until).contains(&one.start)).collect();
            own.sort_by_key(|one| one.start);
            open -= own.len();
            if own.windows(2).any(|pair| pair[1].start < pair[0].end) {
                return Err("S10");
            }
            if own.first().is_some_and(|one| one.direction == Direction::Fetch)
                || own.windows(2).any(|pair| pair.iter().all(|one| one.direction == Direction::Offload))
            {
                return Err("S10");
            }
            if own.last().is_some_and(|one| one.end > until && until < n) {
                return Err("S11");
            }
            // Stays: each begins at the birth or a fetch and reaches to the next fetch or birth.
            let mut begins = vec![(born, born)];
            begins.extend(
                own.iter().filter(|one| one.direction == Direction::Fetch).map(|one| (one.start, one.end)),
            );
            for (stay, &(first, ready)) in begins.iter().enumerate() {
                let horizon = begins.get(stay + 1).map_or(until, |next| next.0);
                let leaves = own.iter().find(|one| {
                    one.direction == Direction::Offload && (first + 1..=horizon).contains(&one.start)
                });
                // Its producer reads nothing of its own making, so a read comes behind the birth.
                let uses: Vec<usize> = (first.max(born + 1)..horizon.max(born + 1))
                    .filter(|&run| run < n && read(run))
                    .chain((horizon == until && until < n && read(until)).then_some(until))
                    .collect();
                if uses
                    .iter()
                    .any(|&run| (stay > 0 && run < ready) || leaves.is_some_and(|one| run >= one.end))
                {
                    return Err("S11");
                }
                let gone = leaves.map_or(0, |one| one.end - 1);
                let mut last = uses.last().copied().unwrap_or(first).max(gone).max(if stay > 0 {
                    ready - 1
                } else {
                    first
                });
                if about.pinned && turn + 1 == made.len() {
                    last = n - 1;
                } else if leaves.is_none()
                    && uses.last() == Some(&last)
                    && may_overwrite(graph, runs.0[last]).is_some_and(|over| over.index() == index)
                {
                    last -= 1;
                }
                device.push(Life { bytes: about.bytes.0, first, last });
            }
            // Copies: from an offload to the last fetch before the next offload.
            for (at, offload) in own.iter().enumerate().filter(|(_, one)| one.direction == Direction::Offload)
            {
                let fetches = own[at + 1..].iter().take_while(|one| one.direction == Direction::Fetch);
                let last = fetches.last().map_or(offload.end, |one| one.end) - 1;
                host.push(Life { bytes: about.bytes.0, first: offload.start, last });
            }
        }
        assert_eq!(open, 0, "every transfer belongs to a production");
    }
    for (run, &node) in runs.0.iter().enumerate() {
        device.push(Life { bytes: graph.node(node).workspace.0, first: run, last: run });
    }
    for id in graph.node_ids() {
        let at: Vec<usize> = (0..n).filter(|&run| runs.0[run] == id).collect();
        if let [first, .., last] = at[..] {
            device.push(Life { bytes: graph.node(id).state.0, first, last });
        }
    }
    Ok((device, host))
}

/// The most bytes of any run.
pub fn peak(lives: &[Life], runs: usize) -> u64 {
    let at = |run: usize| {
        lives.iter().filter(|life| life.first <= run && run <= life.last).map(|life| life.bytes).sum()
    };
    (0..runs).map(at).max().unwrap_or(0)
}

/// The makespan, and the most bytes at any moment on the device and in host memory.
pub fn play(
    transfers: &[Transfer],
    run_time: &[u64],
    copy_time: &[u64],
    device: &[Life],
    host: &[Life],
) -> (u64, u64, u64) {
    let n = run_time.len();
    let mut done = vec![false; transfers.len()];
    let mut queues = [VecDeque::new(), VecDeque::new()];
    let mut busy: [Option<(u64, usize)>; 2] = [None, None];
    let (mut now, mut point, mut running) = (0u64, 0usize, None::<u64>);
    let (mut most, mut most_host) = (0, 0);
    loop {
        // Everything that can happen now.
        loop {
            let mut moved = false;
            if running.is_some_and(|end| end <= now) {
                (running, point, moved) = (None, point + 1, true);
            }
            for engine in &mut busy {
                if let Some((_, copy)) = engine.filter(|(end, _)| *end <= now) {
                    (done[copy], *engine, moved) = (true, None, true);
                }
            }
            let waits = transfers.iter().zip(&done).any(|(one, done)| one.end == point && !done);
            if running.is_none() && point <= n && !waits {
                // The point is passed: its storage changes hands, its transfers are handed over.
                for (index, one) in transfers.iter().enumerate().filter(|(_, one)| one.start == point) {
                    queues[usize::from(one.direction == Direction::Fetch)].push_back(index);
                }
                if point == n {
                    assert!(done.iter().all(|done| *done));
                    return (now, most, most_host);
                }
                let there = |lives: &[Life]| -> u64 {
                    lives
                        .iter()
                        .filter(|life| life.first <= point && point <= life.last)
                        .map(|life| life.bytes)
                        .sum()
                };
                (most, most_host) = (most.max(there(device)), most_host.max(there(host)));
                (running, moved) = (Some(now + run_time[point]), true);
            }
            for (engine, queue) in busy.iter_mut().zip(&mut queues) {
                if engine.is_none()
                    && let Some(copy) = queue.pop_front()
                {
                    (*engine, moved) = (Some((now + copy_time[copy], copy)), true);
                }
            }
            // What an engine reads or writes now has storage on both sides.
            for (_, copy) in busy.iter().flatten() {
                assert!(
                    transfers[*copy].start <= point && point <= transfers[*copy].end,
                    "a copy outside of its points"
                );
            }
            if !moved {
                break;
            }
        }
        let next = busy.iter().flatten().map(|(end, _)| *end).chain(running).min();
        now = next.expect("nobody can move: the schedule is stuck");
    }
}
