//! What Slurm allocated, as a source: on a saved node with jobs whose GPUs are known
//! (job 4712 has 1 and 2, its step 0 has 1), where something took them.

use super::{load, state};
use crate::analyse;
use crate::model::{CgroupPath, IntentionSource, Numbers, OwnerKind, RequestSet};
use crate::observation::{Answer, Attached, Cgroup, Observation, Program};
use crate::policy::{Decoder, TimeLimit};
use crate::repair::{RepairRequest, plan};
use crate::report::{ListedRule, Repair};

const JOB: &str = "/system.slice/gpu01_slurmstepd.scope/job_4712";
/// A program that is nobody's, and denies every GPU.
const FOREIGN: u32 = 9000;

fn node() -> Observation {
    load("nodes/slurm-jobs.json")
}

fn at(below: &str) -> String {
    format!("{JOB}{below}")
}

/// Puts another program in the place of what is attached to a cgroup: below it the
/// nearest attached program is in force.
pub(super) fn replace(observation: &mut Observation, path: &str, id: u32, rules: &str) {
    let decoder = &mut Decoder::new();
    let policy = decoder.policy_of_text(rules).unwrap();
    let compiled = analyse::compiled(decoder, policy).unwrap();
    let loaded_at = "2026-11-21T09:20:00Z".into();
    observation.programs.push(Program { id, loaded_at, ..compiled });
    let cgroup = observation.cgroups.iter_mut().find(|cgroup| cgroup.path.lossy() == path).unwrap();
    cgroup.own = Answer::Known(Attached { programs: vec![id], flags: 1, ..Attached::default() });
    settle(observation);
}

fn settle(observation: &mut Observation) {
    let own = |cgroup: &Cgroup| cgroup.own.known().map(|own| own.programs.clone()).unwrap_or_default();
    let attached: Vec<_> = observation
        .cgroups
        .iter()
        .map(|cgroup| (cgroup.path.clone(), own(cgroup)))
        .filter(|(_, own)| !own.is_empty())
        .collect();
    for cgroup in &mut observation.cgroups {
        let around = attached
            .iter()
            .filter(|(path, _)| CgroupPath::new(&cgroup.path).is_at_or_below(CgroupPath::new(path)));
        let nearest = around.max_by_key(|(path, _)| path.as_bytes().len());
        cgroup.effective = Answer::Known(nearest.map(|(_, own)| own.clone()).unwrap_or_default());
    }
}

fn of(observation: &Observation, path: &str, request: &RepairRequest) -> Repair {
    plan(observation, &path.into(), request, &TimeLimit::default()).unwrap()
}

fn found(observation: &Observation, path: &str) -> Repair {
    of(observation, path, &RepairRequest::default())
}

fn named(observation: &Observation, path: &str, list: &str) -> Repair {
    let allocated = Some(list.to_owned());
    of(observation, path, &RepairRequest { allocated, ..RepairRequest::default() })
}

/// The minors of what is missing, which must be whole GPUs.
fn minors(repair: &Repair) -> Vec<u32> {
    repair
        .missing
        .iter()
        .flat_map(|ListedRule { rule, .. }| {
            assert_eq!((rule.major, rule.requests), (Numbers::one(195), RequestSet::ALL), "{rule:?}");
            rule.minor.first..=rule.minor.last
        })
        .collect()
}

/// What denies every GPU, and nothing else.
const NO_GPU: &str = "allow a *:* rwm\ndeny c 195:0-3 rwm";
/// What denies everything but what a process needs.
const CLOSED: &str = "deny a *:* rwm\nallow c 1:3-9 rwm";

/// Make sure that nothing is missing where Slurm's programs alone are in force, even
/// where nothing says what a GPU is.
#[test]
fn untouched() {
    let mut node = node();
    for gres in [true, false] {
        for below in ["", "/step_batch/user/task_0", "/step_0/user", "/step_0/user/task_0"] {
            let repair = found(&node, &at(below));
            assert_eq!(state(&repair), "nothing-missing", "{below} {gres}: {:?}", repair.refusals);
            let intention = repair.intention.unwrap();
            assert_eq!(intention.source, IntentionSource::SlurmAllocation);
            assert_eq!(intention.as_of, Some("2026-11-21T09:16:48Z".into()));
        }
        node.slurm.gres_conf = None;
    }
}

/// Make sure that what another took is exactly the GPUs that Slurm's program allows, in
/// the batch script as in a step, and nothing that Slurm leaves open to everybody.
#[test]
fn what_another_took() {
    for (taken, asked, expected) in [
        ("/step_batch", "/step_batch/user/task_0", &[1, 2][..]),
        ("/step_extern", "/step_extern/user/task_special", &[1, 2]),
    ] {
        for rules in [NO_GPU, CLOSED] {
            let mut node = node();
            replace(&mut node, &at(taken), FOREIGN, rules);
            let repair = found(&node, &at(asked));
            assert_eq!(state(&repair), "missing", "{asked}: {:?}", repair.refusals);
            assert_eq!(minors(&repair), expected, "{asked}");
            assert_eq!(repair.gpus.len(), expected.len());
            let intention = repair.intention.unwrap();
            assert!(
                intention.what.starts_with("program 133354 (Slurm) of job 4712, and /etc/slurm/gres.conf"),
                "{}",
                intention.what
            );
            assert_eq!(repair.denied_by.iter().map(|one| one.program).collect::<Vec<_>>(), [FOREIGN]);
            assert!(repair.steps.is_empty());
            let refusals = repair.refusals.join("; ");
            assert!(
                refusals.contains("is not known to be Slurm's") && refusals.contains("a new step"),
                "{refusals}"
            );
            let cautions = repair.cautions.join("; ");
            assert!(cautions.contains("Slurm allocates GPUs alone"), "{cautions}");
            assert!(cautions.contains("narrowed the limit on purpose"), "{cautions}");
        }
    }
}

/// Make sure that nothing is taken for the allocation of a step or a task but Slurm's
/// own program of it: its job and its step may have more on purpose.
#[test]
fn a_part_may_have_less() {
    for (taken, asked) in [
        ("/step_0/user", "/step_0/user"),
        ("/step_0/user/task_0", "/step_0/user/task_0"),
        ("", ""),
        ("", "/step_batch/user/task_0"),
    ] {
        let mut node = node();
        replace(&mut node, &at(taken), FOREIGN, NO_GPU);
        let repair = found(&node, &at(asked));
        assert_eq!((state(&repair).as_str(), repair.missing.len()), ("unknown", 0), "{asked}");
        let refusal = &repair.refusals[0];
        assert!(
            refusal.contains("--allocated") && refusal.contains("scontrol -d show job 4712"),
            "{refusal}"
        );
    }
}

/// Make sure that a program of Slurm's shape which does not have its name says nothing
/// of an allocation.
#[test]
fn a_shape_is_no_record() {
    let mut node = node();
    replace(&mut node, &at("/step_batch"), FOREIGN, NO_GPU);
    let slurms = node.programs.iter_mut().find(|program| program.id == 133_354).unwrap();
    slurms.name = "".into();
    let repair = found(&node, &at("/step_batch"));
    assert_eq!(state(&repair), "unknown", "{repair:?}");
}

/// Make sure that files which do not say what Slurm manages, or say it since a later
/// time than the program, give no answer.
#[test]
fn files_that_do_not_say_it() {
    let mut lost = node();
    replace(&mut lost, &at("/step_batch"), FOREIGN, NO_GPU);
    let with = |change: &dyn Fn(&mut Observation)| {
        let mut node = lost.clone();
        change(&mut node);
        found(&node, &at("/step_batch"))
    };
    let text = |text: &'static str| {
        move |node: &mut Observation| node.slurm.gres_conf.as_mut().unwrap().text = text.into()
    };
    for (repair, why) in [
        (with(&|node| node.slurm.gres_conf = None), "no gres.conf was found"),
        (with(&text("Name=gpu File=/dev/nvidia[0-3] Bogus=1")), "bogus is not known"),
        (with(&text("Name=gpu File=/dev/nvidia[0-7]")), "no GPU of the inventory"),
        (
            with(&|node| node.slurm.gres_conf_modified_at = Some("2026-11-21T09:17:00Z".into())),
            "was changed at 2026-11-21T09:17:00Z, after Slurm attached",
        ),
    ] {
        assert_eq!((state(&repair).as_str(), repair.missing.len()), ("unknown", 0), "{why}");
        assert!(repair.refusals[0].contains(why), "{why}: {:?}", repair.refusals);
    }
    let older = with(&|node| node.slurm.gres_conf_modified_at = Some("2026-11-01T00:00:00Z".into()));
    assert_eq!(minors(&older), [1, 2]);
    assert!(older.intention.unwrap().what.ends_with("/etc/slurm/gres.conf of 2026-11-01T00:00:00Z"));
}

/// Make sure that the caller can repeat the allocation where Slurm's program is gone,
/// in any form, and that it is no way to more: not to GPUs of other jobs, not to more
/// than Slurm's program of the job allows, not outside of jobs.
#[test]
fn the_caller_repeats_it() {
    let mut gone = node();
    replace(&mut gone, JOB, FOREIGN, NO_GPU);
    for list in ["1-2", "1,2", "/dev/nvidia1,/dev/nvidia2", "GPU-22222222,GPU-33333333", "0000:af:00.0,2"] {
        let repair = named(&gone, JOB, list);
        assert_eq!((state(&repair).as_str(), minors(&repair)), ("missing", vec![1, 2]), "{list}");
        assert!(repair.replacement.is_some(), "{list}: {:?}", repair.refusals);
        assert_eq!(repair.intention.unwrap().source, IntentionSource::SlurmAllocation);
    }
    let part = named(&gone, &at("/step_batch"), "2");
    assert_eq!(minors(&part), [2]);
    for (node, path, list, why) in [
        (&gone, JOB, "0-2", "another owner's alone"),
        (&gone, JOB, "nonsense", "names no GPU of this node"),
        (&gone, JOB, "9", "beyond"),
        (&gone, "/system.slice", "1", "no cgroup of a Slurm job"),
    ] {
        let repair = named(node, path, list);
        assert!(repair.steps.is_empty() && repair.replacement.is_none(), "{list}");
        assert!(repair.refusals.iter().any(|refusal| refusal.contains(why)), "{why}: {:?}", repair.refusals);
    }
    // Slurm's own program of the job is there, and denies it.
    let mut node = node();
    replace(&mut node, &at("/step_batch"), FOREIGN, NO_GPU);
    for list in ["0", "0-3"] {
        let repair = named(&node, &at("/step_batch"), list);
        let refusals = repair.refusals.join("; ");
        assert!(refusals.contains("more than Slurm gave job 4712"), "{list}: {refusals}");
    }
}

/// Make sure that a container inside of a job has its own sources: its list may be
/// less than the job's on purpose.
#[test]
fn containers_in_jobs() {
    let node = load("nodes/slurm-runc-in-job.json");
    let inside =
        node.cgroups.iter().filter(|cgroup| cgroup.own.known().is_some_and(|own| !own.programs.is_empty()));
    for cgroup in inside {
        let repair = plan(&node, &cgroup.path, &RepairRequest::default(), &TimeLimit::default()).unwrap();
        let source = repair.intention.map(|intention| intention.source);
        let is_slurms = source == Some(IntentionSource::SlurmAllocation);
        let is_containers = repair
            .owner
            .as_ref()
            .is_some_and(|owner| owner.kind != OwnerKind::Slurm || !owner.claims.is_empty());
        assert!(!(is_slurms && is_containers), "{}", cgroup.path.lossy());
    }
}

/// Make sure that a program of Slurm's that was not asked for, or not read, is not said to
/// be gone, and that one that is gone is.
#[test]
fn what_was_refused_is_not_gone() {
    let mut unasked = node();
    let mut unread = node();
    let mut gone = node();
    for cgroup in &mut unasked.cgroups {
        cgroup.own = Answer::Missing("needs CAP_NET_ADMIN".to_owned());
        cgroup.effective = Answer::Missing("needs CAP_NET_ADMIN".to_owned());
    }
    for program in &mut unread.programs {
        let xlated = Answer::Missing("needs CAP_SYS_ADMIN".to_owned());
        *program = Program { id: program.id, xlated, ..Program::default() };
    }
    for cgroup in gone.cgroups.iter_mut().filter(|cgroup| cgroup.path.lossy().starts_with(JOB)) {
        cgroup.own = Answer::Known(Attached::default());
    }
    settle(&mut gone);
    for (observation, right) in [(&unasked, "CAP_NET_ADMIN"), (&unread, "CAP_SYS_ADMIN")] {
        let refusals = found(observation, JOB).refusals.join(" ");
        assert!(refusals.contains("is not known") && refusals.contains(right), "{refusals}");
        assert!(!refusals.contains("no program of Slurm's"), "{refusals}");
    }
    let refusals = found(&gone, JOB).refusals.join(" ");
    assert!(refusals.contains("no program of Slurm's is attached"), "{refusals}");
}
