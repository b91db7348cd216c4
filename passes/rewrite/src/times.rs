//! Times of nodes that were measured in whole steps, as `rk-run --times` writes them.
//!
//! A line that begins with `#` says how they were measured; every other line is a node: its name and the nanoseconds of a run, and of a
//! node with a generated kernel the nanoseconds of its calls instead, and the operators of these calls, between tabs. Files may be
//! put behind one another: a node then has a line for each kernel that was made of it, and of what was measured again the later line counts.

use std::collections::HashMap;

use rk_dialect::diagnostic::Failure;
use rk_dialect::ops::NodeOp;
use rk_dialect::pass::PassContext;

/// Nanoseconds of nodes.
#[derive(Debug, Default)]
pub struct Times {
    /// Without a kernel.
    runs: HashMap<String, u64>,
    /// By node and operators: nanoseconds of the kernel, and of the calls.
    kernels: HashMap<(String, String), (u64, u64)>,
}

/// How a file of this version begins.
const HEAD: &str = "# rk times 1:";

impl Times {
    /// Reads the file that the option `times` of a pass names; without a name there are no times.
    ///
    /// # Errors
    /// The file and what is wrong with it, with the line.
    pub fn of_option<'c>(cx: &PassContext<'c>) -> Result<Self, Failure<'c>> {
        let path = cx.option("times");
        if path.is_empty() {
            return Ok(Self::default());
        }
        let text = std::fs::read_to_string(&path).map_err(|error| format!("cannot read {path}: {error}"));
        let times = text.and_then(|text| Self::parse(&text).map_err(|message| format!("{path}: {message}")));
        times.map_err(|message| cx.refused(format!("{}: {message}", cx.spec().argument)))
    }

    fn parse(text: &str) -> Result<Self, String> {
        if !text.starts_with(HEAD) {
            return Err(format!("it does not begin with '{HEAD}'; rk-run --times writes such files"));
        }
        let mut times = Self::default();
        for (number, line) in text.lines().enumerate().filter(|(_, line)| !line.starts_with('#')) {
            let mut fields = line.split('\t');
            let name = fields.next().unwrap_or_default();
            let missing = || format!("line {}: no nanoseconds behind '{name}'", number + 1);
            let run: u64 = fields.next().and_then(|field| field.parse().ok()).ok_or_else(missing)?;
            match (fields.next(), fields.next()) {
                (Some(time), Some(calls)) => {
                    let took: u64 = time.parse().map_err(|_| missing())?;
                    times.kernels.insert((name.to_owned(), calls.to_owned()), (run, took));
                }
                (None, _) => {
                    times.runs.insert(name.to_owned(), run);
                }
                _ => return Err(format!("line {}: no operators behind the time of the calls", number + 1)),
            }
        }
        Ok(times)
    }

    /// Whether nothing was measured.
    pub fn is_empty(&self) -> bool {
        self.runs.is_empty() && self.kernels.is_empty()
    }

    /// Nanoseconds of a node as it is: of its kernel, if it has one, or of its calls.
    pub fn of(&self, node: NodeOp<'_>) -> Option<u64> {
        let known = self.kernels.get(&(node.symbol().to_owned(), operators(node)));
        let known = known.map(|(kernel, calls)| if node.has_kernel() { kernel } else { calls });
        known.or_else(|| self.runs.get(node.symbol())).copied()
    }

    /// Nanoseconds of the calls of a node that had no kernel.
    pub fn of_calls(&self, node: &str) -> Option<u64> {
        self.runs.get(node).copied()
    }

    /// Nanoseconds of the kernel of a node with these calls, if it was measured. Those of other calls under its name do not count, because
    /// then it was another kernel.
    pub fn of_kernel(&self, node: &str, operators: &str) -> Option<u64> {
        self.kernels.get(&(node.to_owned(), operators.to_owned())).map(|(kernel, _)| *kernel)
    }

    /// By how many nanoseconds the kernel of a node with these calls was measured to be slower than they are, if it was.
    pub fn slower_by(&self, node: &str, operators: &str) -> Option<u64> {
        let (kernel, calls) = self.kernels.get(&(node.to_owned(), operators.to_owned()))?;
        kernel.checked_sub(*calls).filter(|&more| more > 0)
    }
}

/// The operators of a node, as `rk-run --times` lists them.
pub fn operators(node: NodeOp<'_>) -> String {
    let operators: Vec<&str> = node.calls().into_iter().map(|call| call.operator()).collect();
    operators.join(" ")
}

#[cfg(test)]
mod tests {
    use super::Times;

    #[test]
    fn what_is_no_such_file_is_refused_with_its_line() {
        let refused = |text: &str| Times::parse(text).unwrap_err();
        assert!(refused("fc\t9\n").contains("rk-run --times"));
        assert_eq!(refused("# rk times 1: ...\nfc\tmany\n"), "line 2: no nanoseconds behind 'fc'");
        assert_eq!(
            refused("# rk times 1: ...\nfc\t9\t7\n"),
            "line 2: no operators behind the time of the calls"
        );
        let times = "# rk times 1: ...\nfc\t9\nadd\t8\t7\taten.add.Tensor\n";
        // A file behind another one: every node is there twice.
        let older = "# rk times 1: ...\nfc\t90\nadd\t1\t70\taten.add.Tensor\nadd\t5\t6\taten.sub.Tensor\n";
        let times = Times::parse(&(older.to_owned() + times)).unwrap();
        assert_eq!(times.of_kernel("add", "aten.sub.Tensor"), Some(5));
        assert_eq!((times.of_calls("fc"), times.of_calls("add")), (Some(9), None));
        assert_eq!(
            (times.slower_by("add", "aten.add.Tensor"), times.of_kernel("add", "aten.add.Tensor")),
            (Some(1), Some(8))
        );
        assert_eq!((times.slower_by("add", "aten.mul.Tensor"), times.slower_by("fc", "")), (None, None));
    }
}
