//! Spans of time as people write them.
//!
//! Read here and not by humantime (2.4.0), which takes "2M" for two months and "1 0s" for ten seconds, refuses 0.333h and 1e3s, and panics
//! where a sum passes 2^64 seconds.

use std::time::Duration;

/// Why a text is not a span of time.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("'{0}' is no duration such as 10s, 500ms, 2m or 1h")]
pub struct SpanError(String);

/// Reads "10s", "500ms", "2m" or "2min", "1h", or a plain number of seconds.
///
/// # Errors
/// For an unknown unit, and for what is no number of at least zero.
pub fn parse_span(text: &str) -> Result<Duration, SpanError> {
    let error = || SpanError(text.to_owned());
    let trimmed = text.trim();
    let end = trimmed.find(|letter: char| letter.is_ascii_alphabetic()).unwrap_or(trimmed.len());
    let seconds = match &trimmed[end..] {
        "ms" => 1e-3,
        "" | "s" => 1.0,
        "m" | "min" => 60.0,
        "h" => 3600.0,
        _ => return Err(error()),
    };
    let number: f64 = trimmed[..end].trim().parse().map_err(|_| error())?;
    Duration::try_from_secs_f64(number * seconds).map_err(|_| error())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_as_people_write_them() {
        let millis = |text: &str| parse_span(text).map(|span| span.as_millis());
        for (text, expected) in [
            ("10s", 10_000),
            ("500ms", 500),
            ("2m", 120_000),
            ("2min", 120_000),
            ("1 h", 3_600_000),
            (" 0.5 ", 500),
        ] {
            assert_eq!(millis(text), Ok(expected), "{text}");
        }
        for text in ["", "s", "-1s", "5 bananas", "1e400s", "NaN", "inf", "10 s s"] {
            let error = parse_span(text).expect_err(text).to_string();
            assert_eq!(error, format!("'{text}' is no duration such as 10s, 500ms, 2m or 1h"));
        }
    }
}
