//! `gpumap export`.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueHint};

/// Write what is known of this node as metrics for Prometheus.
///
/// GPUs in every numbering, what each job, pod, container and unit was allocated, may
/// open, asks for and holds, findings of the audit by id, and what could not be seen.
/// Labels are UUIDs, job ids and names of owners: no pid, no path and no free text is
/// among them. gpumap-export(1) lists all metrics, and says how they are joined with
/// DCGM's.
///
/// The exit status is 0 when everything could be seen and 3 when something is missing
/// or unknown: the metrics are written then, too, and say so. It is 2 if gpumap could
/// not work.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  gpumap export
  gpumap export --textfile /var/lib/prometheus/node-exporter/gpumap.prom --every 15s
  gpumap export --listen 9836
  gpumap export --listen 0.0.0.0:9836 --dcgm-job-mapping /run/dcgm-jobs
  gpumap --from node.json export --open-metrics")]
pub struct ExportArgs {
    /// Write to this file of node_exporter's textfile collector.
    ///
    /// Readers see the old file or the new one, and everybody may read it (mode 0644).
    /// The name has to end in .prom, or node_exporter would not read it. A FIFO or a
    /// device in its place is refused.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, conflicts_with = "open_metrics")]
    pub textfile: Option<PathBuf>,
    /// Serve the metrics over HTTP at /metrics, until a signal ends it.
    ///
    /// PORT alone is a port of 127.0.0.1; ADDRESS:PORT lets others than this machine
    /// ask. There is no TLS and no password: a proxy in front of it has these. Clients
    /// start no work: all of them are given the text of the last look, in the format
    /// that they ask for.
    #[arg(long, value_name = "[ADDRESS:]PORT", value_parser = listen_address, conflicts_with = "open_metrics")]
    pub listen: Option<SocketAddr>,
    /// Keep the files of dcgm-exporter's HPC job mapping in this directory.
    ///
    /// A file for each GPU, or GPU instance, that a job has, with the ids of its jobs:
    /// what the scheduler allocated by a source that nobody can fake, else what the
    /// kernel allows the job, else, where that is every GPU, what it holds. Files of
    /// GPUs without a job are removed: nobody else may write such files there.
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub dcgm_job_mapping: Option<PathBuf>,
    /// Run on, and look this often whether anything changed [default with --listen:
    /// 15s].
    #[arg(long, value_name = "DURATION", value_parser = interval)]
    pub every: Option<Duration>,
    /// How much of one processor looks at the whole node may take on average, in
    /// percent.
    ///
    /// Whether programs or processes changed is looked for every time and costs little.
    /// The whole node is looked at when something changed, and now and then without
    /// that; on a large node as seldom as this says.
    #[arg(long, value_name = "PERCENT", value_parser = percent, default_value = "0.2", hide_short_help = true)]
    pub cpu: f64,
    /// Write OpenMetrics 1.0 instead of the classic text format.
    ///
    /// node_exporter and promtool read the classic format alone.
    #[arg(long)]
    pub open_metrics: bool,
    /// How many jobs, pods, containers and units have samples of their own at most.
    ///
    /// Those that hold a GPU come first, then jobs, pods and containers. The metric
    /// gpumap_owners_left_out says how many were left out.
    #[arg(long, value_name = "NUMBER", default_value_t = 1000)]
    pub owners: usize,
    /// Add what processes do with their GPUs, as a running `gpumap activity --state`
    /// counts it; FILE is the file that it keeps.
    ///
    /// The default is /run/gpumap/activity.json if root keeps it there.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub state: Option<PathBuf>,
    /// Exceptions that this node is meant to have, as for `gpumap audit`.
    ///
    /// The default is /etc/gpumap.toml if there is one.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub config: Option<PathBuf>,
}

impl ExportArgs {
    /// Whether it runs until a signal ends it.
    pub fn runs_on(&self) -> bool {
        self.every.is_some() || self.listen.is_some()
    }
}

/// A port of this machine alone, or an address with a port.
fn listen_address(text: &str) -> Result<SocketAddr, String> {
    let needs = "write a port, such as 9836, or an address with one, such as 0.0.0.0:9836 or [::]:9836";
    match text.parse::<u16>() {
        Ok(port) => Ok(SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), port)),
        Err(_) => text.parse().map_err(|_| needs.to_owned()),
    }
}

/// A second is the least: every time all processes are listed.
fn interval(text: &str) -> Result<Duration, String> {
    let every = super::duration::parse(text)?;
    if every < Duration::from_secs(1) { Err("write 1s or more".to_owned()) } else { Ok(every) }
}

pub(super) fn percent(text: &str) -> Result<f64, String> {
    let number: Option<f64> = text.trim_end_matches('%').parse().ok();
    let number = number.filter(|number| (0.001..=100.0).contains(number));
    number.ok_or_else(|| "write a number of percent from 0.001 to 100".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Make sure that a port alone is not open to others, and that odd values are
    /// refused.
    #[test]
    fn values() {
        assert_eq!(listen_address("9836").unwrap().to_string(), "127.0.0.1:9836");
        assert_eq!(listen_address("[::1]:1").unwrap().to_string(), "[::1]:1");
        assert!(
            ["", "host:9836", ":9836", "70000", "0.0.0.0"].iter().all(|bad| listen_address(bad).is_err())
        );
        assert_eq!((percent("5"), percent("0.5%")), (Ok(5.0), Ok(0.5)));
        assert!(["", "0", "-1", "nan", "inf", "101"].iter().all(|bad| percent(bad).is_err()));
        assert!(interval("999ms").is_err() && interval("1s").is_ok());
    }
}
