//! Metrics of the look itself: version, time, what could not be seen.

use std::collections::BTreeMap;

use super::answers::Answers;
use super::catalogue::{BUILD, COMPLETE, DURATION, ERRORS, NODE, OBSERVED};
use super::metric::{Family, count};
use crate::observation::CgroupMode;

pub(super) fn families(answers: &Answers<'_>) -> Vec<Family> {
    let document = answers.node;
    let mut errors: BTreeMap<&str, u64> = BTreeMap::new();
    for error in &document.errors {
        *errors.entry(error.code.as_str()).or_default() += 1;
    }
    let errors = errors.into_iter().map(|(code, number)| (vec![code.to_owned()], count(number)));
    let mode = match document.host.cgroup_mode {
        CgroupMode::Unified => "unified",
        CgroupMode::Hybrid => "hybrid",
        CgroupMode::Legacy => "legacy",
        CgroupMode::Unknown => "unknown",
    };
    let one = |metric, value: Option<f64>| Family::of(metric, value.map(|value| (Vec::new(), value)));
    vec![
        Family::ones(BUILD, [vec![document.version.clone()]]),
        Family::ones(NODE, [vec![document.host.kernel.clone(), mode.to_owned()]]),
        one(OBSERVED, seconds(&document.taken_at)),
        one(DURATION, answers.duration),
        Family::one(COMPLETE, f64::from(u8::from(document.complete))),
        Family::of(ERRORS, errors),
    ]
}

/// A moment (RFC 3339) in seconds since 1970.
pub(super) fn seconds(moment: &str) -> Option<f64> {
    let moment: jiff::Timestamp = moment.parse().ok()?;
    Some(moment.as_duration().as_secs_f64())
}
