//! Times as people read them, and text that HTML takes as text.

use rk_plan::transfer::per_second;
use rk_plan::{Graph, Time};

/// The unit in which times of one graph are shown.
pub(crate) struct Unit {
    ticks: f64,
    /// Its name.
    pub name: String,
}

impl Unit {
    /// The one in which `whole` has a handy number; that of the graph, if it is none of time.
    pub fn of(graph: &Graph, whole: Time) -> Self {
        let per_unit = graph.ticks_per_unit() as f64;
        let unit = graph.time_unit();
        let Some(per_second) = per_second(unit) else {
            // Some files explain the unit at length.
            let short = (1..=12).contains(&unit.chars().count());
            let name = if short { unit } else { "ticks" };
            return Self { ticks: if short { per_unit } else { 1.0 }, name: name.to_owned() };
        };
        Self::handy(per_unit * per_second as f64 / 1e9, whole)
    }

    /// The same where a tick is a nanosecond.
    pub fn of_nanos(whole: Time) -> Self {
        Self::handy(1.0, whole)
    }

    fn handy(ticks_per_nano: f64, whole: Time) -> Self {
        let ticks_of = |unit: f64| ticks_per_nano * unit;
        let units = [("s", 1e9), ("ms", 1e6), ("us", 1e3)];
        let handy = units.into_iter().find(|(_, unit)| whole.0 as f64 >= ticks_of(*unit));
        let (name, unit) = handy.unwrap_or(("ns", 1.0));
        Self { ticks: ticks_of(unit), name: name.to_owned() }
    }

    /// A time as a number of them.
    pub fn number(&self, time: Time) -> f64 {
        time.0 as f64 / self.ticks
    }

    /// The same with the unit, to a few digits.
    pub fn text(&self, time: Time) -> String {
        let number = self.number(time);
        let digits = if number == 0.0 || number >= 100.0 {
            0
        } else if number >= 1.0 {
            2
        } else {
            4
        };
        format!("{number:.digits$} {}", self.name)
    }
}

/// Part of a whole, in percent; of nothing, it is nothing.
pub(crate) fn percent(part: f64, whole: Time) -> f64 {
    if whole.0 == 0 { 0.0 } else { 100.0 * part / whole.0 as f64 }
}

/// Text, for any place in HTML.
pub(crate) fn escaped(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '"' => safe.push_str("&quot;"),
            '\'' => safe.push_str("&#39;"),
            other => safe.push(other),
        }
    }
    safe
}

/// Cells of text as a table.
pub(crate) fn table(head: &[&str], rows: impl IntoIterator<Item = Vec<String>>) -> String {
    let row = |cells: &mut dyn Iterator<Item = &str>, tag: &str| -> String {
        let cells: String = cells.map(|cell| format!("<{tag}>{}</{tag}>", escaped(cell))).collect();
        format!("<tr>{cells}</tr>\n")
    };
    let head = row(&mut head.iter().copied(), "th");
    let body: String =
        rows.into_iter().map(|cells| row(&mut cells.iter().map(String::as_str), "td")).collect();
    format!("<table><thead>{head}</thead><tbody>{body}</tbody></table>")
}
