//! `gpumap export`.

use std::path::PathBuf;

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
  gpumap export --textfile /var/lib/prometheus/node-exporter/gpumap.prom
  gpumap --from node.json export --open-metrics")]
pub struct ExportArgs {
    /// Write to this file of node_exporter's textfile collector.
    ///
    /// Readers see the old file or the new one, and everybody may read it (mode 0644).
    /// The name has to end in .prom, or node_exporter would not read it.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, conflicts_with = "open_metrics")]
    pub textfile: Option<PathBuf>,
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
