//! Durations as `--timeout` takes them: `500ms`, `2s`, `1m30s`.

use std::time::Duration;

use jiff::SignedDuration;

/// Parses a duration as jiff writes and reads them: numbers with units from `ns`
/// to `h`.
///
/// # Errors
///
/// What to write instead, where the text is no duration above zero.
pub fn parse(text: &str) -> Result<Duration, String> {
    let duration: SignedDuration =
        text.parse().map_err(|_| "write a number with a unit, such as 500ms, 2s or 1m".to_owned())?;
    let duration = Duration::try_from(duration).ok().filter(|duration| !duration.is_zero());
    duration.ok_or_else(|| "write a number above zero with a unit, such as 500ms or 2s".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Make sure that the documented spellings work and guesses do not.
    #[test]
    fn spellings() {
        assert_eq!(parse("500ms"), Ok(Duration::from_millis(500)));
        assert_eq!(parse("2s"), Ok(Duration::from_secs(2)));
        assert_eq!(parse("1.5s"), Ok(Duration::from_millis(1500)));
        assert_eq!(parse("1m"), Ok(Duration::from_secs(60)));
        assert_eq!(parse("1m30s"), Ok(Duration::from_secs(90)));
        assert_eq!(parse("1h"), Ok(Duration::from_secs(3600)));
        for bad in ["", "2", "s", "-1s", "0s", "1d", "1.2.3s", "99999999999999999999999s"] {
            assert!(parse(bad).is_err(), "{bad}");
        }
    }
}
