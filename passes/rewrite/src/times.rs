//! Times of nodes that were measured in whole steps, as `rk-run --times` writes them.
//!
//! A line that begins with `#` says how they were measured; every other line is a node: its name and the nanoseconds of a run, and of a
//! node with a generated kernel the nanoseconds of its calls instead, and the operators of these calls, between tabs. Files may be
//! put behind one another: a node then has a line for each kernel that was made of it.

use std::collections::HashMap;

/// Nanoseconds of nodes by name.
#[derive(Debug, Default)]
pub struct Times {
    runs: HashMap<String, u64>,
    /// By node and operators: whether the kernel took longer than the calls.
    slower: HashMap<(String, String), bool>,
}

/// How a file of this version begins.
const HEAD: &str = "# rk times 1:";

impl Times {
    /// Reads a file; without a name there are no times.
    ///
    /// # Errors
    /// The file and what is wrong with it, with the line.
    pub fn read(path: &str) -> Result<Self, String> {
        if path.is_empty() {
            return Ok(Self::default());
        }
        let text = std::fs::read_to_string(path).map_err(|error| format!("cannot read {path}: {error}"))?;
        Self::parse(&text).map_err(|message| format!("{path}: {message}"))
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
            let twice = || format!("line {}: '{name}' is there twice", number + 1);
            let run: u64 = fields.next().and_then(|field| field.parse().ok()).ok_or_else(missing)?;
            match (fields.next(), fields.next()) {
                (Some(time), Some(calls)) => {
                    let took: u64 = time.parse().map_err(|_| missing())?;
                    if times.slower.insert((name.to_owned(), calls.to_owned()), run > took).is_some() {
                        return Err(twice());
                    }
                    times.runs.insert(name.to_owned(), run);
                }
                (None, _) => {
                    if times.runs.insert(name.to_owned(), run).is_some() {
                        return Err(twice());
                    }
                }
                _ => return Err(format!("line {}: no operators behind the time of the calls", number + 1)),
            }
        }
        Ok(times)
    }

    /// Whether nothing was measured.
    pub fn is_empty(&self) -> bool {
        self.runs.is_empty()
    }

    /// Nanoseconds of a node, if it was measured; of several kernels of its name those of the last line.
    pub fn of(&self, node: &str) -> Option<u64> {
        self.runs.get(node).copied()
    }

    /// Whether the kernel of a node with these calls was measured to be slower than they are. Not so for other calls under its name,
    /// because then it was another kernel.
    pub fn is_slower(&self, node: &str, operators: &str) -> bool {
        self.slower.get(&(node.to_owned(), operators.to_owned())).copied().unwrap_or(false)
    }
}

#[cfg(test)]
mod tests {
    use super::Times;

    #[test]
    fn what_is_no_such_file_is_refused_with_its_line() {
        let refused = |text: &str| Times::parse(text).unwrap_err();
        assert!(refused("fc\t9\n").contains("rk-run --times"));
        assert_eq!(refused("# rk times 1: ...\nfc\tmany\n"), "line 2: no nanoseconds behind 'fc'");
        assert_eq!(refused("# rk times 1: ...\nfc\t9\nfc\t9\n"), "line 3: 'fc' is there twice");
        assert_eq!(
            refused("# rk times 1: ...\nfc\t9\t7\n"),
            "line 2: no operators behind the time of the calls"
        );
        let times = Times::parse("# rk times 1: ...\nfc\t9\nadd\t8\t7\taten.add.Tensor\n").unwrap();
        assert_eq!((times.of("fc"), times.of("relu")), (Some(9), None));
        assert!(times.is_slower("add", "aten.add.Tensor"));
        assert!(!times.is_slower("add", "aten.mul.Tensor") && !times.is_slower("fc", ""));
    }
}
