//! Plans on disk: a folder with one file per question that was answered.
//!
//! The key of an entry is the SHA-256 of the graph as [`rk_plan::json`] writes it, and that of the question
//! ([`rk_solve::question`]: budget, solver, limits, seed, addresses, revision) with the version of this crate. The file name
//! begins with the first, so that the plans of one graph at other budgets are found as starts.
//!
//! **Invariants.** Nothing in the folder is trusted: an entry that is damaged, foreign or of another version is passed over
//! with a warning, and its plan counts only as far as the judge agrees ([`rk_solve::Record::recall`]). Files appear whole or not
//! at all. No other crate of the plans' world reads or writes files, but for one that asks Linux how large its process is.
//!
//! Not here: eviction. Entries are small; delete the folder when you like.

#![forbid(unsafe_code)]
#![deny(missing_docs)]

use std::path::{Path, PathBuf};

use rk_plan::{Bytes, Graph, NodeId, Sequence, Time, json};
use rk_solve::{Outcome, REVISION, Record, Request, Solver, question};
use rk_vocabulary::write_whole;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

/// Starts from other budgets that are handed out at most.
const NEIGHBOURS: usize = 4;

/// A folder of answers.
#[derive(Clone, Debug)]
pub struct Cache {
    folder: PathBuf,
}

/// What a file holds.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    /// Of everything else, see [`Entry::sum`].
    digest: String,
    version: String,
    graph: String,
    question: String,
    budget: u64,
    solver: Option<String>,
    schedule: Option<Vec<u32>>,
    offsets: Option<Vec<u64>>,
    lower_bound: u64,
    fixed_order: bool,
    infeasible_below: u64,
    peak_holder: u32,
    smallest: Option<Vec<u32>>,
}

impl Cache {
    /// A cache in a folder, which is made if it is not there.
    ///
    /// # Errors
    /// When it cannot be made.
    pub fn open(folder: impl Into<PathBuf>) -> std::io::Result<Self> {
        let folder = folder.into();
        std::fs::create_dir_all(&folder)?;
        Ok(Self { folder })
    }

    /// The answer to a request, judged again, if it is there and holds.
    pub fn load(&self, request: &Request) -> Option<Outcome> {
        let graph = hash_of(request.graph);
        let path = self.path(&graph, request);
        let entry = read(&path)?;
        let ours = entry.graph == graph && entry.question == question(request);
        let answer = if ours { entry.record() } else { Err("it answers another question".into()) };
        match answer.and_then(|record| record.recall(request)) {
            Ok(outcome) => Some(outcome),
            Err(reason) => {
                passed_over(&path, &reason);
                None
            }
        }
    }

    /// Keeps an answer, if it settles something.
    ///
    /// # Errors
    /// When the file cannot be written. The answer is as good as before.
    pub fn store(&self, request: &Request, outcome: &Outcome) -> std::io::Result<()> {
        let Some(record) = Record::of(outcome) else { return Ok(()) };
        let graph = hash_of(request.graph);
        let path = self.path(&graph, request);
        let ids = |sequence: &Sequence| sequence.0.iter().map(|node| node.0).collect::<Vec<u32>>();
        let mut entry = Entry {
            digest: String::new(),
            version: version(),
            graph,
            question: question(request),
            budget: request.budget.0,
            solver: record.plan.as_ref().map(|(solver, _)| solver.name().into()),
            schedule: record.plan.as_ref().map(|(_, sequence)| ids(sequence)),
            offsets: record.offsets.map(|offsets| offsets.into_iter().map(|offset| offset.0).collect()),
            lower_bound: record.lower_bound.0,
            fixed_order: record.fixed_order,
            infeasible_below: record.infeasible_below.0,
            peak_holder: record.peak_holder.0,
            smallest: record.smallest.as_ref().map(ids),
        };
        entry.digest = entry.sum();
        write_whole(&path, &serde_json::to_vec(&entry)?)
    }

    /// Plans of the same graph for other questions, nearest budget first: starts, not answers.
    pub fn neighbours(&self, request: &Request) -> Vec<(Solver, Sequence)> {
        let graph = hash_of(request.graph);
        let Ok(folder) = std::fs::read_dir(&self.folder) else { return Vec::new() };
        let mut paths: Vec<PathBuf> = folder.filter_map(|file| Some(file.ok()?.path())).collect();
        paths.retain(|path| {
            path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(&graph[..16]))
        });
        paths.sort();
        let mut found: Vec<Entry> = paths.iter().filter_map(|path| read(path)).collect();
        found.retain(|entry| entry.graph == graph);
        found.sort_by_key(|entry| entry.budget.abs_diff(request.budget.0));
        let plans = found.iter().filter_map(|entry| entry.record().ok()?.plan);
        plans.take(NEIGHBOURS).collect()
    }

    fn path(&self, graph: &str, request: &Request) -> PathBuf {
        let question = hash(question(request).as_bytes());
        self.folder.join(format!("{}-{}.json", &graph[..16], &question[..32]))
    }
}

impl Entry {
    /// The digest of all fields but itself.
    fn sum(&self) -> String {
        let fields = (&self.version, &self.graph, &self.question, self.budget, &self.solver, &self.schedule);
        let more =
            (self.lower_bound, self.fixed_order, self.infeasible_below, self.peak_holder, &self.smallest);
        // Numbers, strings and lists always serialize.
        hash(serde_json::to_string(&(fields, &self.offsets, more)).unwrap_or_default().as_bytes())
    }

    fn record(&self) -> Result<Record, String> {
        let runs = |ids: &Vec<u32>| ids.iter().map(|&id| NodeId(id)).collect::<Sequence>();
        let plan = match (&self.solver, &self.schedule) {
            (Some(name), Some(ids)) => {
                let solver: Solver = name.parse().map_err(|_| format!("there is no solver {name:?}"))?;
                Some((solver, runs(ids)))
            }
            (None, None) => None,
            _ => return Err("half of a plan is missing".into()),
        };
        Ok(Record {
            plan,
            offsets: self.offsets.as_ref().map(|offsets| offsets.iter().copied().map(Bytes).collect()),
            lower_bound: Time(self.lower_bound),
            fixed_order: self.fixed_order,
            infeasible_below: Bytes(self.infeasible_below),
            peak_holder: NodeId(self.peak_holder),
            smallest: self.smallest.as_ref().map(runs),
        })
    }
}

/// The entry in a file, if there is a file, and an undamaged entry of this version in it.
fn read(path: &Path) -> Option<Entry> {
    let text = match std::fs::read(path) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return None,
        Err(error) => {
            passed_over(path, &error.to_string());
            return None;
        }
    };
    let entry: Entry = match serde_json::from_slice(&text) {
        Ok(entry) => entry,
        Err(error) => {
            passed_over(path, &error.to_string());
            return None;
        }
    };
    if entry.version != version() {
        passed_over(path, "it was written by another version");
    } else if entry.digest != entry.sum() {
        passed_over(path, "it is damaged");
    } else {
        return Some(entry);
    }
    None
}

/// What an entry means: that of this crate, and of records.
fn version() -> String {
    format!("{} revision {REVISION}", env!("CARGO_PKG_VERSION"))
}

fn passed_over(path: &Path, reason: &str) {
    tracing::warn!("{}: this cached plan is passed over: {reason}", path.display());
}

fn hash_of(graph: &Graph) -> String {
    hash(json::write(graph).as_bytes())
}

fn hash(bytes: &[u8]) -> String {
    format!("{:x}", Sha256::digest(bytes))
}
