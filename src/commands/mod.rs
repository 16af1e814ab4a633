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
mod envelope;
mod explain;
mod failure;
mod file;
mod input;
mod job;
mod job_name;
mod job_scope;
mod last_set;
mod leftovers;
mod man;
mod node;
mod oracle;
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
mod watch_print;
mod watch_scope;

pub use failure::Failure;
pub use refuse::refuse;
pub use session::Session;

use std::io::{self, BufWriter};

use crate::cli::{Cli, Command, Exit, NodeArgs};

/// Runs a parsed command line against standard output and standard error.
/// Without a command that is `node`.
pub fn run(cli: &Cli) -> Exit {
    let node = Command::Node(NodeArgs::default());
    let command = cli.command.as_ref().unwrap_or(&node);
    let style = session::style(cli.global.color, cli.global.verbose > 0);
    let mut out = BufWriter::with_capacity(1 << 16, io::stdout().lock());
    let mut err = io::stderr().lock();
    let mut session = Session::new(&cli.global, command.name(), style, &mut out, &mut err);
    let result = dispatch(&mut session, command).and_then(|exit| {
        session.out.flush()?;
        Ok(exit)
    });
    let exit = result.unwrap_or_else(|failure| match command {
        Command::Audit(args) => audit::fail(&mut session, args, &failure),
        _ => session.fail(&failure),
    });
    // A reader that went away leaves text in the buffer; it must not be
    // written again when the buffer is dropped.
    let (_stdout, _unwritten) = out.into_parts();
    exit
}

fn dispatch(session: &mut Session<'_>, command: &Command) -> Result<Exit, Failure> {
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
