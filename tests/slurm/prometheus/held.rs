//! GPUs that jobs hold, and GPU instances that they may open, as Prometheus has them.

use std::collections::BTreeSet;

use serde_json::Value;

use super::scraped::{job_files, said, start_gpumap};
use super::{Prometheus, is_installed};
use crate::support::slurm::answer::array;
use crate::support::slurm::job::WAIT;
use crate::support::slurm::spec::Spec;
use crate::support::slurm::with_cluster;

/// Opens the first device that the job was granted.
const HOLD: &str = "exec $actor open /dev/hl${SLURM_JOB_GPUS%%,*} ready $OUT.pid";

/// Make sure that a GPU is told as held as long as somebody has it open, and no longer.
#[test]
fn held() {
    if !is_installed() {
        return;
    }
    with_cluster(&Spec::openable(), |cluster| {
        start_gpumap(cluster);
        let prometheus = Prometheus::start(cluster, &cluster.work().join("text"));
        let (one, two) = (cluster.submit(&["--gres=gpu:2"], HOLD), cluster.submit(&["--gres=gpu:1"], HOLD));
        one.wait("pid");
        two.wait("pid");
        let held = "gpumap_gpu_held{job=\"gpumap\",kind=\"slurm\"}";
        let (node, _) = cluster.inside(&["node"]);
        assert_eq!((said(&node, "held").len(), said(&node, "allowed").len()), (2, 3), "{node}");
        prometheus.expect(held, &["jobid", "UUID"], &said(&node, "held"));
        one.cancel();
        let (node, _) = cluster.inside(&["node"]);
        assert_eq!(said(&node, "held").len(), 1, "{node}");
        prometheus.expect(held, &["jobid", "UUID"], &said(&node, "held"));
    });
}

/// Make sure that jobs on MIG have their GPU instances in Prometheus and in the job
/// files of dcgm-exporter, and not the GPU.
#[test]
fn instances() {
    if !is_installed() {
        return;
    }
    with_cluster(&Spec::mig(), |cluster| {
        let jobs = ["gpu:1g:1", "gpu:1g:1", "gpu:whole:1"].map(|gres| {
            let job = cluster.submit(&[&format!("--gres={gres}")], WAIT);
            job.wait("pid");
            job.id
        });
        start_gpumap(cluster);
        let prometheus = Prometheus::start(cluster, &cluster.work().join("text"));
        let (node, _) = cluster.inside(&["node"]);
        let instances: BTreeSet<(String, String, u64)> = jobs.iter().flat_map(|id| of(&node, *id)).collect();
        assert!(instances.len() >= 3, "{node}");
        let lines: BTreeSet<String> =
            instances.iter().map(|(gpu, gi, id)| format!("{id} {gpu} {gi} 1")).collect();
        prometheus.expect(
            "gpumap_gpu_allowed{job=\"node\",kind=\"slurm\"}",
            &["jobid", "UUID", "GPU_I_ID"],
            &lines,
        );
        let index = |key: &str| {
            let gpu = array(&node["gpus"]).iter().find(|gpu| gpu["key"] == key).expect("a GPU");
            gpu["nvml_index"].as_u64().expect("an index")
        };
        let files: BTreeSet<String> =
            instances.iter().map(|(gpu, gi, id)| format!("{}.{gi} {id}", index(gpu))).collect();
        assert_eq!(job_files(cluster), files);
    });
}

/// The GPU instances that a job may open: GPU, instance, job.
fn of(node: &Value, id: u64) -> Vec<(String, String, u64)> {
    let rows = array(&node["owners"]).iter();
    let row = rows.clone().find(|row| row["depth"] == 0 && row["owner"]["job_id"] == id).expect("a job");
    let instances = array(&row["allowed"]["instances"]).iter();
    let parts = |key: &Value| {
        let key = key.as_str().expect("a key").to_owned();
        let mut parts = key.split('/').map(str::to_owned);
        (parts.next().expect("a GPU"), parts.next().expect("an instance"), id)
    };
    instances.map(parts).collect()
}
