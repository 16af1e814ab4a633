//! `gpumap diff`.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::builder::ValueParser;
use clap::error::ErrorKind;
use clap::{Arg, ArgAction, ArgMatches, Args, Command, Error, FromArgMatches, ValueHint, value_parser};

use crate::model::InOrder as _;

/// Show exactly where two policies, or two moments of a node, differ.
///
/// A and B are each a cgroup path, a program id, a program file, or a saved
/// observation: FILE, or FILE:/CGROUP/PATH for one cgroup of it. A name that
/// is an existing file is taken as a file. --job, --pid and --cgroup say what a
/// side is; the first on the command line is A.
///
/// If one side is a saved subtree and the other a cgroup in it, gpumap compares the
/// saved subtree of this cgroup with the same subtree as it is now.
///
/// Two files that were saved of the same cgroups are compared as two moments of a
/// node: jobs, containers and units that came and went, programs attached and
/// gone, GPUs that owners lost or gained, allocations, and the exact difference
/// of every policy that changed.
///
/// The exit status is 0 if nothing differs, 1 if something does, and 3 if part of
/// either side is unknown.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  gpumap diff /system.slice/slurmstepd.scope/job_42 /system.slice/slurmstepd.scope/job_43
  gpumap diff before.json:/machine.slice after.json:/machine.slice
  gpumap diff --job 42 --job 43
  gpumap diff --pid 31337 /system.slice
  gpumap diff 812 device.xlated
  gpumap diff before.json /machine.slice          What has changed since?
  gpumap diff before.json after.json              What happened in between?")]
pub struct DiffArgs {
    /// The two sides.
    #[command(flatten)]
    pub sides: Sides,
}

/// The two sides of a comparison, in the order of the command line.
#[derive(Clone, Debug)]
pub struct Sides {
    /// The first one.
    pub a: Side,
    /// The second one.
    pub b: Side,
}

/// One side of a comparison.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Side {
    /// A word that says by its look what it is.
    Word(OsString),
    /// A cgroup.
    Cgroup(PathBuf),
    /// The cgroup of a process.
    Pid(u32),
    /// The cgroup of a job or step.
    Job(String),
}

impl Side {
    /// The name of this side in headings.
    pub fn name(&self) -> String {
        match self {
            Self::Word(word) => word.to_string_lossy().into_owned(),
            Self::Cgroup(path) => path.to_string_lossy().into_owned(),
            Self::Pid(pid) => format!("pid {pid}"),
            Self::Job(id) => format!("job {id}"),
        }
    }
}

impl Args for Sides {
    fn augment_args(command: Command) -> Command {
        let option = |name: &'static str, value: &'static str, help: &'static str, parser: ValueParser| {
            let option = Arg::new(name).long(name).value_name(value).help(help);
            option.action(ArgAction::Append).value_parser(parser)
        };
        command
            .arg(
                Arg::new("sides")
                    .value_names(["A", "B"])
                    .num_args(0..=2)
                    .value_hint(ValueHint::AnyPath)
                    .value_parser(value_parser!(OsString))
                    .help("The policies to compare"),
            )
            .arg(option("job", "ID", "The cgroup of this job or step", value_parser!(String)))
            .arg(option("pid", "PID", "The cgroup of this process", value_parser!(u32).into()))
            .arg(option("cgroup", "PATH", "This cgroup", value_parser!(PathBuf)))
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for Sides {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, Error> {
        let mut sides = Vec::new();
        collect(matches, "sides", &mut sides, Side::Word);
        collect(matches, "job", &mut sides, Side::Job);
        collect(matches, "pid", &mut sides, Side::Pid);
        collect(matches, "cgroup", &mut sides, Side::Cgroup);
        sides.order_by_key(|(place, _)| *place);
        let mut sides = sides.into_iter().map(|(_, side)| side);
        match (sides.next(), sides.next(), sides.next()) {
            (Some(a), Some(b), None) => Ok(Self { a, b }),
            (.., Some(_)) => Err(wrong("diff compares two policies, and more were given")),
            _ => Err(wrong("diff compares two policies; name both, as in 'gpumap diff /a /b'")),
        }
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

/// Adds the values of one argument with their places on the command line.
fn collect<T: Clone + Send + Sync + 'static>(
    matches: &ArgMatches,
    name: &str,
    sides: &mut Vec<(usize, Side)>,
    side: impl Fn(T) -> Side,
) {
    let values = matches.get_many::<T>(name).into_iter().flatten().cloned().map(side);
    sides.extend(matches.indices_of(name).into_iter().flatten().zip(values));
}

fn wrong(why: &str) -> Error {
    Error::raw(ErrorKind::WrongNumberOfValues, why)
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;
    use crate::cli::{Cli, Command};

    fn sides(line: &str) -> Option<(Side, Side)> {
        match Cli::try_parse_from(line.split(' ')).ok()?.command? {
            Command::Diff(DiffArgs { sides: Sides { a, b } }) => Some((a, b)),
            _ => None,
        }
    }

    /// Make sure that the sides keep the order in which they were written.
    #[test]
    fn order() {
        let word = |word: &str| Side::Word(word.into());
        let job = |id: &str| Side::Job(id.to_owned());
        assert_eq!(sides("gpumap diff /a /b"), Some((word("/a"), word("/b"))));
        assert_eq!(sides("gpumap diff --job 2 --job 1.0"), Some((job("2"), job("1.0"))));
        assert_eq!(sides("gpumap diff --pid 7 --job 1"), Some((Side::Pid(7), job("1"))));
        assert_eq!(sides("gpumap diff --cgroup /x /a"), Some((Side::Cgroup("/x".into()), word("/a"))));
        assert_eq!(sides("gpumap diff /a --pid 7"), Some((word("/a"), Side::Pid(7))));
        for bad in ["gpumap diff", "gpumap diff /a", "gpumap diff /a /b /c", "gpumap diff /a /b --pid 7"] {
            assert_eq!(sides(bad), None, "{bad}");
        }
    }
}
