//! Colour, width and length of the output, which depend on the terminal and `-v`.

use crate::model::{Severity, Verdict, Verdicts};
use std::borrow::Cow;

use owo_colors::OwoColorize as _;

/// The layout of text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Style {
    /// Columns to use.
    pub width: u16,
    /// Whether verdicts are coloured.
    pub color: bool,
    /// Whether to list entries that are otherwise counted.
    pub all: bool,
}

impl Default for Style {
    /// As in a pipe.
    fn default() -> Self {
        Self { width: 80, color: false, all: false }
    }
}

impl Style {
    /// A verdict, in its colour.
    pub fn verdict(self, verdict: impl Into<&'static str>) -> Cow<'static, str> {
        self.word(verdict.into())
    }

    /// A word in its colour if it is a verdict; others stay as they are.
    pub fn word<'a>(self, word: &'a str) -> Cow<'a, str> {
        if !self.color {
            return word.into();
        }
        match word.trim_end().parse() {
            Ok(Verdicts::Allow) => word.green().to_string().into(),
            Ok(Verdicts::Deny) => word.red().to_string().into(),
            Ok(Verdicts::Unknown | Verdicts::Mixed) => word.yellow().to_string().into(),
            Err(_) => word.into(),
        }
    }

    /// A severity in capitals, in its colour.
    pub fn severity(self, severity: Severity) -> String {
        let text = severity.to_string().to_uppercase();
        match severity {
            _ if !self.color => text,
            Severity::Critical => text.red().bold().to_string(),
            Severity::Warning => text.yellow().bold().to_string(),
            Severity::Note => text.bold().to_string(),
        }
    }

    /// A verdict padded to the width of the longest, `unknown`.
    pub fn verdict_column(self, verdict: Verdict) -> String {
        self.word(&format!("{verdict:<7}")).into_owned()
    }
}
