//! Symbol names of nodes, as a reader of the model would say them: `layer1.0.conv1`, `layer1.0.conv1.backward`.
//!
//! A node takes the path of its module when it is the only one there in its pass (forward or backward); otherwise the
//! operator's name is appended, and a number when that is taken too. Names depend on the order of the nodes alone.

use std::collections::{BTreeMap, BTreeSet};

/// The module path that the importer gives to ops outside of any submodule.
const ROOT: &str = "<root>";

/// Gives each node of a step its name. First [`Names::announce`] every node, then [`Names::name`] them in order.
#[derive(Default)]
pub struct Names {
    nodes_at: BTreeMap<(String, bool), usize>,
    taken: BTreeSet<String>,
}

impl Names {
    /// Names that no node may take: the symbols that the module has already.
    pub fn reserve(&mut self, symbol: &str) {
        self.taken.insert(symbol.to_owned());
    }

    /// Counts a node at `path`.
    pub fn announce(&mut self, path: &str, backward: bool) {
        *self.nodes_at.entry((path.to_owned(), backward)).or_default() += 1;
    }

    /// The name of the next node: `operator` is a full name such as `aten.relu_.default`.
    pub fn name(&mut self, path: &str, operator: &str, backward: bool) -> String {
        let short = short_name(operator);
        let alone = self.nodes_at.get(&(path.to_owned(), backward)) == Some(&1);
        let wanted = match (path, alone, backward) {
            ("" | ROOT, _, _) => short.to_owned(),
            (_, true, false) => path.to_owned(),
            (_, true, true) => format!("{path}.backward"),
            (_, false, _) => format!("{path}.{short}"),
        };
        let mut name = wanted.clone();
        let mut number = 1;
        while !self.taken.insert(name.clone()) {
            name = format!("{wanted}_{number}");
            number += 1;
        }
        name
    }
}

/// `aten.native_batch_norm.default` without namespace and overload: `native_batch_norm`.
pub fn short_name(operator: &str) -> &str {
    let name = operator.split_once('.').map_or(operator, |(_, rest)| rest);
    name.split_once('.').map_or(name, |(name, _)| name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lone_node_is_its_module() {
        let mut names = Names::default();
        let nodes = [
            ("conv1", "aten.convolution.default", false),
            ("bn1", "aten.add_.Tensor", false),
            ("bn1", "aten.native_batch_norm.default", false),
            ("<root>", "aten.sum.default", false),
            ("<root>", "aten.sum.default", false),
            ("conv1", "aten.convolution_backward.default", true),
        ];
        nodes.iter().for_each(|&(path, _, backward)| names.announce(path, backward));
        names.reserve("sum");
        let given: Vec<_> =
            nodes.iter().map(|&(path, op, backward)| names.name(path, op, backward)).collect();
        assert_eq!(given, ["conv1", "bn1.add_", "bn1.native_batch_norm", "sum_1", "sum_2", "conv1.backward"]);
    }
}
