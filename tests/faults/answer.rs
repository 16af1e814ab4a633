//! What a run answered, as facts that can be compared: a value for each place.

use std::collections::{BTreeMap, BTreeSet};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use flate2::read::GzDecoder;
use serde_json::Value;

use super::command::Kind;

/// The value at each place of a document; items of lists have the name of what they are
/// about in the place of their number.
pub type Facts = BTreeMap<String, String>;

/// What a run answered.
#[derive(Clone, Debug, Default)]
pub struct Answer {
    /// Why it is no answer, where it is none.
    pub broken: Option<String>,
    /// Whether it says that it is complete; what is no document says nothing.
    pub is_complete: Option<bool>,
    /// What it says is missing.
    pub errors: BTreeSet<String>,
    pub facts: Facts,
}

impl Answer {
    /// Takes the answer from what the command wrote.
    pub fn read(kind: Kind, text: &str, saved: Option<String>) -> Self {
        if kind == Kind::Text {
            let facts = lines(text);
            let is_complete = facts.get("gpumap_complete").map(|value| value == "1");
            return Self { facts, is_complete, ..Self::default() };
        }
        let document: Value = match serde_json::from_str(text) {
            Ok(document) => document,
            Err(error) => return Self { broken: Some(error.to_string()), ..Self::default() },
        };
        let mut answer = Self { is_complete: document["complete"].as_bool(), ..Self::default() };
        answer.take("", &document);
        if let Some(saved) = saved {
            match serde_json::from_str::<Value>(&saved) {
                Ok(saved) => answer.take("saved:", &saved),
                Err(_) => match inside(&saved) {
                    Some(inner) => answer.take("page:", &inner),
                    None => answer.broken = Some("the saved file is no observation".to_owned()),
                },
            }
        }
        answer
    }

    fn take(&mut self, prefix: &str, document: &Value) {
        let Value::Object(members) = document else { return };
        for (name, value) in members {
            match name.as_str() {
                "errors" => self.errors.extend(value.as_array().into_iter().flatten().map(Value::to_string)),
                "complete" => {}
                _ => flatten(&mut self.facts, format!("{prefix}{name}"), value),
            }
        }
    }
}

/// The observation in a page of `gpumap report`.
fn inside(page: &str) -> Option<Value> {
    let (_, rest) = page.split_once("data:application/gzip;base64,")?;
    let packed = STANDARD.decode(rest.split('"').next()?).ok()?;
    serde_json::from_reader(GzDecoder::new(packed.as_slice())).ok()
}

/// Every line of a text is a fact; a sample of a metric is one with a value.
fn lines(text: &str) -> Facts {
    let fact = |line: &str| match line.rsplit_once(' ') {
        Some((name, value)) if value.parse::<f64>().is_ok() => (name.to_owned(), value.to_owned()),
        _ => (line.to_owned(), String::new()),
    };
    text.lines().map(fact).collect()
}

fn flatten(facts: &mut Facts, place: String, value: &Value) {
    match value {
        Value::Object(members) => {
            for (name, value) in members {
                flatten(facts, format!("{place}.{name}"), value);
            }
        }
        Value::Array(items) => {
            let mut seen: BTreeMap<String, usize> = BTreeMap::new();
            for (number, item) in items.iter().enumerate() {
                let name = identity(item).unwrap_or_else(|| format!("#{number}"));
                let count = seen.entry(name.clone()).or_default();
                *count += 1;
                let again = if *count > 1 { format!("#{count}") } else { String::new() };
                flatten(facts, format!("{place}[{name}{again}]"), item);
            }
            facts.insert(format!("{place}[]"), items.len().to_string());
        }
        other => {
            facts.insert(place, other.to_string());
        }
    }
}

/// What an item of a list is about.
fn identity(item: &Value) -> Option<String> {
    let members = item.as_object()?;
    let name = ["path", "pid", "key", "id", "device", "uid", "name", "gpu"].iter().find_map(|name| {
        let value = members.get(*name)?;
        (value.is_string() || value.is_number()).then(|| value.to_string())
    });
    name.map(|name| name.trim_matches('"').to_owned())
}

/// Facts that hang on the moment: times, and sizes of texts in which times stand.
const OF_THE_MOMENT: [&str; 6] = [
    "taken_at",
    "age_seconds",
    "_duration_seconds",
    "_timestamp_seconds",
    "page.bytes",
    "page.observation_sha256",
];

/// Whether a fact differs from run to run by its nature.
pub fn is_of_the_moment(place: &str) -> bool {
    OF_THE_MOMENT.iter().any(|name| place.contains(name))
}

/// A place without the names of items: the kind of fact that it is.
pub fn kind_of(place: &str) -> String {
    let mut depth = 0;
    let mut kind = String::new();
    for letter in place.chars() {
        match letter {
            '[' => depth += 1,
            ']' => {
                depth -= 1;
                kind.push_str("[]");
            }
            letter if depth == 0 => kind.push(letter),
            _ => {}
        }
    }
    kind
}
