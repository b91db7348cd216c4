//! A lowered step on a GPU: queued launch by launch, then captured in pieces, then replayed.
//!
//! The first run is never captured: libraries allocate and choose algorithms then. A capture keeps addresses, so parameters, buffers and
//! inputs that are updated in place are seen by every replay, and results lie where they lay.
//!
//! # Random numbers
//!
//! Torch lets nobody read or set the state of a generator during a capture, and a second run of a node draws with the state of the first. So
//! the step is cut at its draws (`rk_step::graph_segments`): what lies between them becomes a graph each, the draws are queued by torch
//! every time, with the generator saved, set and put back around them as on the CPU. Pieces run one behind the other: a graph
//! is launched on stream 0, forks from there to the streams that it uses and joins them again, and so does what is queued. In between,
//! streams do not overlap. A step without draws is one graph.
//!
//! A draw that is replayed finds what it reads in tensors over the same addresses as in the captured run: every value of the
//! step has one place. These tensors own nothing. What is drawn is allocated by torch each time, at its place.
//!
//! *Why not in the graph, too?* Torch can: a generator that is registered with a `torch.cuda.CUDAGraph` keeps seed and offset on the device, and moves
//! on by what the graph draws before each replay. It takes a generator of its own for every node that draws, which both of its runs share,
//! with offsets set to what the draws before them would have left; and classes of libtorch_cuda, which nothing here links. None of that
//! can be run without a GPU, the emulated one (tools/emulated-gpu) has a generator of its own. Pieces need nothing that the
//! tests do not run; they cost the host the queueing of the draws.
//!
//! # What no graph can hold
//!
//! An operator that waits for the host fails during its capture. Its piece has not run then: it is queued launch by launch, now
//! and every time, and the other pieces are graphs all the same.
//!
//! One that reads what a draw has left in the host's memory would not fail: it would have the number of the first run for ever, or take its
//! address for one of the GPU. A piece is cut at such launches, too.

use std::ops::Range;

use rk_step::LaunchSchedule;
use rk_step::graph_segments::{GraphSegment, cut, graph_segments};
use tch::Tensor;

use super::{Executor, Part};
use crate::cuda::{Driver, Graph};
use crate::error::RuntimeError;
use crate::execution::Execution;
use crate::measured::{Measured, Queueing};
use crate::on_gpu::OnGpu;

/// The GPU that a lowered step runs on, and what is known of its runs there.
pub(super) struct Gpu {
    pub driver: Driver,
    /// What is tried as a graph from the second run on; empty: nothing.
    pieces: Vec<GraphSegment>,
    /// Whether the step has run.
    ran: bool,
    recorded: Option<Recorded>,
}

/// How a step is repeated.
struct Recorded {
    pieces: Vec<Again>,
    /// What is in the slots when it ends, at the same addresses every time.
    results: Vec<(usize, Tensor)>,
    measured: Measured,
}

enum Again {
    Graph(Graph),
    /// Launches that are queued, with what they find in the slots.
    Queue(Range<usize>, Vec<(usize, Tensor)>),
}

impl Gpu {
    pub fn new(driver: Driver, schedule: &LaunchSchedule) -> Self {
        Self { driver, pieces: graph_segments(schedule), ran: false, recorded: None }
    }

    /// Queues a part of the step, and does what is left of it on the host. `kept` are the slots of its results.
    pub fn queue(
        &mut self,
        execution: &mut Execution<'_, '_>,
        schedule: &LaunchSchedule,
        part: Part,
        rehearses: bool,
        kept: &[usize],
    ) -> Result<(), RuntimeError> {
        let Self { driver, pieces, recorded, .. } = self;
        let (all, epilogue) = (schedule.launches.len(), execution.step.program.instrs.len());
        // Where its caller interrupts it, in the program and in the sequence.
        let interruption = execution.step.interruption().unwrap_or(epilogue);
        let middle = schedule.launches.partition_point(|one| one.instr < interruption);
        let mut queue = OnGpu { execution, driver, next: 0, one_by_one: rehearses };
        match (part, recorded) {
            (Part::Replaying, Some(recorded)) => return replay(&mut queue, schedule, &recorded.pieces),
            (Part::Recording, recorded) => {
                let made = record(&mut queue, schedule, pieces)?;
                queue.rest(epilogue + 1)?;
                let results = queue.tensors(kept.iter().copied())?;
                *recorded = Some(Recorded { pieces: made, results, measured: Measured::default() });
                return Ok(());
            }
            (Part::Forward, _) => {
                schedule.enqueue(0..middle, &mut queue)?;
                queue.rest(interruption)?;
                // The views among what the caller gets.
                return queue.execution.segment(epilogue + 1, None);
            }
            (Part::Backward, _) => {
                queue.next = interruption + 1;
                schedule.enqueue(all.min(middle + 1)..all, &mut queue)?;
            }
            _ => schedule.enqueue(0..all, &mut queue)?,
        }
        queue.rest(epilogue + 1)
    }
}

/// Queues the step in pieces, each captured first if it can be.
fn record(
    queue: &mut OnGpu<'_, '_, '_>,
    schedule: &LaunchSchedule,
    pieces: &[GraphSegment],
) -> Result<Vec<Again>, RuntimeError> {
    let mut made = Vec::with_capacity(pieces.len());
    let mut left: Vec<GraphSegment> = pieces.iter().rev().cloned().collect();
    while let Some(piece) = left.pop() {
        let host = match piece.captured {
            true => queue.of_the_host(schedule, piece.launches.clone())?,
            false => Vec::new(),
        };
        if !host.is_empty() {
            left.extend(cut(piece.launches, |launch| host.contains(&launch)).into_iter().rev());
            continue;
        }
        if let Some(graph) = capture(queue, schedule, &piece)? {
            queue.driver.replay(&graph)?;
            made.push(Again::Graph(graph));
            continue;
        }
        let launches = piece.launches;
        let found = queue.found(schedule, launches.clone())?;
        schedule.enqueue(launches.clone(), queue)?;
        made.push(Again::Queue(launches, found));
    }
    Ok(made)
}

/// The graph of a piece, which has not run; `None` when it is not to be captured, or cannot be.
fn capture(
    queue: &mut OnGpu<'_, '_, '_>,
    schedule: &LaunchSchedule,
    piece: &GraphSegment,
) -> Result<Option<Graph>, RuntimeError> {
    if !piece.captured {
        return Ok(None);
    }
    let before = queue.moment()?;
    queue.driver.begin_capture()?;
    let queued = schedule.enqueue(piece.launches.clone(), queue);
    let ended = queue.driver.end_capture(queued.is_err());
    let error = match queued.and(ended) {
        Ok(graph) => return Ok(graph),
        Err(error) => error,
    };
    // What fails for another reason will say so again.
    let Range { start, end } = piece.launches;
    tracing::warn!("launches {start} to {end} are queued one by one, no graph can hold them: {error}");
    queue.go_back(before)?;
    Ok(None)
}

fn replay(
    queue: &mut OnGpu<'_, '_, '_>,
    schedule: &LaunchSchedule,
    pieces: &[Again],
) -> Result<(), RuntimeError> {
    for piece in pieces {
        match piece {
            Again::Graph(graph) => queue.driver.replay(graph)?,
            Again::Queue(launches, found) => {
                queue.put_again(found)?;
                queue.next = schedule.launches[launches.start].instr;
                schedule.enqueue(launches.clone(), queue)?;
                queue.let_go(schedule, launches.clone())?;
            }
        }
    }
    Ok(())
}

impl Executor {
    /// Runs the step on its GPU, whose memory the results stay in: launch by launch, in pieces that are captured on the way, or as these were.
    pub(super) fn on_gpu(&mut self) -> Result<Measured, RuntimeError> {
        let measured = self.queue()?;
        // The caller may keep results while the next run asks torch for memory at the same addresses: they must not be torch's.
        for &slot in &self.kept {
            if let (Some(arena), Some(tensor)) = (&self.arena, self.slots.get(slot)?) {
                self.slots.set(slot, &arena.handle(&tensor)?)?;
            }
        }
        Ok(measured)
    }

    fn queue(&mut self) -> Result<Measured, RuntimeError> {
        let part = match &self.gpu {
            Some(Gpu { recorded: Some(_), .. }) => Part::Replaying,
            Some(Gpu { ran: true, pieces, .. }) if !pieces.is_empty() => Part::Recording,
            _ => Part::Whole,
        };
        let launches = self.schedule.as_ref().map_or(0, |schedule| schedule.launches.len());
        let queued = Some(Queueing { graphs: 0, captured: 0, launches });
        let measured = self.run_once(part)?;
        let measured = Measured { queued, ..self.with_arena(measured) };
        let Some(gpu) = &mut self.gpu else { return Ok(measured) };
        gpu.ran = true;
        let Some(recorded) = &mut gpu.recorded else { return Ok(measured) };
        if part == Part::Recording {
            let graphs = recorded.pieces.iter().filter(|piece| matches!(piece, Again::Graph(_))).count();
            let by_hand = recorded.pieces.iter().map(|piece| match piece {
                Again::Graph(_) => 0,
                Again::Queue(launches, _) => launches.len(),
            });
            let by_hand = by_hand.sum();
            let queued = Some(Queueing { graphs, captured: launches - by_hand, launches: by_hand });
            recorded.measured = Measured { queued, ..measured };
        } else if let (Some(now), Some(counts)) = (measured.counts, &mut recorded.measured.counts) {
            // A replay asks for the memory of what it draws alone.
            counts.outside = counts.outside.max(now.outside);
        }
        let measured = recorded.measured.clone();
        for slot in self.step.resident() as usize..self.slots.len() {
            self.slots.clear(slot)?;
        }
        for (slot, tensor) in &recorded.results {
            let own =
                self.arena.as_ref().map_or_else(|| Ok(tensor.shallow_clone()), |one| one.handle(tensor))?;
            self.slots.set(*slot, &own)?;
        }
        if measured.queued.is_some_and(|queued| queued.graphs == 0) {
            (gpu.recorded, gpu.pieces) = (None, Vec::new());
        }
        Ok(measured)
    }

    /// On a GPU the arena counts as a whole: torch's statistics see it as one block that was there before.
    pub(crate) fn with_arena(&self, measured: Measured) -> Measured {
        let arena = self.step.layout.as_ref().filter(|_| self.gpu.is_some()).map(|layout| layout.arena_bytes);
        match arena {
            Some(arena) => Measured { peak_bytes: measured.peak_bytes + arena, excess: None, ..measured },
            None => measured,
        }
    }

    /// A part of the step begins on the caller's stream.
    pub(crate) fn arrive(&mut self) -> Result<(), RuntimeError> {
        self.gpu.as_mut().map_or(Ok(()), |gpu| gpu.driver.arrive())
    }

    /// The part has been queued, or has failed.
    pub(crate) fn leave(&mut self) -> Result<(), RuntimeError> {
        self.gpu.as_mut().map_or(Ok(()), |gpu| gpu.driver.leave())
    }
}
