//! `gpumap report` above a real Slurm: the page says of each job what Slurm granted it,
//! in the browser and when gpumap reads the observation in it.
//!
//! Needs what `job_cgroups` needs, chromium and nodejs.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::support::browser;
use crate::support::node;
use crate::support::slurm::job::WAIT;
use crate::support::slurm::spec::Spec;
use crate::support::slurm::{answer, with_cluster};

/// For each row of the matrix: its name, and the GPUs whose cells say `allowed`.
const ROWS: &str = r#"(() => {
  const gpus = Array.from(document.querySelectorAll("table.matrix thead th.gpu .name")).map((one) => one.textContent.trim());
  const rows = Array.from(document.querySelectorAll("table.matrix tbody tr"));
  return rows.map((row) => {
    const cells = Array.from(row.querySelectorAll("td [aria-label]")).map((one) => one.getAttribute("aria-label"));
    return [row.querySelector("th").textContent.trim(), gpus.filter((_, place) => /; allowed(;|\.|$)/.test(cells[place]))];
  });
})()"#;

/// Make sure that the page of a node shows the GPUs that Slurm granted to each job, that
/// it needs nothing but itself, and that the observation in it says the same.
#[test]
fn jobs() {
    if !browser::is_here() {
        return;
    }
    with_cluster(&Spec::nvidia(), |cluster| {
        let one = cluster.submit(&["--gres=gpu:1"], WAIT);
        let two = cluster.submit(&["--gres=gpu:2"], WAIT);
        let jobs = [&one, &two];
        jobs.iter().for_each(|job| drop(job.wait("pid")));
        let page = cluster.work().join("page.html");
        let file = page.to_str().expect("a plain path");
        let (written, _) = cluster.outside(&["report", "-o", file]);
        assert_eq!(written["page"]["file"], file, "{written}");

        let job = json!({"url": format!("file://{file}"), "run": ROWS});
        let visit = browser::visit(cluster.work(), &[job]).remove(0);
        assert!(visit.console.is_empty() && visit.requests.len() == 1, "{visit:?}");
        let saved = node::command(&["--from", file, "node", "--json"]).output().expect("gpumap");
        let (saved, _) = node::document(&saved);
        for job in jobs {
            let granted = job.granted();
            let names: BTreeSet<String> = granted.iter().map(|minor| format!("nvidia{minor}")).collect();
            let rows = answer::array(&visit.value).iter();
            let mut of_job = rows.filter(|row| row[0] == format!("slurm job {}", job.id));
            let row: &Value = of_job.next().unwrap_or_else(|| panic!("no job {}: {}", job.id, visit.value));
            let shown: BTreeSet<String> = serde_json::from_value(row[1].clone()).expect("names");
            assert_eq!(shown, names, "{row}");
            let sets = answer::owner(&saved, job.id, None, None);
            assert_eq!(answer::set(&saved, sets, "allowed"), granted);
        }
        jobs.iter().for_each(|job| job.cancel());
    });
}
