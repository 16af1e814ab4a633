//! `gpumap top`: owners and GPUs as a matrix, once as a table or kept up to date.

mod live;
mod saved;
mod screen;
mod terminal;

use std::path::PathBuf;
use std::thread;

use live::{Ended, Live, Shared};
use saved::Saved;
use screen::{Screen, Shown};
use terminal::Terminal;

use super::files;
use super::invocation::{Failure, Invocation};
use super::resident::give_up_rights;
use super::resident::look::{Look, Looker};
use crate::cli::{Exit, TopArgs};
use crate::model::ProblemCode;
use crate::render::{self, MatrixStyle, Theme};
use crate::report::MatrixAnswer;
use crate::top::{Choice, Filter, State, rows};

/// Runs the command.
pub(super) fn run(invocation: &mut Invocation<'_>, args: &TopArgs) -> Result<Exit, Failure> {
    let files: Vec<PathBuf> = invocation.global.from.iter().chain(&args.files).cloned().collect();
    if args.once {
        return once(invocation, args, &files);
    }
    terminal::check()?;
    if invocation.global.json {
        let needs = "gpumap top --once --json prints what it shows";
        return Err(Failure::new(ProblemCode::Usage, "--json", "a screen is no JSON", needs));
    }
    let looker = Looker::new(invocation, args.config.as_deref(), args.state.clone(), true)?;
    let theme = terminal::theme(invocation.global.color, invocation.style.color, args.ascii);
    if files.is_empty() {
        live(invocation, args, &looker, theme)
    } else {
        replay(invocation, args, &looker, theme, files)
    }
}

fn once(invocation: &mut Invocation<'_>, args: &TopArgs, files: &[PathBuf]) -> Result<Exit, Failure> {
    let looker = Looker::new(invocation, args.config.as_deref(), args.state.clone(), false)?;
    let look = match files {
        [] => looker.look(invocation)?,
        [file] => {
            let observation = files::saved::load(invocation, file)?;
            looker.judge(invocation, observation)?
        }
        [_, more, ..] => {
            let why = "--once prints one moment";
            return Err(Failure::new(ProblemCode::Usage, more.to_string_lossy(), why, "name one FILE"));
        }
    };
    print_once(invocation, args, look)
}

/// Shows saved nodes.
fn replay(
    invocation: &mut Invocation<'_>,
    args: &TopArgs,
    looker: &Looker,
    theme: Theme,
    files: Vec<PathBuf>,
) -> Result<Exit, Failure> {
    let mut saved = Saved::new(invocation, looker, files);
    let Some(Shown { moment, facts }) = saved.read()? else { return Ok(Exit::Yes) };
    let signals = terminal::take()?;
    let state = State::new(moment, args.filter.clone(), args.sort);
    let screen = Screen::new(Terminal::take(Terminal::outlet()?)?, theme, &signals, state, facts);
    screen.run(&mut saved)?;
    Ok(Exit::Yes)
}

/// Shows the node as it is.
fn live(
    invocation: &mut Invocation<'_>,
    args: &TopArgs,
    looker: &Looker,
    theme: Theme,
) -> Result<Exit, Failure> {
    let outlet = Terminal::outlet()?;
    give_up_rights(ProblemCode::Terminal)?;
    let signals = terminal::take()?;
    let shared = Shared::new()?;
    let show = || {
        let _ended = Ended(&shared);
        let mut source = Live(&shared);
        let Some(Shown { moment, facts }) = source.first(&signals)? else { return Ok(()) };
        let state = State::new(moment, args.filter.clone(), args.sort);
        Screen::new(Terminal::take(outlet)?, theme, &signals, state, facts).run(&mut source)
    };
    thread::scope(|threads| {
        let shown = thread::Builder::new().name("screen".to_owned()).spawn_scoped(threads, show)?;
        let followed = live::follow(invocation, looker, args, &shared);
        let shown = shown.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        followed.and(shown)
    })?;
    Ok(Exit::Yes)
}

/// Prints one look. The rows that do not match the filter are left out of the document,
/// too.
pub(super) fn print_once(
    invocation: &mut Invocation<'_>,
    args: &TopArgs,
    look: Look,
) -> Result<Exit, Failure> {
    let is_unknown = !look.node.complete;
    let Look { observation, node, audit, remark, .. } = look;
    let mut matrix = saved::matrix(&node.payload, &audit, invocation.style.all);
    let (gpus, gpus_unread) = (node.payload.gpus, node.payload.gpus_unread);
    let filter = Filter::new(&args.filter, &matrix, &gpus);
    let shown = rows(&matrix, Choice { filter: &filter, order: args.sort, open: None });
    let all = std::mem::take(&mut matrix.rows);
    matrix.rows = shown.iter().filter_map(|row| all.get(*row).cloned()).collect();
    let how = MatrixStyle { ascii: args.ascii, processes: invocation.style.all };
    let payload = MatrixAnswer { gpus, gpus_unread, findings: audit.findings, matrix };
    let remarks: Vec<_> = remark.into_iter().collect();
    let exit = invocation.answer_about(&observation, payload, is_unknown, |out, style, payload| {
        render::matrix(out, style, how, payload)
    })?;
    if !remarks.is_empty() {
        invocation.problems(&remarks)?;
    }
    Ok(exit)
}
