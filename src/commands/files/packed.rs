//! Unpacks saved observations: those packed by gzip, and those inside of the HTML file that
//! `gpumap report` wrote.

use std::io::{self, ErrorKind, Read};
use std::path::Path;
use std::time::Instant;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use flate2::read::MultiGzDecoder;

use crate::commands::invocation::{Failure, Invocation};
use crate::model::ProblemCode;
use crate::observation::Weight;

/// The first bytes of what gzip packed.
const GZIP: [u8; 2] = [0x1f, 0x8b];
/// How a page of gpumap begins, and what stands before the observation in it.
const PAGE: &[u8] = b"<!DOCTYPE html>";
const BEFORE: &[u8] = b"id=\"observation\"";
const DATA: &[u8] = b"data:application/gzip;base64,";
/// The largest document that is unpacked, as large as a file may be, and how many times
/// its size a file may unpack to. One of less than that is no burden.
const LIMIT: usize = 256 << 20;
const RATIO: usize = 400;
const LIGHT: usize = 16 << 20;
/// The most bytes of one read.
const PIECE: usize = 1 << 16;

/// Why a document is refused before anything is made of it.
pub(super) const TOO_MANY_PARTS: &str = "it has more parts than an observation of a node";
/// Said where the time was over.
const TOO_LATE: &str = "the time limit was reached before it was unpacked";

/// Why a packed document is not unpacked.
#[derive(Debug, PartialEq, Eq)]
enum Unusable {
    TooLate,
    TooLarge(String),
    Damaged(String),
}

/// Reads a file that may hold an observation, and takes its JSON out.
pub(crate) fn read_unpacked(invocation: &mut Invocation<'_>, path: &Path) -> Result<Vec<u8>, Failure> {
    let bytes = super::read(invocation, path)?;
    unpack(bytes, invocation.deadline()).map_err(|why| {
        let needs = "name a file that gpumap snapshot or gpumap report wrote";
        let (code, why, needs) = match why {
            Unusable::TooLate => (ProblemCode::Timeout, TOO_LATE.to_owned(), "a larger --timeout"),
            Unusable::TooLarge(why) => (ProblemCode::TooLarge, why, needs),
            Unusable::Damaged(why) => (ProblemCode::BadObservation, why, needs),
        };
        Failure::new(code, super::name(path), why, needs)
    })
}

/// The document in these bytes; what is not packed is returned as it is.
fn unpack(bytes: Vec<u8>, until: Option<Instant>) -> Result<Vec<u8>, Unusable> {
    if bytes.starts_with(&GZIP) {
        return gunzip(&bytes, until);
    }
    if !bytes.get(..PAGE.len()).is_some_and(|start| start.eq_ignore_ascii_case(PAGE)) {
        return Ok(bytes);
    }
    let none = || Unusable::Damaged("an HTML file without an observation in it".to_owned());
    let rest = after(&bytes, BEFORE).and_then(|rest| after(rest, DATA)).ok_or_else(none)?;
    let end = rest.iter().position(|byte| *byte == b'"').ok_or_else(none)?;
    let packed = STANDARD.decode(rest.get(..end).unwrap_or_default());
    let damaged = |error| Unusable::Damaged(format!("the observation in it is damaged: {error}"));
    gunzip(&packed.map_err(damaged)?, until)
}

fn after<'a>(bytes: &'a [u8], mark: &[u8]) -> Option<&'a [u8]> {
    let at = memchr::memmem::find(bytes, mark)?;
    bytes.get(at + mark.len()..)
}

/// Unpacks piece by piece, so that a document that is too large costs no more than what it
/// may have.
fn gunzip(packed: &[u8], until: Option<Instant>) -> Result<Vec<u8>, Unusable> {
    let limit = packed.len().saturating_mul(RATIO).clamp(LIGHT, LIMIT);
    let (mut reader, mut piece) = (MultiGzDecoder::new(packed), vec![0; PIECE]);
    let (mut bytes, mut weight) = (Vec::new(), Weight::default());
    loop {
        if until.is_some_and(|until| Instant::now() >= until) {
            return Err(Unusable::TooLate);
        }
        let read = match reader.read(&mut piece) {
            Ok(0) => return Ok(bytes),
            Ok(count) => piece.get(..count).unwrap_or_default(),
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            Err(error) => return Err(damaged(&error)),
        };
        bytes.extend_from_slice(read);
        weight.add(read);
        if bytes.len() > limit {
            let why = format!("it unpacks to more than {} MiB, or {RATIO} times its size", limit >> 20);
            return Err(Unusable::TooLarge(why));
        }
        if weight.is_too_large() {
            return Err(Unusable::TooLarge(TOO_MANY_PARTS.to_owned()));
        }
    }
}

fn damaged(error: &io::Error) -> Unusable {
    Unusable::Damaged(format!("what gzip packed is damaged: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write as _;

    fn packed(text: &[u8]) -> Vec<u8> {
        let mut packer = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
        packer.write_all(text).unwrap();
        packer.finish().unwrap()
    }

    /// Make sure that every form gives the document, and that damage is an error.
    #[test]
    fn forms() {
        let text = b"{\"schema\":1}".to_vec();
        let unpack = |bytes| super::unpack(bytes, None);
        assert_eq!(unpack(text.clone()).unwrap(), text);
        assert_eq!(unpack(packed(&text)).unwrap(), text);
        let page = |data: &str| {
            format!("<!DOCTYPE html><a id=\"observation\" href=\"data:application/gzip;base64,{data}\">")
                .into_bytes()
        };
        assert_eq!(unpack(page(&STANDARD.encode(packed(&text)))).unwrap(), text);
        for bad in [page("%%%"), page(""), b"<!doctype html>".to_vec(), packed(&text)[..9].to_vec()] {
            assert!(unpack(bad).is_err());
        }
    }

    /// Make sure that a small file that unpacks to much is refused before it has taken much,
    /// and that the time limit is kept.
    #[test]
    fn bombs() {
        let blank = packed(&vec![b' '; 4 * LIGHT]);
        assert!(matches!(unpack(blank, None), Err(Unusable::TooLarge(why)) if why.contains("400 times")));
        let rows = packed(format!("{{\"a\":[{}]}}", "{},".repeat(1 << 20)).as_bytes());
        let parts = Unusable::TooLarge(TOO_MANY_PARTS.to_owned());
        assert_eq!(unpack(rows, None), Err(parts));
        assert_eq!(unpack(packed(b"{}"), Some(Instant::now())), Err(Unusable::TooLate));
    }
}
