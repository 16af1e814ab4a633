//! How nodes differ: what drifts, what some lack, what two claim, and how severe that is.

use serde_json::{Value, json};

use crate::fleet::FleetQuestion;
use crate::fleet::tests::{NOW, asked, node, of, whole};
use crate::model::{FailOn, GrantComparison};

/// Make sure that nodes that are alike are so, and that each difference is found and
/// the odd node named.
#[test]
fn differences() {
    let usual = |name: &str| node(name, NOW, |_| {});
    let (fleet, problems) = of(&[usual("n1"), usual("n2"), usual("n3")]);
    assert_eq!((fleet.nodes.answered.nodes.as_str(), problems.len()), ("n[1-3]", 0));
    assert_eq!((fleet.jobs.all, fleet.jobs.several, fleet.jobs.differing.len()), (1, 1, 0));
    assert!(fleet.drift.iter().all(|drift| drift.values.len() == 1), "{:?}", fleet.drift);
    type Change = fn(&mut Value);
    let changes: [(&str, Change); 5] = [
        ("kernel", |it| it["host"]["kernel"] = "6.0".into()),
        ("driver nvidia", |it| it["compact"]["drivers"]["nvidia"] = "570.1".into()),
        ("gres.conf", |it| it["compact"]["gres_conf"] = "bb".into()),
        ("gpumap", |it| it["version"] = "0.0.9".into()),
        ("programs of slurm", |it| it["compact"]["programs"]["slurm"] = json!(["no program"])),
    ];
    for (what, change) in changes {
        let (fleet, _) = of(&[usual("n1"), node("n2", NOW, change), usual("n3")]);
        let odd: Vec<_> = fleet.drift.iter().filter(|drift| drift.values.len() > 1).collect();
        assert_eq!(odd.iter().map(|drift| drift.what.as_str()).collect::<Vec<_>>(), [what]);
        assert_eq!(
            (odd[0].values[0].on.nodes.as_str(), odd[0].values[1].on.nodes.as_str()),
            ("n[1,3]", "n2")
        );
    }
    for (sets, word, text) in [
        ("1", GrantComparison::Missing, "1 H200"),
        ("0", GrantComparison::Missing, "none"),
        ("1?2", GrantComparison::Unknown, "unknown"),
    ] {
        let less = node("n2", NOW, |it| it["compact"]["owners"]["allowed"][0] = sets.into());
        let (fleet, _) = of(&[usual("n1"), less, usual("n3")]);
        let grants = &fleet.jobs.differing[0].grants;
        assert_eq!((&grants[1].compared, grants[1].gpus.as_str()), (&word, text));
        assert_eq!((grants[1].on.nodes.as_str(), grants[0].gpus.as_str()), ("n2", "2 H200"));
    }
}

/// Make sure that a node that lacks what others have is told apart from them, by full and
/// compact documents, and that nothing is said of what a node does not tell.
#[test]
fn what_some_lack() {
    let usual = |name: &str| node(name, NOW, |_| {});
    let values = |documents: &[Value], what: &str| {
        let (fleet, _) = of(documents);
        let drift = fleet.drift.into_iter().find(|drift| drift.what == what);
        let values = drift.into_iter().flat_map(|drift| drift.values);
        values.map(|value| format!("{} on {}", value.value, value.on.nodes)).collect::<Vec<_>>()
    };
    let three = |odd: Value| [usual("n1"), usual("n2"), odd];
    let split = node("n3", NOW, |it| it["compact"]["instances"] = json!(["n3-1/2/0", "n3-1/1/0"]));
    assert_eq!(values(&three(split), "MIG instances"), ["none on n[1-2]", "1: 1/0 2/0 on n3"]);
    let mut full = whole("n3", "allow");
    full["gpus"] =
        json!([{ "key": "n3-0", "model": "H200", "nvml_index": 0, "mig": [{ "gi": 9, "ci": 0 }] }]);
    assert_eq!(values(&three(full), "MIG instances"), ["none on n[1-2]", "0: 9/0 on n3"]);
    let second = node("n3", NOW, |it| it["compact"]["drivers"]["amdgpu"] = "6.12".into());
    assert_eq!(values(&three(second), "driver amdgpu"), ["not told on n[1-2]", "6.12 on n3"]);
    let without = node("n3", NOW, |it| it["compact"]["drivers"] = json!({}));
    assert_eq!(values(&three(without), "driver nvidia"), ["580.65.06 on n[1-2]", "none on n3"]);
    let silent = whole("n3", "allow");
    assert_eq!(values(&three(silent), "driver nvidia"), ["580.65.06 on n[1-2]"]);
    let of_cluster = node("n3", NOW, |it| it["host"]["slurm_cluster"] = "a".into());
    assert_eq!(values(&three(of_cluster), "slurm cluster"), ["none on n[1-2]", "a on n3"]);
}

/// Make sure that a GPU and a boot of two nodes are told, addresses of GPUs are not, and
/// that each kind of difference counts as severe as the manual says.
#[test]
fn claimed_and_failed() {
    let fails = |documents: &[Value], fail_on| {
        asked(documents, &FleetQuestion { fail_on, ..FleetQuestion::default() }).0.failed
    };
    let with = |name: &str, key: &str, boot: &str| {
        node(name, NOW, |it| {
            it["compact"]["gpus"][0]["key"] = key.into();
            it["host"]["boot_id"] = boot.into();
        })
    };
    let boot = |last: u32| format!("0d3c7a52-6a52-4c1e-9a3e-3f5f1f6f{last:04}");
    let apart = [with("n1", "0000:3b:00.0", &boot(1)), with("n2", "0000:3b:00.0", &boot(2))];
    assert!(of(&apart).0.claimed_twice.is_empty() && !fails(&apart, FailOn::Note));
    let same = [with("n1", "GPU-1", &boot(1)), with("n2", "GPU-1", &boot(2)), with("n3", "GPU-2", &boot(1))];
    let told: Vec<_> =
        of(&same).0.claimed_twice.iter().map(|it| (it.on.nodes.clone(), it.gpus, it.boot)).collect();
    assert_eq!(told, [("n[1-2]".to_owned(), 1, false), ("n[1,3]".to_owned(), 0, true)]);
    assert!(fails(&same, FailOn::Note) && !fails(&same, FailOn::Warning));
    let less = |name: &str| node(name, NOW, |it| it["compact"]["owners"]["allowed"][0] = "1".into());
    let usual = |name: &str| node(name, NOW, |_| {});
    let short = [usual("n1"), usual("n2"), less("n3")];
    assert!(
        fails(&short, FailOn::Warning) && !fails(&short, FailOn::Critical) && !fails(&short, FailOn::Never)
    );
    let drifted = [usual("n1"), node("n2", NOW, |it| it["host"]["kernel"] = "6.0".into())];
    assert!(fails(&drifted, FailOn::Note) && !fails(&drifted, FailOn::Warning));
}
