//! From a step to its blocks and classes: cut, tie, lower, saturate, compare.

use std::collections::{BTreeMap, HashMap};
use std::hash::Hash;
use std::ops::Range;

use petgraph::unionfind::UnionFind;
use rk_plan::{NodeId, ValueId};

use crate::lower::{Leaves, Lowered, Lowering, Relation, Scope};
use crate::names;
use crate::rules::{Rule, SAME_BITS, SAME_COST};
use crate::saturate::{Outcome, saturate};
use crate::step::Step;
use crate::term::{Graph, Heads};
use crate::{chain, ties};

/// A class of blocks or nodes, numbered in order of first occurrence.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClassId(pub u32);

impl ClassId {
    /// The index into tables of classes.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// One block: an interval of the forward pass with its backward nodes.
#[derive(Clone, Debug)]
pub struct Block {
    /// The module that it is, or the first and last module in it; different from all other blocks' names.
    pub name: String,
    /// Its forward nodes and then its backward nodes, each in order of execution.
    pub nodes: Vec<NodeId>,
    /// How many of the nodes are forward nodes.
    pub forward: usize,
    /// Forward and backward compute the same bits as those of every other block of the class, argument by argument.
    pub class: ClassId,
    /// The same for the forward nodes alone. Never finer than `class` in what it looks at.
    pub forward_class: ClassId,
    /// Blocks of one spelling are of one class, and node k of one is node k of the other.
    pub spelling: ClassId,
    /// Forward nodes of one spelling.
    pub forward_spelling: ClassId,
    /// Same time and memory, not the same bits.
    pub cost_class: ClassId,
    /// What the block reads from outside. Position k of one block of a class corresponds to position k of another.
    pub arguments: Vec<ValueId>,
    /// What the block leaves, in the same correspondence: values that others read or the step returns, and then arguments
    /// that it updates.
    pub results: Vec<ValueId>,
}

/// What is known of a step.
#[derive(Clone, Debug)]
pub struct Blocks {
    /// In order of the forward pass.
    pub blocks: Vec<Block>,
    /// Per node, the class of nodes that cost the same: one of them needs to be measured.
    pub node_classes: Vec<ClassId>,
    /// Per node, its block.
    pub block_of: Vec<usize>,
    /// How the rules of the same bits ended.
    pub bits: Outcome,
    /// How the rules of the same cost ended.
    pub cost: Outcome,
}

impl Blocks {
    /// The blocks of each class, by a relation such as `|block| block.class`.
    pub fn members(&self, class: impl Fn(&Block) -> ClassId) -> Vec<Vec<usize>> {
        let mut members: BTreeMap<ClassId, Vec<usize>> = BTreeMap::new();
        for (at, block) in self.blocks.iter().enumerate() {
            members.entry(class(block)).or_default().push(at);
        }
        members.into_values().collect()
    }

    /// The number of classes of nodes.
    pub fn node_class_count(&self) -> usize {
        self.node_classes.iter().max().map_or(0, |class| class.index() + 1)
    }
}

/// Finds blocks and classes.
pub fn find(step: &Step) -> Blocks {
    let forward = chain::forward(step);
    let mut cost_graph = Graph::new(Heads::default());
    let mut cost = Lowering::new(step, Relation::SameCost, &mut cost_graph);
    let nodes: Vec<Lowered> =
        step.nodes().map(|(id, _)| cost.lower(&mut cost_graph, &[id], Scope::Node)).collect();

    let mut graph = Graph::new(Heads::default());
    let mut lowering = Lowering::new(step, Relation::SameBits, &mut graph);
    let segments = chain::segments(step, &forward);
    let lower = |lowering: &mut Lowering<'_>, graph: &mut Graph, range: &Range<usize>| {
        lowering.lower(graph, &forward[range.clone()], Scope::Forward)
    };
    let lowered: Vec<Lowered> =
        segments.iter().map(|range| lower(&mut lowering, &mut graph, range)).collect();
    let lowered_costs: Vec<Lowered> = segments
        .iter()
        .map(|range| cost.lower(&mut cost_graph, &forward[range.clone()], Scope::Forward))
        .collect();
    let (mut graph, _) = saturate(graph, &SAME_BITS);
    let (mut cost_graph, _) = saturate(cost_graph, &SAME_COST);
    // Layers that differ in a constant only (the rate of their stochastic depth) are no class, but a row all the same.
    let letters = either(&classes(&graph, &lowered), &classes(&cost_graph, &lowered_costs));
    let node_letters: Vec<u32> = {
        let texts = number(nodes.iter().map(|node| node.text.clone()));
        forward.iter().map(|node| texts[node.index()].0).collect()
    };
    let ranges: Vec<Range<usize>> = chain::join(step, &forward, &segments, &letters)
        .into_iter()
        .flat_map(|range| chain::cut_long(range, &node_letters))
        .collect();

    let tied = ties::tie(step, &forward, &ranges);
    let fronts: Vec<Lowered> = ranges.iter().map(|range| lower(&mut lowering, &mut graph, range)).collect();
    let wholes: Vec<Lowered> =
        tied.iter().map(|nodes| lowering.lower(&mut graph, nodes, Scope::Block)).collect();
    let costs: Vec<Lowered> =
        tied.iter().map(|nodes| cost.lower(&mut cost_graph, nodes, Scope::Block)).collect();
    let (graph, bits) = saturate(graph, &SAME_BITS);
    let (cost_graph, cost) = saturate(cost_graph, &SAME_COST);

    let names = names::of_blocks(step, &forward, &ranges);
    let class = classes(&graph, &wholes);
    let forward_class = classes(&graph, &fronts);
    let spelling = number(wholes.iter().map(|lowered| lowered.text.clone()));
    let forward_spelling = number(fronts.iter().map(|lowered| lowered.text.clone()));
    let cost_class = classes(&cost_graph, &costs);
    let mut block_of = vec![0; step.nodes.len()];
    let mut blocks = Vec::new();
    for (at, (nodes, whole)) in tied.into_iter().zip(wholes).enumerate() {
        nodes.iter().for_each(|node| block_of[node.index()] = at);
        blocks.push(Block {
            name: names[at].clone(),
            nodes,
            forward: ranges[at].len(),
            class: class[at],
            forward_class: forward_class[at],
            spelling: spelling[at],
            forward_spelling: forward_spelling[at],
            cost_class: cost_class[at],
            arguments: whole.arguments.into_iter().map(|(_, value)| value).collect(),
            results: whole.results,
        });
    }
    Blocks { blocks, node_classes: classes(&cost_graph, &nodes), block_of, bits, cost }
}

/// A group of nodes among others: its class, its spelling, and what it reads.
#[derive(Clone, Debug)]
pub struct Group {
    /// Groups of one class are equal by the relation asked for.
    pub class: ClassId,
    /// Groups of one spelling have the same text.
    pub spelling: ClassId,
    /// What it reads from outside; position k of one group of a class corresponds to position k of another.
    pub arguments: Vec<ValueId>,
    /// What it leaves, in the same correspondence.
    pub results: Vec<ValueId>,
}

/// Compares any groups of nodes of a step, each in order of execution.
pub fn compare(step: &Step, groups: &[Vec<NodeId>], relation: Relation, scope: Scope) -> Vec<Group> {
    let mut graph = Graph::new(Heads::default());
    let mut lowering = Lowering::new(step, relation, &mut graph);
    let lowered: Vec<Lowered> = groups.iter().map(|nodes| lowering.lower(&mut graph, nodes, scope)).collect();
    let (graph, _) = saturate(graph, rules_of(relation));
    let spellings = number(lowered.iter().map(|lowered| lowered.text.clone()));
    let classes = classes(&graph, &lowered);
    let known = classes.into_iter().zip(spellings).zip(lowered);
    known
        .map(|((class, spelling), lowered)| {
            let arguments = lowered.arguments.into_iter().map(|(_, value)| value).collect();
            Group { class, spelling, arguments, results: lowered.results }
        })
        .collect()
}

fn rules_of(relation: Relation) -> &'static [Rule] {
    match relation {
        Relation::SameBits => &SAME_BITS,
        Relation::SameCost => &SAME_COST,
    }
}

/// What decides a class: everything that leaves, by e-class, and what is executed where that counts. What leaves nothing is only equal
/// to its own text.
#[derive(PartialEq, Eq, Hash)]
struct Key {
    outputs: Vec<(Leaves, egg::Id)>,
    work: Vec<u32>,
    text: Option<Vec<u32>>,
}

fn classes(graph: &Graph, lowered: &[Lowered]) -> Vec<ClassId> {
    number(lowered.iter().map(|block| {
        let outputs: Vec<_> =
            block.outputs.iter().map(|(leaves, id)| (leaves.clone(), graph.find(*id))).collect();
        let text = outputs.is_empty().then(|| block.text.words().to_vec());
        Key { outputs, work: block.work.clone(), text }
    }))
}

/// Numbers that are equal where the classes of one or of the other relation are, or where a row of such pairs leads.
fn either(one: &[ClassId], other: &[ClassId]) -> Vec<u32> {
    let mut joined = UnionFind::<u32>::new(one.len());
    for classes in [one, other] {
        let mut first: HashMap<ClassId, u32> = HashMap::new();
        for (at, &class) in (0..).zip(classes) {
            joined.union(at, *first.entry(class).or_insert(at));
        }
    }
    joined.into_labeling()
}

/// Numbers in order of first occurrence.
fn number<K: Eq + Hash>(keys: impl Iterator<Item = K>) -> Vec<ClassId> {
    let mut known: HashMap<K, ClassId> = HashMap::new();
    keys.map(|key| {
        let next = ClassId(known.len() as u32);
        *known.entry(key).or_insert(next)
    })
    .collect()
}
