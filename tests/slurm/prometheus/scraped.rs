//! A real Slurm's jobs as Prometheus has them, by both ways.

use std::collections::BTreeSet;
use std::fs;

use serde_json::Value;

use super::{Prometheus, background, end, is_installed};
use crate::support::slurm::answer::array;
use crate::support::slurm::job::WAIT;
use crate::support::slurm::spec::Spec;
use crate::support::slurm::{Cluster, with_cluster};

pub(super) fn start_gpumap(cluster: &Cluster) {
    for name in ["text", "dcgm"] {
        fs::create_dir_all(cluster.work().join(name)).expect("a directory");
    }
    let gpumap = env!("CARGO_BIN_EXE_gpumap");
    let (inventory, work) = (cluster.inventory().display(), cluster.work().display());
    background(
        cluster,
        "gpumap",
        &format!(
            "{gpumap} --gpu-root {inventory} export --listen 9836 --every 1s --cpu 100 \
             --textfile {work}/text/gpumap.prom --dcgm-job-mapping {work}/dcgm"
        ),
    );
}

/// What `node --json` says of a set of Slurm's jobs, as lines of a query.
pub(super) fn said(node: &Value, set: &str) -> BTreeSet<String> {
    let jobs = array(&node["owners"]).iter();
    let jobs = jobs.filter(|row| row["depth"] == 0 && row["owner"]["kind"] == "slurm");
    let of = |row: &Value| {
        let job = row["owner"]["job_id"].as_u64().expect("a number");
        let gpus = row[set]["gpus"].as_array().cloned().unwrap_or_default();
        gpus.into_iter()
            .map(move |gpu| format!("{job} {} 1", gpu.as_str().expect("a key")))
            .collect::<Vec<_>>()
    };
    jobs.flat_map(of).collect()
}

/// Both ways give what `node --json` says.
fn agree(prometheus: &Prometheus<'_>, node: &Value) {
    for way in ["gpumap", "node"] {
        for (metric, set) in [("allocated", "allocated"), ("allowed", "allowed"), ("asked", "visible")] {
            let query = format!("gpumap_gpu_{metric}{{job=\"{way}\",kind=\"slurm\"}}");
            prometheus.expect(&query, &["jobid", "UUID"], &said(node, set));
        }
    }
}

/// The job files of dcgm-exporter, as `NVML JOBS`.
pub(super) fn job_files(cluster: &Cluster) -> BTreeSet<String> {
    let files = fs::read_dir(cluster.work().join("dcgm")).expect("files").flatten();
    let line = |file: fs::DirEntry| {
        let jobs = fs::read_to_string(file.path()).unwrap_or_default();
        format!(
            "{} {}",
            file.file_name().to_string_lossy(),
            jobs.split_whitespace().collect::<Vec<_>>().join(" ")
        )
    };
    files.map(line).collect()
}

/// The files that there should be by what `node --json` says.
fn expected_files(node: &Value) -> BTreeSet<String> {
    let index = |key: &str| {
        let gpu = array(&node["gpus"]).iter().find(|gpu| gpu["key"] == key).expect("a GPU");
        gpu["nvml_index"].as_u64().expect("an index")
    };
    let allowed = said(node, "allowed");
    let parts = allowed.iter().map(|line| line.split(' ').collect::<Vec<_>>());
    parts.map(|parts| format!("{} {}", index(parts[1]), parts[0])).collect()
}

/// Make sure that Prometheus has of each job what `node --json` says, from the
/// listener and from node_exporter; that jobs that end vanish; that a gpumap that is
/// started again goes on; and that the job files of dcgm-exporter say the same.
#[test]
fn jobs() {
    if !is_installed() {
        return;
    }
    with_cluster(&Spec::nvidia(), |cluster| {
        for name in ["text", "dcgm"] {
            fs::create_dir_all(cluster.work().join(name)).expect("a directory");
        }
        fs::write(cluster.work().join("dcgm/7"), "1\n").expect("a file of a job that ended");
        fs::write(cluster.work().join("dcgm/README"), "mine").expect("a file");
        let (one, two) = (cluster.submit(&["--gres=gpu:1"], WAIT), cluster.submit(&["--gres=gpu:2"], WAIT));
        one.wait("pid");
        two.wait("pid");
        start_gpumap(cluster);
        let prometheus = Prometheus::start(cluster, &cluster.work().join("text"));
        let (node, _) = cluster.inside(&["node"]);
        assert_eq!(said(&node, "allowed").len(), 3, "{node}");
        agree(&prometheus, &node);
        let mut files = expected_files(&node);
        files.insert("README mine".to_owned());
        assert_eq!(job_files(cluster), files);
        let value = |text: &str| BTreeSet::from([text.to_owned()]);
        prometheus.expect(
            "sum by (job) (gpumap_gpus)",
            &["job"],
            &["gpumap 4", "node 4"].map(String::from).into(),
        );
        prometheus.expect("sum(node_textfile_scrape_error)", &[], &value("0"));
        prometheus.expect("count(gpumap_gpu_allowed{exported_job!=\"\"}) or vector(0)", &[], &value("0"));
        check_text(cluster);

        one.cancel();
        let (node, _) = cluster.inside(&["node"]);
        assert_eq!(said(&node, "allowed").len(), 2, "{node}");
        agree(&prometheus, &node);
        let mut files = expected_files(&node);
        files.insert("README mine".to_owned());
        assert_eq!(job_files(cluster), files);
        let gone = "sum(gpumap_policy_changes_total{job=\"gpumap\",effect=\"removed\"}) > bool 0";
        prometheus.expect(gone, &[], &value("1"));

        end(cluster, "gpumap");
        prometheus.expect("up{job=\"gpumap\"}", &[], &value("0"));
        let three = cluster.submit(&["--gres=gpu:1"], WAIT);
        three.wait("pid");
        start_gpumap(cluster);
        let (node, _) = cluster.inside(&["node"]);
        agree(&prometheus, &node);
        super::examples::dashboard(&prometheus);
    });
}

/// promtool finds nothing to complain of in the file.
fn check_text(cluster: &Cluster) {
    let path = cluster.work().join("text/gpumap.prom").display().to_string();
    cluster.run("sh", &["-c", &format!("promtool check metrics < {path}")]);
}
