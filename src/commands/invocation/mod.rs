//! One run of one subcommand: the global options, the standard streams, and how
//! an answer or a failure is printed.

pub(crate) mod cgroup_paths;
pub(crate) mod envelope;
pub(crate) mod failure;
pub(crate) mod streams;
pub(crate) mod usage;

pub use failure::Failure;

use std::collections::BTreeMap;
use std::io::{self, IsTerminal as _, Write};
use std::path::Path;
use std::time::Instant;

use streams::Input;
use streams::Output;

use crate::analyse::CommandAnswer;
use crate::cli::{Color, Exit, Global};
use crate::model::ProblemCode;
use crate::observation::{Observation, Problem};
use crate::observe;
use crate::policy::TimeLimit;
use crate::render::{self, Style, Wrapping};
use crate::report::{Document, NodeAnswer, Policy};
use crate::sys::retry::again;

/// One run of one command.
pub struct Invocation<'a> {
    /// The global options.
    pub global: &'a Global,
    /// The command's name.
    pub command: &'static str,
    /// The layout of text.
    pub style: Style,
    /// The answer.
    pub out: &'a mut Output<'a>,
    /// Standard error.
    pub err: &'a mut dyn Write,
    /// The facts to observe.
    pub wanted_facts: WantedFacts,
    /// Whether a JSON document is unfinished whose list is written entry by entry.
    pub(crate) is_open: bool,
    /// The time limit of decoding; none until somebody sets it.
    pub(crate) decoding: TimeLimit,
    start: Instant,
    stdin: Option<&'a mut dyn Input>,
}

/// The facts that a command needs, besides cgroups and programs.
#[derive(Clone, Debug, Default)]
pub struct WantedFacts {
    /// What processes ask for and hold.
    pub detail: bool,
    /// Slurm's hook environment, in gpumap's own.
    pub hook: bool,
    /// Names of the users of processes whose details are not wanted.
    pub users: bool,
    /// What systemd's unit files say about devices.
    pub units: bool,
    /// What Slurm's files say, without the details of processes.
    pub slurm: bool,
    /// What files of container runtimes say about devices.
    pub containers: bool,
}

/// Prints a payload for people.
pub(crate) type View = fn(&mut dyn Write, Style, &NodeAnswer) -> io::Result<()>;

impl<'a> Invocation<'a> {
    /// An invocation that has read nothing yet; the time limit starts now.
    pub fn new(
        global: &'a Global,
        command: &'static str,
        style: Style,
        out: &'a mut Output<'a>,
        stdin: &'a mut dyn Input,
        err: &'a mut dyn Write,
    ) -> Self {
        let (wanted_facts, decoding) = (WantedFacts::default(), TimeLimit::default());
        let (is_open, start, stdin) = (false, Instant::now(), Some(stdin));
        Self { global, command, style, out, err, wanted_facts, is_open, decoding, start, stdin }
    }

    /// Lets the time limit start again: for a command that looks again and again.
    pub fn begin_again(&mut self) {
        self.start = Instant::now();
        self.limit_decoding();
    }

    /// Sets the time limit of decoding: a quarter of the whole limit after observing,
    /// so that facts that were seen last can still be decoded.
    pub fn limit_decoding(&mut self) {
        let quarter = self.global.timeout.map(|timeout| timeout / 4);
        let until = self.deadline().zip(quarter);
        self.decoding = TimeLimit::at(until.and_then(|(observed, quarter)| observed.checked_add(quarter)));
    }

    /// When to stop looking.
    pub fn deadline(&self) -> Option<Instant> {
        self.start.checked_add(self.global.timeout?)
    }

    /// Where to observe, and until when.
    pub fn options(&self) -> observe::Options {
        observe::Options {
            cgroup_root: self.global.cgroup_root.clone(),
            proc: self.global.proc.clone(),
            gpu_root: self.global.gpu_root.clone(),
            mig_list: self.global.mig_list.clone(),
            deadline: self.deadline(),
            detail: self.wanted_facts.detail,
            gres_conf: self.global.gres_conf.clone(),
            hook: self.wanted_facts.hook,
            users: self.wanted_facts.users,
            units: self.wanted_facts.units,
            slurm: self.wanted_facts.slurm,
            containers: self.wanted_facts.containers,
            ..observe::Options::default()
        }
    }

    /// Refuses a `--gpu-root` that does not exist: its answer would look like that
    /// of a node without GPUs.
    pub fn check_roots(&self) -> Result<(), Failure> {
        let root = &self.global.gpu_root;
        if self.global.from.is_some() || root == Path::new("/") {
            return Ok(());
        }
        let bad = |why: &str| {
            let needs = "name the directory that holds the proc, sys and dev of the node";
            Err(Failure::new(
                ProblemCode::Usage,
                format!("--gpu-root {}", root.to_string_lossy()),
                why,
                needs,
            ))
        };
        match again(|| root.metadata()) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => bad("there is no such directory"),
            Err(error) => bad(&format!("it cannot be looked at: {error}")),
            Ok(metadata) if !metadata.is_dir() => bad("it is not a directory"),
            Ok(_) if !["proc", "sys", "dev"].iter().any(|name| root.join(name).is_dir()) => {
                bad("it holds no proc, sys or dev")
            }
            Ok(_) => Ok(()),
        }
    }

    /// Standard input, for the one option that may read it.
    pub fn stdin(&mut self) -> Result<&'a mut dyn Input, Failure> {
        self.stdin.take().ok_or_else(|| {
            Failure::new(
                ProblemCode::Usage,
                "standard input",
                "asked for twice",
                "use a file for one of the two",
            )
        })
    }

    /// Prints the answer, as JSON or through `view`, and says whether it is
    /// complete.
    pub fn answer<T: CommandAnswer>(
        &mut self,
        observation: &Observation,
        payload: T,
        view: impl FnOnce(&mut dyn Write, Style, &T) -> io::Result<()>,
    ) -> Result<Exit, Failure> {
        self.answer_about(observation, payload, false, view)
    }

    /// The same for an answer that does not show all that is unknown: `is_unknown`
    /// says whether there is more.
    pub fn answer_about<T: CommandAnswer>(
        &mut self,
        observation: &Observation,
        payload: T,
        is_unknown: bool,
        view: impl FnOnce(&mut dyn Write, Style, &T) -> io::Result<()>,
    ) -> Result<Exit, Failure> {
        let mut document = envelope::document(self.command, observation, payload);
        document.complete &= !is_unknown;
        self.settle(&mut document);
        if self.global.json {
            render::json::write(self.out, &document)?;
        } else {
            let style = Style { all_seen: observation.errors.is_empty(), ..self.style };
            view(self.out, style, &document.payload)?;
            self.out.flush()?;
            self.problems(&document.errors)?;
        }
        let complete = document.complete;
        // The process is about to end: a large answer is not taken apart first.
        std::mem::forget(document);
        Ok(if complete { Exit::Yes } else { Exit::Incomplete })
    }

    /// Adds what was not decoded in time and what has no short rules to the problems.
    pub(crate) fn settle<T: CommandAnswer>(&self, document: &mut Document<T>) {
        let late = self.decoding.was_missed().then(late).filter(|late| !document.errors.contains(late));
        let found: Vec<Problem> = late.into_iter().chain(left_out(document.payload.policies())).collect();
        document.complete &= found.is_empty();
        document.errors.extend(found);
    }

    /// Prints the problems.
    pub fn problems(&mut self, problems: &[Problem]) -> Result<(), Failure> {
        render::problems(self.err, problems, self.global.verbose > 0)?;
        let mut missing = problems.iter().filter(|problem| problem.code == ProblemCode::NoRight);
        let is_saved = self.global.from.is_some();
        // Advice to run as root would not help where root itself saved the file.
        if missing.any(|problem| !is_saved || !problem.needs.is_empty()) {
            self.say_what_to_do()?;
        }
        Ok(())
    }

    /// Without root the way out is one line, whatever rights are missing.
    fn say_what_to_do(&mut self) -> io::Result<()> {
        let line = match (&self.global.from, observe::is_root()) {
            (Some(_), _) => "the observation was saved without the right to see all of it: save it as root",
            (None, false) => {
                "run as root to see what is missing; gpumap check --self DEVICE asks the kernel what you \
                 yourself may open"
            }
            (None, true) if observe::is_in_user_namespace() => {
                "run as root of the node, outside of this user namespace (container), to see what is missing"
            }
            (None, true) => return Ok(()),
        };
        writeln!(self.err, "gpumap: {line}")
    }

    /// Ends the invocation without an answer. If standard error fails too, errors of
    /// writing are dropped.
    pub fn fail(&mut self, failure: &Failure) -> Exit {
        match failure {
            Failure::Output(error) if error.kind() == io::ErrorKind::BrokenPipe => return Exit::Yes,
            Failure::Output(error) => {
                let _nobody_left = writeln!(self.err, "gpumap: standard output: {error}");
            }
            Failure::Problem(problem) => {
                let _nobody_left = self.tell(problem);
            }
        }
        Exit::Failed
    }

    /// Prints the problem that ended the command. If part of a JSON document is out
    /// already, only its end can follow.
    fn tell(&mut self, problem: &Problem) -> io::Result<()> {
        let is_free = self.is_open || !self.global.json || self.out.take_back_line();
        self.out.flush()?;
        writeln!(self.err, "gpumap: {}", render::problem(problem))?;
        if problem.code == ProblemCode::NoRight && self.global.from.is_none() {
            self.say_what_to_do()?;
        }
        if self.is_open {
            let errors = std::slice::from_ref(problem);
            render::json::end(self.out, &envelope::Tail { complete: false, errors })?;
        } else if self.global.json && is_free {
            render::json::write(self.out, &envelope::failed(self.command, problem))?;
        }
        self.out.flush()
    }
}

/// The problem of a policy without a short form, whose rules are not all listed.
fn left_out(policies: Option<&BTreeMap<String, Policy>>) -> Option<Problem> {
    let is_cut = |policy: &&Policy| policy.omitted.is_some();
    let count = policies.into_iter().flat_map(BTreeMap::values).filter(is_cut).count();
    (count > 0).then(|| Problem {
        code: ProblemCode::RulesLeftOut,
        what: format!("{count} of the policies"),
        why: "no short rules describe them, so that not all of their rules are shown".to_owned(),
        needs: "ask about one device with gpumap check".to_owned(),
    })
}

/// The problem of decoding that had to stop for `--timeout`.
pub(crate) fn late() -> Problem {
    Problem {
        code: ProblemCode::Timeout,
        what: "policies".to_owned(),
        why: "the time limit was reached, the rest was not decoded".to_owned(),
        needs: "give it more time with --timeout".to_owned(),
    }
}

/// The narrowest and the widest table: a terminal's size is whatever somebody set.
const NARROWEST: u16 = 80;
const WIDEST: u16 = 1000;

/// Standard error, wrapped to the width of its terminal.
pub(crate) fn standard_error() -> Wrapping<io::Stderr> {
    let err = io::stderr();
    let size = if err.is_terminal() { terminal_size::terminal_size_of(&err) } else { None };
    let width = size.map(|(width, _)| usize::from(width.0.clamp(NARROWEST, WIDEST)));
    Wrapping::new(err, width)
}

/// The style that standard output, `--color` and `-v` call for.
pub(crate) fn style(color: Color, all: bool) -> Style {
    let stdout = io::stdout();
    let color = match color {
        Color::Always => true,
        Color::Never => false,
        Color::Auto => anstream::AutoStream::choice(&stdout) != anstream::ColorChoice::Never,
    };
    let width = if stdout.is_terminal() { terminal_size::terminal_size_of(&stdout) } else { None };
    Style {
        width: width.map_or(80, |(width, _)| width.0.clamp(NARROWEST, WIDEST)),
        color,
        all,
        ..Style::default()
    }
}
