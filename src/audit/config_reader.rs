//! Reads and checks the configuration. A mistake in it is an error that names
//! the line; it never counts as an empty configuration.

use std::str::FromStr;

use super::config::{Config, Ignore};
use super::findings::{kind, kinds};
use super::kind::Kind;
use crate::owner::pattern_mistake;

/// A mistake in a configuration.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}{why}", line.map(|line| format!("line {line}: ")).unwrap_or_default())]
pub struct ConfigError {
    /// The line, from 1.
    pub line: Option<usize>,
    /// The mistake.
    pub why: String,
}

impl FromStr for Config {
    type Err = ConfigError;

    fn from_str(text: &str) -> Result<Self, ConfigError> {
        let config: Self = toml::from_str(text).map_err(|error| ConfigError {
            line: error.span().map(|span| line_at(text, span.start)),
            why: one_line(error.message()),
        })?;
        config.check(text)?;
        Ok(config)
    }
}

impl Config {
    /// Ids must exist: a typing error would leave a finding in force that
    /// somebody thinks is dealt with.
    fn check(&self, text: &str) -> Result<(), ConfigError> {
        let ids = self.severity.keys().chain(self.ignore.iter().map(|ignore| &ignore.id));
        for id in ids {
            if kind(id).is_none() {
                let line = text.lines().position(|line| line.contains(id)).map(|line| line + 1);
                return Err(ConfigError { line, why: no_such_id(id) });
            }
        }
        if let Some(why) = self.owners.iter().find_map(pattern_mistake) {
            return Err(ConfigError { line: None, why });
        }
        let bad = |ignore: &&Ignore| ignore.reason.trim().is_empty();
        match self.ignore.iter().find(bad) {
            Some(ignore) => {
                Err(ConfigError { line: None, why: format!("{}: no reason is given", ignore.id) })
            }
            None => Ok(()),
        }
    }
}

/// Says that there is no such finding, and which there are with close names.
pub fn no_such_id(id: &str) -> String {
    match close(id).as_slice() {
        [] => format!("'{id}': no such finding"),
        ids => format!("'{id}': no such finding; did you mean {}?", ids.join(" or ")),
    }
}

fn line_at(text: &str, offset: usize) -> usize {
    text.bytes().take(offset).filter(|byte| *byte == b'\n').count() + 1
}

fn one_line(message: &str) -> String {
    message.lines().collect::<Vec<_>>().join(", ")
}

/// Ids that somebody may have meant who wrote `id`.
fn close(id: &str) -> Vec<&'static str> {
    let mut near: Vec<_> = kinds().map(|kind| (distance(id, kind), kind.id)).collect();
    near.sort_unstable();
    near.into_iter().filter(|(far, _)| *far <= 3).take(3).map(|(_, id)| id).collect()
}

/// How far a text is from an id: 0 if it is part of it, else the number of typing
/// errors.
fn distance(written: &str, kind: &Kind) -> usize {
    let text: String = written.to_lowercase().chars().take(64).collect();
    let is_word = |word: &str| text.split('-').any(|it| it == word && it.len() > 3);
    if text.len() > 2 && kind.id.contains(&text) || kind.id.split('-').any(is_word) {
        return 0;
    }
    strsim::levenshtein(&text, kind.id)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(text: &str) -> String {
        text.parse::<Config>().unwrap_err().to_string()
    }

    /// Make sure that a typing error is an error with its line.
    #[test]
    fn mistakes() {
        assert_eq!("".parse::<Config>(), Ok(Config::default()));
        assert!(error("[sharing]\nwhole_nodes = true\n").starts_with("line 2: unknown field `whole_nodes`"));
        assert!(error("a = 1\n").starts_with("line 1: unknown field `a`"));
        assert!(error("[sharing\n").starts_with("line 1: "));
        assert!(error("[[daemon]]\nexe = '/x'\n").contains("missing field `cgroup`"));
        assert!(
            error("\n[severity]\nnonsense = 'note'\n").starts_with("line 3: 'nonsense': no such finding")
        );
    }
}
