//! The subcommands, one file or folder each: observe, analyse, render.
//!
//! A subcommand owns no rule about policies or layout. It connects the stages
//! and turns the answer into an exit code. Three rooms hold what subcommands
//! share: `invocation` (one run of gpumap: its options, streams, failures and
//! the JSON envelope), `subject` (from what the user named to cgroups, jobs,
//! programs and devices) and `files` (what is read from and written to files).

mod activity;
mod audit;
mod cgroup;
mod check;
mod denials;
mod diff;
mod doctor;
mod explain;
mod export;
mod fleet;
mod free;
mod generate;
mod job;
mod leftovers;
mod node;
mod own_access;
mod page;
mod pid;
mod prog;
mod repair;
mod report;
mod snapshot;
mod top;
mod vgpu;
mod watch;

// No subcommands, but what they share.
mod files;
mod invocation;
mod resident;
mod subject;

pub use invocation::streams::Input;
pub use invocation::streams::{Output, Remarks};
pub use invocation::usage::refuse;
pub use invocation::{Failure, Invocation};

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::AsFd as _;

use self::invocation::failure;
use crate::cli::{Cli, Command, Exit, NodeArgs};
use crate::render::Style;

/// The streams that a command reads and writes.
pub struct Streams<'a> {
    /// Standard input.
    pub input: &'a mut dyn Input,
    /// Standard output.
    pub out: &'a mut dyn Write,
    /// Standard error.
    pub err: &'a mut dyn Write,
}

/// Runs a parsed command line against standard input, output and error.
/// A panic becomes exit code 2 and a message like that of any failure.
pub fn run(cli: &Cli) -> Exit {
    failure::install();
    let style = invocation::style(cli.global.color, cli.global.verbose > 0);
    let mut input = match io::stdin().as_fd().try_clone_to_owned() {
        Ok(fd) => Box::new(File::from(fd)) as Box<dyn Input>,
        // Without a standard input there is nothing in it.
        Err(_) => Box::new([].as_slice()),
    };
    // Standard error is not locked: other threads say something on it when they fail.
    let (mut out, mut err) = (io::stdout().lock(), invocation::standard_error());
    run_on(cli, style, Streams { input: &mut *input, out: &mut out, err: &mut err })
}

/// Runs a parsed command line on the streams, for callers inside of a process such
/// as the fuzz targets. Without a subcommand it runs `node`.
///
/// A panic becomes exit code 2, after the panic hook in force was called.
pub fn run_on(cli: &Cli, style: Style, streams: Streams<'_>) -> Exit {
    attempt(cli, style, streams, dispatch)
}

/// Does the `work` of a command and tells how it failed, if it did.
fn attempt(
    cli: &Cli,
    style: Style,
    streams: Streams<'_>,
    work: impl FnOnce(&mut Invocation<'_>, &Command) -> Result<Exit, Failure>,
) -> Exit {
    let node = Command::Node(NodeArgs::default());
    let command = cli.command.as_ref().unwrap_or(&node);
    let mut out = Output::new(streams.out);
    let mut err = Remarks(streams.err);
    let mut invocation =
        Invocation::new(&cli.global, command.name(), style, &mut out, streams.input, &mut err);
    // What runs on has no end that its policies could be late for.
    let runs_on = match command {
        Command::Watch(_) | Command::Denials(_) | Command::Activity(_) => true,
        Command::Export(args) => args.runs_on(),
        Command::Top(args) => !args.once,
        _ => false,
    };
    if !runs_on {
        invocation.limit_decoding();
    }
    let result = failure::caught(|| {
        let exit = work(&mut invocation, command)?;
        invocation.out.flush()?;
        Ok(exit)
    });
    result.unwrap_or_else(|failure| match command {
        Command::Audit(args) => audit::fail(&mut invocation, args, &failure),
        Command::Doctor(args) if args.redact => invocation.fail(&doctor::redacted(failure)),
        _ => invocation.fail(&failure),
    })
}

fn dispatch(invocation: &mut Invocation<'_>, command: &Command) -> Result<Exit, Failure> {
    invocation.check_roots()?;
    match command {
        Command::Node(args) => node::run(invocation, args),
        Command::Job(args) => job::run(invocation, args),
        Command::Pid(args) => pid::run(invocation, args),
        Command::Cgroup(args) => cgroup::run(invocation, args),
        Command::Prog(args) => prog::run(invocation, args),
        Command::Check(args) => check::run(invocation, args),
        Command::Explain(args) => explain::run(invocation, args),
        Command::Diff(args) => diff::run(invocation, args),
        Command::Audit(args) => audit::run(invocation, args),
        Command::Leftovers(args) => leftovers::run(invocation, args),
        Command::Free(args) => free::run(invocation, args),
        Command::Watch(args) => watch::run(invocation, args),
        Command::Denials(args) => denials::run(invocation, args),
        Command::Activity(args) => activity::run(invocation, args),
        Command::Vgpu(args) => vgpu::run(invocation, args),
        Command::Top(args) => top::run(invocation, args),
        Command::Export(args) => export::run(invocation, args),
        Command::Doctor(args) => doctor::run(invocation, args),
        Command::Repair(args) => repair::run(invocation, args),
        Command::Report(args) => report::run(invocation, args),
        Command::Fleet(args) => fleet::run(invocation, args),
        Command::Snapshot(args) => snapshot::run(invocation, args),
        Command::Schema(args) => generate::schema(invocation, args),
        Command::Completions(args) => generate::completions(invocation, args),
        Command::Man(args) => generate::man(args),
    }
}

#[cfg(test)]
mod tests;
