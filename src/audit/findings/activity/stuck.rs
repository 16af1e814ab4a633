//! Finds processes that get nothing more out of their GPU: those whose context is
//! broken, and those that wait in one call for a long time.

use std::collections::BTreeMap;

use super::evidence::{about, active_of, listed, loses, may_miss, observed, tenant};
use crate::audit::facts::Facts;
use crate::audit::kind::Kind;
use crate::audit::tenants::Tenant;
use crate::audit::{finding, wording};
use crate::model::{Confidence, GpuKey, Severity, Time};
use crate::observation::GpuApi;
use crate::report::{ActiveProcess, Activity, CallError, Finding};

pub(super) const DEAD: Kind = Kind {
    id: "gpu-error-sticky",
    severity: Severity::Warning,
    title: "a process cannot use its GPU any more after an error",
    page: "\
A call of a process returned an error after which every further call of this process fails, as the header \
of CUDA or HIP says: an illegal address, a failed launch, an assertion, an uncorrectable memory error. The \
process may go on for hours without doing anything.

Causes: a fault of the program (codes 700 to 721), or of the hardware (214, an uncorrectable ECC error; \
220, of NVLink; 226, an error that was contained).

Excuses: the process has ended, or calls of its user found no room in the kernel's tables. Errors that \
leave it usable, such as 2 (no memory left), are no finding. Errors that launches return are seen in a \
sample; those that waits return are all seen.

What to do: end the process, which frees the GPU; look into the kernel's log for Xid messages where the \
code is one of the hardware.",
};

pub(super) const HANG: Kind = Kind {
    id: "gpu-hang",
    severity: Severity::Note,
    title: "a process waits for a GPU in one call for a long time",
    page: "\
A thread of a process has been in one call that waits for the GPU for an hour (hang_minutes in the section \
[activity] of the configuration): a synchronisation, or a copy that waits. No other thread of the process \
called the driver in that time. A process that waits is not idle (gpu-idle): its thread may use a whole CPU \
meanwhile.

Causes: a collective operation of which one rank is gone (NCCL); a kernel that does not end; a GPU that has \
fallen off the bus; a debugger.

Excuses: another thread makes calls; the process has ended; calls of its user found no room in the kernel's \
tables, so that some may be missing. A call that was entered before counting began is not seen.

What to do: look at the other ranks and at the kernel's log for Xid messages. A kernel may take hours on \
purpose: the confidence is `likely`.",
};

/// Codes of CUDA that are the hardware's fault: ECC, NVLink, an error that was
/// contained.
const HARDWARE: [u32; 3] = [214, 220, 226];

/// One finding for each process.
pub(super) fn dead(facts: &Facts<'_>, activity: &Activity) -> Vec<Finding> {
    let is_whole = |process: &&ActiveProcess| {
        let whose = tenant(facts, process);
        process.lost.is_empty() && whose.is_none_or(|tenant| !loses(activity, tenant))
    };
    activity.processes.iter().filter(is_whole).filter_map(|process| report_dead(facts, process)).collect()
}

fn report_dead(facts: &Facts<'_>, process: &ActiveProcess) -> Option<Finding> {
    let sticky: Vec<&CallError> =
        process.errors.iter().filter(|error| error.sticky && error.count > 0).collect();
    let first = sticky.first()?;
    let (cgroup, listed) = observed(facts, process)?;
    let used: Vec<&GpuKey> = process.gpus.iter().filter_map(|one| one.gpu.as_ref()).collect();
    let gpus = facts.gpus().iter().filter(|gpu| used.contains(&&gpu.key));
    let clause = |error: &&CallError| format!("{} was returned {} times", name(error), error.count);
    let of_hardware = sticky.iter().any(|error| error.api == GpuApi::Cuda && HARDWARE.contains(&error.code));
    let advice = match of_hardware {
        true => "End it, and look into the kernel's log for Xid messages: the code is one of the hardware.",
        false => "End it: that frees the GPU. The code is one of the program's own faults.",
    };
    Some(Finding {
        processes: vec![listed],
        devices: gpus.map(finding::gpu).collect(),
        confidence: Confidence::Likely,
        evidence: sticky.iter().map(clause).collect(),
        excuses: vec!["it has not ended".to_owned()],
        advice: advice.to_owned(),
        ..finding::at(
            &DEAD,
            cgroup,
            format!("process {} cannot use its GPU any more: {}", process.pid, name(first)),
        )
    })
}

fn name(error: &CallError) -> String {
    error.name.clone().unwrap_or_else(|| format!("error {}", error.code))
}

const MINUTE: f64 = 60.0;

/// Processes that wait in one function, and the seconds of the one that waits least.
type Waiting<'a> = (Vec<&'a ActiveProcess>, f64);

/// One finding for each owner and function.
pub(super) fn hanging(facts: &Facts<'_>, activity: &Activity) -> Vec<Finding> {
    let limit = f64::from(facts.config.activity.hang_minutes) * MINUTE;
    let mut findings = Vec::new();
    for tenant in facts.tenants.iter().filter(|tenant| !may_miss(activity, tenant)) {
        let mut functions: BTreeMap<&str, Waiting<'_>> = BTreeMap::new();
        for process in active_of(activity, tenant) {
            if let Some((function, seconds)) = waits(activity, process, limit) {
                let (processes, least) = functions.entry(function).or_insert((Vec::new(), seconds));
                processes.push(process);
                *least = least.min(seconds);
            }
        }
        let each = functions.into_iter();
        findings.extend(each.map(|(function, waiting)| report_hang(facts, tenant, function, &waiting)));
    }
    findings
}

/// The function that a thread of a process has waited in for so long, while no other thread
/// made a call.
fn waits<'a>(activity: &Activity, process: &'a ActiveProcess, limit: f64) -> Option<(&'a str, f64)> {
    let longest = process.calls.iter().filter(|call| call.waits && call.seconds >= limit);
    let longest = longest.max_by(|a, b| a.seconds.total_cmp(&b.seconds))?;
    activity.at.timestamp()?;
    let is_quiet = |last: &Time| activity.at.since(last).is_some_and(|it| it.as_secs_f64() >= limit);
    let others = process.gpus.iter().filter_map(|one| one.last_used.as_ref());
    let no_other = process.calls.iter().all(|call| call.seconds >= limit) && others.into_iter().all(is_quiet);
    (no_other && process.ended_at.is_none()).then_some((longest.function.as_str(), longest.seconds))
}

fn report_hang(
    facts: &Facts<'_>,
    tenant: &Tenant<'_>,
    function: &str,
    (processes, least): &Waiting<'_>,
) -> Finding {
    let owner = wording::owner(tenant.owner());
    let used: Vec<&GpuKey> =
        processes.iter().flat_map(|it| &it.gpus).filter_map(|one| one.gpu.as_ref()).collect();
    let gpus = facts.gpus().iter().filter(|gpu| used.contains(&&gpu.key));
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
        ..about(&HANG, tenant, format!("{count} {noun} of {owner} {verb} in {function} for {length}"))
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
