//! Transfers: a value may wait in host memory between two of its uses.
//!
//! A *transfer* moves one value over the link between device and host while the runs go on. There is one copy engine per
//! direction, which serves its transfers in order. Positions are *points*: point `k` lies before run `k` of the sequence, and the
//! last point behind the last run. When the runs come to a point,
//!
//! 1. they wait for every transfer whose `end` it is,
//! 2. storage that is not needed from there on is given back,
//! 3. every transfer whose `start` it is is handed to its engine, in the order of the list.
//!
//! So storage changes hands at points alone. What is where at a run follows from the order of the schedule, however long a
//! copy takes, and both peaks are promises for every timing. Time enters in one number: the makespan.
//!
//! The laws, beside those of runs ([`mod@crate::judge`]):
//!
//! - **S10** a transfer moves what is there: an offload begins where the value is on the device and ends later; a fetch begins where
//!   host memory has all of it, and ends later; what is pinned is the caller's and stays
//! - **S11** no run reads a value that is away, from the end of its offload to the end of its fetch; no run makes a value
//!   anew that is on its way
//! - **S12** what waits in host memory, or is on its way there or back, fits in the host's budget at every run
//!
//! On the device a value counts from its run, or from the start of its fetch, to its last use before it is fetched or made again,
//! and at least to the end of a transfer of it. What an offload brought stays in host memory to the end of the last fetch of it, so
//! one offload can serve several fetches. S7 speaks of the device, and S6 holds for each stay on it: while an
//! offload reads a buffer, nothing takes the buffer over.
//!
//! Source: Beaumont, Eyraud-Dubois, Shilova, "Efficient combination of rematerialization and offloading for training DNNs"
//! (NeurIPS 2021), for one link with one engine per direction. Not here: which values should wait (`rk-solve`).

mod clock;
mod judge;
mod link;

pub use judge::judge_transfers;
pub use link::{Latency, LinkError, Rate, nothing_fits, per_second};

use std::fmt;

use crate::judge::{Illegal, Trace};
use crate::units::{Bytes, NodeId, Time, ValueId};

/// Where a transfer goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Direction {
    /// From the device to host memory.
    Offload,
    /// From host memory to the device.
    Fetch,
}

impl Direction {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Offload, Self::Fetch];
}

impl fmt::Display for Direction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Offload => "offload",
            Self::Fetch => "fetch",
        })
    }
}

/// One copy between device and host. Points are those of the module.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Transfer {
    /// What moves.
    pub value: ValueId,
    /// Which way.
    pub direction: Direction,
    /// The point at which the engine gets it.
    pub start: usize,
    /// The point at which the runs wait for its end.
    pub end: usize,
}

/// A copy engine: so many bytes in so many ticks, after a latency. It is busy for both.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Engine {
    /// Bytes that it moves in `ticks`; with zero there is no such engine.
    pub bytes: u64,
    /// See `bytes`.
    pub ticks: u64,
    /// Ticks before the first byte of each transfer.
    pub latency: Time,
}

impl Engine {
    /// Ticks of one transfer, rounded up.
    pub fn time(self, bytes: Bytes) -> Time {
        let copying = (u128::from(bytes.0) * u128::from(self.ticks)).div_ceil(u128::from(self.bytes.max(1)));
        self.latency + Time(u64::try_from(copying).unwrap_or(u64::MAX))
    }

    /// Bytes that it can have moved after a time, at most.
    pub fn moved_in(self, time: Time) -> Bytes {
        let most = u128::from(time.0).saturating_mul(u128::from(self.bytes)) / u128::from(self.ticks.max(1));
        Bytes(if self.ticks == 0 && self.bytes > 0 {
            u64::MAX
        } else {
            u64::try_from(most).unwrap_or(u64::MAX)
        })
    }
}

/// The other side of the link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Host {
    /// From the device.
    pub offload: Engine,
    /// To the device.
    pub fetch: Engine,
    /// The bytes that may wait there; `None`: as many as there are.
    pub budget: Option<Bytes>,
}

impl Host {
    /// The engine of a direction.
    pub fn engine(&self, direction: Direction) -> Engine {
        match direction {
            Direction::Offload => self.offload,
            Direction::Fetch => self.fetch,
        }
    }
}

/// What the judge found out about a legal sequence with its transfers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TransferTrace {
    /// The device: its instances are stays on it, and its time is that of all runs, waits left out.
    pub device: Trace,
    /// From the start to the end of the last run or transfer.
    pub makespan: Time,
    /// The most bytes in host memory at any run.
    pub host_peak: Bytes,
    /// Bytes in host memory at each run.
    pub host_memory: Vec<Bytes>,
    /// When the runs pass each point, its waits included.
    pub passed: Vec<Time>,
    /// When each transfer begins and ends, in the order of the list.
    pub spans: Vec<(Time, Time)>,
}

impl TransferTrace {
    /// The time that the runs spend waiting.
    pub fn stall(&self) -> Time {
        Time(self.makespan.0.saturating_sub(self.device.time.0))
    }
}

/// What is wrong with a transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The graph has no such value.
    NoSuchValue,
    /// The host has no engine in this direction.
    NoEngine,
    /// The value is pinned: the caller has it.
    Pinned,
    /// It does not end behind its start, or not within the schedule.
    Ends,
    /// An offload of what is not on the device, or is on its way.
    NotOnTheDevice,
    /// A fetch of what host memory does not have, or not all of.
    NotInTheHost,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NoSuchValue => "there is no such value",
            Self::NoEngine => "there is no engine in this direction",
            Self::Pinned => "the value is pinned",
            Self::Ends => "it does not end behind its start and within the schedule",
            Self::NotOnTheDevice => "the value is not on the device, or on its way",
            Self::NotInTheHost => "host memory does not have the whole value",
        })
    }
}

/// The first law that a sequence with transfers breaks.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unlawful {
    /// A law of runs.
    #[error(transparent)]
    Runs(#[from] Illegal),
    /// S10: it moves what is not there.
    #[error("S10 broken by transfer {transfer}, {} of value {}: {fault}", about.direction, about.value.0)]
    S10NotThere {
        /// Its place in the list.
        transfer: usize,
        /// The transfer.
        about: Transfer,
        /// What is wrong.
        fault: Fault,
    },
    /// S11: a run reads what is away, or makes anew what is on its way.
    #[error("S11 broken at step {step}: node {} {} value {}, which is {}", node.0, if *reads { "reads" } else { "makes" },
        value.0, if *reads { "away" } else { "on its way" })]
    S11Away {
        /// Which run.
        step: usize,
        /// Its node.
        node: NodeId,
        /// What is away.
        value: ValueId,
        /// It is read; else it is made.
        reads: bool,
    },
    /// S12: too many bytes in host memory.
    #[error("S12 broken at step {step}: {} bytes are in host memory, its budget is {}", memory.0, budget.0)]
    S12OverHostBudget {
        /// The first run over the budget.
        step: usize,
        /// Bytes there.
        memory: Bytes,
        /// Bytes allowed.
        budget: Bytes,
    },
}
