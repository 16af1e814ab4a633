//! Nodes for `gpumap fleet`: a saved node of a real Slurm under other names, with
//! more jobs, and as compact documents by the thousand.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use serde_json::Value;

/// Where the jobs of the saved node are.
const SCOPE: &str = "/system.slice/gpu01_slurmstepd.scope";

/// The saved node.
pub fn saved() -> Value {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/nodes/slurm-jobs.json");
    serde_json::from_slice(&fs::read(path).unwrap()).unwrap()
}

/// The saved node under another name, with GPUs of its own.
pub fn named(name: &str) -> Value {
    let number: String = name.chars().filter(char::is_ascii_digit).collect();
    let text = saved().to_string().replace("-2222-3333-4444-", &format!("-2222-3333-{number:0>4}-"));
    let mut node: Value = serde_json::from_str(&text).unwrap();
    node["host"]["name"] = name.into();
    node
}

/// The node with `jobs` copies of its largest job, which has seven owners.
pub fn with_jobs(mut node: Value, jobs: usize) -> Value {
    let copies = |list: &Value, key: &str, job: usize| -> Vec<Value> {
        let path = format!("{SCOPE}/job_4712");
        let of_job = |it: &&Value| {
            it[key].as_str().is_some_and(|it| it == path || it.starts_with(&format!("{path}/")))
        };
        let copy = |it: &Value| {
            let text = it
                .to_string()
                .replace("job_4712", &format!("job_{}", 50_000 + job))
                .replace("\"4712\"", &format!("\"{}\"", 50_000 + job));
            let mut copy: Value = serde_json::from_str(&text).unwrap();
            for (name, step) in [("id", 100_000), ("pid", 1000)] {
                if let Some(number) = copy[name].as_u64() {
                    copy[name] = (number + step * (job as u64 + 1)).into();
                }
            }
            if let Some(pids) = copy["pids"].as_array_mut() {
                pids.iter_mut()
                    .for_each(|pid| *pid = (pid.as_u64().unwrap() + 1000 * (job as u64 + 1)).into());
            }
            copy
        };
        list.as_array().unwrap().iter().filter(of_job).map(copy).collect()
    };
    let (cgroups, processes) = (node["cgroups"].clone(), node["processes"].clone());
    let keep = |list: &Value, key: &str| -> Vec<Value> {
        let is_job =
            |it: &&Value| it[key].as_str().is_some_and(|it| it.starts_with(&format!("{SCOPE}/job_")));
        list.as_array().unwrap().iter().filter(|it| !is_job(it)).cloned().collect()
    };
    let (mut all, mut inside) = (keep(&cgroups, "path"), keep(&processes, "cgroup"));
    for job in 0..jobs {
        all.extend(copies(&cgroups, "path", job));
        inside.extend(copies(&processes, "cgroup", job));
    }
    (node["cgroups"], node["processes"]) = (all.into(), inside.into());
    node
}

/// A compact document of a node with jobs of seven owners each, some twelve
/// kilobytes for 50 of them. Nodes next to each other share jobs.
pub fn compact(node: usize, jobs: usize, taken_at: &str) -> String {
    let columns = |value: &str| vec![value; jobs * 7].join(",");
    let owners = (0..jobs).map(|job| {
        let number = 1_000_000 + node / 4 * jobs + job;
        format!(
            "\"slurm job {number}\",\"step batch\",\"task 0\",\"step extern\",\"task special\",\"step 0\",\"task 0\""
        )
    });
    let owners = owners.collect::<Vec<_>>().join(",");
    let depths = vec!["0,1,2,1,2,1,2"; jobs].join(",");
    let mut gpus = String::new();
    for gpu in 0..4 {
        let comma = if gpu == 0 { "" } else { "," };
        let _infallible = write!(
            gpus,
            "{comma}{{\"key\":\"GPU-{node:08x}-2222-3333-4444-{gpu:012}\",\"model\":\"NVIDIA H200\",\"minor\":{gpu},\"nvml\":{gpu},\"slurm\":{gpu}}}"
        );
    }
    format!(
        "{{\"schema\":\"gpumap/1\",\"command\":\"node\",\"version\":\"0.1.0\",\"taken_at\":\"{taken_at}\",\
         \"host\":{{\"name\":\"gpu{node:05}\",\"kernel\":\"6.18.44\",\"boot_id\":\"\",\"cgroup_root\":\"/sys/fs/cgroup\",\
         \"cgroup_mode\":\"unified\"}},\"complete\":true,\"errors\":[],\"compact\":{{\"gpus\":[{gpus}],\"owners\":{{\
         \"owner\":[{owners}],\"depth\":[{depths}],\"processes\":[{one}],\"allocated\":[{claimed}],\"allowed\":[{set}],\
         \"asked\":[{set}],\"held\":[{none}],\"denied\":[{null}]}},\"other_owners\":120,\"drivers\":{{\"nvidia\":\"580.65.06\"}},\
         \"gres_conf\":\"0123456789abcdef\",\"programs\":{{\"slurm\":[\"Slurm, 28 instructions; else allow\"]}}}}}}\n",
        one = columns("1"),
        claimed = columns("\"~3\""),
        set = columns("\"3\""),
        none = columns("\"0\""),
        null = columns("null"),
    )
}
