//! Running the rules until nothing changes, or a limit is met.
//!
//! Every limit is a count, never a clock, and egg is built with its feature `deterministic`: the same step gives the same
//! classes on every machine. When a limit stops the rules, some equal blocks may not be known to be equal; that is
//! sound, and [`Outcome::saturated`] says so.

use std::time::Duration;

use egg::{
    Id, Language as _, Rewrite, Runner, SearchMatches, Searcher, SimpleScheduler, StopReason, Subst, Var,
};

use crate::rules::{self, About, Rule};
use crate::term::{Graph, Heads, Term};
use crate::views;

/// Each iteration halves a chain of views and settles commuted operators one level further up; equalities climb
/// by congruence within an iteration. The steps of the networks in the benchmarks end after 4 at most.
pub const ITERATIONS: usize = 32;

/// The e-graph may grow to this many times the terms that it starts from: a commuted operator adds one term, a view at
/// most one per view below it, a sum one normal form per iteration in which its terms are found to be equal to others.
pub const GROWTH: usize = 4;

/// The e-graph may grow to this many terms in any case, so that small graphs finish.
pub const NODES: usize = 10_000;

/// How a saturation went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// No rule has anything left to say.
    pub saturated: bool,
    /// Iterations that were run.
    pub iterations: usize,
    /// Terms in the end.
    pub terms: usize,
}

/// Runs rules on an e-graph.
pub fn saturate(graph: Graph, rules: &'static [Rule]) -> (Graph, Outcome) {
    let nodes = (graph.total_number_of_nodes() * GROWTH).max(NODES);
    let rewrites: Vec<Rewrite<Term, Heads>> = rules
        .iter()
        .map(|rule| Rewrite::new(rule.name, Asked(rule), Apply(rule)).expect("no rule binds a variable"))
        .collect();
    let runner = Runner::<Term, Heads, ()>::new(Heads::default())
        .with_egraph(graph)
        .with_iter_limit(ITERATIONS)
        .with_node_limit(nodes)
        // A limit in time would make classes depend on the machine.
        .with_time_limit(Duration::from_secs(u64::from(u32::MAX)))
        .with_scheduler(SimpleScheduler)
        .run(&rewrites);
    let outcome = Outcome {
        saturated: matches!(runner.stop_reason, Some(StopReason::Saturated)),
        iterations: runner.iterations.len(),
        terms: runner.egraph.total_number_of_nodes(),
    };
    (runner.egraph, outcome)
}

/// The classes that a rule is asked about.
struct Asked(&'static Rule);

/// What a rule does with one.
struct Apply(&'static Rule);

impl Asked {
    fn families(&self, heads: &Heads) -> Vec<u32> {
        match self.0.about {
            About::Calls(names) => names.iter().filter_map(|name| heads.family_of_call(name)).collect(),
            About::Views => {
                let calls = views::operators().filter_map(|name| heads.family_of_call(name));
                calls.chain(heads.family_of_results()).collect()
            }
            About::Strided => heads.family_of_strided().into_iter().collect(),
        }
    }
}

fn matched<'a>(class: Id) -> SearchMatches<'a, Term> {
    SearchMatches { eclass: class, substs: vec![Subst::default()], ast: None }
}

impl Searcher<Term, Heads> for Asked {
    fn search_eclass_with_limit(
        &self,
        graph: &Graph,
        class: Id,
        limit: usize,
    ) -> Option<SearchMatches<'_, Term>> {
        let families = self.families(&graph.analysis);
        let asked = graph[class].iter().any(|term| families.contains(&term.discriminant()));
        (asked && limit > 0).then(|| matched(class))
    }

    fn search_with_limit(&self, graph: &Graph, limit: usize) -> Vec<SearchMatches<'_, Term>> {
        let families = self.families(&graph.analysis);
        let mut classes: Vec<Id> =
            families.iter().filter_map(|family| graph.classes_for_op(family)).flatten().collect();
        classes.sort_unstable();
        classes.dedup();
        classes.into_iter().take(limit).map(matched).collect()
    }

    fn vars(&self) -> Vec<Var> {
        Vec::new()
    }
}

impl egg::Applier<Term, Heads> for Apply {
    fn apply_one(
        &self,
        graph: &mut Graph,
        class: Id,
        _: &Subst,
        _: Option<&egg::PatternAst<Term>>,
        _: egg::Symbol,
    ) -> Vec<Id> {
        rules::apply(self.0, graph, class)
    }
}
