//! Moments of the wall clock, as documents have them.

use std::cmp::Ordering;
use std::fmt;

use jiff::{SignedDuration, Timestamp};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A moment in RFC 3339. It keeps the text that it was read with: a document that is read
/// and written again has the same bytes, and a text that is no time stays what it is.
/// The empty text is a moment that nobody knows.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct Time(String);

impl Time {
    /// The moment in which this is called, to the nanosecond.
    #[must_use]
    pub fn now() -> Self {
        Timestamp::now().into()
    }

    /// The text, which may hold anything where somebody else wrote the document.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether somebody said when it was.
    #[must_use]
    pub fn is_known(&self) -> bool {
        !self.0.is_empty()
    }

    /// The moment as a number; `None` where the text is no time.
    #[must_use]
    pub fn timestamp(&self) -> Option<Timestamp> {
        self.0.parse().ok()
    }

    /// How long it is after another, less than nothing where it is before; `None` where one
    /// of the two is no time.
    #[must_use]
    pub fn since(&self, other: &Self) -> Option<SignedDuration> {
        Some(self.timestamp()?.duration_since(other.timestamp()?))
    }

    /// The time of day, `10:02:11Z`: the second in UTC. The text where that is no time.
    #[must_use]
    pub fn clock(&self) -> String {
        self.timestamp().map_or_else(|| self.0.clone(), |time| time.strftime("%H:%M:%SZ").to_string())
    }
}

impl Ord for Time {
    /// By the time, and texts that are no time before all others.
    fn cmp(&self, other: &Self) -> Ordering {
        match self.0 == other.0 {
            true => Ordering::Equal,
            false => (self.timestamp(), &self.0).cmp(&(other.timestamp(), &other.0)),
        }
    }
}

impl PartialOrd for Time {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl From<Timestamp> for Time {
    fn from(time: Timestamp) -> Self {
        Self(time.to_string())
    }
}

impl From<String> for Time {
    fn from(text: String) -> Self {
        Self(text)
    }
}

impl From<&str> for Time {
    fn from(text: &str) -> Self {
        Self(text.to_owned())
    }
}

impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Make sure that times are compared as times, whatever digits and zone they have, and
    /// that what is no time is before all and keeps its text.
    #[test]
    fn order_and_text() {
        let mut all: Vec<Time> =
            ["2026-11-21T10:02:11.5Z", "2026-11-21T12:02:11+02:00", "", "soon", "2026-11-21T10:02:12Z"]
                .map(Time::from)
                .to_vec();
        all.sort();
        let all: Vec<&str> = all.iter().map(Time::as_str).collect();
        let times = ["2026-11-21T12:02:11+02:00", "2026-11-21T10:02:11.5Z", "2026-11-21T10:02:12Z"];
        assert_eq!((&all[..2], &all[2..]), (&["", "soon"][..], &times[..]));
        assert_eq!(serde_json::to_string(&Time::from(times[0])).unwrap(), format!("{:?}", times[0]));
        assert!(!Time::default().is_known() && Time::from("soon").is_known());
    }

    /// Make sure that the clock is that of UTC.
    #[test]
    fn clock() {
        let clock = |text: &str| Time::from(text).clock();
        assert_eq!(clock("2026-11-21T10:02:11.999Z"), "10:02:11Z");
        assert_eq!(clock("2026-11-21T12:02:11+02:00"), "10:02:11Z");
        assert_eq!(clock("soon"), "soon");
    }
}
