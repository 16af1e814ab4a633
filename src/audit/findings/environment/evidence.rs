//! Writes variables and GPUs into the evidence of these findings, and says how sure
//! they are.

use std::collections::BTreeSet;

use crate::audit::facts::Facts;
use crate::audit::wording;
use crate::model::{Certainty, Confidence};
use crate::report::Asked;

/// The list that a process asks with, in words: `CUDA_VISIBLE_DEVICES="0,7"`.
pub(super) fn asks(variable: &str, raw: Option<&str>) -> String {
    match raw {
        Some(raw) => format!("{variable}={:?}", wording::short(raw, 80)),
        None => format!("{variable} is not set"),
    }
}

/// Places of GPUs in the inventory by key.
pub(super) fn places(facts: &Facts<'_>, keys: &[String]) -> BTreeSet<usize> {
    let gpus = facts.inspection.gpus().iter().enumerate();
    gpus.filter(|(_, gpu)| keys.contains(&gpu.key)).map(|(place, _)| place).collect()
}

/// GPUs in words.
pub(super) fn named(facts: &Facts<'_>, keys: &[String]) -> String {
    let gpus = keys.iter().filter_map(|key| facts.inspection.gpus().iter().find(|gpu| gpu.key == *key));
    let names: Vec<String> = gpus.map(wording::gpu).collect();
    if names.is_empty() { "no GPU".to_owned() } else { wording::list(&names) }
}

/// `certain` for what a document settles, `likely` for a model of the driver.
pub(super) fn confidence(asked: &Asked) -> Confidence {
    if asked.confidence == Certainty::Documented { Confidence::Certain } else { Confidence::Likely }
}
