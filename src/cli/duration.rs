//! Durations as `--timeout` takes them: `500ms`, `2s`, `1m`.

use std::time::Duration;

/// Parses a number with a unit: `ms`, `s` or `m`.
pub fn parse(text: &str) -> Result<Duration, String> {
    let split = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(split);
    let scale = match unit {
        "ms" => 0.001,
        "s" => 1.0,
        "m" => 60.0,
        _ => return Err("write a number with a unit, such as 500ms, 2s or 1m".to_owned()),
    };
    number
        .parse::<f64>()
        .ok()
        .and_then(|number| Duration::try_from_secs_f64(number * scale).ok())
        .filter(|duration| !duration.is_zero())
        .ok_or_else(|| "write a number above zero with a unit, such as 500ms or 2s".to_owned())
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
        for bad in ["", "2", "s", "-1s", "2 s", "0s", "1h", "1.2.3s", "99999999999999999999999s"] {
            assert!(parse(bad).is_err(), "{bad}");
        }
    }
}
