mod refused;
mod slurm;

use super::*;
use crate::model::{DeviceType, IntentionSource, Numbers, Request, RequestSet, Rule, Verdict};
use crate::observation::{ConfigFile, Observation, Scope, Text, Unit};
use crate::policy::TimeLimit;
use crate::report::{ListedRule, Repair};

const SCOPE: &str = "/system.slice/container.scope";
/// What the runtime's program of the saved node allows and systemd's does not.
const LOST: [&str; 3] =
    ["DeviceAllow=/dev/char/195:0 rw", "DeviceAllow=/dev/char/195:255 rw", "DeviceAllow=/dev/char/510:0 rw"];

fn load(file: &str) -> Observation {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/fixtures/").to_owned() + file;
    serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap()
}

fn unit(lines: &str) -> Unit {
    let text = format!("[Scope]\n{lines}\n");
    Unit {
        name: "container.scope".into(),
        cgroup: SCOPE.into(),
        fragment: Some("/run/systemd/transient/container.scope".into()),
        files: vec![ConfigFile { path: "x".into(), text: text.into() }],
        ..Unit::default()
    }
}

/// A container after the reload, with what the files of its unit say.
fn lost(lines: &str) -> Observation {
    let scope = vec![Scope { path: SCOPE.into(), recursive: true }];
    Observation { units: vec![unit(lines)], scope, ..load("nodes/systemd-reload.json") }
}

fn of(observation: &Observation, request: &RepairRequest) -> Repair {
    plan(observation, &SCOPE.into(), request, &TimeLimit::default()).unwrap()
}

fn state(repair: &Repair) -> String {
    repair.state.to_string()
}

/// Make sure that the container that lost its GPU gets the one line that gives it
/// back, and nothing more.
#[test]
fn a_reload_took_the_gpu() {
    let repair = of(
        &lost("DevicePolicy=strict\nDeviceAllow=char-* m\nDeviceAllow=/dev/char/1:3 rwm"),
        &RepairRequest::default(),
    );
    assert_eq!(state(&repair), "missing", "{:?}", repair.refusals);
    let intention = repair.intention.unwrap();
    assert_eq!(intention.source, IntentionSource::SurvivingProgram);
    assert!(
        intention.what.starts_with("program 1722 (runc or youki), in force beside"),
        "{}",
        intention.what
    );
    assert_eq!(repair.denied_by.iter().map(|denier| denier.program).collect::<Vec<_>>(), [1727]);
    let [step] = repair.steps.as_slice() else { panic!("{:?}", repair.refusals) };
    assert_eq!(step.command[..5], ["systemctl", "set-property", "--runtime", "--", "container.scope"]);
    assert_eq!(step.command[5..], LOST);
    assert_eq!(
        step.undo.as_deref(),
        Some(
            "systemctl set-property --runtime -- container.scope DeviceAllow= 'DeviceAllow=char-* m' \
             'DeviceAllow=/dev/char/1:3 rwm'"
        )
    );
    assert!(repair.remaining.is_empty() && repair.refusals.is_empty(), "{:?}", repair.refusals);
    assert!(
        repair.cautions[0].contains("program 1727 was loaded at 2026-11-21T03:13:47Z, and"),
        "{:?}",
        repair.cautions
    );
}

/// Make sure that there is no command where it would do harm, and that each refusal
/// says why.
#[test]
fn commands_that_would_do_harm() {
    for (lines, why) in [
        ("", "would turn that into a closed list"),
        ("DevicePolicy=auto", "would turn that into a closed list"),
        ("DevicePolicy=strict\nDeviceAllow=/dev/%i rw", "is not certain"),
    ] {
        let repair = of(&lost(lines), &RepairRequest::default());
        assert_eq!((state(&repair).as_str(), repair.steps.len()), ("missing", 0), "{lines}");
        assert!(repair.refusals.iter().any(|refusal| refusal.contains(why)), "{:?}", repair.refusals);
    }
    let mut unseen = lost("DevicePolicy=strict");
    unseen.units.clear();
    assert!(of(&unseen, &RepairRequest::default()).refusals[0].contains("was not seen"));
}

/// Make sure that a limit that was there first is not taken for a loss.
#[test]
fn what_was_never_granted() {
    let mut observation = lost("DevicePolicy=strict");
    for program in &mut observation.programs {
        let time = if program.id == 1727 { "2026-01-01T00:00:00Z" } else { "2026-02-01T00:00:00Z" };
        program.loaded_at = time.into();
    }
    let repair = of(&observation, &RepairRequest::default());
    assert_eq!((state(&repair).as_str(), repair.steps.len()), ("unknown", 0));
    assert!(repair.refusals[0].contains("was never granted"), "{:?}", repair.refusals);
}

/// Make sure that the limit of a service is not taken for a loss because systemd made
/// its program anew: what runs below it was never granted more.
#[test]
fn what_a_service_was_never_granted() {
    let mut observation = lost("DevicePolicy=strict");
    let service = "/system.slice/container.service";
    let top = &mut observation.cgroups[2];
    top.path = service.into();
    let mut below = top.clone();
    let attached = |programs: &[u32]| {
        crate::observation::Answer::Known(crate::observation::Attached {
            programs: programs.to_vec(),
            flags: 2,
            ..Default::default()
        })
    };
    (top.own, top.effective) = (attached(&[1727]), crate::observation::Answer::Known(vec![1727]));
    (below.path, below.id, below.own) =
        ("/system.slice/container.service/box".into(), 9001, attached(&[1722]));
    let path = below.path.clone();
    observation.cgroups.push(below);
    let repair = plan(&observation, &path, &RepairRequest::default(), &TimeLimit::default()).unwrap();
    assert_eq!((state(&repair).as_str(), repair.steps.len()), ("unknown", 0));
    assert!(repair.refusals[0].contains("nothing says that more was ever granted"), "{:?}", repair.refusals);
}

/// Make sure that a container whose runtime's program is alone misses nothing, and
/// that nothing is said of a cgroup without programs.
#[test]
fn nothing_is_missing() {
    let before = load("nodes/systemd-before-reload.json");
    let repair = of(&before, &RepairRequest::default());
    assert_eq!((state(&repair).as_str(), repair.missing.len()), ("nothing-missing", 0));
    let root = plan(&before, &"/".into(), &RepairRequest::default(), &TimeLimit::default()).unwrap();
    assert_eq!(state(&root), "unknown");
    assert!(root.refusals[0].contains("nothing says what should be allowed"), "{:?}", root.refusals);
}

/// Make sure that the next reload is foreseen, and that what the line cannot say is
/// no reason to lose it now.
#[test]
fn the_next_reload() {
    let before =
        |lines: &str| Observation { units: vec![unit(lines)], ..load("nodes/systemd-before-reload.json") };
    let request = RepairRequest { prevent: true, ..RepairRequest::default() };
    let defaults = "DevicePolicy=strict\nDeviceAllow=char-136 rwm\nDeviceAllow=/dev/char/10:200 \
                    rwm\nDeviceAllow=/dev/char/5:2 rwm\nDeviceAllow=/dev/char/5:0 \
                    rwm\nDeviceAllow=/dev/char/1:9 rwm\nDeviceAllow=/dev/char/1:8 \
                    rwm\nDeviceAllow=/dev/char/1:7 rwm\nDeviceAllow=/dev/char/1:5 \
                    rwm\nDeviceAllow=/dev/char/1:3 rwm\nDeviceAllow=char-* m\nDeviceAllow=block-* m";
    let repair = of(&before(defaults), &request);
    assert_eq!(state(&repair), "missing");
    assert_eq!(repair.intention.as_ref().unwrap().source, IntentionSource::InForce);
    let [step] = repair.steps.as_slice() else { panic!("{:?}", repair.refusals) };
    assert_eq!(step.command[5..], LOST);
    assert!(repair.remaining.is_empty());
    let all = format!("{defaults}\n{}", LOST.join("\n"));
    assert_eq!(state(&of(&before(&all), &request)), "nothing-missing");
    assert_eq!(state(&of(&before(""), &request)), "nothing-missing");
    let unknown = of(&before("DevicePolicy=strict\nDeviceAllow=/dev/unheard-of rw"), &request);
    assert_eq!((state(&unknown).as_str(), unknown.steps.len()), ("unknown", 0), "{unknown:?}");
}

/// Make sure that a saved observation counts only for the same cgroup of the same
/// boot.
#[test]
fn as_it_was() {
    let now = lost("DevicePolicy=strict\nDeviceAllow=/dev/char/1:3 rwm");
    let with = |change: &dyn Fn(&mut Observation)| {
        let mut observation = load("nodes/systemd-before-reload.json");
        change(&mut observation);
        let like = Some(Like { observation, name: "before.json".to_owned() });
        of(&now, &RepairRequest { like, ..RepairRequest::default() })
    };
    let same = with(&|_| {});
    assert_eq!((state(&same).as_str(), same.steps.len()), ("missing", 1), "{:?}", same.refusals);
    assert_eq!(same.steps[0].command[5..], LOST);
    for (refused, why) in [
        (with(&|then| then.host.boot_id = "other".to_owned()), "another boot"),
        (with(&|then| then.cgroups[2].id += 1), "another cgroup of this path"),
        (with(&|then| then.cgroups.truncate(2)), "does not hold"),
    ] {
        assert_eq!((state(&refused).as_str(), refused.steps.len()), ("unknown", 0), "{why}");
        assert!(refused.refusals[0].contains(why), "{:?}", refused.refusals);
    }
}

fn device(minor: u32) -> Rule {
    let number = |number| Numbers { first: number, last: number, mask: None };
    Rule {
        verdict: Verdict::Allow,
        kind: Some(DeviceType::Char),
        major: number(195),
        minor: number(minor),
        requests: RequestSet::from(Request::ReadWrite).with(Request::Read).with(Request::Write),
    }
}

/// Make sure that what is asked for beyond the runtime's limit has no command, that
/// a part of it can be left out, and that what is allowed is not missing.
#[test]
fn what_is_asked_for() {
    let now = lost("DevicePolicy=strict\nDeviceAllow=/dev/char/1:3 rwm");
    let ask = |allow: &[Rule], deny: &[Rule]| {
        of(&now, &RepairRequest { allow: allow.to_vec(), deny: deny.to_vec(), ..RepairRequest::default() })
    };
    let mine = ask(&[device(0)], &[]);
    assert_eq!(mine.steps[0].command[5..], LOST[..1], "{:?}", mine.refusals);
    let others = ask(&[device(1)], &[]);
    assert_eq!((state(&others).as_str(), others.steps.len()), ("missing", 0));
    assert!(
        others.refusals.iter().any(|why| why.contains("make the container again")),
        "{:?}",
        others.refusals
    );
    assert_eq!(others.denied_by.len(), 2);
    let spared = of(&now, &RepairRequest { deny: vec![device(0)], ..RepairRequest::default() });
    assert_eq!(spared.steps[0].command[5..], LOST[1..]);
    assert_eq!(state(&ask(&[device(0)], &[device(0)])), "nothing-missing");
}

/// Make sure that a denial of a part of the requests says what stays open.
#[test]
fn a_part_that_is_denied() {
    let now = lost("DevicePolicy=strict\nDeviceAllow=/dev/char/1:3 rwm");
    let cautions = |requests: RequestSet| {
        let deny = vec![Rule { requests, ..device(0) }];
        of(&now, &RepairRequest { deny, ..RepairRequest::default() }).cautions
    };
    let says = "`c 195:0 w` leaves r and rw open: each is a request of its own".to_owned();
    assert!(cautions(Request::Write.into()).contains(&says));
    let whole = cautions(device(0).requests);
    assert!(!whole.iter().any(|caution| caution.contains("leaves")), "{whole:?}");
}

/// Make sure that nobody else gains: another cgroup below the same unit is ruled by
/// the same program.
#[test]
fn others_do_not_gain() {
    let mut observation = lost("DevicePolicy=strict\nDeviceAllow=/dev/char/1:3 rwm");
    let child = |name: &str, own: &[u32], id: u64| {
        let mut cgroup = observation.cgroups[2].clone();
        cgroup.path = Text::from(format!("{SCOPE}/{name}").as_str());
        cgroup.id = id;
        cgroup.own = crate::observation::Answer::Known(crate::observation::Attached {
            programs: own.to_vec(),
            flags: 2,
            ..Default::default()
        });
        cgroup
    };
    let (one, two) = (child("one", &[], 9001), child("two", &[], 9002));
    observation.cgroups.extend([one, two]);
    let path = Text::from(format!("{SCOPE}/one").as_str());
    let repair = plan(&observation, &path, &RepairRequest::default(), &TimeLimit::default()).unwrap();
    assert_eq!((state(&repair).as_str(), repair.steps.len()), ("missing", 0));
    assert!(repair.refusals[0].contains("others too, who would gain from it"), "{:?}", repair.refusals);
    // With the whole unit all of it is meant.
    let whole = of(&observation, &RepairRequest::default());
    assert_eq!(whole.steps.len(), 1, "{:?}", whole.refusals);
    observation.scope.clear();
    let unseen = plan(&observation, &path, &RepairRequest::default(), &TimeLimit::default()).unwrap();
    assert!(unseen.refusals[0].contains("was not seen"), "{:?}", unseen.refusals);
}

/// Make sure that a denial of the v1 controller is reported, and counts as remaining: the
/// command changes programs alone.
#[test]
fn the_v1_controller_denies_too() {
    let mut observation = lost("DevicePolicy=strict\nDeviceAllow=/dev/char/1:3 rwm");
    let list = vec!["c *:* m".to_owned(), "c 1:3 rwm".to_owned(), "c 195:255 rw".to_owned()];
    let group = crate::observation::DevicesV1Group {
        path: "/box".into(),
        list: crate::observation::Answer::Known(list),
    };
    observation.devices_v1 = Some(crate::observation::DevicesV1 {
        mount: "/sys/fs/cgroup/devices".to_owned(),
        groups: vec![group],
    });
    for process in &mut observation.processes {
        process.devices_v1 = Some("/box".into());
    }
    let repair = of(&observation, &RepairRequest::default());
    assert_eq!((state(&repair).as_str(), repair.steps.len()), ("missing", 1), "{:?}", repair.refusals);
    assert!(
        repair.refusals.iter().any(|why| why.contains("the v1 devices controller")),
        "{:?}",
        repair.refusals
    );
    let major_minor = |listed: &ListedRule| (listed.rule.major.first, listed.rule.minor.first);
    let remaining: Vec<_> = repair.remaining.iter().map(major_minor).collect();
    assert!(remaining.contains(&(195, 0)) && !remaining.contains(&(195, 255)), "{remaining:?}");
}

/// Make sure that a name that is no unit's never becomes a word of a command.
#[test]
fn hostile_names_are_no_units() {
    let mut observation = lost("DevicePolicy=strict\nDeviceAllow=/dev/char/1:3 rwm");
    let evil = "/system.slice/a$(reboot).scope";
    observation.cgroups[2].path = evil.into();
    observation.units[0].cgroup = evil.into();
    observation.units[0].name = "a$(reboot).scope".into();
    let repair = plan(&observation, &evil.into(), &RepairRequest::default(), &TimeLimit::default()).unwrap();
    assert!(
        repair.steps.is_empty() && repair.refusals[0].contains("no name that systemd gives"),
        "{:?}",
        repair.refusals
    );
}
