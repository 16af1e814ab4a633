//! Prints the events of `gpumap watch`, a line each: changed variables, moves to another
//! cgroup, changes of programs (first the effect, then what happened).

use std::io;
use std::io::Write;

use super::denied::denied;
use super::{gpus, names, owner, problems, process, rules, sanitize};
use crate::model::{
    ApiName, CutCode, EventCause, EventKind, GpuKey, RequestSet, ValueState, Verdict, Writer,
};
use crate::report::{Api, Asked, Change, Event, Gpu, LostBy, MoveEvent, PolicyEvent, PolicyProgram, Value};

/// Characters of a value, and of a reason that has one in it.
const VALUE: usize = 60;
const WHY: usize = 300;

/// Prints an event.
pub fn write(out: &mut dyn Write, event: &Event, gpus: &[Gpu]) -> io::Result<()> {
    if let Some(line) = super::policy_event(event, gpus).filter(|_| event.process.is_none()) {
        return writeln!(out, "{line}");
    }
    writeln!(out, "{}  {}{}", sanitize::text(&event.at.clock()), who(event), what(event, gpus))
}

/// `31337 python3 (slurm job 4711, step 0): `, and nothing for an event that
/// is not about a process.
fn who(event: &Event) -> String {
    let Some(process) = &event.process else { return String::new() };
    let comm = sanitize::with_hex(&process.comm, process.comm_hex.as_deref());
    let owner = event.owner.as_ref().map(|owner| format!(" ({})", owner::full(owner)));
    format!("{} {comm}{}: ", process.pid, owner.unwrap_or_default())
}

/// `31337 python3: `, where the owner is said already.
fn process_name(event: &Event) -> String {
    let Some(process) = &event.process else { return String::new() };
    format!("{} {}: ", process.pid, sanitize::with_hex(&process.comm, process.comm_hex.as_deref()))
}

fn what(event: &Event, gpus: &[Gpu]) -> String {
    let why = event.why.as_deref().map(sanitize::text).unwrap_or_default();
    match event.event {
        EventKind::Visible => visible(event, gpus),
        EventKind::Process => format!("executed{}", asked(event, gpus)),
        EventKind::Exit => "ended".to_owned(),
        EventKind::Began => format!("{} began", subject(event)),
        EventKind::Ended => format!("{} ended", subject(event)),
        EventKind::Driver => {
            let what = event.how.map_or("driver initialised", <&str>::from);
            if why.is_empty() {
                format!("{what}: later changes are without effect")
            } else {
                why.into_owned()
            }
        }
        EventKind::Uncovered if event.process.is_none() => why.into_owned(),
        EventKind::Uncovered => format!("its changes are not seen as they happen: {why}"),
        EventKind::Opened | EventKind::Closed => devices(event, gpus),
        EventKind::Denied => denied(event, gpus),
        EventKind::Moved => {
            event.moved.as_ref().map_or(why.into_owned(), |moved| moved_what(event, moved, gpus))
        }
        EventKind::Decoding => format!("policy {why}"),
        EventKind::Lost => format!("{} events were lost{}", event.lost.unwrap_or_default(), lost_by(event)),
        EventKind::Start => format!("watching with {}{}", event.engines.join(", "), ready(event)),
        EventKind::Ready => uncovered(event),
        EventKind::Problem => {
            format!("not watched: {}", event.problem.as_ref().map(problems::line).unwrap_or_default())
        }
        EventKind::End => "end".to_owned(),
        EventKind::Policy => "the programs in force changed".to_owned(),
    }
}

/// The limits of a watch, a line for each sentence of a `start` event.
pub fn not_seen(out: &mut dyn Write, event: &Event) -> io::Result<()> {
    event.not_seen.iter().try_for_each(|one| writeln!(out, "  not covered: {}", sanitize::text(one)))
}

/// `; ready after 0.31 s`
fn ready(event: &Event) -> String {
    let after = |after: u64| format!("; ready after {}.{:02} s", after / 1000, after % 1000 / 10);
    event.ready_after_ms.map(after).unwrap_or_default()
}

/// The processes that are not covered, on one line however many there are.
fn uncovered(event: &Event) -> String {
    match event.uncovered.unwrap_or_default() {
        0 => "everything is covered".to_owned(),
        1 => "changes of 1 process are not seen as they happen (-v says why)".to_owned(),
        count => format!("changes of {count} processes are not seen as they happen (-v says why)"),
    }
}

/// ` (uid 1000: 7, others: 1)`
fn lost_by(event: &Event) -> String {
    let one = |lost: &LostBy| match lost.uid {
        Some(uid) => format!("uid {uid}: {}", lost.events),
        None => format!("others: {}", lost.events),
    };
    let all: Vec<String> = event.lost_by.iter().map(one).collect();
    if all.is_empty() { String::new() } else { format!(" ({})", all.join(", ")) }
}

/// `CUDA_VISIBLE_DEVICES 0,1 → 1 (nvidia1)`
fn visible(event: &Event, gpus: &[Gpu]) -> String {
    let Some(variable) = &event.variable else {
        return format!("all variables removed ({})", event.how.map_or("", <&str>::from));
    };
    let old = event.old.as_ref().map(value).unwrap_or_else(|| "?".to_owned());
    let new = event.new.as_ref().map(value).unwrap_or_else(|| "?".to_owned());
    let found = if event.how == Some(EventCause::Memory) { ", found in memory" } else { "" };
    let effect = match event.effective {
        Some(false) => ", without effect: its driver was initialised before",
        _ => "",
    };
    format!("{variable} {old} → {new}{}{found}{effect}", result(event, gpus))
}

/// `opened nvidia1 (195:1)`, with what it may not open any more.
fn devices(event: &Event, gpus: &[Gpu]) -> String {
    let Some(devices) = &event.devices else { return event.event.to_string() };
    let numbers: Vec<String> =
        devices.numbers.iter().map(|device| format!("{}:{}", device.major, device.minor)).collect();
    let denied = devices.held_denied.as_deref().unwrap_or_default();
    let names = gpus::device_names(devices, denied, gpus);
    let denied = if denied.is_empty() { "" } else { ", ! denied by its rules" };
    format!("{} {} ({}){denied}", event.event, names.join(" "), numbers.join(" "))
}

/// The GPUs that result, in parentheses; that there is none, with the reason, behind a
/// colon.
fn result(event: &Event, gpus: &[Gpu]) -> String {
    let asked = event.asked.as_ref().filter(|_| !gpus.is_empty());
    if let Some(none) = asked.and_then(|asked| finds_none(event, asked)) {
        return none;
    }
    let why = event.why.as_deref().filter(|_| event.new.is_some() || event.event == EventKind::Process);
    let why = why.map(|why| format!(": {}", sanitize::short(why, WHY, "…"))).unwrap_or_default();
    asked.map(|asked| format!(" ({}{why})", process::result(asked, gpus))).unwrap_or_default()
}

/// `: CUDA finds no GPU`, where the interface that reads the variable finds none; why, where
/// the value alone does not say it.
fn finds_none(event: &Event, asked: &Asked) -> Option<String> {
    let reads = |api: &&Api| event.variable.as_deref() == Some(api.variable.as_str());
    let api = asked.apis.iter().find(reads).or(asked.apis.first())?;
    let is_none = api.gpus.as_ref().is_some_and(Vec::is_empty) && api.instances.is_empty();
    let cut = api.cut.as_ref().map(|cut| &cut.code);
    let is_plain = api.state == ValueState::Empty || cut == Some(&CutCode::Invalid);
    let why = event.why.as_deref().filter(|_| !is_plain);
    let why = why.map(|why| format!(", because {}", sanitize::short(why, WHY, "…"))).unwrap_or_default();
    is_none.then(|| format!(": {} finds no GPU{why}", interface(&api.api)))
}

/// What people call an interface.
fn interface(api: &ApiName) -> String {
    match api {
        ApiName::Cuda => "CUDA".to_owned(),
        ApiName::Hip => "HIP".to_owned(),
        ApiName::Rocr => "ROCm".to_owned(),
        other => sanitize::text(&other.to_string()).into_owned(),
    }
}

/// The variables of a new process, and what results.
fn asked(event: &Event, gpus: &[Gpu]) -> String {
    let variables = event.asked.iter().flat_map(|asked| &asked.variables);
    let variables: Vec<String> = variables
        .filter(|one| !one.name.starts_with("SLURM"))
        .map(|one| {
            let text = sanitize::short_with_hex(&one.value, one.value_hex.as_deref(), VALUE);
            format!(" {}={}", one.name, process::quoted(text))
        })
        .collect();
    format!("{}{}", variables.concat(), result(event, gpus))
}

fn value(value: &Value) -> String {
    match (value.state, &value.raw) {
        (ValueState::Value, Some(raw)) => {
            let text = sanitize::short_with_hex(raw, value.raw_hex.as_deref(), VALUE);
            process::quoted(text)
        }
        (state, _) => state.to_string(),
    }
}

/// The most characters of a path that are shown.
const PATH: usize = 160;

/// `left slurm job 7, step 0: moved from /a to /b, gained nvidia1`.
pub(super) fn moved_what(event: &Event, moved: &MoveEvent, inventory: &[Gpu]) -> String {
    let left = moved.from_owner.as_ref().filter(|_| moved.left == Some(true));
    let left = left.map(|owner| format!("left {}: ", owner::full(owner))).unwrap_or_default();
    let thread = moved.thread.map(|thread| format!("its thread {thread} ")).unwrap_or_default();
    let verb =
        if event.how == Some(EventCause::Clone3) { "began outside its parent's cgroup," } else { "moved" };
    let path = |path: Option<&String>, hex: Option<&String>, gone: &str| match path {
        Some(path) => sanitize::short_with_hex(path, hex.map(String::as_str), PATH),
        None => gone.to_owned(),
    };
    let from = path(moved.from.as_ref(), moved.from_hex.as_ref(), "a cgroup that is not seen from here");
    let to =
        path(event.cgroup.as_ref(), event.cgroup_hex.as_ref(), "a cgroup that is gone or not seen from here");
    let again = if moved.again { " (not known before)" } else { "" };
    format!("{left}{thread}{verb} from {from} to {to}{}{again}", reach(moved, inventory))
}

/// `, gained nvidia1, lost nvidia0`.
fn reach(moved: &MoveEvent, inventory: &[Gpu]) -> String {
    if inventory.is_empty() {
        return String::new();
    }
    let (Some(gained), Some(lost)) = (&moved.gained, &moved.lost) else {
        return ", which GPUs it gained or lost is not known".to_owned();
    };
    let list = |word: &str, keys: &[GpuKey]| {
        let (instances, keys): (Vec<GpuKey>, Vec<GpuKey>) =
            keys.iter().cloned().partition(|key| key.is_instance());
        let all = names::set(gpus::key_names(&keys, &instances, inventory));
        if keys.is_empty() && instances.is_empty() { String::new() } else { format!(", {word} {all}") }
    };
    let parts =
        [list("gained", gained), list("lost", lost), list("unknown on one side", &moved.unknown)].concat();
    if parts.is_empty() { ", its GPUs stay the same".to_owned() } else { parts }
}

/// The most programs or rules that are shown before the rest is counted.
const SHOWN: usize = 6;
/// The most characters of a path or a program's name that are shown.
const PROGRAM_PATH: usize = 160;

/// The line of an event about programs; `None` for other events. `inventory` has the
/// names of GPUs.
pub fn line(event: &Event, inventory: &[Gpu]) -> Option<String> {
    let what = match (&event.policy, event.event) {
        (Some(policy), _) => change(event, policy, inventory),
        (None, EventKind::Denied) => format!("{}{}", process_name(event), denied(event, inventory)),
        (None, EventKind::Lost) => {
            let why = event.why.as_deref().unwrap_or("events were lost");
            format!("{} times {}", event.lost.unwrap_or_default(), sanitize::text(why))
        }
        _ => return None,
    };
    let clock = event.at.clock();
    let clock = sanitize::text(&clock);
    Some(format!("{clock} {:<7} {}  {what}", event.event.to_string(), subject(event)))
}

fn subject(event: &Event) -> String {
    match &event.owner {
        Some(owner) => owner::full(owner),
        None => {
            let path = event.cgroup.as_deref().unwrap_or_default();
            sanitize::short_with_hex(path, event.cgroup_hex.as_deref(), PROGRAM_PATH)
        }
    }
}

fn change(event: &Event, policy: &PolicyEvent, inventory: &[Gpu]) -> String {
    let mut parts = programs(event, policy);
    if policy.removed {
        parts.insert(0, "cgroup removed".to_owned());
    } else if policy.equal {
        parts.push("nothing else is allowed than before".to_owned());
    }
    if let Some(ours) = policy.repair_undone {
        parts.insert(0, format!("systemd undid the repair by program {ours} (gpumap repair --list)"));
    }
    parts.extend(rule_parts(policy));
    let also = match policy.also {
        0 => String::new(),
        1 => " (and in 1 more cgroup)".to_owned(),
        more => format!(" (and in {more} more cgroups)"),
    };
    format!("{}{}{also}", effect(policy, inventory), parts.join(", "))
}

/// `lost nvidia1: `.
fn effect(policy: &PolicyEvent, inventory: &[Gpu]) -> String {
    let list = |word: &str, keys: &[GpuKey]| {
        let names = names::set(gpus::key_names(keys, &[], inventory));
        (!keys.is_empty()).then(|| format!("{word} {names}"))
    };
    // A new cgroup had nothing to lose.
    let [lost, gained] = if policy.created { ["may not open", "may open"] } else { ["lost", "gained"] };
    let lists = [
        list(lost, &policy.lost),
        list(gained, &policy.gained),
        list("unknown on one side", &policy.unknown),
    ];
    let parts: Vec<String> = lists.into_iter().flatten().collect();
    if parts.is_empty() { String::new() } else { parts.join(", ") + ": " }
}

fn programs(event: &Event, policy: &PolicyEvent) -> Vec<String> {
    let of = |all: &[PolicyProgram], word: &str, preposition: &str| {
        let shown = all.iter().take(SHOWN);
        let mut parts: Vec<String> = shown.map(|one| program(one, (word, preposition), event)).collect();
        parts.extend(
            all.len()
                .checked_sub(SHOWN)
                .filter(|more| *more > 0)
                .map(|more| format!("… and {more} more {word}")),
        );
        parts
    };
    let mut parts = of(&policy.gone, "gone", "from");
    parts.extend(of(&policy.attached, "attached", "to"));
    if !policy.maps.is_empty() {
        let ids: Vec<String> = policy.maps.iter().take(SHOWN).map(u32::to_string).collect();
        let more = if policy.maps.len() > SHOWN { " …" } else { "" };
        parts.push(format!("the contents of map {}{more} changed", ids.join(" ")));
    }
    parts
}

/// `program 1727 sd_devices attached to /system.slice (systemd)`.
fn program(program: &PolicyProgram, (word, preposition): (&str, &str), event: &Event) -> String {
    let name = match program.name.as_str() {
        "" => String::new(),
        name => format!(" {}", sanitize::short(name, PROGRAM_PATH, "…")),
    };
    let at = &program.place.attached_at;
    let elsewhere = !at.is_empty() && event.cgroup.as_ref() != Some(at);

    let at = if elsewhere {
        format!(" {preposition} {}", sanitize::short(at, PROGRAM_PATH, "…"))
    } else {
        String::new()
    };
    let writer = program.writer.as_ref().map(Writer::to_string);
    let writer = writer.map(|writer| format!(" ({})", sanitize::text(&writer))).unwrap_or_default();
    format!("program {}{name} {word}{at}{writer}", program.place.id)
}

/// `195:0 195:255 now denied`, for each new verdict.
fn rule_parts(policy: &PolicyEvent) -> Vec<String> {
    let verdicts = [(Verdict::Deny, "denied"), (Verdict::Allow, "allowed"), (Verdict::Unknown, "unknown")];
    let mut parts: Vec<String> = Vec::new();
    for (verdict, word) in verdicts {
        let all: Vec<&Change> = policy.changes.iter().filter(|change| change.to == verdict).collect();
        let shown = changed_devices(all.get(..SHOWN).unwrap_or(&all));
        let more = all.len().checked_sub(SHOWN).filter(|more| *more > 0);
        let more = more.map(|more| format!(" … and {more} more")).unwrap_or_default();
        if !shown.is_empty() {
            parts.push(format!("{shown}{more} now {word}"));
        }
    }
    let omitted = policy.omitted.map(|omitted| omitted.questions);
    parts.extend(omitted.map(|count| format!("{count} more (device, request) pairs have changed")));
    parts
}

/// Rules with equal requests together: `195:0 195:255 rw, b 8:* r`; all
/// requests go without saying.
fn changed_devices(changes: &[&Change]) -> String {
    let groups = changes.chunk_by(|a, b| requests(a) == requests(b)).map(|group| {
        let rules: Vec<String> = group.iter().map(|change| device(change)).collect();
        let asked = group.first().map(requests).filter(|requests| *requests != RequestSet::ALL);
        rules.join(" ") + &asked.map(|requests| format!(" {requests}")).unwrap_or_default()
    });
    groups.collect::<Vec<_>>().join(", ")
}

fn requests(change: &&Change) -> RequestSet {
    change.rule.rule.requests
}

/// A character device by its number alone.
fn device(change: &Change) -> String {
    let notation = rules::notation(&change.rule);
    let number = notation.strip_prefix("c ").unwrap_or(&notation);
    number.replacen(&format!(" {}", requests(&change)), "", 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::{Cut, EventProcess};

    fn line(event: &Event) -> String {
        let mut out = Vec::new();
        write(&mut out, event, &[]).unwrap();
        String::from_utf8(out).unwrap()
    }

    /// Make sure that a change reads as one line, whatever is in it.
    #[test]
    fn changes() {
        let of =
            |raw: &str| Value { state: ValueState::Value, raw: Some(raw.to_owned()), ..Value::default() };
        let event = Event {
            at: "2026-01-02T03:04:05.6Z".into(),
            event: EventKind::Visible,
            process: Some(EventProcess { pid: 7, comm: "x\x1b[2J".to_owned(), ..EventProcess::default() }),
            variable: Some("CUDA_VISIBLE_DEVICES".to_owned()),
            old: Some(of("0,1")),
            new: Some(of("1\n")),
            effective: Some(false),
            ..Event::default()
        };
        let text = line(&event);
        assert!(text.starts_with("03:04:05Z  7 x"), "{text}");
        assert!(text.contains("CUDA_VISIBLE_DEVICES 0,1 → 1") && text.contains("without effect"), "{text}");
        assert!(text.matches('\n').count() == 1 && !text.contains('\x1b'), "{text}");
    }

    /// Make sure that a value that selects no GPU says so, and why unless the value does.
    #[test]
    fn no_gpu() {
        let of =
            |raw: &str| Value { state: ValueState::Value, raw: Some(raw.to_owned()), ..Value::default() };
        let text = |new: &str, code: CutCode, why: &str| {
            let cut = Some(Cut { code, ..Cut::default() });
            let name = "CUDA_VISIBLE_DEVICES".to_owned();
            let api = Api {
                variable: name.clone(),
                state: ValueState::Value,
                gpus: Some(vec![]),
                cut,
                ..Api::default()
            };
            let event = Event {
                event: EventKind::Visible,
                variable: Some(name),
                old: Some(of("1")),
                new: Some(of(new)),
                asked: Some(Asked { gpus: Some(vec![]), apis: vec![api], ..Asked::default() }),
                why: Some(why.to_owned()),
                ..Event::default()
            };
            visible(&event, &[Gpu::default()])
        };
        let nonsense = text("nonsense", CutCode::Invalid, "the list ends at entry 0");
        assert_eq!(nonsense, "CUDA_VISIBLE_DEVICES 1 → nonsense: CUDA finds no GPU");
        let denied = text("GPU-1", CutCode::NotAllowed, "the cgroup denies it");
        assert_eq!(denied, "CUDA_VISIBLE_DEVICES 1 → GPU-1: CUDA finds no GPU, because the cgroup denies it");
    }

    /// Make sure that a job's begin and end are lines of their own.
    #[test]
    fn jobs() {
        let owner = crate::owner::of_path(b"/system.slice/slurmstepd.scope/job_9");
        let at: crate::model::Time = "2026-01-02T03:04:05.6Z".into();
        let event = |event| Event { at: at.clone(), event, owner: owner.clone(), ..Event::default() };
        assert_eq!(line(&event(EventKind::Began)), "03:04:05Z  slurm job 9 began\n");
        assert_eq!(line(&event(EventKind::Ended)), "03:04:05Z  slurm job 9 ended\n");
        // What a new cgroup may not open, nobody has lost.
        let policy = PolicyEvent { created: true, lost: vec!["GPU-1".into()], ..PolicyEvent::default() };
        let policy = Event { policy: Some(policy), ..event(EventKind::Policy) };
        assert!(line(&policy).contains("slurm job 9  may not open GPU-1"), "{}", line(&policy));
    }
}

#[cfg(test)]
mod watch_move_tests {
    use super::*;
    use crate::owner::of_path;
    use crate::report::GpuNode;

    const JOB: &str = "/system.slice/slurmstepd.scope/job_7/step_0/user/task_0";

    fn line(to: Option<&str>, moved: MoveEvent) -> String {
        let gpu = |minor: u32| Gpu {
            key: format!("GPU-{minor}").into(),
            minor: Some(minor),
            nodes: vec![GpuNode { path: format!("/dev/nvidia{minor}"), major: 195, minor, gate: true }],
            ..Gpu::default()
        };
        let event = Event { cgroup: to.map(str::to_owned), ..Event::default() };
        let from_owner = moved.from.as_deref().and_then(|from| of_path(from.as_bytes()));
        moved_what(&event, &MoveEvent { from_owner, ..moved }, &[gpu(0), gpu(1)])
    }

    /// Make sure that a line names the owner that was left, both places, and the
    /// GPUs.
    #[test]
    fn lines() {
        let from = || MoveEvent { from: Some(JOB.to_owned()), left: Some(true), ..MoveEvent::default() };
        let both =
            MoveEvent { gained: Some(vec!["GPU-1".into()]), lost: Some(vec!["GPU-0".into()]), ..from() };
        let text = line(Some("/"), both);
        assert_eq!(
            text,
            format!("left slurm job 7, step 0, task 0: moved from {JOB} to /, gained nvidia1, lost nvidia0")
        );
        let lost = Some(vec!["GPU-0".into()]);
        let again = MoveEvent { gained: Some(vec![]), lost, again: true, ..from() };
        assert!(line(Some("/"), again).ends_with(" to /, lost nvidia0 (not known before)"));
        assert!(line(None, from()).ends_with(
            " to a cgroup that is gone or not seen from here, which GPUs it gained or lost is not known"
        ));
        let thread =
            MoveEvent { thread: Some(9), gained: Some(vec![]), lost: Some(vec![]), ..MoveEvent::default() };
        let text = line(Some("/b\x1b\n"), thread);
        assert!(
            text.starts_with("its thread 9 moved from a cgroup that is not seen from here to /b"),
            "{text}"
        );
        assert!(
            text.ends_with("its GPUs stay the same") && !text.chars().any(sanitize::is_hostile),
            "{text}"
        );
    }
}

#[cfg(test)]
mod watch_policy_tests {
    use std::path::Path;

    use super::*;
    use crate::analyse;
    use crate::gpu;
    use crate::observation::Observation;
    use crate::owner::Directory;

    fn node(name: &str) -> Observation {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/nodes").join(name);
        serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap()
    }

    /// Make sure that the story of daemon-reload is one readable line.
    #[test]
    fn daemon_reload() {
        let (before, after) = (node("systemd-before-reload.json"), node("systemd-reload.json"));
        let path = "/system.slice/container.scope".into();
        let policy = analyse::change(&before, &after, &path).unwrap();
        assert_eq!(policy.attached.len(), 1);
        assert!(policy.gone.is_empty() && !policy.equal);
        let event = Event {
            at: "2026-11-21T10:02:11.123Z".into(),
            event: EventKind::Policy,
            cgroup: Some(path.lossy().into_owned()),
            owner: Directory::new(&after).of(&path).cloned(),
            policy: Some(policy),
            ..Event::default()
        };
        let line = line(&event, &gpu::inventory(&after.gpu_facts)).unwrap();
        let expected = "10:02:11Z policy  unit container.scope  lost nvidia0: program 1727 sd_devices attached \
                        (systemd), 195:0 195:255 510:0 rw now denied";
        assert_eq!(line, expected);
        assert!(analyse::change(&after, &after, &path).is_none());
        let policy = analyse::change(&after, &before, &path).unwrap();
        assert_eq!((policy.lost.len(), policy.gained.len()), (0, 1));
        let line = super::line(&Event { policy: Some(policy), ..event.clone() }, &[]).unwrap();
        assert!(line.contains("program 1727 sd_devices gone (systemd), 195:0 195:255 510:0 rw now allowed"));
        // The cgroup was removed with its programs: no process lost anything.
        let mut without = after.clone();
        without.cgroups.retain(|cgroup| cgroup.path != path);
        let policy = analyse::change(&after, &without, &path).unwrap();
        assert!(policy.removed && policy.equal && policy.lost.is_empty() && policy.changes.is_empty());
        assert_eq!(policy.gone.len(), 2);
        let line = super::line(&Event { policy: Some(policy), ..event }, &[]).unwrap();
        assert!(line.contains("cgroup removed, program"), "{line}");
        // New with its programs: compared with what it started with.
        let policy = analyse::change(&without, &after, &path).unwrap();
        assert_eq!((policy.attached.len(), policy.removed, policy.created), (2, false, true));
    }

    /// Make sure that hostile names are escaped and cannot forge a line, and that
    /// entries that are left out are counted.
    #[test]
    fn hostile() {
        let program = PolicyProgram { name: "x\x1b[2J".to_owned(), ..PolicyProgram::default() };
        let policy =
            PolicyEvent { attached: vec![program; 9], equal: true, also: 3, ..PolicyEvent::default() };
        let event = Event {
            at: "\n".into(),
            event: EventKind::Policy,
            cgroup: Some("/a\n10:00:00 policy\u{202e}".to_owned()),
            policy: Some(policy),
            ..Event::default()
        };
        let line = line(&event, &[]).unwrap();
        assert!(!line.chars().any(sanitize::is_hostile), "{line:?}");
        assert!(
            line.ends_with(
                "… and 3 more attached, nothing else is allowed than before (and in 3 more cgroups)"
            )
        );
        let lost = Event { event: EventKind::Lost, policy: None, lost: Some(2), ..event };
        assert!(super::line(&lost, &[]).unwrap().contains("2 times"));
        assert!(super::line(&Event::default(), &[]).is_none());
    }
}
