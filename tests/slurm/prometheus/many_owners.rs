//! A file with 10,000 owners, read by node_exporter and Prometheus.

use std::collections::BTreeSet;
use std::fs;

use gpumap::observation::{Answer, Cgroup, Host, Observation, SCHEMA, Scope};

use super::{Prometheus, is_installed};
use crate::support::node;
use crate::support::slurm::spec::Spec;
use crate::support::slurm::with_cluster;

const OWNERS: u64 = 10_000;

/// A node with so many containers without processes.
fn observation() -> Observation {
    let cgroup = |path: String, id: u64| Cgroup {
        path: path.as_str().into(),
        id,
        effective: Answer::Known(Vec::new()),
        own: Answer::Known(Default::default()),
        ..Cgroup::default()
    };
    let containers =
        (0..OWNERS).map(|number| cgroup(format!("/system.slice/docker-{number:064x}.scope"), number + 3));
    let above = [cgroup("/".to_owned(), 1), cgroup("/system.slice".to_owned(), 2)];
    Observation {
        schema: SCHEMA.to_owned(),
        taken_at: "2026-11-23T02:00:00Z".into(),
        host: Host { cgroup_root: "/sys/fs/cgroup".to_owned(), ..Host::default() },
        scope: vec![Scope { path: "/".into(), recursive: true }],
        cgroups: above.into_iter().chain(containers).collect(),
        ..Observation::default()
    }
}

/// Make sure that as many owners as the caller allows reach Prometheus, and that the
/// others are counted.
#[test]
fn ten_thousand() {
    if !is_installed() {
        return;
    }
    with_cluster(&Spec::nvidia(), |cluster| {
        let saved = cluster.work().join("many.json");
        fs::write(&saved, serde_json::to_vec(&observation()).expect("JSON")).expect("a file");
        let text = cluster.work().join("text");
        fs::create_dir_all(&text).expect("a directory");
        let prometheus = Prometheus::start(cluster, &text);
        let file = text.join("gpumap.prom");
        let value = |number: u64| BTreeSet::from([number.to_string()]);
        for limit in [20_000, 500] {
            let (from, to) = (saved.display().to_string(), file.display().to_string());
            let output =
                node::gpumap(&["--from", &from, "export", "--owners", &limit.to_string(), "--textfile", &to]);
            assert!(output.stderr.is_empty(), "{}", String::from_utf8_lossy(&output.stderr));
            prometheus.expect(
                "count(gpumap_owner_processes{kind=\"docker\"})",
                &[],
                &value(OWNERS.min(limit)),
            );
            prometheus.expect("gpumap_owners_left_out", &[], &value(OWNERS.saturating_sub(limit)));
            prometheus.expect("node_textfile_scrape_error", &[], &value(0));
        }
    });
}
