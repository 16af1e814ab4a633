//! The inputs of `gpumap fleet`: files, directories and standard input, packed by
//! gzip or not.
//!
//! A file that cannot be read is reported and the others are read all the same: one
//! broken file of a thousand must not hide the rest.

use std::cell::Cell;
use std::io::{self, BufRead, BufReader, ErrorKind, Read};
use std::os::unix::fs::FileTypeExt as _;
use std::path::Path;
use std::time::Instant;

use flate2::bufread::MultiGzDecoder;
use nix::errno::Errno;
use walkdir::WalkDir;

use crate::commands::files;
use crate::commands::invocation::streams::Input;
use crate::commands::invocation::{Failure, Invocation};
use crate::fleet::{Gatherer, Sink, Stream};
use crate::sys::dir::open_readable;

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
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
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
        loop {
            match self.input.wait(self.until).and_then(|()| self.input.read(bytes)) {
                Ok(count) => {
                    self.count.set(self.count.get() + count as u64);
                    return Ok(count);
                }
                Err(error) if matches!(error.kind(), ErrorKind::Interrupted | ErrorKind::WouldBlock) => {}
                Err(error) => return Err(error),
            }
        }
    }
}
