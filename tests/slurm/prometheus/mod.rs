//! `gpumap export` read by a real Prometheus: its listener, and its file by way of
//! node_exporter, while a real Slurm runs jobs. And the examples for Prometheus.
//!
//! Needs what `job_cgroups` needs, prometheus (with promtool) and
//! prometheus-node-exporter.

mod examples;
mod held;
mod many_owners;
mod scraped;

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use crate::support::slurm::Cluster;
use crate::support::{host, slurm};
use serde_json::Value;

/// The ports inside of a cluster's network, which belongs to it alone.
const PROMETHEUS: &str = "127.0.0.1:9090";
/// How long Prometheus may take to find its targets and to scrape them.
const PATIENCE: Duration = Duration::from_secs(60);

/// Whether the programs are there; says so if not.
fn is_installed() -> bool {
    let missing = ["prometheus", "promtool", "prometheus-node-exporter"];
    match missing.into_iter().find(|name| !host::is_installed(name)) {
        Some(name) => {
            host::skip(&format!("{name} is not installed"));
            false
        }
        None => true,
    }
}

/// A Prometheus with a node_exporter inside a cluster. They end with the cluster.
struct Prometheus<'c> {
    cluster: &'c Cluster,
}

impl<'c> Prometheus<'c> {
    /// Scrapes gpumap's listener as `gpumap`, and as `node` the files of this
    /// directory by way of node_exporter, every second.
    fn start(cluster: &'c Cluster, textfiles: &Path) -> Self {
        let config = cluster.work().join("prometheus.yml");
        let text = "global: {scrape_interval: 1s, scrape_timeout: 1s}\nscrape_configs:\n\
            - {job_name: gpumap, static_configs: [{targets: ['127.0.0.1:9836']}]}\n\
            - {job_name: node, static_configs: [{targets: ['127.0.0.1:9100']}]}\n";
        fs::write(&config, text).expect("a file");
        let (config, data) = (config.display(), cluster.work().join("data").display().to_string());
        background(
            cluster,
            "prometheus",
            &format!(
                "prometheus --config.file={config} --storage.tsdb.path={data} \
                 --web.listen-address={PROMETHEUS} --log.level=warn"
            ),
        );
        background(
            cluster,
            "node_exporter",
            &format!(
                "prometheus-node-exporter --collector.disable-defaults --collector.textfile \
                 --collector.textfile.directory={} --web.listen-address=127.0.0.1:9100 \
                 --web.disable-exporter-metrics",
                textfiles.display()
            ),
        );
        Self { cluster }
    }

    /// The result of a query, or why there is none yet.
    fn query(&self, expression: &str) -> Result<Vec<Value>, String> {
        let url = format!("http://{PROMETHEUS}");
        let mut command = self.cluster.command("promtool");
        let output = command.args(["query", "instant", "-o", "json", &url, expression]).output();
        let output = output.expect("promtool");
        if !output.status.success() {
            return Err(slurm::text(&output));
        }
        serde_json::from_slice(&output.stdout).map_err(|error| error.to_string())
    }

    /// The samples of a query as lines of these labels and the value.
    fn lines(&self, expression: &str, labels: &[&str]) -> Result<BTreeSet<String>, String> {
        let line = |sample: &Value| {
            let label = |name: &&str| sample["metric"][*name].as_str().unwrap_or_default().to_owned();
            let mut parts: Vec<String> = labels.iter().map(label).collect();
            parts.push(sample["value"][1].as_str().unwrap_or_default().to_owned());
            parts.join(" ")
        };
        Ok(self.query(expression)?.iter().map(line).collect())
    }

    /// Waits until a query gives what is expected.
    fn expect(&self, expression: &str, labels: &[&str], expected: &BTreeSet<String>) {
        let began = Instant::now();
        loop {
            let got = self.lines(expression, labels);
            if got.as_ref() == Ok(expected) {
                return;
            }
            let log = fs::read_to_string(self.cluster.work().join("log/gpumap")).unwrap_or_default();
            assert!(began.elapsed() < PATIENCE, "{expression}\n{got:#?}\nand not\n{expected:#?}\n{log}");
            std::thread::sleep(Duration::from_millis(200));
        }
    }
}

/// Starts a command line inside that runs on, with its pid in `run/NAME.pid` and its
/// output in `log/NAME`.
fn background(cluster: &Cluster, name: &str, line: &str) {
    let work = cluster.work().display();
    let script = format!("echo $$ > {work}/run/{name}.pid; exec {line} >> {work}/log/{name} 2>&1");
    let mut command = cluster.command("sh");
    command.args(["-c", &script]);
    // The cluster's end ends it; until then nobody waits for it but this thread.
    let mut child = command.spawn().expect("nsenter");
    std::thread::spawn(move || child.wait());
}

/// Ends what [`background`] started, and waits until it is gone.
fn end(cluster: &Cluster, name: &str) {
    let path = cluster.work().join(format!("run/{name}.pid"));
    let pid = fs::read_to_string(&path).expect("a pid").trim().to_owned();
    cluster.run("busybox", &["kill", "-TERM", &pid]);
    cluster.wait_for_end(pid.parse().expect("a number"));
}
