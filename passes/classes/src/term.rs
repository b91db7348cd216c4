//! The language of the e-graph: a term is what a value is, without names.
//!
//! A block becomes terms over its anonymized arguments. Everything but the children is in the *head*, interned so that
//! e-nodes stay small; a head is equal to another only when every constant, dtype, stride and flag is.
//!
//! In-place calls become values too: [`Head::Wrote`] is an operand after a call wrote it, [`Head::Stale`] another name of
//! that storage, read afterwards. A random call takes the state of the generator as its first child, and
//! [`Head::State`] is the state that it leaves: two draws of one block are never one term, for their states differ.
//!
//! Source: Willsey et al., "egg: fast and extensible equality saturation", POPL 2021.

use std::collections::HashMap;
use std::sync::Arc;

use egg::{DidMerge, EGraph, Id, Language};

use crate::step::{Operator, Source, Ty};

/// What an argument of a block is, by where it comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Kind {
    /// Stands before the step.
    Resident(Source),
    /// A forward value of another block.
    Forward,
    /// A backward value of another block.
    Backward,
}

/// Everything of a term but its children.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Head {
    /// The `number`-th argument of this kind and type. Constants have no number: their bits say who they are.
    Argument {
        /// Where it comes from.
        kind: Kind,
        /// Its type.
        ty: Arc<Ty>,
        /// Its place among those of the same kind and type, in order of first use.
        number: usize,
    },
    /// The state of the generator when the forward (false) or the backward nodes of the block start: other blocks draw between.
    Start(bool),
    /// A call; its value if it has one fresh or view result and writes nothing, otherwise a tuple.
    Call(Arc<Operator>),
    /// One result of a call that is a tuple.
    Result(usize, Arc<Ty>),
    /// The state of the generator after a random call.
    State,
    /// An operand of a call after the call wrote it.
    Wrote(usize, Arc<Ty>),
    /// Another name (first child) of storage that was written since (second child).
    Stale(Arc<Ty>),
    /// A view: elements of its child's storage, `offset` elements after the child's first, at the strides of the type.
    Strided(i64, Arc<Ty>),
    /// A sum or product of its children in any order, by the name of the operator; children are sorted. Only where bits do not count.
    Folded(String, Arc<Ty>),
}

/// What rules look terms up by.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Family {
    Call(String),
    Result,
    Strided,
    Other,
}

/// One e-node.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Term {
    head: u32,
    family: u32,
    children: Box<[Id]>,
}

impl Language for Term {
    type Discriminant = u32;

    fn discriminant(&self) -> u32 {
        self.family
    }

    fn matches(&self, other: &Self) -> bool {
        self.head == other.head && self.children.len() == other.children.len()
    }

    fn children(&self) -> &[Id] {
        &self.children
    }

    fn children_mut(&mut self) -> &mut [Id] {
        &mut self.children
    }
}

/// What is known of an e-class.
#[derive(Clone, Debug)]
pub struct About {
    /// The type of its value; `None` for a tuple and for generator states.
    pub ty: Option<Arc<Ty>>,
    /// It is an argument or a view of one: not fresh storage.
    pub argument: bool,
}

/// The interned heads, kept beside the e-graph.
#[derive(Debug, Default)]
pub struct Heads {
    heads: Vec<Arc<Head>>,
    numbers: HashMap<Arc<Head>, (u32, u32)>,
    families: HashMap<Family, u32>,
}

/// The e-graph of all blocks.
pub type Graph = EGraph<Term, Heads>;

impl Heads {
    /// The number of a head, and that of its family.
    pub fn intern(&mut self, head: Head) -> (u32, u32) {
        if let Some(&known) = self.numbers.get(&head) {
            return known;
        }
        let family = match &head {
            Head::Call(operator) => Family::Call(operator.name.clone()),
            Head::Result(..) => Family::Result,
            Head::Strided(..) => Family::Strided,
            _ => Family::Other,
        };
        let next = number(self.families.len());
        let family = *self.families.entry(family).or_insert(next);
        let found = (number(self.heads.len()), family);
        let head = Arc::new(head);
        self.heads.push(head.clone());
        self.numbers.insert(head, found);
        found
    }

    /// The head of a term.
    pub fn head(&self, term: &Term) -> &Arc<Head> {
        &self.heads[term.head as usize]
    }

    /// The family of calls of an operator, if the e-graph has any.
    pub fn family_of_call(&self, name: &str) -> Option<u32> {
        self.families.get(&Family::Call(name.to_owned())).copied()
    }

    /// The family of results of tuples, if the e-graph has any.
    pub fn family_of_results(&self) -> Option<u32> {
        self.families.get(&Family::Result).copied()
    }

    /// The family of strided views, if the e-graph has any.
    pub fn family_of_strided(&self) -> Option<u32> {
        self.families.get(&Family::Strided).copied()
    }
}

/// A number of heads fits: each took more than a byte to store.
fn number(count: usize) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX)
}

/// Adds a term of an interned head.
pub fn add_interned(graph: &mut Graph, (head, family): (u32, u32), children: Vec<Id>) -> Id {
    graph.add(Term { head, family, children: children.into_boxed_slice() })
}

/// Adds a term.
pub fn add(graph: &mut Graph, head: Head, children: Vec<Id>) -> Id {
    let interned = graph.analysis.intern(head);
    add_interned(graph, interned, children)
}

/// Whether a call is a tuple of results, rather than its one value.
pub fn is_tuple(operator: &Operator) -> bool {
    operator.results.len() != 1
        || !operator.writes.is_empty()
        || !operator.effects.is_empty()
        || operator.random
}

impl egg::Analysis<Term> for Heads {
    type Data = About;

    fn make(graph: &mut Graph, term: &Term, _id: Id) -> About {
        let of = |at: usize| term.children.get(at).map(|&child| &graph[child].data);
        let (ty, argument) = match &**graph.analysis.head(term) {
            Head::Argument { ty, .. } => (Some(ty.clone()), true),
            Head::Call(operator) if is_tuple(operator) => {
                let shares = operator.aliases.iter().any(Option::is_some);
                (None, shares && term.children.iter().any(|&child| graph[child].data.argument))
            }
            Head::Call(operator) => {
                let base = operator.alias(0).and_then(of);
                (operator.results.first().cloned(), base.is_some_and(|data| data.argument))
            }
            Head::Result(_, ty) => (Some(ty.clone()), of(0).is_some_and(|data| data.argument)),
            Head::Wrote(_, ty) | Head::Stale(ty) => (Some(ty.clone()), true),
            Head::Folded(_, ty) => (Some(ty.clone()), false),
            Head::Strided(_, ty) => (Some(ty.clone()), of(0).is_some_and(|data| data.argument)),
            Head::Start(_) | Head::State => (None, false),
        };
        About { ty, argument }
    }

    fn merge(&mut self, to: &mut About, from: About) -> DidMerge {
        debug_assert_eq!(to.ty, from.ty, "a rule made values of different types equal");
        let argument = to.argument || from.argument;
        let did = DidMerge(argument != to.argument, argument != from.argument);
        to.argument = argument;
        did
    }
}
