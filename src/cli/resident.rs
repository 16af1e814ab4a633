//! Commands that can run until a signal ends them: `gpumap watch`, `denials`, `top`,
//! `export`, `activity`.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use clap::builder::PossibleValue;
use clap::{Args, ValueEnum, ValueHint};

use super::target;
use crate::model::MatrixOrder;

/// Report what changes, as it happens.
///
/// gpumap prints one line for each event, with --json one JSON document a line.
/// Events are: a process changes the variables that choose its devices (with setenv
/// and similar functions of every C library in use); a new process asks for devices;
/// a process initialises CUDA, HIP or ROCr, after which a change has no effect;
/// device programs are attached, replaced or lost, with the exact difference of
/// their rules; a process is moved to another cgroup, with the GPUs that it gained
/// or lost; a process opens or closes GPUs; the kernel refuses it one. Programs that take
/// long to decode delay no event: their policy is reported as not known yet, and again when
/// it is known.
///
/// The first line names the kernel interfaces in use and the time after which
/// everything was in place. If changes of some processes are not seen as they
/// happen, a second line counts these processes, and -v names them.
///
/// gpumap loads BPF programs into the kernel for this, which takes root and Linux
/// 5.8 or later with BTF. The kernel removes them when gpumap ends, however it ends.
///
/// The manual page gpumap-watch(1) describes every event, the cost, and the limits.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  gpumap watch
  gpumap watch --job 4711 --json
  gpumap watch --pid 31337 --until-change --for 5m
  gpumap watch --state /run/gpumap.state")]
pub struct WatchArgs {
    /// Watch processes and programs in these cgroups and in those below them.
    #[arg(long, value_name = "PATH", value_hint = ValueHint::DirPath, value_parser = target::cgroup())]
    pub cgroup: Vec<PathBuf>,
    /// Watch these jobs, named by number or SLUID.
    #[arg(long, value_name = "ID")]
    pub job: Vec<String>,
    /// Watch these processes, without their children.
    #[arg(long, value_name = "PID", value_parser = target::pid)]
    pub pid: Vec<u32>,
    /// End after this time, such as 30s or 5m.
    #[arg(long = "for", value_name = "DURATION", value_parser = super::global::duration)]
    pub lasting: Option<Duration>,
    /// End after the first change.
    #[arg(long)]
    pub until_change: bool,
    /// Keep the last change of each process in this file, for gpumap pid.
    ///
    /// gpumap replaces the file as a whole, and only its owner may read it.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub state: Option<PathBuf>,
}

/// Report devices that the kernel refuses to processes, as it happens.
///
/// gpumap prints one line for each process, device and request that a device program or
/// the devices controller of cgroup v1 refused within about a second: who it was, how
/// often, whose the process is, and which program and instruction in force decides. With
/// --json it prints one JSON document a line, the `denied` events of `gpumap watch`. These
/// are the kernel's own answers to open, access, execve and mknod.
///
/// Only devices of GPUs and the nodes that they share are reported, unless --all-devices
/// is given. What file permissions, security modules or drivers refuse is not seen.
///
/// gpumap loads one BPF program into the kernel for this, which takes root and Linux 5.8
/// or later with BTF. No process is touched, and nothing is changed by it. gpumap watch
/// reports the same among other events. The manual page gpumap-denials(1) has the cost and
/// the limits.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  gpumap denials
  gpumap denials --job 4711 --json
  gpumap denials --cgroup /machine.slice --all-devices --for 5m
  gpumap denials --state /run/gpumap/denials.json > /dev/null")]
pub struct DenialsArgs {
    /// Report refusals in these cgroups and in those below them.
    #[arg(long, value_name = "PATH", value_hint = ValueHint::DirPath, value_parser = target::cgroup())]
    pub cgroup: Vec<PathBuf>,
    /// Report refusals in these jobs, named by number or SLUID.
    #[arg(long, value_name = "ID")]
    pub job: Vec<String>,
    /// Report refusals of these processes, without their children.
    #[arg(long, value_name = "PID", value_parser = target::pid)]
    pub pid: Vec<u32>,
    /// Report refusals of all devices, not only of those of GPUs.
    #[arg(long)]
    pub all_devices: bool,
    /// End after this time, such as 30s or 5m.
    #[arg(long = "for", value_name = "DURATION", value_parser = super::global::duration)]
    pub lasting: Option<Duration>,
    /// Keep what was refused of GPUs in the last hour in this file, for gpumap audit.
    ///
    /// gpumap audit reads /run/gpumap/denials.json without being asked. gpumap replaces the
    /// file as a whole when something was refused, and only its owner may read it.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub state: Option<PathBuf>,
}

/// Show owners and GPUs as a matrix, kept up to date: who was allocated, may open, asks
/// for and holds which GPU, in one glyph and colour.
///
/// Rows are jobs, pods, containers and whoever else holds a GPU; they open to steps,
/// tasks and processes. Columns are the node's GPUs, and their MIG instances. Below are
/// the findings of an audit and what happens to device programs. Enter on a cell shows
/// why, instruction by instruction, as `gpumap explain` does.
///
/// The shape of a glyph says whether the GPU was allocated, as far as that is known:
/// a diamond was, of a circle nobody knows, a triangle was not. It is the fuller the
/// more is done with the GPU. `?` lists all glyphs and keys; gpumap-top(1) has them, too.
///
/// The screen is drawn when something changed, at most four times a second. Saved nodes
/// are replayed with --from, or as FILEs through which `<` and `>` step; one of several
/// that cannot be read says why in its place. The mouse is left to the terminal, so that
/// text can be selected and copied.
///
/// The exit status of --once is 0 when everything could be seen and 3 when something is
/// missing or unknown. Else it is 0 when the user ended it, and 2 if gpumap could not
/// work or lost its terminal.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  gpumap top
  gpumap top --filter user:alice --sort held
  gpumap top --once                       The matrix as a table, for scripts.
  gpumap --from node.json top             A saved node.
  gpumap top monday.json tuesday.json     Two moments: < and > step.")]
pub struct TopArgs {
    /// Saved nodes (`gpumap snapshot`, `audit --report`) to step through.
    #[arg(value_name = "FILE", value_hint = ValueHint::FilePath, help_heading = "Arguments")]
    pub files: Vec<PathBuf>,
    /// Print the matrix as a table and end.
    #[arg(long)]
    pub once: bool,
    /// Show only rows that match these words, and the owners around them.
    ///
    /// `user:NAME`, `job:ID` and `gpu:NAME` ask for a user, a job and a GPU that a row
    /// has to do with; any other word is looked for in names, commands and cgroups.
    #[arg(long, value_name = "WORDS", default_value = "", hide_default_value = true)]
    pub filter: String,
    /// Sort owners by this.
    #[arg(long, value_name = "ORDER", value_enum, default_value_t = MatrixOrder::Owner)]
    pub sort: MatrixOrder,
    /// Use ASCII alone.
    ///
    /// Without it the screen uses UTF-8 if the locale (LC_ALL, LC_CTYPE, LANG) does, and
    /// --once always.
    #[arg(long)]
    pub ascii: bool,
    /// Look this often whether anything changed.
    ///
    /// Cgroups that come and go are seen at once where the kernel reports them.
    #[arg(long, value_name = "DURATION", value_parser = top_interval, default_value = "1s")]
    pub every: Duration,
    /// How much of one processor looks at the whole node may take on average, in
    /// percent.
    #[arg(long, value_name = "PERCENT", value_parser = percent, default_value = "5",
        hide_short_help = true)]
    pub cpu: f64,
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

/// A quarter of a second is the least.
fn top_interval(text: &str) -> Result<Duration, String> {
    let every = super::global::duration(text)?;
    if every < Duration::from_millis(250) { Err("write 250ms or more".to_owned()) } else { Ok(every) }
}

impl ValueEnum for MatrixOrder {
    fn value_variants<'a>() -> &'a [Self] {
        &Self::ALL
    }

    fn to_possible_value(&self) -> Option<PossibleValue> {
        let help = match self {
            Self::Owner => "jobs by number, then containers, virtual machines, anything else",
            Self::User => "by the name of the user",
            Self::Finding => "the worst finding first",
            Self::Held => "who holds the most GPUs first",
            Self::Allowed => "who may open the most GPUs first",
            Self::Launches => "who launches the most first",
            Self::Memory => "who allocated the most memory first",
            Self::Processes => "who has the most processes first",
        };
        Some(PossibleValue::new(<&'static str>::from(*self)).help(help))
    }
}

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
    #[arg(long, value_name = "DURATION", value_parser = export_interval)]
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
fn export_interval(text: &str) -> Result<Duration, String> {
    let every = super::global::duration(text)?;
    if every < Duration::from_secs(1) { Err("write 1s or more".to_owned()) } else { Ok(every) }
}

pub(super) fn percent(text: &str) -> Result<f64, String> {
    let number: Option<f64> = text.trim_end_matches('%').parse().ok();
    let number = number.filter(|number| (0.001..=100.0).contains(number));
    number.ok_or_else(|| "write a number of percent from 0.001 to 100".to_owned())
}

/// Show what processes do with their GPUs, as they do it.
///
/// gpumap prints one line for each process and GPU, the busiest first: kernels
/// launched and bytes copied per second, memory allocated, the share of time spent
/// waiting, failed calls, and the time since the last call. With -v it adds each
/// stream and how long calls took. With --json it prints one document for each
/// interval, on one line.
///
/// Probes in the kernel count the calls of NVIDIA's driver library and of AMD's HIP
/// runtime, whatever runtime a program uses and however it was linked. Programs need
/// no restart. A launch hands work to the GPU; gpumap does not see how long the GPU
/// works on it.
///
/// The column BY says how the GPU is known: `driver` (the driver named it to the
/// process), `resolved` (it follows from the process's variables and from what its
/// rules allow) or `held` (it is the one GPU that the process has open).
///
/// gpumap loads BPF programs into the kernel for this, which takes root. They are
/// gone when gpumap ends, however it ends. gpumap-activity(1) says what is counted,
/// what is not, and what it costs.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  gpumap activity                               Every 2 seconds, until Ctrl-C.
  gpumap activity --job 4711 -v                 One job, by stream.
  gpumap activity --every 10s --for 1h --json
  gpumap activity --once --json                 One interval, for scripts.
  gpumap activity --state /run/gpumap/activity.json --every 10s
  gpumap activity --job 4711 --summary          In an Epilog: what it did with each GPU.
  gpumap --from activity.json activity          What a state file holds.")]
pub struct ActivityArgs {
    /// Count processes in these cgroups and in those below them.
    #[arg(long, value_name = "PATH", value_hint = ValueHint::DirPath, value_parser = target::cgroup())]
    pub cgroup: Vec<PathBuf>,
    /// Count processes of these jobs, named by number or SLUID.
    #[arg(long, value_name = "ID")]
    pub job: Vec<String>,
    /// Count these processes, without their children.
    #[arg(long, value_name = "PID", value_parser = target::pid)]
    pub pid: Vec<u32>,
    /// Length of an interval.
    #[arg(long, value_name = "DURATION", value_parser = super::global::duration, default_value = "2s")]
    pub every: Duration,
    /// Time one launch in N and check its result; 1 does so for every launch.
    ///
    /// Every launch is counted, whatever N is.
    #[arg(long, value_name = "N", default_value_t = 64, value_parser = clap::value_parser!(u32).range(1..),
        hide_short_help = true)]
    pub time_one_in: u32,
    /// Also count functions whose probes cost some 15 microseconds per call.
    ///
    /// Without it, gpumap leaves out functions that programs call often where a probe
    /// makes each call take two traps, and lists them as not counted.
    #[arg(long, hide_short_help = true)]
    pub costly: bool,
    /// End after this time, such as 30s or 5m.
    #[arg(long = "for", value_name = "DURATION", value_parser = super::global::duration, conflicts_with = "once")]
    pub lasting: Option<Duration>,
    /// Show one interval and end.
    #[arg(long)]
    pub once: bool,
    /// Show what jobs did with each GPU from begin to end, and end.
    ///
    /// It comes from the state file of a running gpumap activity (--state, else
    /// /run/gpumap/activity.json), which keeps it when a job is gone: an Epilog can ask.
    /// gpumap waits for the first reading after the question. Without --job it shows all
    /// that the file has. Here --job takes the job's own number or SLUID.
    #[arg(long, conflicts_with_all = ["once", "lasting", "cgroup", "pid"])]
    pub summary: bool,
    /// Keep the newest counts in this file, for gpumap node, job, pid and audit.
    ///
    /// These commands read /run/gpumap/activity.json without being told. gpumap
    /// replaces the file as a whole, and only its owner may read it.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub state: Option<PathBuf>,
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
        assert!(export_interval("999ms").is_err() && export_interval("1s").is_ok());
    }
}
