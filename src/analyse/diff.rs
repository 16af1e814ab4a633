//! The answer of `gpumap diff`.

use crate::gpu;
use crate::observation::Observation;
use crate::policy::{AlwaysListed, Decoder, Policy, TimeLimit};
use crate::report::{Change, Diff, DiffAnswer, GpuChange, ListedRule, Omitted};

use super::error::AnalyseError;
use super::gpu_verdicts::gpu_verdicts;
use super::policies::Policies;
use super::rules;
use super::subject::Subject;

/// The answer of `gpumap diff`: the two policies may come from different
/// observations. `names` are the sources as the user wrote them.
pub fn diff(
    a: (&Observation, &Subject),
    b: (&Observation, &Subject),
    names: (&str, &str),
    limit: &TimeLimit,
) -> Result<DiffAnswer, AnalyseError> {
    let mut decoder = Decoder::within(limit);
    let from = Policies::new(a.0).of_subject(a.1, &mut decoder)?;
    let to = Policies::new(b.0).of_subject(b.1, &mut decoder)?;
    let mut facts = &b.0.gpu_facts;
    let mut gpus = gpu::inventory(facts);
    if gpus.is_empty() {
        facts = &a.0.gpu_facts;
        gpus = gpu::inventory(facts);
    }
    let (changes, omitted) = changes(&mut decoder, from, to, &rules::always_listed(facts));
    let before = gpu_verdicts(&gpus, from, &decoder);
    let after = gpu_verdicts(&gpus, to, &decoder);
    let flipped = before.into_iter().zip(after).filter(|(before, after)| before.verdict != after.verdict);
    let gpus_changed =
        flipped.map(|(before, after)| GpuChange { gpu: before.gpu, from: before.verdict, to: after.verdict });
    let unknown = !decoder.is_known(from) || !decoder.is_known(to);
    let diff = Diff {
        a: names.0.to_owned(),
        b: names.1.to_owned(),
        a_cgroup: None,
        b_cgroup: None,
        equal: from == to && !unknown,
        unknown,
        changes,
        gpus: gpus_changed.collect(),
        omitted,
        node: None,
    };
    Ok(DiffAnswer { gpus, diff })
}

/// The differences of two policies, and how many are left out because they have no
/// short form. Differences about devices in `always_listed` are never left out.
pub(super) fn changes(
    decoder: &mut Decoder,
    from: Policy,
    to: Policy,
    always_listed: &AlwaysListed,
) -> (Vec<Change>, Option<Omitted>) {
    let regions = decoder.changes_with(from, to, always_listed);
    let omitted = regions.iter().filter_map(|change| change.omitted).reduce(|sum, count| sum + count);
    let changes = regions
        .into_iter()
        .flat_map(|change| {
            let (from, to) = (change.from, change.to);
            let rules: Vec<_> = change.rules.into_iter().map(ListedRule::from).collect();
            rules.into_iter().map(move |rule| Change { from, to, rule })
        })
        .collect();
    (changes, omitted.map(|questions| Omitted { questions }))
}
