//! Each thing that is never done, with its reason: on saved nodes and on ones that are
//! made for it.

use super::slurm::replace;
use super::{SCOPE, load, lost};
use crate::analyse;
use crate::model::Rule;
use crate::observation::{Answer, Attached, Cgroup, HexBytes, Host, Observation, Program, Scope, Text};
use crate::policy::{Decoder, TimeLimit};
use crate::repair::{Like, RepairRequest, prepare};
use crate::report::Repair;

/// A node with a cgroup below the root that has this program, alone.
fn room(path: &str, program: Program) -> Observation {
    let ids = vec![program.id];
    let own = Attached { programs: ids.clone(), flags: 2, ..Attached::default() };
    let cgroup = Cgroup {
        path: path.into(),
        id: 76,
        own: Answer::Known(own),
        effective: Answer::Known(ids),
        pids: vec![1],
        unseen: None,
        uid: None,
    };
    let root = Cgroup { path: "/".into(), id: 1, ..Cgroup::default() };
    Observation {
        cgroups: vec![root, cgroup],
        programs: vec![program],
        scope: vec![Scope { path: "/".into(), recursive: true }],
        host: Host { boot_id: "boot".into(), ..Host::default() },
        ..Observation::default()
    }
}

fn captured(file: &str) -> Program {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/fixtures/programs/").to_owned() + file;
    let text = std::fs::read(path).unwrap();
    Program { id: 9, xlated: Answer::Known(HexBytes(text)), ..Program::default() }
}

fn made(name: &str, rules: &str) -> Program {
    let decoder = &mut Decoder::new();
    let policy = decoder.policy_of_text(rules).unwrap();
    let compiled = analyse::compiled(decoder, policy).unwrap();
    Program { id: 9, name: name.into(), ..compiled }
}

const NARROW: &str = "deny a *:* rwm\nallow c 1:3-9 rwm";

fn rules(text: &str) -> Vec<Rule> {
    let decoder = &mut Decoder::new();
    let policy = decoder.policy_of_text(&format!("deny a *:* rwm\n{text}")).unwrap();
    decoder.rules(policy).rules
}

/// Asks for `c 195:0`, by a program of gpumap's, and makes sure that nothing is
/// planned.
fn refused(observation: &Observation, path: &str, request: RepairRequest) -> Repair {
    let (payload, change) = prepare(observation, &path.into(), &request, &TimeLimit::default()).unwrap();
    let repair = payload.repair;
    assert!(
        change.is_none() && repair.replacement.is_none() && repair.steps.is_empty(),
        "{path}: {repair:#?}"
    );
    repair
}

fn ask(device: &str) -> RepairRequest {
    let allow = rules(&format!("allow {device} rwm"));
    RepairRequest { allow, direct: true, ..RepairRequest::default() }
}

fn says(repair: &Repair, why: &str) {
    let refusals = repair.refusals.join("; ");
    assert!(refusals.contains(why), "{why}: {refusals}");
}

/// Make sure that programs whose owners keep track of them are never replaced, known by
/// the program or by the cgroup.
#[test]
fn by_writer_and_by_owner() {
    let plain = || made("", NARROW);
    for (path, program, why) in [
        ("/a", captured("lxc/5.0.2-gpu.xlated"), "lxc-cgroup"),
        ("/a", made("craned_device_a", NARROW), "a limit of a scheduler"),
        ("/a", made("oarcgdev", NARROW), "a limit of a scheduler"),
        ("/machine.slice/machine-qemu\\x2d1\\x2dvm.scope/libvirt", plain(), "virsh attach-device"),
        ("/lxc.payload.box", plain(), "lxc-cgroup -n box"),
    ] {
        says(&refused(&room(path, program), path, ask("c 195:9")), why);
    }
    // Without a reason to refuse, the same program would be replaced.
    let (_, change) =
        prepare(&room("/a", plain()), &"/a".into(), &ask("c 195:9"), &TimeLimit::default()).unwrap();
    assert!(change.is_some());
}

/// Make sure that a program which cannot be known exactly is never replaced: its
/// instructions could not be read, it asks for its place, its functions may be others,
/// its map was not seen.
#[test]
fn what_is_not_known_exactly() {
    // bpf_get_current_cgroup_id() decides: call 80, r0 &= 1, exit.
    let code = [[0x85, 0, 0, 0, 80, 0, 0, 0], [0x57, 0, 0, 0, 1, 0, 0, 0], [0x95, 0, 0, 0, 0, 0, 0, 0]];
    let by_place = HexBytes(code.concat());
    let calls = [(80, "bpf_get_current_cgroup_id".to_owned())].into();
    let unread = Program { xlated: Answer::Missing("the kernel hides it".into()), ..made("", NARROW) };
    let replaced = Program { replaced_by: Answer::Missing("not asked".into()), ..made("", NARROW) };
    for (program, why) in [
        (unread, "not known exactly"),
        (Program { id: 9, xlated: Answer::Known(by_place), calls, ..Program::default() }, "cannot be known"),
        (replaced, "another program runs in the place of a function"),
        (captured("libvirt/9.0.0-lvgpu-libvirt.xlated"), "not known exactly"),
    ] {
        says(&refused(&room("/a", program), "/a", ask("c 195:9")), why);
    }
}

/// Make sure that nobody else gains by a level that others share, unless they are
/// meant.
#[test]
fn a_level_that_others_share() {
    let mut shared = room("/top", made("", NARROW));
    let below = |name: &str, id| Cgroup {
        path: Text::from(format!("/top/{name}").as_str()),
        id,
        own: Answer::Known(Attached::default()),
        effective: Answer::Known(vec![9]),
        pids: vec![id as u32],
        unseen: None,
        uid: None,
    };
    shared.cgroups.extend([below("mine", 5), below("other", 6)]);
    says(&refused(&shared, "/top/mine", ask("c 195:9")), "who would gain from it: /top and 1 more");
    shared.cgroups[1].pids.clear();
    says(&refused(&shared, "/top/mine", ask("c 195:9")), "who would gain from it: /top/other");
    let elsewhere = RepairRequest { at: Some("/top/other".into()), ..ask("c 195:9") };
    says(&refused(&shared, "/top/mine", elsewhere), "not around");
    let meant = RepairRequest { at: Some("/top".into()), ..ask("c 195:9") };
    assert!(prepare(&shared, &"/top/mine".into(), &meant, &TimeLimit::default()).unwrap().1.is_some());
    // What was not seen may be others' too.
    shared.scope.clear();
    says(&refused(&shared, "/top/mine", ask("c 195:9")), "was not seen");
}

/// Make sure that nobody gets a GPU that another container or job has alone, and no job
/// more than it was allocated.
#[test]
fn what_is_somebody_elses() {
    let mut node = load("nodes/slurm-jobs.json");
    let job = "/system.slice/gpu01_slurmstepd.scope/job_4712";
    says(&refused(&node, job, ask("c 195:0")), "more than Slurm gave job 4712");
    says(
        &refused(&node, &format!("{job}/step_0/user/task_0"), ask("c 195:3")),
        "more than Slurm gave job 4712",
    );
    // A job whose own cgroup has no program: nobody knows what it was given.
    let mut bare = node.clone();
    let top = bare.cgroups.iter_mut().find(|cgroup| cgroup.path.lossy() == job).unwrap();
    top.own = Answer::Known(Attached::default());
    let task = format!("{job}/step_0/user/task_0");
    says(&refused(&bare, &task, ask("c 195:2")), "what was allocated to the job is not known");
    // Two containers with a GPU each, and no jobs.
    node.cgroups.retain(|cgroup| !cgroup.path.lossy().contains("job_"));
    let scope = |id: char| format!("/system.slice/docker-{}.scope", id.to_string().repeat(64));
    for (id, program, gpu) in [('a', 9001, 0), ('b', 9002, 1)] {
        let mut cgroup = node.cgroups[1].clone();
        (cgroup.path, cgroup.id, cgroup.pids) =
            (scope(id).as_str().into(), u64::from(program), vec![program]);
        node.cgroups.push(cgroup);
        replace(&mut node, &scope(id), program, &format!("{NARROW}\nallow c 195:{gpu} rw"));
    }
    says(&refused(&node, &scope('a'), ask("c 195:1")), "another owner's alone");
    says(&refused(&node, &scope('b'), ask("c 195:0")), "another owner's alone");
    // Nobody has GPU 2.
    assert!(
        prepare(&node, &scope('a').as_str().into(), &ask("c 195:2"), &TimeLimit::default())
            .unwrap()
            .1
            .is_some()
    );
}

/// Make sure that a limit which somebody set after the source was so is not taken back,
/// and that both times are reported; a reload, which sets nothing, is no such limit.
#[test]
fn a_limit_set_since() {
    let list = "DevicePolicy=strict\nDeviceAllow=/dev/char/1:3 rwm";
    let at = |time: &str| {
        let mut observation = lost(list);
        observation.units[0].devices_changed_at = Some(time.into());
        observation
    };
    let runtimes = lost(list).programs.iter().find(|program| program.id == 1722).unwrap().loaded_at.clone();
    let later = at("2026-11-21T05:00:00Z");
    let like =
        Some(Like { observation: load("nodes/systemd-before-reload.json"), name: "before.json".into() });
    for (direct, like) in [(false, None), (true, None), (false, like.clone())] {
        let request = RepairRequest { direct, like, ..RepairRequest::default() };
        let repair = refused(&later, SCOPE, request);
        says(&repair, "was changed at 2026-11-21T05:00:00Z, and what should be allowed is as of");
        assert_eq!((repair.missing.is_empty(), repair.denied_by.len()), (false, 1));
    }
    for (time, request) in [
        (runtimes.as_str(), RepairRequest::default()),
        ("2026-11-01T00:00:00Z", RepairRequest { like, ..RepairRequest::default() }),
        (
            "2026-11-21T05:00:00Z",
            RepairRequest { allow: rules("allow c 195:0 rw"), ..RepairRequest::default() },
        ),
    ] {
        let (payload, _) = prepare(&at(time), &SCOPE.into(), &request, &TimeLimit::default()).unwrap();
        assert_eq!(payload.repair.steps.len(), 1, "{time}");
    }
}
