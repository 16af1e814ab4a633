//! Finds processes that wait for a GPU in one call for a long time.

use std::collections::BTreeMap;

use super::evidence::{about, active_of, listed, may_miss};
use super::pages::HANG;
use crate::audit::facts::{Facts, Tenant};
use crate::audit::{finding, wording};
use crate::model::Confidence;
use crate::report::{ActiveProcess, Activity, Finding};

const MINUTE: f64 = 60.0;

/// Processes that wait in one function, and the seconds of the one that waits least.
type Waiting<'a> = (Vec<&'a ActiveProcess>, f64);

/// One finding for each owner and function.
pub(super) fn find(facts: &mut Facts<'_>, activity: &Activity) -> Vec<Finding> {
    let limit = f64::from(facts.config.activity.hang_minutes) * MINUTE;
    let mut findings = Vec::new();
    for tenant in facts.tenants.iter().filter(|tenant| !may_miss(facts, activity, tenant)) {
        let mut functions: BTreeMap<&str, Waiting<'_>> = BTreeMap::new();
        for process in active_of(activity, tenant) {
            if let Some((function, seconds)) = waits(activity, process, limit) {
                let (processes, least) = functions.entry(function).or_insert((Vec::new(), seconds));
                processes.push(process);
                *least = least.min(seconds);
            }
        }
        let each = functions.into_iter();
        findings.extend(each.map(|(function, waiting)| report(facts, tenant, function, &waiting)));
    }
    findings
}

/// The function that a thread of a process has waited in for so long, while no other thread
/// made a call.
fn waits<'a>(activity: &Activity, process: &'a ActiveProcess, limit: f64) -> Option<(&'a str, f64)> {
    let longest = process.calls.iter().filter(|call| call.waits && call.seconds >= limit);
    let longest = longest.max_by(|a, b| a.seconds.total_cmp(&b.seconds))?;
    let time = |text: &str| text.parse::<jiff::Timestamp>().ok();
    let at = time(&activity.at)?;
    let is_quiet = |text: &str| time(text).is_some_and(|it| at.duration_since(it).as_secs_f64() >= limit);
    let others = process.gpus.iter().filter_map(|one| one.last_used.as_deref());
    let no_other = process.calls.iter().all(|call| call.seconds >= limit) && others.into_iter().all(is_quiet);
    (no_other && process.ended_at.is_none()).then_some((longest.function.as_str(), longest.seconds))
}

fn report(facts: &Facts<'_>, tenant: &Tenant, function: &str, (processes, least): &Waiting<'_>) -> Finding {
    let owner = wording::owner(&tenant.sets.owner);
    let used: Vec<&String> =
        processes.iter().flat_map(|it| &it.gpus).filter_map(|one| one.gpu.as_ref()).collect();
    let gpus = facts.inspection.gpus().iter().filter(|gpu| used.contains(&&gpu.key));
    let (count, length) = (processes.len(), duration(*least));
    let (noun, verb) = if count == 1 { ("process", "is") } else { ("processes", "are") };
    let clause = |process: &&ActiveProcess| {
        let calls = process.calls.iter().filter(|call| call.waits && call.function == function);
        let since = calls.clone().map(|call| call.since.as_str()).min().unwrap_or_default();
        format!("process {} waits in {} threads, since {since}", process.pid, calls.count())
    };
    Finding {
        processes: listed(facts, processes),
        devices: gpus.map(finding::gpu).collect(),
        confidence: Confidence::Likely,
        evidence: wording::clauses(processes.iter().map(clause).collect()),
        excuses: vec![
            "no other thread of them made a call in that time".to_owned(),
            "no call of their users found no room in the kernel's tables".to_owned(),
        ],
        advice: "Look at the other ranks and the kernel's log (Xid); ask the user whether the work may take \
                 so long, and end it if not."
            .to_owned(),
        ..about(facts, &HANG, tenant, format!("{count} {noun} of {owner} {verb} in {function} for {length}"))
    }
}

fn duration(seconds: f64) -> String {
    let minutes = (seconds / MINUTE).floor();
    if minutes < 120.0 {
        format!("{minutes:.0} minutes")
    } else {
        format!("{:.0} hours", (minutes / 60.0).floor())
    }
}
