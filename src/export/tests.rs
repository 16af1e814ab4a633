//! Metrics of invented answers.

use super::metric::plain;
use super::*;
use crate::model::{JobIdSource, Owner, OwnerKind, Severity, SharingMode};
use crate::report::{
    Activity, AuditAnswer, Document, Finding, FindingKind, Gpu, GpuSet, GpuWork, MigInstance, NodeAnswer,
    OwnerActivity, OwnerSets, OwnerWork, Work,
};

fn set(gpus: &[&str]) -> GpuSet {
    GpuSet { gpus: Some(gpus.iter().map(|gpu| (*gpu).into()).collect()), ..GpuSet::default() }
}

fn owner(kind: OwnerKind, job_id: Option<u64>, name: &str, allowed: &[&str]) -> OwnerSets {
    let name = (!name.is_empty()).then(|| name.to_owned());
    OwnerSets {
        owner: Owner { kind, job_id, name, ..Owner::default() },
        processes: 1,
        allocated: set(&[]),
        allowed: set(allowed),
        visible: set(&[]),
        held: set(&[]),
        ..OwnerSets::default()
    }
}

fn job(number: u64) -> OwnerSets {
    owner(OwnerKind::Slurm, Some(number), "", &["GPU-1"])
}

fn made(payload: NodeAnswer, findings: Vec<Finding>, limit: usize) -> Vec<Family> {
    let node = Document { taken_at: "2026-11-23T00:00:01Z".into(), payload, ..Document::default() };
    let audit = AuditAnswer { findings, ..AuditAnswer::default() };
    let kinds = [FindingKind { id: "a".to_owned(), severity: Severity::Critical, ..FindingKind::default() }];
    families(&Answers { node: &node, audit: &audit, kinds: &kinds, duration: Some(0.5), owner_limit: limit })
}

fn of_owners(owners: Vec<OwnerSets>, limit: usize) -> Vec<Family> {
    made(NodeAnswer { owners: Some(owners), ..NodeAnswer::default() }, Vec::new(), limit)
}

fn samples<'a>(families: &'a [Family], name: &str) -> &'a [Sample] {
    families.iter().find(|family| family.metric.name == name).map_or(&[], |family| &family.samples)
}

/// The labels of a metric, each sample in one line without the empty ones.
fn labels(families: &[Family], name: &str) -> Vec<String> {
    let shown = |sample: &Sample| {
        sample.labels.iter().filter(|value| !value.is_empty()).cloned().collect::<Vec<_>>().join(" ")
    };
    samples(families, name).iter().map(shown).collect()
}

/// Make sure that names of metrics and labels follow the rules of the field, and that
/// no label is one that Prometheus has for itself or that anybody can make many of.
#[test]
fn catalogue() {
    let mut names: Vec<&str> = CATALOGUE.iter().map(|metric| metric.name).collect();
    for metric in CATALOGUE {
        let is_snake = |name: &str| name.bytes().all(|c| c.is_ascii_lowercase() || c == b'_');
        assert!(metric.name.starts_with("gpumap_") && is_snake(metric.name), "{}", metric.name);
        assert_eq!(metric.name.ends_with("_total"), metric.kind == MetricKind::Counter, "{}", metric.name);
        assert_eq!(metric.name.ends_with("_info"), metric.kind == MetricKind::Info, "{}", metric.name);
        assert!(!metric.help.ends_with('.') && !metric.help.contains(['\\', '\n', '"']), "{}", metric.name);
        for label in metric.labels {
            assert!(is_snake(label) || ["UUID", "GPU_I_ID"].contains(label), "{label}");
            assert!(!["job", "instance", "pid", "path", "cgroup", "comm", "uid"].contains(label), "{label}");
        }
    }
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), CATALOGUE.len());
}

/// Make sure that no two samples of a metric have the same labels and that no value
/// is hostile, whatever users call their units and a saved file its GPUs.
#[test]
fn samples_are_distinct() {
    let hostile = ["x\ny", "x\u{202e}y", "x?y", "\u{e9}", "\\", "\"", "\u{200b}", "\0"];
    let mut owners: Vec<OwnerSets> =
        hostile.iter().map(|name| owner(OwnerKind::Unit, None, name, &["GPU-1", "GPU-1"])).collect();
    owners.extend([job(7), job(7)]);
    let gpus = vec![Gpu { key: "GPU-1".into(), ..Gpu::default() }; 2];
    let all = made(NodeAnswer { owners: Some(owners), gpus, ..NodeAnswer::default() }, vec![], 100);
    for family in &all {
        let mut labels: Vec<_> = family.samples.iter().map(|sample| &sample.labels).collect();
        assert!(labels.iter().all(|values| values.len() == family.metric.labels.len()), "{family:?}");
        let count = labels.len();
        labels.dedup();
        assert_eq!(labels.len(), count, "{family:?}");
        let values = || family.samples.iter().flat_map(|sample| &sample.labels);
        assert!(
            values().all(|value| value.chars().all(|c| !c.is_control() && c != '\u{202e}')),
            "{family:?}"
        );
    }
    assert_eq!(labels(&all, "gpumap_owner_processes").len(), hostile.len() + 1);
    assert_eq!(samples(&all, "gpumap_owner_processes").iter().map(|it| it.value).sum::<f64>(), 10.0);
    assert_eq!(plain(&"x".repeat(9999)).len(), 256);
}

/// Make sure that a user who makes many cgroups or units neither makes the answer
/// grow nor pushes those out of it who hold a GPU.
#[test]
fn bounded() {
    let named = |number: u32| owner(OwnerKind::Unit, None, &format!("a{number}"), &["GPU-1"]);
    let mut owners: Vec<OwnerSets> = (0..5000).map(named).collect();
    owners.push(OwnerSets { held: set(&["GPU-1"]), ..owner(OwnerKind::Unit, None, "zz", &["GPU-1"]) });
    owners.push(job(7));
    owners.extend((0..9).map(|number| owner(OwnerKind::Cgroup, None, &format!("/a/{number}"), &["GPU-1"])));
    let all = of_owners(owners, 10);
    let value = |name: &str| samples(&all, name)[0].value;
    assert_eq!(
        (value("gpumap_owners"), value("gpumap_owners_limit"), value("gpumap_owners_left_out")),
        (5003.0, 10.0, 4993.0)
    );
    let kept = labels(&all, "gpumap_owner_processes");
    assert!(kept.len() == 10 && kept.contains(&"slurm 7".to_owned()) && kept.contains(&"unit zz".to_owned()));
    let values = all.iter().flat_map(|family| &family.samples).flat_map(|sample| &sample.labels);
    assert!(values.into_iter().all(|value| !value.contains('/')));
}

/// Make sure that what is not known is a sample of its own, and never a GPU that is
/// in a set.
#[test]
fn unknown_is_apart() {
    let unknown = GpuSet { unknown: vec!["GPU-9".into()], ..GpuSet::default() };
    let mut service = OwnerSets { allocated: GpuSet::default(), ..owner(OwnerKind::Unit, None, "u", &[]) };
    service.held_denied = vec!["GPU-3".into()];
    let blind = OwnerSets { allocated: GpuSet::default(), visible: unknown, ..job(7) };
    let all = of_owners(vec![blind, service], 10);
    assert_eq!(labels(&all, "gpumap_gpu_asked"), [""; 0]);
    assert_eq!(labels(&all, "gpumap_gpu_unknown"), ["asked GPU-9 slurm 7"]);
    assert_eq!(labels(&all, "gpumap_owner_unknown"), ["allocated slurm 7", "asked slurm 7"]);
    assert_eq!(labels(&all, "gpumap_gpu_held_denied"), ["GPU-3 unit u"]);
}

/// Make sure that MIG instances take the place of their GPU, with the labels that
/// DCGM has.
#[test]
fn instances() {
    let mut mig = job(7);
    mig.allowed = set(&["GPU-1", "GPU-2"]);
    mig.allowed.instances = vec!["GPU-1/3/0".into(), "GPU-1/3/1".into(), "GPU-1/5/0".into()];
    mig.shares = vec![SharingMode::Mig];
    let instance = MigInstance { gi: 3, ci: Some(0), ..MigInstance::default() };
    let gpu = Gpu { key: "GPU-1".into(), mig: vec![instance.clone(), instance], ..Gpu::default() };
    let payload = NodeAnswer { owners: Some(vec![mig]), gpus: vec![gpu], ..NodeAnswer::default() };
    let all = made(payload, Vec::new(), 10);
    let allowed = labels(&all, "gpumap_gpu_allowed");
    assert_eq!(allowed, ["GPU-1 3 slurm 7", "GPU-1 5 slurm 7", "GPU-2 slurm 7"]);
    assert_eq!(labels(&all, "gpumap_gpu_instance_info"), ["GPU-1 3"]);
    assert_eq!(labels(&all, "gpumap_owner_shares"), ["mig slurm 7"]);
}

/// Make sure that a job is not named by a number that its user can make up, that
/// parts of an owner have its name, and that a pod is not named by a container.
#[test]
fn names() {
    let claimed = Owner {
        kind: OwnerKind::Slurm,
        job_id: Some(1),
        job_id_source: Some(JobIdSource::Environment),
        sluid: Some("sEKNKTV3WPV500".to_owned()),
        ..Owner::default()
    };
    let all = of_owners(vec![OwnerSets { owner: claimed, ..job(1) }], 10);
    assert_eq!(labels(&all, "gpumap_owner_processes"), ["slurm sEKNKTV3WPV500"]);

    let pod = Owner { kind: OwnerKind::Pod, pod: Some("p".to_owned()), ..Owner::default() };
    let inside = Owner { container: Some("c".to_owned()), ..pod.clone() };
    let in_job = Owner { outer: Some(Box::new(job(7).owner)), ..inside.clone() };
    let step = Owner { step: Some("0".to_owned()), ..job(7).owner };
    assert_eq!(owners::OwnerName::of(&inside), owners::OwnerName::of(&pod));
    for part in [in_job, step] {
        assert_eq!(owners::OwnerName::of(&part), owners::OwnerName::of(&job(7).owner));
    }
}

/// Make sure that a finding that is not there is 0, and that ignored ones count apart.
#[test]
fn findings() {
    let finding = |ignored: bool| Finding {
        id: "a".to_owned(),
        severity: Severity::Critical,
        ignored: ignored.then(|| "wanted".to_owned()),
        ..Finding::default()
    };
    let of = |found: Vec<Finding>| {
        let all = made(NodeAnswer::default(), found, 1);
        (samples(&all, "gpumap_findings")[0].value, samples(&all, "gpumap_findings_ignored")[0].value)
    };
    assert_eq!((of(Vec::new()), of(vec![finding(false), finding(true)])), ((0.0, 0.0), (1.0, 1.0)));
}

/// Make sure that calls are told of owners that have samples, and those of unknown
/// owners with the nameless ones.
#[test]
fn activity() {
    let did = |owner: Option<Owner>| OwnerActivity {
        owner,
        processes: 2,
        idle_seconds: Some(3.0),
        ..OwnerActivity::default()
    };
    let owners = vec![did(Some(job(7).owner)), did(Some(job(8).owner)), did(None)];
    let activity = Activity { at: "2026-11-23T00:00:00.5Z".into(), owners, ..Activity::default() };
    let payload = NodeAnswer {
        owners: Some(vec![job(7), owner(OwnerKind::Cgroup, None, "/a", &[])]),
        activity: Some(Box::new(activity)),
        ..NodeAnswer::default()
    };
    let all = made(payload, Vec::new(), 10);
    assert_eq!(labels(&all, "gpumap_activity_processes"), ["cgroup", "slurm 7"]);
    let at = |name: &str| samples(&all, name)[0].value;
    assert_eq!(at("gpumap_observation_timestamp_seconds") - at("gpumap_activity_timestamp_seconds"), 0.5);
    assert!(samples(&all, "gpumap_activity_launches_per_second").is_empty());
}

/// Make sure that counters have what owners did that are gone, within the limit: those that are
/// here first, then those that ended last.
#[test]
fn counters_of_owners() {
    let work = |job: u64, launches: u64, until: &str| OwnerWork {
        owner: Some(Owner { kind: OwnerKind::Slurm, job_id: Some(job), ..Owner::default() }),
        until: until.into(),
        processes: 2,
        gpus: vec![
            GpuWork { counts: Work { launches, ..Work::default() }, ..GpuWork::default() },
            GpuWork {
                counts: Work { graph_launches: 1, wait_seconds: 0.5, ..Work::default() },
                ..GpuWork::default()
            },
        ],
        ..OwnerWork::default()
    };
    let totals = vec![
        work(7, 10, "2026-01-01T00:00:00Z"),
        work(8, 20, "2026-01-03T00:00:00Z"),
        work(9, 30, "2026-01-02T00:00:00Z"),
    ];
    let activity = Some(Box::new(Activity { totals, ..Activity::default() }));
    let all =
        made(NodeAnswer { owners: Some(vec![job(7)]), activity, ..NodeAnswer::default() }, Vec::new(), 2);
    assert_eq!(labels(&all, "gpumap_activity_launches_total"), ["slurm 7", "slurm 8"]);
    let values = |name: &str| samples(&all, name).iter().map(|sample| sample.value).collect::<Vec<_>>();
    assert_eq!(values("gpumap_activity_launches_total"), [11.0, 21.0]);
    assert_eq!(values("gpumap_activity_waiting_seconds_total"), [0.5, 0.5]);
    assert_eq!(values("gpumap_activity_processes_total"), [2.0, 2.0]);
}
