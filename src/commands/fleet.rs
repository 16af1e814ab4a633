//! `gpumap fleet`: one report over the documents of many nodes, which are files, directories
//! and standard input, packed by gzip or not.
//!
//! A file that cannot be read is reported and the others are read all the same: one broken
//! file of a thousand must not hide the rest.

use std::cell::Cell;
use std::io::{self, BufRead, BufReader, ErrorKind, Read};
use std::os::unix::fs::FileTypeExt as _;
use std::path::Path;
use std::time::Instant;

use flate2::bufread::MultiGzDecoder;
use nix::errno::Errno;
use walkdir::WalkDir;

use super::files;
use super::invocation::streams::Input;
use super::invocation::{Failure, Invocation, envelope};
use crate::cli::{Exit, FleetArgs};
use crate::fleet::{self, Baseline, FleetQuestion, Gatherer, Sink, Stream};
use crate::model::ProblemCode;
use crate::render;
use crate::report::FleetAnswer;
use crate::slurm_conf::host_names;
use crate::sys::dir::open_readable;

/// Runs the command.
pub(super) fn run(invocation: &mut Invocation<'_>, args: &FleetArgs) -> Result<Exit, Failure> {
    if invocation.global.from.is_some() {
        let needs = "name the file after the command: gpumap fleet FILE";
        return Err(Failure::new(ProblemCode::Usage, "--from", "fleet reads many files", needs));
    }
    let question = FleetQuestion {
        expected: expected(invocation, args)?,
        baseline: baseline(invocation, args.baseline.as_deref())?,
        fail_on: args.fail_on,
    };
    let gatherer = if args.html.is_some() { Gatherer::for_page() } else { Gatherer::default() };
    let mut gatherer = gatherer.at(jiff::Timestamp::now());
    gatherer.set_limit(&invocation.decoding);
    for path in &args.inputs {
        read(invocation, path, &mut gatherer)?;
    }
    let mut observation = envelope::blank();
    let report = match &args.html {
        None => {
            let (report, problems) = fleet::report(gatherer, &question);
            observation.errors = problems;
            report
        }
        Some(path) => {
            let (page, problems) = fleet::page(gatherer, &question);
            observation.errors = problems;
            let problems: Vec<String> = observation.errors.iter().map(render::problem).collect();
            let mut html = Vec::new();
            render::fleet_page(&mut html, &page, &problems)?;
            files::save_bytes(path, &html)?;
            page.fleet
        }
    };
    let failed = report.failed;
    let answer = FleetAnswer { fleet: report };
    let seen = invocation.answer(&observation, answer, render::fleet)?;
    Ok(if failed { Exit::No } else { seen })
}

/// The nodes that should have answered.
fn expected(invocation: &mut Invocation<'_>, args: &FleetArgs) -> Result<Option<Vec<String>>, Failure> {
    let bad = |what: String, why: String| {
        Failure::new(ProblemCode::Usage, what, why, "write names or host lists, such as gpu[01-64],login1")
    };
    let mut names = None;
    if let Some(list) = &args.expect {
        names = Some(host_names(list).map_err(|why| bad("--expect".to_owned(), why))?);
    }
    if let Some(path) = &args.expect_file {
        let text = files::read(invocation, path)?;
        let text = String::from_utf8_lossy(&text);
        let words = text.lines().filter_map(|line| line.split('#').next()).flat_map(str::split_whitespace);
        let names = names.get_or_insert_with(Vec::new);
        for word in words {
            names.extend(host_names(word).map_err(|why| bad(files::name(path), why))?);
        }
    }
    Ok(names)
}

fn baseline(invocation: &mut Invocation<'_>, path: Option<&Path>) -> Result<Baseline, Failure> {
    let Some(path) = path else { return Ok(Baseline::default()) };
    let bytes = files::read(invocation, path)?;
    let needs = "save one with gpumap fleet --json > FILE";
    Baseline::read(&bytes)
        .map_err(|error| Failure::new(ProblemCode::BadBaseline, files::name(path), error.to_string(), needs))
}

/// The most bytes of one read.
const PIECE: usize = 1 << 18;

/// The first bytes of what gzip packed.
const GZIP: [u8; 2] = [0x1f, 0x8b];

/// Levels of directories.
const DEPTH: usize = 16;

/// What a packed input may unpack to, whatever its size.
const UNPACKED: u64 = 256 << 20;

/// Beyond that, how many times its size it may unpack to. Documents of many alike
/// nodes are packed a hundredfold.
const RATIO: u64 = 400;

/// Reads an input that the caller named.
pub(super) fn read(
    invocation: &mut Invocation<'_>,
    path: &Path,
    gatherer: &mut Gatherer,
) -> Result<(), Failure> {
    let until = invocation.deadline();
    if path.as_os_str() == "-" {
        let stdin = invocation.stdin()?;
        source(stdin, until, &files::name(path), gatherer);
    } else if path.is_dir() {
        directory(path, until, gatherer);
    } else {
        // That a named file is not there is the caller's mistake.
        let mut found = open_readable(path).map_err(|error| Failure::file(path, &reason(error)))?;
        source(&mut found, until, &files::name(path), gatherer);
    }
    Ok(())
}

fn reason(error: Errno) -> io::Error {
    match error {
        Errno::EINVAL => io::Error::other("a device: gpumap opens none"),
        error => error.into(),
    }
}

/// The regular files of a directory and those below it, in the order of their names.
/// Names that begin with a dot are passed over: files that are being written.
fn directory(path: &Path, until: Option<Instant>, gatherer: &mut Gatherer) {
    let is_hidden = |name: &std::ffi::OsStr| name.as_encoded_bytes().starts_with(b".");
    let walk = WalkDir::new(path).max_depth(DEPTH).sort_by_file_name().into_iter();
    for entry in walk.filter_entry(|entry| entry.depth() == 0 || !is_hidden(entry.file_name())) {
        match entry {
            Ok(entry) if entry.file_type().is_file() => file(entry.path(), until, gatherer),
            Ok(entry) if entry.file_type().is_dir() => {}
            Ok(entry) => gatherer.refuse(&files::name(entry.path()), passed_over(entry.file_type())),
            Err(error) => {
                let place = error.path().unwrap_or(path).to_string_lossy().into_owned();
                let why = error.io_error().map_or_else(|| error.to_string(), ToString::to_string);
                gatherer.refuse(&place, &why);
            }
        }
    }
}

/// Why something in a directory is not read.
fn passed_over(kind: std::fs::FileType) -> &'static str {
    match () {
        () if kind.is_symlink() => {
            "a symbolic link: gpumap follows none in a directory; name the file itself"
        }
        () if kind.is_fifo() => "a FIFO: gpumap reads none in a directory",
        () if kind.is_socket() => "a socket",
        () => "a device: gpumap opens none",
    }
}

fn file(path: &Path, until: Option<Instant>, gatherer: &mut Gatherer) {
    let name = files::name(path);
    match open_readable(path) {
        Ok(mut file) => source(&mut file, until, &name, gatherer),
        Err(error) => gatherer.refuse(&name, &reason(error).to_string()),
    }
}

/// Reads an open input to its end.
fn source(input: &mut dyn Input, until: Option<Instant>, name: &str, gatherer: &mut Gatherer) {
    if let Err(error) = documents(input, until, name, gatherer) {
        let why = match error.kind() {
            ErrorKind::TimedOut => "the time limit was reached before it was read to its end".to_owned(),
            ErrorKind::UnexpectedEof => "what gzip packed is cut off".to_owned(),
            _ => error.to_string(),
        };
        gatherer.refuse(name, &why);
    }
}

fn documents(
    input: &mut dyn Input,
    until: Option<Instant>,
    name: &str,
    gatherer: &mut Gatherer,
) -> io::Result<()> {
    let packed = Cell::new(0);
    let mut reader = BufReader::with_capacity(PIECE, Patient { input, until, count: &packed });
    let is_packed = reader.fill_buf()?.starts_with(&GZIP);
    let mut stream = Stream::default();
    let mut sink = gatherer.input(name);
    let read = if is_packed {
        let mut reader = MultiGzDecoder::new(reader);
        pump(&mut reader, &mut stream, &mut sink, Some(&packed))
    } else {
        pump(&mut reader, &mut stream, &mut sink, None)
    };
    stream.finish(&mut sink);
    sink.finish();
    read
}

/// Reads all bytes into the stream. `packed` counts those that gzip packed.
fn pump(
    reader: &mut dyn Read,
    stream: &mut Stream,
    sink: &mut dyn Sink,
    packed: Option<&Cell<u64>>,
) -> io::Result<()> {
    let mut unpacked = 0_u64;
    loop {
        let count = match reader.read(stream.room(PIECE)) {
            Ok(0) => return Ok(()),
            Ok(count) => count,
            Err(error) => return Err(error),
        };
        stream.filled(count, sink);
        unpacked = unpacked.saturating_add(count as u64);
        if packed.is_some_and(|packed| unpacked > UNPACKED.max(packed.get().saturating_mul(RATIO))) {
            return Err(io::Error::other(format!("it unpacks to more than {RATIO} times its size")));
        }
    }
}

/// An input that is waited for until the time limit, and whose bytes are counted.
struct Patient<'a> {
    input: &'a mut dyn Input,
    until: Option<Instant>,
    count: &'a Cell<u64>,
}

impl Read for Patient<'_> {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        if self.until.is_some_and(|until| Instant::now() > until) {
            return Err(ErrorKind::TimedOut.into());
        }
        let count = self.input.read_when_there(self.until, bytes)?;
        self.count.set(self.count.get() + count as u64);
        Ok(count)
    }
}
