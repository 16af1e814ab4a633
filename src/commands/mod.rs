//! One file per subcommand: observe, analyse, render.
//!
//! A command owns no rule about policies or layout; it only connects the
//! stages and turns the answer into an exit code. What several commands share
//! (reading saved observations, resolving targets, the envelope) has a file of
//! its own.

mod audit;
mod audit_files;
mod cgroup;
mod check;
mod completions;
mod device_node;
mod diff;
mod door;
mod envelope;
mod explain;
mod failure;
mod file;
mod input;
mod job;
mod job_name;
mod job_scope;
mod kill;
mod last_set;
mod leftovers;
mod man;
mod node;
mod oracle;
mod output;
mod own_access;
mod pid;
mod prog;
mod programs;
mod refuse;
mod saved;
mod schema;
mod session;
mod slurm;
mod snapshot;
mod subject;
mod watch;
mod watch_allowance;
mod watch_output;
mod watch_print;
mod watch_scope;

pub use failure::Failure;
pub use input::Input;
pub use output::Output;
pub use refuse::refuse;
pub use session::Session;

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::AsFd as _;

use crate::cli::{Cli, Command, Exit, NodeArgs};
use crate::policy::deadline;
use crate::render::Style;

/// What a command reads and writes beside what it is about.
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
    door::install();
    let style = session::style(cli.global.color, cli.global.verbose > 0);
    let mut input = match io::stdin().as_fd().try_clone_to_owned() {
        Ok(fd) => Box::new(File::from(fd)) as Box<dyn Input>,
        // Without a standard input there is nothing in it.
        Err(_) => Box::new([].as_slice()),
    };
    let (mut out, mut err) = (io::stdout().lock(), io::stderr().lock());
    run_on(cli, style, Streams { input: &mut *input, out: &mut out, err: &mut err })
}

/// Runs a parsed command line against the given streams; for callers inside
/// of a process, such as the fuzz targets. Without a command that is `node`.
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
    work: impl FnOnce(&mut Session<'_>, &Command) -> Result<Exit, Failure>,
) -> Exit {
    let node = Command::Node(NodeArgs::default());
    let command = cli.command.as_ref().unwrap_or(&node);
    let mut out = Output::new(streams.out);
    let mut session = Session::new(&cli.global, command.name(), style, &mut out, streams.input, streams.err);
    // A watch has no end that its policies could be late for.
    let until = if matches!(command, Command::Watch(_)) { None } else { session.decode_until() };
    let result = deadline::within(until, || {
        door::closed(|| {
            let exit = work(&mut session, command)?;
            session.out.flush()?;
            Ok(exit)
        })
    });
    result.unwrap_or_else(|failure| match command {
        Command::Audit(args) => audit::fail(&mut session, args, &failure),
        _ => session.fail(&failure),
    })
}

fn dispatch(session: &mut Session<'_>, command: &Command) -> Result<Exit, Failure> {
    session.check_roots()?;
    match command {
        Command::Node(args) => node::run(session, args),
        Command::Job(args) => job::run(session, args),
        Command::Pid(args) => pid::run(session, args),
        Command::Cgroup(args) => cgroup::run(session, args),
        Command::Prog(args) => prog::run(session, args),
        Command::Check(args) => check::run(session, args),
        Command::Explain(args) => explain::run(session, args),
        Command::Diff(args) => diff::run(session, args),
        Command::Audit(args) => audit::run(session, args),
        Command::Leftovers(args) => leftovers::run(session, args),
        Command::Watch(args) => watch::run(session, args),
        Command::Snapshot(args) => snapshot::run(session, args),
        Command::Schema(args) => schema::run(session, args),
        Command::Completions(args) => completions::run(session, args),
        Command::Man(args) => man::run(args),
    }
}

#[cfg(test)]
mod tests;
