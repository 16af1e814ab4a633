//! The examples for Prometheus: rules, alerts with what makes them fire, joins with
//! DCGM, and the dashboard of Grafana.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use gpumap::audit;
use gpumap::export::CATALOGUE;
use serde_json::Value;

use super::{Prometheus, is_installed};
use crate::support::slurm;

fn directory() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/prometheus")
}

fn read(name: &str) -> String {
    fs::read_to_string(directory().join(name)).expect("an example")
}

/// Make sure that promtool accepts configuration, rules and alerts, and that its tests
/// of them pass: joins with invented series of DCGM, and alerts.
#[test]
fn rules() {
    if !is_installed() {
        return;
    }
    for args in [
        &["check", "config", "prometheus.yml"][..],
        &["check", "rules", "recording.yml", "alerts.yml"],
        &["test", "rules", "tests.yml"],
    ] {
        let output = Command::new("promtool").args(args).current_dir(directory()).output().expect("promtool");
        assert!(output.status.success(), "{args:?}: {}", slurm::text(&output));
    }
}

/// Make sure that rules and dashboard name no metric and no finding that there is not.
#[test]
fn names() {
    let known: BTreeSet<&str> = CATALOGUE.iter().map(|metric| metric.name).collect();
    let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == ':';
    for file in ["recording.yml", "alerts.yml", "dashboard.json"] {
        let text = read(file);
        let words: BTreeSet<&str> =
            text.split(|c| !is_part(c)).filter(|word| word.starts_with("gpumap_")).collect();
        assert!(words.len() >= 3, "{file}");
        for word in words {
            assert!(known.contains(word), "{file}: {word}");
        }
    }
    let text = read("alerts.yml");
    let ids = text.split("id=").skip(1).filter_map(|rest| rest.split('"').nth(1));
    let ids: Vec<&str> = ids.flat_map(|ids| ids.split('|')).collect();
    assert!(ids.len() >= 3, "{ids:?}");
    for id in ids {
        assert!(audit::kind(id).is_some(), "{id}");
    }
}

/// Make sure that each label by which gpumap's metrics are chosen is one that they have:
/// Prometheus finds nothing by another, and says nothing of it.
#[test]
fn labels() {
    // What a scrape adds.
    const ADDED: [&str; 2] = ["instance", "job"];
    let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let mut chosen = 0;
    for file in ["recording.yml", "alerts.yml", "tests.yml", "dashboard.json"] {
        let text = read(file).replace("\\\"", "\"");
        for (at, _) in text.match_indices("gpumap_") {
            let (name, rest) = text[at..].split_at(text[at..].find(|c| !is_name(c)).unwrap_or(0));
            let Some(metric) = CATALOGUE.iter().find(|metric| metric.name == name) else { continue };
            let Some((inside, _)) = rest.strip_prefix('{').and_then(|rest| rest.split_once('}')) else {
                continue;
            };
            // Values stand in quotes: every other part is outside of them.
            for part in inside.split('"').step_by(2) {
                let label = part.trim_matches(|c| !is_name(c));
                let is_known = label.is_empty() || metric.labels.contains(&label) || ADDED.contains(&label);
                assert!(is_known, "{file}: {name} has no label {label}");
                chosen += usize::from(!label.is_empty());
            }
        }
    }
    assert!(chosen >= 20, "{chosen}");
}

/// Make sure that panels of the dashboard have numbers of their own and do not overlap.
#[test]
fn panels() {
    let dashboard: Value = serde_json::from_str(&read("dashboard.json")).expect("JSON");
    let mut ids = BTreeSet::new();
    let mut cells = BTreeSet::new();
    for panel in dashboard["panels"].as_array().expect("panels") {
        assert!(ids.insert(panel["id"].as_u64().expect("a number")), "{panel}");
        let place = |name: &str| panel["gridPos"][name].as_u64().expect("a place");
        assert!(place("x") + place("w") <= 24, "{panel}");
        for x in place("x")..place("x") + place("w") {
            for y in place("y")..place("y") + place("h") {
                assert!(cells.insert((x, y)), "{panel}");
            }
        }
    }
}

/// Every query of the dashboard is understood by Prometheus; those that need no DCGM
/// and no trouble on the node give something.
pub(super) fn dashboard(prometheus: &Prometheus<'_>) {
    let dashboard: Value = serde_json::from_str(&read("dashboard.json")).expect("JSON");
    let mut answered = 0;
    for panel in dashboard["panels"].as_array().expect("panels") {
        for target in panel["targets"].as_array().expect("targets") {
            let expression = target["expr"].as_str().expect("a query").replace("$instance", ".*");
            let got = prometheus.query(&expression).unwrap_or_else(|why| panic!("{expression}: {why}"));
            answered += usize::from(!got.is_empty());
        }
    }
    assert!(answered >= 9, "{answered} of the panels show something");
}
