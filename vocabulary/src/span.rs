//! Spans of time as people write them.

use std::time::Duration;

/// Why a text is not a span of time.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("'{0}' is no duration such as 10s, 500ms, 2m or 1h")]
pub struct SpanError(String);

/// Reads "10s", "500ms", "2m" or "2min", "1h", "1h 30m", or a plain number of seconds.
///
/// # Errors
/// For an unknown unit, and for what is no number of at least zero.
pub fn parse_span(text: &str) -> Result<Duration, SpanError> {
    let trimmed = text.trim();
    let span = match trimmed.parse() {
        Ok(seconds) => Duration::try_from_secs_f64(seconds).ok(),
        // With humantime, "M" is a month; whoever writes it means minutes.
        Err(_) => humantime::parse_duration(trimmed).ok().filter(|_| !trimmed.contains('M')),
    };
    span.ok_or_else(|| SpanError(text.to_owned()))
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
            ("1h 30m", 5_400_000),
            ("0.5s", 500),
            (" 0.5 ", 500),
        ] {
            assert_eq!(millis(text), Ok(expected), "{text}");
        }
        for micros in [1, 500, 1_500_000, 7_000_000, 5_400_000_000] {
            let span = Duration::from_micros(micros);
            assert_eq!(parse_span(&format!("{span:?}")), Ok(span), "as a span is printed");
        }
        for text in ["", "s", "-1s", "5 bananas", "1e400s", "NaN", "inf", "10 s s", "2M"] {
            let error = parse_span(text).expect_err(text).to_string();
            assert_eq!(error, format!("'{text}' is no duration such as 10s, 500ms, 2m or 1h"));
        }
    }
}
