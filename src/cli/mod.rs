//! The command line as the user types it: clap definitions and the small
//! grammars of their values.
//!
//! Help, manual pages and completions are made from these definitions. They import
//! nothing else of the crate, so that this works without running a command.
mod audit;
mod check;
pub mod device;
mod diff;
mod fleet;
mod free;
mod global;
mod inspect;
mod leftovers;
mod repair;
mod resident;
pub(crate) mod target;
mod tool;

use clap::{CommandFactory as _, Parser, Subcommand};

pub use audit::{AllocationArgs, AuditArgs, ReportArgs, SlurmArgs};
pub use check::{CheckArgs, ExplainArgs};
pub use diff::{DiffArgs, Side, Sides};
pub use fleet::FleetArgs;
pub use free::FreeArgs;
pub use global::{Color, Exit, Global, duration};
pub use inspect::{CgroupArgs, DoctorArgs, JobArgs, NodeArgs, PidArgs, ProgArgs, VgpuArgs};
pub use leftovers::{KillSignal, LeftoversArgs};
pub use repair::RepairArgs;
pub use resident::{ActivityArgs, DenialsArgs, ExportArgs, TopArgs, WatchArgs};
pub use target::{PolicyTarget, ProgramSource, TargetArgs};
pub use tool::{CompletionsArgs, ManArgs, SchemaArgs, SchemaOf, SnapshotArgs};

/// Tells which GPUs a job may open, asks for and holds, and why.
///
/// Under cgroup v2 a device policy is a BPF program, which the kernel shows as
/// machine instructions only. gpumap decodes it exactly, whatever software wrote
/// it, and compares it with what jobs were allocated, what their processes ask for
/// and what they hold. It opens no GPU, and changes no device program but by `gpumap
/// repair --apply`. Without a command it shows this node, as `gpumap node` does.
#[derive(Debug, Parser)]
#[command(name = "gpumap", version, max_term_width = 100, after_help = EXAMPLES)]
pub struct Cli {
    /// Options of every command.
    #[command(flatten)]
    pub global: Global,
    /// The subcommand; `node` by default.
    #[command(subcommand)]
    pub command: Option<Command>,
}

const EXAMPLES: &str = "\
Examples:
  gpumap                                            This node's GPUs, and whose they are.
  gpumap job 4711                                   One job, its steps and processes.
  gpumap cgroup /system.slice/slurmstepd.scope -r   What the kernel allows each cgroup.
  gpumap check --pid 31337 'c 195:0' /dev/nvidia1   May process 31337 open these?
  gpumap explain --cgroup /user.slice 'c 195:3 rw'  Why, instruction by instruction.
  gpumap audit                                      Is every GPU isolated as it should be?
  gpumap report -o node.html                        One page that explains all of it.
  gpumap snapshot -o node.json                      Save everything for later.
  gpumap --from node.json cgroup -r /               Look at it on another machine.

Exit status: 0 yes or clean, 1 no, 2 could not work, 3 incomplete or unknown.
See gpumap(1) and `gpumap help COMMAND` for more.";

/// The commands. clap makes the options of one when it is asked for; until then it knows
/// the first line of its help, which stands here and at its arguments.
#[derive(Debug, Subcommand)]
#[command(defer = true)]
pub enum Command {
    /// Show this node's GPUs and who was allocated, may open, asks for and holds each.
    Node(NodeArgs),
    /// Show what jobs were allocated, may open, ask for and hold.
    Job(JobArgs),
    /// Show what processes may open, ask for and hold.
    Pid(PidArgs),
    /// Show what may be opened from cgroups.
    Cgroup(CgroupArgs),
    /// Show one program: its rules and its disassembly.
    Prog(ProgArgs),
    /// Answer allow, deny or unknown for each device.
    Check(CheckArgs),
    /// Prove one verdict, instruction by instruction.
    Explain(ExplainArgs),
    /// Show exactly where two policies, or two moments of a node, differ.
    Diff(DiffArgs),
    /// Audit GPU isolation on this node.
    Audit(AuditArgs),
    /// List processes that still hold GPUs of a job.
    Leftovers(LeftoversArgs),
    /// Say whether GPUs are free for the next job.
    Free(FreeArgs),
    /// Report what changes, as it happens.
    Watch(WatchArgs),
    /// Report devices that the kernel refuses to processes, as it happens.
    Denials(DenialsArgs),
    /// Show what processes do with their GPUs, as they do it.
    Activity(ActivityArgs),
    /// Show the GPU limits that HAMi's libvgpu.so and SoftMig set, and whether they are in force.
    Vgpu(VgpuArgs),
    /// Show what gives lost device access back, and give it back if told to.
    Repair(RepairArgs),
    /// Show owners and GPUs as a matrix, kept up to date: who was allocated, may open, asks for and
    /// holds which GPU, in one glyph and colour.
    Top(TopArgs),
    /// Write what is known of this node as metrics for Prometheus.
    Export(ExportArgs),
    /// Write one HTML file that explains this node.
    Report(ReportArgs),
    /// Make one report of what gpumap said on many nodes.
    Fleet(FleetArgs),
    /// Check what gpumap can find out on this node, and how to mend what it cannot.
    Doctor(DoctorArgs),
    /// Save what can be seen now, to be read later or on another machine.
    Snapshot(SnapshotArgs),
    /// Print the JSON schema of what gpumap writes.
    Schema(SchemaArgs),
    /// Print a completion script for a shell.
    Completions(CompletionsArgs),
    /// Write the manual pages into a directory.
    #[command(hide = true)]
    Man(ManArgs),
}

impl Command {
    /// The command's name, as in the JSON envelope.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Node(_) => "node",
            Self::Job(_) => "job",
            Self::Pid(_) => "pid",
            Self::Cgroup(_) => "cgroup",
            Self::Prog(_) => "prog",
            Self::Check(_) => "check",
            Self::Explain(_) => "explain",
            Self::Diff(_) => "diff",
            Self::Audit(_) => "audit",
            Self::Leftovers(_) => "leftovers",
            Self::Free(_) => "free",
            Self::Watch(_) => "watch",
            Self::Denials(_) => "denials",
            Self::Activity(_) => "activity",
            Self::Vgpu(_) => "vgpu",
            Self::Top(_) => "top",
            Self::Export(_) => "export",
            Self::Report(_) => "report",
            Self::Fleet(_) => "fleet",
            Self::Doctor(_) => "doctor",
            Self::Repair(_) => "repair",
            Self::Snapshot(_) => "snapshot",
            Self::Schema(_) => "schema",
            Self::Completions(_) => "completions",
            Self::Man(_) => "man",
        }
    }
}

/// The whole definition, for help, manual pages and completions.
pub fn definition() -> clap::Command {
    Cli::command()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Make sure that clap finds no contradiction in the definitions.
    #[test]
    fn definitions_are_sound() {
        definition().debug_assert();
    }

    /// Make sure that the list of commands says what each one's own help begins with.
    #[test]
    fn first_lines() {
        let mut built = definition();
        built.build();
        for command in definition().get_subcommands() {
            let own = built.find_subcommand(command.get_name()).unwrap();
            assert!(command.get_about().is_some(), "{}", command.get_name());
            assert_eq!(command.get_about(), own.get_about());
        }
    }

    /// Make sure that global options work before and after the command.
    #[test]
    fn global_options_anywhere() {
        for line in ["gpumap --json cgroup /", "gpumap cgroup / --json", "gpumap cgroup --json /"] {
            let cli = Cli::try_parse_from(line.split(' ')).unwrap();
            assert!(cli.global.json, "{line}");
        }
    }

    /// Make sure that one target excludes the others.
    #[test]
    fn one_target() {
        for target in [
            "--cgroup / --pid 1",
            "--pid 1 --prog 2",
            "--cgroup / --prog 3",
            "--self --pid 1",
            "--job 1 --pid 1",
            "--self --job 1",
            "--job 1 --prog 2",
        ] {
            let line = format!("gpumap check {target} /dev/null");
            assert!(Cli::try_parse_from(line.split(' ')).is_err(), "{line}");
        }
    }

    /// Make sure that only the environment can replace a job's name.
    #[test]
    fn jobs_are_named() {
        let parses = |line: &str| Cli::try_parse_from(line.split(' ')).is_ok();
        for line in [
            "gpumap",
            "gpumap job 1 s0123456789ABC",
            "gpumap job",
            "gpumap job 1,2",
            "gpumap job --from-env",
            "gpumap leftovers 1",
            "gpumap leftovers --job 1",
            "gpumap leftovers --from-env --porcelain",
            "gpumap node --allocated 0,1 --gres-conf g.conf",
            "gpumap pid 1 2",
            "gpumap snapshot --from-env",
            "gpumap audit /a /b --fail-on never --report r.json --baseline b.json",
            "gpumap audit --from-env --nagios",
        ] {
            assert!(parses(line), "{line}");
        }
        for line in [
            "gpumap leftovers",
            "gpumap leftovers --allocated 0",
            "gpumap pid",
            "gpumap pid x",
            "gpumap node --allocated 0 --from-env",
            "gpumap --allocated 0",
            "gpumap audit --fail-on bad",
            "gpumap audit --nagios --fail-on note",
            "gpumap audit --list --explain x",
        ] {
            assert!(!parses(line), "{line}");
        }
    }
}
