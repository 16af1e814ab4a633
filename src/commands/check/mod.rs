//! `gpumap check`: one verdict for each device, streamed from standard input if asked. The
//! verdicts come of a decoded policy, or with `--self` of the kernel, which is asked what
//! gpumap itself may open.

mod oracle;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io::{BufRead, BufReader, Read, Write as _};
use std::os::unix::ffi::OsStrExt as _;

use super::invocation::late;
use crate::cli::device::{DeviceArgument, GRAMMAR};
use crate::cli::{CheckArgs, Exit, device};
use crate::commands::invocation::envelope::{Head, Tail};
use crate::commands::invocation::{Failure, Invocation, envelope};
use crate::model::{ProblemCode, Verdicts};
use crate::observation::Problem;
use crate::render;
use crate::render::json::StreamedDocument;
use crate::render::sanitize;
use crate::report::Check;
use oracle::{INSTEAD, Oracle};

pub(super) use oracle::of_path as own_access;

/// Longest line read from standard input; the rest of it is thrown away.
const LINE: u64 = 4096;
/// Bad lines and reasons that are printed on standard error.
const SHOWN: usize = 16;
/// Bad lines in `errors` of the JSON; each also has its answer in `checks`.
const LISTED: usize = 1000;

/// Runs the command.
pub(super) fn run(invocation: &mut Invocation<'_>, args: &CheckArgs) -> Result<Exit, Failure> {
    for device in args.devices.iter().filter(|device| *device != "-") {
        device::parse(device.as_bytes()).map_err(|why| Failure::device(device.as_bytes(), why))?;
    }
    let oracle = Oracle::new(invocation, args)?;
    for device in args.devices.iter().filter(|device| *device != "-") {
        let why = device::parse(device.as_bytes()).ok().and_then(|asked| oracle.refuses(&asked));
        if let Some(why) = why {
            return Err(Failure::new(ProblemCode::BadDevice, quoted(device.as_bytes()), why.to_string(), ""));
        }
    }
    let mut checking = Checking::new(invocation, oracle);
    checking.begin()?;
    let asked = args.devices.iter().try_for_each(|device| checking.argument(device));
    checking.finish(asked)
}

struct Checking<'s, 'a> {
    invocation: &'s mut Invocation<'a>,
    oracle: Oracle,
    words: Words,
    line: Vec<u8>,
    stream: StreamedDocument,
    bad: Vec<Problem>,
    bad_lines: usize,
    has_unknown: bool,
    /// Devices by the reason that they have in common, and how many were looked at for that.
    reasons: BTreeMap<String, Vec<String>>,
    told: usize,
    exit: Exit,
}

impl<'s, 'a> Checking<'s, 'a> {
    fn new(invocation: &'s mut Invocation<'a>, oracle: Oracle) -> Self {
        let words = Words::new(invocation.style);
        let (line, stream, bad) = (Vec::new(), StreamedDocument::default(), Vec::new());
        let (bad_lines, has_unknown, reasons, told, exit) = (0, false, BTreeMap::new(), 0, Exit::Yes);
        Self { invocation, oracle, words, line, stream, bad, bad_lines, has_unknown, reasons, told, exit }
    }

    /// Begins the document, which is written as the answers come: a million of
    /// them is not kept.
    fn begin(&mut self) -> Result<(), Failure> {
        if self.invocation.global.json {
            let blank = envelope::blank();
            let observation = self.oracle.observation().unwrap_or(&blank);
            let head = Head::new(self.invocation.command, observation);
            self.stream.begin(self.invocation.out, &head, "checks")?;
            self.invocation.is_open = true;
        }
        Ok(())
    }

    fn add(&mut self, check: &Check) -> Result<(), Failure> {
        Ok(self.stream.element(self.invocation.out, check)?)
    }

    fn argument(&mut self, device: &OsString) -> Result<(), Failure> {
        if device == "-" { self.stream() } else { self.one(device.as_bytes()) }
    }

    /// Answers standard input line by line. Answers are handed on whenever the
    /// next line is not there yet, so that a program can talk with gpumap. If nobody
    /// reads them any more, the rest of the input is not asked about.
    fn stream(&mut self) -> Result<(), Failure> {
        let mut input = BufReader::with_capacity(1 << 16, self.invocation.stdin()?);
        let mut line = Vec::new();
        loop {
            if input.buffer().is_empty() {
                self.invocation.out.flush()?;
            }
            if !self.invocation.out.has_reader() {
                self.exit = self.exit.worst(Exit::Incomplete);
                return Ok(());
            }
            line.clear();
            if input.by_ref().take(LINE).read_until(b'\n', &mut line).map_err(stdin)? == 0 {
                return Ok(());
            }
            if line.pop_if(|last| *last == b'\n').is_none() && line.len() as u64 == LINE {
                input.skip_until(b'\n').map_err(stdin)?;
            }
            if !line.is_empty() {
                self.one(&line)?;
            }
        }
    }

    fn one(&mut self, text: &[u8]) -> Result<(), Failure> {
        match device::parse(text) {
            Ok(asked) => match self.oracle.refuses(&asked) {
                Some(why) => self.bad_line(text, &why.to_string()),
                None => self.device(&asked, text),
            },
            Err(why) => self.bad_line(text, &why.to_string()),
        }
    }

    fn device(&mut self, asked: &DeviceArgument<'_>, text: &[u8]) -> Result<(), Failure> {
        let verdict = if self.invocation.global.json {
            let device = String::from_utf8_lossy(text).into_owned();
            let (verdict, why) = self.oracle.answer(asked, &device);
            self.add(&Check { device, verdict, why })?;
            verdict
        } else {
            let verdict = self.oracle.verdict(asked);
            self.print(verdict, text, !matches!(asked, DeviceArgument::Numbers(_)))?;
            self.note_reason(verdict, asked, text);
            verdict
        };
        self.has_unknown |= verdict == Verdicts::Unknown;
        self.exit = self.exit.worst(exit(verdict));
        Ok(())
    }

    /// A line that is no device: unknown, so that lines in and lines out stay
    /// in step, and an error.
    fn bad_line(&mut self, text: &[u8], why: &str) -> Result<(), Failure> {
        let device = String::from_utf8_lossy(text).into_owned();
        let problem = Problem {
            code: ProblemCode::BadDevice,
            what: format!("'{device}'"),
            why: why.to_owned(),
            needs: GRAMMAR.to_owned(),
        };
        self.exit = Exit::Failed;
        self.bad_lines += 1;
        if self.invocation.global.json {
            let why = Some(why.to_owned());
            self.add(&Check { device, verdict: Verdicts::Unknown, why })?;
            if self.bad.len() < LISTED {
                self.bad.push(problem);
            }
            return Ok(());
        }
        self.print(Verdicts::Unknown, text, true)?;
        if self.bad_lines <= SHOWN {
            writeln!(self.invocation.err, "gpumap: {}", render::problem(&problem))?;
        }
        Ok(())
    }

    /// One line of output. What parsed as numbers is plain text already.
    fn print(&mut self, verdict: Verdicts, text: &[u8], is_free_text: bool) -> Result<(), Failure> {
        self.line.clear();
        self.line.extend_from_slice(self.words.get(verdict).as_bytes());
        self.line.push(b'\t');
        if is_free_text {
            self.line.extend_from_slice(sanitize::bytes(text).as_bytes());
        } else {
            self.line.extend_from_slice(text);
        }
        self.line.push(b'\n');
        Ok(self.invocation.out.write_all(&self.line)?)
    }

    /// Collects why something is unknown, and with -v why it is mixed; each
    /// reason once, and no more once there are many.
    fn note_reason(&mut self, verdict: Verdicts, asked: &DeviceArgument<'_>, text: &[u8]) {
        let is_wanted = match verdict {
            Verdicts::Unknown => true,
            _ => self.invocation.global.verbose > 0 && verdict != Verdicts::Allow,
        };
        if is_wanted && self.told < SHOWN {
            self.told += 1;
            let text = String::from_utf8_lossy(text);
            if let (_, Some(why)) = self.oracle.answer(asked, &text) {
                self.reasons.entry(why).or_default().push(text.into_owned());
            }
        }
    }

    /// Tells the reasons, and that there are more if there may be.
    fn tell(&mut self) -> Result<(), Failure> {
        if let Some(more) = self.bad_lines.checked_sub(SHOWN).filter(|more| *more > 0) {
            writeln!(self.invocation.err, "gpumap: … and {more} more lines that are not devices")?;
        }
        for (why, devices) in &self.reasons {
            let devices = devices.join(", ");
            writeln!(self.invocation.err, "gpumap: {}: {}", sanitize::text(&devices), sanitize::text(why))?;
        }
        if matches!(self.oracle, Oracle::Kernel { is_instead: true, .. }) {
            writeln!(self.invocation.err, "gpumap: {INSTEAD}")?;
        }
        if self.told == SHOWN {
            writeln!(self.invocation.err, "gpumap: … there may be more reasons (--json lists all)")?;
        }
        Ok(())
    }

    fn finish(mut self, asked: Result<(), Failure>) -> Result<Exit, Failure> {
        let mut errors = self.oracle.observation().map(|seen| seen.errors.clone()).unwrap_or_default();
        if self.invocation.decoding.was_missed() {
            errors.push(late());
        }
        if self.invocation.global.json {
            self.end(errors, asked)?;
            return Ok(self.exit);
        }
        asked?;
        self.invocation.out.flush()?;
        self.tell()?;
        if self.exit != Exit::Yes || self.invocation.global.verbose > 0 {
            self.invocation.problems(&errors)?;
        }
        Ok(self.exit)
    }

    /// Ends the document, also where the input ended in an error.
    fn end(&mut self, mut errors: Vec<Problem>, asked: Result<(), Failure>) -> Result<(), Failure> {
        errors.append(&mut self.bad);
        if self.bad_lines > LISTED {
            errors.push(Problem {
                code: ProblemCode::BadDevice,
                what: format!("{} more lines", self.bad_lines - LISTED),
                why: "are no devices".to_owned(),
                needs: GRAMMAR.to_owned(),
            });
        }
        match asked {
            Err(Failure::Problem(problem)) => {
                writeln!(self.invocation.err, "gpumap: {}", render::problem(&problem))?;
                errors.push(*problem);
                self.exit = Exit::Failed;
            }
            other => other?,
        }
        let complete = errors.is_empty() && !self.has_unknown;
        render::json::end(self.invocation.out, &Tail { complete, errors: &errors })?;
        self.invocation.is_open = false;
        Ok(())
    }
}

/// The four words, coloured once and not once a line.
struct Words([String; 4]);

impl Words {
    fn new(style: render::Style) -> Self {
        Self(["allow", "deny", "unknown", "mixed"].map(|word| style.verdict(word).into_owned()))
    }

    fn get(&self, verdict: Verdicts) -> &str {
        let [allow, deny, unknown, mixed] = &self.0;
        match verdict {
            Verdicts::Allow => allow,
            Verdicts::Deny => deny,
            Verdicts::Unknown => unknown,
            Verdicts::Mixed => mixed,
        }
    }
}

fn exit(verdict: Verdicts) -> Exit {
    match verdict {
        Verdicts::Allow => Exit::Yes,
        Verdicts::Deny | Verdicts::Mixed => Exit::No,
        Verdicts::Unknown => Exit::Incomplete,
    }
}

fn quoted(device: &[u8]) -> String {
    format!("'{}'", String::from_utf8_lossy(device))
}

fn stdin(error: std::io::Error) -> Failure {
    Failure::new(ProblemCode::File, "standard input", error.to_string(), "")
}
