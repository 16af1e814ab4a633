//! Finds mistakes in the environment of one process.

use std::collections::BTreeSet;

use super::evidence::{asks, confidence, named, places};
use super::pages::{self, EnvironmentKind};
use crate::audit::facts::Facts;
use crate::model::{Certainty, Confidence, CutCode};
use crate::report::{Api, Asked, Cut, Visible};

/// One problem of one process.
#[derive(Debug)]
pub(super) struct Problem {
    pub(super) about: EnvironmentKind,
    pub(super) clause: String,
    pub(super) gpus: BTreeSet<usize>,
    pub(super) confidence: Confidence,
    pub(super) by_rule: bool,
}

/// Lists that end where their author did not mean it. `-1` and words, which
/// people write to hide all GPUs, are no problem.
pub(super) fn cuts(facts: &Facts<'_>, now: &Asked) -> Vec<Problem> {
    let cuts = now.apis.iter().filter_map(|api| Some((api, api.cut.as_ref()?)));
    let known = cuts.filter_map(|(api, cut)| Some((api, cut, about_cut(&cut.code)?)));
    let mut problems: Vec<Problem> = Vec::new();
    for (api, cut, about) in known {
        // HIP on top of CUDA's variable tells the same a second time.
        if problems.iter().all(|other| other.about.kind.id != about.kind.id) {
            problems.push(problem(facts, api, cut, about));
        }
    }
    problems
}

fn about_cut(code: &CutCode) -> Option<EnvironmentKind> {
    Some(match code {
        CutCode::OutOfRange => pages::OUT_OF_RANGE,
        CutCode::NotAllowed | CutCode::NoSuchGpu => pages::FOREIGN_UUID,
        CutCode::Duplicate => pages::DUPLICATE,
        CutCode::MixedKinds => pages::MIXED_KINDS,
        _ => return None,
    })
}

fn problem(facts: &Facts<'_>, api: &Api, cut: &Cut, about: EnvironmentKind) -> Problem {
    let named_gpus = facts.inspection.gpus().iter().enumerate().filter(|(_, gpu)| {
        let uuid = gpu.uuid.as_deref().unwrap_or_default();
        cut.code == CutCode::NotAllowed && cut.entry.len() > 4 && uuid.starts_with(&cut.entry)
    });
    let gpus = named_gpus.map(|(place, _)| place).collect();
    let result = match &api.gpus {
        Some(keys) => format!("what is left is {}", named(facts, keys)),
        None => "what is left is not known".to_owned(),
    };
    let sure = api.confidence == Certainty::Documented;
    Problem {
        clause: format!(
            "{}: entry {}, {}; {result}",
            asks(&api.variable, api.raw.as_deref()),
            cut.position,
            cut.why
        ),
        gpus,
        confidence: if sure { Confidence::Certain } else { Confidence::Likely },
        by_rule: cut.code == CutCode::NotAllowed,
        about,
    }
}

/// A choice of devices that changed after the start, if other GPUs result.
pub(super) fn changed(facts: &Facts<'_>, visible: &Visible) -> Option<Problem> {
    let (before, now) = (&visible.at_exec, &visible.live);
    let same = before.gpus.is_some() && before.gpus == now.gpus && before.instances == now.instances;
    if visible.changed != Some(true) || same {
        return None;
    }
    let of = |asked: &Asked| {
        let variable =
            asked.apis.first().map_or("CUDA_VISIBLE_DEVICES", |api| api.variable.as_str()).to_owned();
        let result = asked.gpus.as_ref().map_or("not known which".to_owned(), |keys| named(facts, keys));
        format!("{} ({result})", asks(&variable, asked.raw.as_deref()))
    };
    let keys: Vec<String> =
        [before, now].iter().flat_map(|asked| asked.gpus.iter().flatten()).cloned().collect();
    let sure = if before.confidence == now.confidence { confidence(now) } else { Confidence::Likely };
    Some(Problem {
        about: pages::CHANGED,
        clause: format!("at execve {}; now {}", of(before), of(now)),
        gpus: places(facts, &keys),
        confidence: sure,
        by_rule: false,
    })
}
