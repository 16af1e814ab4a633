//! Audits of the fixtures of these families.

use crate::analyse::{CallerAllocation, TimeLimit};
use crate::audit::{Config, audit};
use crate::model::Verdict;
use crate::report::Finding;

/// The findings of these families; other findings are tested elsewhere.
const IDS: [&str; 14] = [
    "no-device-program",
    "program-detached",
    "dropped-denials",
    "cgroup-id-escape",
    "retval-undone",
    "dynamic-policy",
    "render-node-open",
    "mig-config-open",
    "imex-channel-open",
    "mig-capability-open",
    "stale-major",
    "stale-minor",
    "cuda-cannot-start",
    "unknown-verdict",
];

fn findings(path: &std::path::Path) -> Vec<Finding> {
    let text = std::fs::read_to_string(path).unwrap();
    let observation = serde_json::from_str(&text).unwrap();
    let config = std::fs::read_to_string(path.with_extension("toml")).ok();
    let config: Config = config.map(|text| text.parse().unwrap()).unwrap_or_default();
    let answer = audit(&observation, &CallerAllocation::default(), &config, &TimeLimit::default()).unwrap();
    answer.findings
}

fn ids(path: &std::path::Path) -> Vec<String> {
    let ours = |id: &String| IDS.contains(&id.as_str());
    findings(path).into_iter().map(|finding| finding.id).filter(ours).collect()
}

/// Make sure that saved nodes of real jobs are silent, and that the one with
/// dropped denials says so and no more.
#[test]
fn saved_nodes() {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/nodes");
    for entry in std::fs::read_dir(root).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|extension| extension != "json") {
            continue;
        }
        let expected: &[&str] =
            if path.ends_with("slurm-runc-in-job.json") { &["dropped-denials"] } else { &[] };
        assert_eq!(ids(&path), expected, "{}", path.display());
    }
}

/// Make sure that each fixture triggers its finding and no other of these
/// families, and that clean ones are silent.
#[test]
fn fixtures() {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/audit");
    for id in IDS {
        let Ok(entries) = std::fs::read_dir(root.join(id)) else { panic!("no fixtures of {id}") };
        for entry in entries {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            if !name.ends_with(".json") {
                continue;
            }
            let found = ids(&path);
            match name.split(['-', '.']).next() {
                Some("trigger") => assert_eq!(found, [id], "{}", path.display()),
                Some("clean") => assert_eq!(found, [""; 0], "{}", path.display()),
                _ => assert!(!found.contains(&id.to_owned()), "{}", path.display()),
            }
        }
    }
}

/// Make sure that findings carry what the contract promises.
#[test]
fn findings_are_complete() {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
    let path = root.join("fixtures/nodes/slurm-runc-in-job.json");
    let found = findings(&path).remove(0);
    assert_eq!(found.cgroup.as_deref(), Some("/system.slice/gpu01_slurmstepd.scope/job_1956130/container"));
    assert_eq!((found.programs[0].returns, found.programs[0].id), (Verdict::Allow, 49641));
    assert!(found.programs[0].decided_at.is_some() && !found.advice.is_empty() && !found.excuses.is_empty());
    assert!(
        found.evidence.iter().any(|clause| clause.contains("program 49627 (Slurm_Cgroup_v2)")),
        "{found:#?}"
    );
    assert_eq!(found.devices[0].number.as_deref(), Some("c 195:1"));
}
