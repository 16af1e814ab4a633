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

use std::ffi::OsString;

use clap::error::ErrorKind;
use clap::{Args as _, CommandFactory as _, FromArgMatches as _, Parser, Subcommand};
use strum::IntoStaticStr;

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

/// The commands. The documentation of each one's arguments is its help text; clap
/// would prefer a comment here to it.
#[derive(Debug, Subcommand, IntoStaticStr)]
#[strum(serialize_all = "lowercase")]
#[expect(missing_docs, reason = "clap would take it for the help text")]
pub enum Command {
    Node(NodeArgs),
    Job(JobArgs),
    Pid(PidArgs),
    Cgroup(CgroupArgs),
    Prog(ProgArgs),
    Check(CheckArgs),
    Explain(ExplainArgs),
    Diff(DiffArgs),
    Audit(AuditArgs),
    Leftovers(LeftoversArgs),
    Free(FreeArgs),
    Watch(WatchArgs),
    Denials(DenialsArgs),
    Activity(ActivityArgs),
    Vgpu(VgpuArgs),
    Repair(RepairArgs),
    Top(TopArgs),
    Export(ExportArgs),
    Report(ReportArgs),
    Fleet(FleetArgs),
    Doctor(DoctorArgs),
    Snapshot(SnapshotArgs),
    Schema(SchemaArgs),
    Completions(CompletionsArgs),
    #[command(hide = true)]
    Man(ManArgs),
}

impl Command {
    /// The command's name, as in the JSON envelope.
    pub fn name(&self) -> &'static str {
        self.into()
    }
}

/// What adds a command's options to its definition.
type Options = fn(clap::Command) -> clap::Command;

/// Every command's options by its name.
const OPTIONS: [(&str, Options); 25] = [
    ("node", NodeArgs::augment_args),
    ("job", JobArgs::augment_args),
    ("pid", PidArgs::augment_args),
    ("cgroup", CgroupArgs::augment_args),
    ("prog", ProgArgs::augment_args),
    ("check", CheckArgs::augment_args),
    ("explain", ExplainArgs::augment_args),
    ("diff", DiffArgs::augment_args),
    ("audit", AuditArgs::augment_args),
    ("leftovers", LeftoversArgs::augment_args),
    ("free", FreeArgs::augment_args),
    ("watch", WatchArgs::augment_args),
    ("denials", DenialsArgs::augment_args),
    ("activity", ActivityArgs::augment_args),
    ("vgpu", VgpuArgs::augment_args),
    ("repair", RepairArgs::augment_args),
    ("top", TopArgs::augment_args),
    ("export", ExportArgs::augment_args),
    ("report", ReportArgs::augment_args),
    ("fleet", FleetArgs::augment_args),
    ("doctor", DoctorArgs::augment_args),
    ("snapshot", SnapshotArgs::augment_args),
    ("schema", SchemaArgs::augment_args),
    ("completions", CompletionsArgs::augment_args),
    ("man", ManArgs::augment_args),
];

/// Reads a command line. The definitions of all commands take most of the time in which
/// gpumap starts; so they are made for help and messages alone, and else only those whose names
/// are among the words.
///
/// # Errors
///
/// What clap has to say: a usage error, help, the version.
pub fn parse(words: Vec<OsString>) -> Result<Cli, clap::Error> {
    let named = OPTIONS.iter().filter(|(name, _)| words.iter().any(|word| word == name));
    let quick = Global::augment_args(clap::Command::new("gpumap").version(env!("CARGO_PKG_VERSION")))
        .subcommands(named.map(|(name, options)| options(clap::Command::new(*name))));
    let read = quick.try_get_matches_from(&words).and_then(|matches| Cli::from_arg_matches(&matches));
    match read {
        Err(error) if error.kind() != ErrorKind::DisplayVersion => Cli::try_parse_from(words),
        read => read,
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

    /// Make sure that every command is found, and that what is read is what the whole
    /// definition reads.
    #[test]
    fn quick() {
        let whole = definition();
        assert!(whole.get_subcommands().map(clap::Command::get_name).eq(OPTIONS.map(|(name, _)| name)));
        let lines = [
            "gpumap",
            "gpumap --json",
            "gpumap --timeout 2s job 7 --json -v",
            "gpumap --from check node",
            "gpumap check --cgroup / a",
            "gpumap audit job --from-env",
            "gpumap --version",
            "gpumap job --version",
            "gpumap --help",
            "gpumap help job",
            "gpumap job -h",
            "gpumap jbo",
            "gpumap job --jsno",
            "gpumap --timeout",
            "gpumap diff a",
        ];
        for line in lines {
            let words = line.split(' ').map(OsString::from).collect();
            let told = |read: Result<Cli, clap::Error>| match read {
                Ok(cli) => format!("{cli:?}"),
                Err(error) => format!("{:?} {error}", error.kind()),
            };
            assert_eq!(told(parse(words)), told(Cli::try_parse_from(line.split(' '))), "{line}");
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
