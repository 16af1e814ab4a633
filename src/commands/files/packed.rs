//! Unpacks saved observations: those packed by gzip, and those inside of the HTML file that
//! `gpumap report` wrote.

use std::io::Read as _;
use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use flate2::read::MultiGzDecoder;

use crate::commands::invocation::{Failure, Invocation};
use crate::model::ProblemCode;

/// The first bytes of what gzip packed.
const GZIP: [u8; 2] = [0x1f, 0x8b];
/// How a page of gpumap begins, and what stands before the observation in it.
const PAGE: &[u8] = b"<!DOCTYPE html>";
const BEFORE: &[u8] = b"id=\"observation\"";
const DATA: &[u8] = b"data:application/gzip;base64,";
/// The largest document that is unpacked, as large as a file may be.
const LIMIT: u64 = 256 << 20;

/// Reads a file that may hold an observation, and takes its JSON out.
pub(crate) fn read_unpacked(invocation: &mut Invocation<'_>, path: &Path) -> Result<Vec<u8>, Failure> {
    let bytes = super::read(invocation, path)?;
    unpack(bytes).map_err(|why| {
        let needs = "name a file that gpumap snapshot or gpumap report wrote";
        Failure::new(ProblemCode::BadObservation, super::name(path), why, needs)
    })
}

/// The document in these bytes; what is not packed is returned as it is.
pub(crate) fn unpack(bytes: Vec<u8>) -> Result<Vec<u8>, String> {
    if bytes.starts_with(&GZIP) {
        return gunzip(&bytes);
    }
    if !bytes.get(..PAGE.len()).is_some_and(|start| start.eq_ignore_ascii_case(PAGE)) {
        return Ok(bytes);
    }
    let none = || "an HTML file without an observation in it".to_owned();
    let rest = after(&bytes, BEFORE).and_then(|rest| after(rest, DATA)).ok_or_else(none)?;
    let end = rest.iter().position(|byte| *byte == b'"').ok_or_else(none)?;
    let packed = STANDARD.decode(rest.get(..end).unwrap_or_default());
    gunzip(&packed.map_err(|error| format!("the observation in it is damaged: {error}"))?)
}

fn after<'a>(bytes: &'a [u8], mark: &[u8]) -> Option<&'a [u8]> {
    let at = memchr::memmem::find(bytes, mark)?;
    bytes.get(at + mark.len()..)
}

fn gunzip(packed: &[u8]) -> Result<Vec<u8>, String> {
    let mut bytes = Vec::new();
    let read = MultiGzDecoder::new(packed).take(LIMIT + 1).read_to_end(&mut bytes);
    read.map_err(|error| format!("what gzip packed is damaged: {error}"))?;
    if bytes.len() as u64 > LIMIT {
        return Err("unpacked it is larger than 256 MiB".to_owned());
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write as _;

    fn packed(text: &[u8]) -> Vec<u8> {
        let mut packer = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        packer.write_all(text).unwrap();
        packer.finish().unwrap()
    }

    /// Make sure that every form gives the document, and that damage is an error.
    #[test]
    fn forms() {
        let text = b"{\"schema\":1}".to_vec();
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
        let bomb = packed(&vec![b' '; (LIMIT + 1) as usize]);
        assert!(unpack(bomb).unwrap_err().contains("256 MiB"));
    }
}
