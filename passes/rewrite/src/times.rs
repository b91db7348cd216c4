//! Times of nodes that were measured in whole steps, as `rk-run --times` writes them.
//!
//! A line that begins with `#` says how they were measured; every other line is a node: its name and the nanoseconds of a run, and of a
//! node with a generated kernel the nanoseconds of its calls instead, and the operators of these calls, between tabs.

use std::collections::HashMap;

/// Nanoseconds of nodes by name.
#[derive(Debug, Default)]
pub struct Times(HashMap<String, Time>);

#[derive(Debug)]
struct Time {
    run: u64,
    /// Of a kernel: the calls that it stands for, and what they took.
    calls: Option<(String, u64)>,
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
        let mut times = HashMap::new();
        for (number, line) in text.lines().enumerate().filter(|(_, line)| !line.starts_with('#')) {
            let mut fields = line.split('\t');
            let name = fields.next().unwrap_or_default();
            let missing = || format!("line {}: no nanoseconds behind '{name}'", number + 1);
            let run = fields.next().and_then(|field| field.parse().ok()).ok_or_else(missing)?;
            let calls = match (fields.next(), fields.next()) {
                (Some(time), Some(calls)) => Some((calls.to_owned(), time.parse().map_err(|_| missing())?)),
                (None, _) => None,
                _ => return Err(format!("line {}: no operators behind the time of the calls", number + 1)),
            };
            if times.insert(name.to_owned(), Time { run, calls }).is_some() {
                return Err(format!("line {}: '{name}' is there twice", number + 1));
            }
        }
        Ok(Self(times))
    }

    /// Whether nothing was measured.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Nanoseconds of a node, if it was measured.
    pub fn of(&self, node: &str) -> Option<u64> {
        self.0.get(node).map(|time| time.run)
    }

    /// Whether the kernel of a node with these calls was measured to be slower than they are. Not so for other calls under its name,
    /// because then it was another kernel.
    pub fn is_slower(&self, node: &str, operators: &str) -> bool {
        let time = self.0.get(node);
        time.is_some_and(|time| {
            time.calls.as_ref().is_some_and(|(calls, took)| calls == operators && time.run > *took)
        })
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
