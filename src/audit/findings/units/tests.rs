use std::path::Path;

use crate::analyse::CallerAllocation;
use crate::audit::{self, Config};
use crate::model::{Confidence, Severity};
use crate::observation::Observation;
use crate::report::Finding;

fn audit(path: &str) -> Vec<Finding> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures").join(path);
    let text = std::fs::read_to_string(&path).unwrap();
    let observation: Observation = serde_json::from_str(&text).unwrap();
    let ours = ["access-lost", "reload-would-lose", "verify-mismatch"];
    let payload = audit::audit(
        &observation,
        &CallerAllocation::default(),
        &Config::default(),
        &crate::analyse::TimeLimit::default(),
    )
    .unwrap();
    payload.findings.into_iter().filter(|found| ours.contains(&found.id.as_str())).collect()
}

fn devices(found: &Finding) -> Vec<&str> {
    found.devices.iter().filter_map(|device| device.name.as_deref()).collect()
}

/// Make sure that the container that lost its GPU is found, with both
/// programs, and that it was fine before the reload.
#[test]
fn reload() {
    let [lost] = audit("nodes/systemd-reload.json").try_into().unwrap();
    assert_eq!((lost.id.as_str(), lost.severity), ("access-lost", Severity::Warning));
    assert_eq!(devices(&lost), ["nvidia0", "nvidiactl", "nvidia-uvm"]);
    let returned: Vec<(u32, &str)> = lost.programs.iter().map(|one| (one.id, one.returns.into())).collect();
    assert_eq!(returned, [(1722, "allow"), (1727, "deny")]);
    assert!(lost.evidence[0].contains("2026-11-21T03:13:47Z") && lost.evidence.len() == 3);
    assert_eq!(lost.processes.len(), 1);
    assert_eq!(audit("nodes/systemd-before-reload.json"), []);
}

/// Make sure that settings without the GPU are found before the reload.
#[test]
fn before_reload() {
    let [found] = audit("audit/reload-would-lose/trigger.json").try_into().unwrap();
    assert_eq!(found.id, "reload-would-lose");
    assert_eq!(devices(&found), ["nvidia0", "nvidiactl", "nvidia-uvm"]);
    assert!(found.evidence.iter().any(|clause| clause.contains("DevicePolicy=strict")));
}

#[test]
fn kernel_disagrees() {
    let [found] = audit("audit/verify-mismatch/trigger.json").try_into().unwrap();
    assert_eq!((found.id.as_str(), found.severity), ("verify-mismatch", Severity::Critical));
    assert_eq!((devices(&found), found.confidence), (vec!["nvidia0"], Confidence::Certain));
}

/// Make sure that excused and clean observations have no finding.
#[test]
fn silence() {
    for id in ["access-lost", "reload-would-lose", "verify-mismatch"] {
        for node in ["excused", "clean"] {
            assert_eq!(audit(&format!("audit/{id}/{node}.json")), [], "{id}/{node}");
        }
    }
    assert_eq!(audit("audit/reload-would-lose/excused-unresolved.json"), []);
    for node in ["runc-container", "slurm-4gpu", "slurm-runc-in-job"] {
        assert_eq!(audit(&format!("nodes/{node}.json")), [], "{node}");
    }
}
