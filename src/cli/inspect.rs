//! Commands that tell what is on the node: `gpumap node` (which is also `gpumap` alone),
//! `cgroup`, `pid`, `job`, `prog`, `vgpu`, `doctor`.

use std::path::PathBuf;

use clap::builder::{OsStringValueParser, TypedValueParser as _};
use clap::{Args, ValueHint};

use super::{AllocationArgs, ProgramSource, target};

/// Show this node's GPUs and who was allocated, may open, asks for and holds
/// each.
///
/// First the GPUs in every numbering there is. Then jobs with their steps and
/// tasks, pods, containers, virtual machines, and whoever else holds a GPU,
/// each with four sets that are never inferred from one another: ALLOCATED by
/// the scheduler, ALLOWED by the kernel, ASKS FOR in the environment of its
/// processes, HOLDS open. In the table `-` is none, `?` not known, and
/// `~nvidia0` is only claimed by the owner's own environment.
///
/// Services, sessions and other cgroups are listed only if they are known to
/// hold a GPU, else counted; -v lists all.
///
/// The exit status is 0 when everything could be seen and 3 when something is
/// missing or unknown. An unknown allocation alone is not missing: outside of
/// Prolog and Epilog it is normal.
#[derive(Debug, Default, Args)]
#[command(after_help = "\
Examples:
  gpumap
  gpumap node -v
  gpumap --from node.json node --json
  gpumap node --json --compact --audit > /shared/$(hostname).json")]
pub struct NodeArgs {
    /// Add what processes do with their GPUs, as a running `gpumap activity --state`
    /// counts it; FILE is the file that it keeps.
    ///
    /// The default is /run/gpumap/activity.json if root keeps it there.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub state: Option<PathBuf>,
    /// Print a few kilobytes for `gpumap fleet` instead of every cgroup and process;
    /// with --json alone.
    ///
    /// Jobs and other owners stay, with their sets as bit masks over the GPUs;
    /// gpumap-fleet(1) describes the form.
    #[arg(long)]
    pub compact: bool,
    /// Add the findings of an audit to --compact, so that `gpumap fleet` has all of a
    /// node from one question.
    ///
    /// Exceptions are taken from /etc/gpumap.toml if there is one. Findings do not
    /// change the exit status.
    #[arg(long, requires = "compact")]
    pub audit: bool,
    /// The allocation.
    #[command(flatten)]
    pub allocation: AllocationArgs,
}

/// Show what may be opened from cgroups.
///
/// For each cgroup: the GPUs with their verdicts, the decoded rules, the
/// programs in force with the cgroup each is attached to, and the processes
/// with what each asks for and holds.
/// With -r, one line for every cgroup of the subtree, grouped by policy.
///
/// The exit status is 0 when everything could be seen and 3 when something is
/// missing or unknown.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  gpumap cgroup /system.slice/slurmstepd.scope/job_42
  gpumap cgroup /sys/fs/cgroup/machine.slice -r
  gpumap --from node.json cgroup --json")]
pub struct CgroupArgs {
    /// Cgroups: file-system paths, or paths from the cgroup root.
    ///
    /// A relative path, such as `.`, starts in the working directory if that is
    /// a cgroup, and else at the cgroup root. With --from and without a path, the
    /// cgroups that were saved are shown.
    #[arg(value_name = "PATH", value_hint = ValueHint::DirPath, value_parser = target::cgroup())]
    pub paths: Vec<PathBuf>,
    /// Show the cgroups below the paths too.
    #[arg(short, long)]
    pub recursive: bool,
}

/// Show what processes may open, ask for and hold.
///
/// For each process: its user, state, age and owner, what its environment says
/// of its job, every variable about GPUs at the last execve and now in memory,
/// the GPUs that result and how sure that is, the devices it has open; then the
/// verdicts, rules and programs of its cgroup.
///
/// The exit status is that of `gpumap node`, or 2 if there is no such process.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  gpumap pid 31337
  gpumap pid $(pidof python3)
  gpumap --from node.json pid 31337 --json")]
pub struct PidArgs {
    /// Processes.
    #[arg(value_name = "PID", value_parser = target::pid, required = true, help_heading = "Arguments")]
    pub pids: Vec<u32>,
    /// Add the last change of each process that a running `gpumap watch --state`
    /// saw, or what processes do with their GPUs, as a running `gpumap activity
    /// --state` counts it; FILE is the file that it keeps. May be repeated.
    ///
    /// Of activity the default is /run/gpumap/activity.json if root keeps it there.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub state: Vec<PathBuf>,
    /// The allocation.
    #[command(flatten)]
    pub allocation: AllocationArgs,
}

/// Show what jobs were allocated, may open, ask for and hold.
///
/// For each job: the four sets of the job, its steps and tasks; its GPUs; its
/// processes with what each asks for (`unset` and `empty` are opposites; `→`
/// is a change at run time) and which GPUs result; rules and programs.
///
/// ID is a job number, or a SLUID such as sEKNKTV3WPV500. Job 4711's steps are
/// 4711.0, 4711.batch, 4711.extern. Array tasks (4711_3, or those that are here of
/// 4711_[3-5,9] or 4711_*) and a component of a heterogeneous job (4711+1) are found
/// by what the environments of their processes say; by their own number they are
/// always found.
///
/// The exit status is that of `gpumap node`, or 2 if there is no such job here.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  gpumap job 4711
  gpumap job 4711.0                       One step.
  gpumap job                              Which jobs are here.
  gpumap job 4711,4712 --json
  gpumap job --from-env                   In a Prolog or Epilog.
  gpumap --from node.json job 4711")]
pub struct JobArgs {
    /// Jobs, by number or SLUID, or steps [default: list the jobs that are here].
    #[arg(value_name = "ID", help_heading = "Arguments")]
    pub ids: Vec<String>,
    /// Add what processes do with their GPUs, as a running `gpumap activity --state`
    /// counts it; FILE is the file that it keeps.
    ///
    /// The default is /run/gpumap/activity.json if root keeps it there.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub state: Option<PathBuf>,
    /// The allocation.
    #[command(flatten)]
    pub allocation: AllocationArgs,
}

/// Show one program: its rules and its disassembly.
///
/// The program is a loaded one, by id, or comes from a file: raw instructions
/// (`bpftool prog dump xlated id ID file FILE`), bpftool's text or JSON, a log of the
/// kernel's verifier, or a saved observation. bpftool's output should have the opcodes:
/// without them an older bpftool prints some instructions as others, and what depends
/// on one of these is unknown. Of a loaded program gpumap shows where it is attached.
/// What the program reads from maps must be known: --maps adds
/// map contents to a file that has none.
///
/// --compile goes the other way: it reads rules and makes a device program of
/// them. The rules are written as gpumap prints them (see NOTATION in
/// gpumap(1)), one on a line, the default first:
///
/// deny a *:* rwm
///
/// allow c 195:0-2 rw
///
/// The other rules say what differs from the default. They may stand in any order
/// and must not contradict each other. gpumap ignores empty lines, lines that begin with # and
/// what stands in parentheses at the end of a line. The program is
/// read again before it is shown or saved, and must decide as the rules say. It is
/// not loaded into the kernel. A rule is about whole requests: `deny c 195:0 w` leaves
/// open for rw what the default allows for rw.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  gpumap prog 812
  gpumap prog device.xlated --maps maps.json
  bpftool prog dump xlated id 812 opcodes | gpumap prog -
  gpumap prog --compile rules.txt -o device.xlated")]
pub struct ProgArgs {
    /// A program id, a file, or `-` for standard input; a file whose name is a
    /// number is written ./17.
    #[arg(value_name = "ID|FILE", value_hint = ValueHint::FilePath, required_unless_present = "compile",
        value_parser = OsStringValueParser::new().map(ProgramSource::from))]
    pub program: Option<ProgramSource>,
    /// Map contents as `bpftool -j map dump` writes them.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub maps: Option<PathBuf>,
    /// Compile the rules in this file, or in standard input for `-`.
    #[arg(long, value_name = "RULES", value_hint = ValueHint::FilePath, conflicts_with_all = ["program", "maps"])]
    pub compile: Option<PathBuf>,
    /// Save the compiled instructions to this file, 8 bytes each, and show them too.
    #[arg(short, long, value_name = "FILE", value_hint = ValueHint::FilePath, requires = "compile")]
    pub output: Option<PathBuf>,
}

/// Show the GPU limits that HAMi's libvgpu.so and SoftMig set, and whether they are
/// in force.
///
/// Both libraries divide a GPU among processes by intercepting CUDA calls. All these
/// processes may open the GPU, so the device cgroup cannot tell them apart. For each
/// process and GPU gpumap shows the limits that the process was meant to have, the
/// limits in the shared region that it maps, and what the region counts as used.
/// The meant limits come from the environment at exec, from SoftMig's file of the
/// job, or, if the environment was wiped, from another process of the container.
///
/// For the memory limit and the SM limit gpumap says whether each is in force: yes,
/// no, partly or unknown, with the reason, or `none` if no limit is set. Yes means
/// that the process has loaded the library, that the region lists the process, and
/// that the region has this limit. A program that is registered and bypasses the
/// library on purpose cannot be seen from outside.
///
/// Without an option gpumap shows all processes of the node.
///
/// --region reads one shared region, `/tmp/cudevshr.cache` or the file that
/// CUDA_DEVICE_MEMORY_SHARED_CACHE names. It needs no right but to read the file.
/// Size, version and contents show which build of the library wrote it. A file that
/// two builds have written to is `mixed`, and gpumap takes no value from it.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  gpumap vgpu
  gpumap vgpu --pid 31337
  gpumap vgpu --job 4711 --json
  gpumap --from node.json vgpu --cgroup /kubepods.slice
  gpumap vgpu --region /proc/4711/root/tmp/cudevshr.cache --json

Exit status: 0 every limit that was meant is in force, 1 a limit is not in force,
2 gpumap could not work, 3 a limit is unknown and none is known to be out of force.
A process that has no GPU open and has not called the library does not count, unless
--pid names it. With --region: 0 read, 2 could not read the file, 3 its layout is
mixed or unknown.")]
pub struct VgpuArgs {
    /// Show the processes of this job or step; a job is named by number or SLUID.
    #[arg(long, value_name = "ID", conflicts_with_all = ["pid", "cgroup", "region"])]
    pub job: Option<String>,
    /// Show this process.
    #[arg(long, value_name = "PID", value_parser = target::pid, conflicts_with_all = ["cgroup", "region"])]
    pub pid: Option<u32>,
    /// Show the processes of this cgroup and of those below it.
    #[arg(long, value_name = "PATH", value_hint = ValueHint::DirPath, value_parser = target::cgroup(), conflicts_with = "region")]
    pub cgroup: Option<PathBuf>,
    /// Read this shared region; `-` is standard input.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub region: Option<PathBuf>,
}

/// Check what gpumap can find out on this node, and how to mend what it cannot.
///
/// gpumap checks its rights, the kernel's settings, BTF and the BPF engines, the
/// mounts of cgroups, what drivers offer, Slurm's files, other software that detaches
/// device programs, and gpumap's own file. It starts no other program and changes
/// nothing. It loads BPF programs for a moment to see which of them the kernel takes.
/// Each check has a stable id, which gpumap-doctor(1) explains.
///
/// With --from it judges the node on which the file was saved with `gpumap snapshot
/// --setup`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  sudo gpumap doctor                  What is missing on this node, with the fix.
  sudo gpumap doctor --redact         The same for a bug report.
  gpumap doctor --json | jq '.doctor[] | select(.state == \"missing\")'

Exit status: 0 nothing is missing, 1 something is missing, 2 gpumap could not work, 3 a check could not be made.")]
pub struct DoctorArgs {
    /// Leave out the node's name, its boot id and the site's own paths.
    #[arg(long)]
    pub redact: bool,
}
