//! Prints a change of programs on one line: first its effect, then what happened.

use super::{gpu_names, names, owner, rules, sanitize};
use crate::model::{EventKind, RequestSet, Verdict, Writer};
use crate::report::{Change, Event, Gpu, PolicyEvent, PolicyProgram};

/// The most programs or rules that are shown before the rest is counted.
const SHOWN: usize = 6;
/// The most characters of a path or a program's name that are shown.
const PATH: usize = 160;

/// The line of an event about programs; `None` for other events. `inventory` has the
/// names of GPUs.
pub fn line(event: &Event, inventory: &[Gpu]) -> Option<String> {
    let what = match (&event.policy, event.event) {
        (Some(policy), _) => change(event, policy, inventory),
        (None, EventKind::Lost) => {
            let why = event.why.as_deref().unwrap_or("events were lost");
            format!("{} times {}", event.lost.unwrap_or_default(), sanitize::text(why))
        }
        _ => return None,
    };
    // The clock of `2026-11-21T10:02:11.123Z`, which is UTC and says so.
    let clock = event.at.get(11..19).unwrap_or(&event.at);
    let clock = sanitize::text(clock);
    Some(format!("{clock}Z {:<7} {}  {what}", event.event.to_string(), subject(event)))
}

fn subject(event: &Event) -> String {
    match &event.owner {
        Some(owner) => owner::full(owner),
        None => {
            let path = event.cgroup.as_deref().unwrap_or_default();
            sanitize::short_with_hex(path, event.cgroup_hex.as_deref(), PATH)
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
    let list = |word: &str, keys: &[String]| {
        let names = names::set(gpu_names::key_names(keys, &[], inventory));
        (!keys.is_empty()).then(|| format!("{word} {names}"))
    };
    let lists = [
        list("lost", &policy.lost),
        list("gained", &policy.gained),
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
        name => format!(" {}", sanitize::short(name, PATH, "…")),
    };
    let at = &program.place.attached_at;
    let elsewhere = !at.is_empty() && event.cgroup.as_ref() != Some(at);

    let at = if elsewhere {
        format!(" {preposition} {}", sanitize::short(at, PATH, "…"))
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
        let shown = devices(all.get(..SHOWN).unwrap_or(&all));
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
fn devices(changes: &[&Change]) -> String {
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
            at: "2026-11-21T10:02:11.123Z".to_owned(),
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
        assert_eq!((policy.attached.len(), policy.removed), (2, false));
    }

    /// Make sure that hostile names are escaped and cannot forge a line, and that
    /// entries that are left out are counted.
    #[test]
    fn hostile() {
        let program = PolicyProgram { name: "x\x1b[2J".to_owned(), ..PolicyProgram::default() };
        let policy =
            PolicyEvent { attached: vec![program; 9], equal: true, also: 3, ..PolicyEvent::default() };
        let event = Event {
            at: "\n".to_owned(),
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
