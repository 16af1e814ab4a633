//! Saved observations: reading them, packed by gzip or inside of the HTML file that `gpumap
//! report` wrote, and finding a cgroup or process in them.

use std::fmt;
use std::io::{self, ErrorKind, Read};
use std::path::{Path, PathBuf};
use std::time::Instant;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use flate2::read::MultiGzDecoder;
use serde::de::{IgnoredAny, MapAccess, Visitor};
use serde::{Deserialize, Deserializer as _};

use crate::cli::target;
use crate::commands::invocation::{Failure, Invocation, cgroup_paths};
use crate::model::{CgroupPathBuf, ProblemCode};
use crate::observation::{ConfigFile, Observation, SCHEMA, Scope, Text, Weight};
use crate::report::{self, AuditOptions};

/// The observation that `--from` names.
pub(crate) fn from_option(invocation: &mut Invocation<'_>) -> Result<Option<Observation>, Failure> {
    let Some(path) = invocation.global.from.clone() else { return Ok(None) };
    load(invocation, &path).map(Some)
}

/// Reads an observation from a file.
pub(crate) fn load(invocation: &mut Invocation<'_>, path: &Path) -> Result<Observation, Failure> {
    let bytes = super::read_unpacked(invocation, path)?;
    let mut observation = parse(&bytes, &super::name(path))?;
    take_gres_conf(invocation, &mut observation)?;
    Ok(observation)
}

/// Puts the file of `--gres-conf` into a saved observation, in place of what it holds.
pub(crate) fn take_gres_conf(
    invocation: &mut Invocation<'_>,
    observation: &mut Observation,
) -> Result<(), Failure> {
    let Some(path) = &invocation.global.gres_conf else { return Ok(()) };
    let text = super::read(invocation, path)?.into();
    observation.slurm.gres_conf = Some(ConfigFile { path: super::name(path), text, ..ConfigFile::default() });
    observation.slurm.gres_conf_modified_at = None;
    Ok(())
}

/// Whether a file seems meant to be an observation or an answer of gpumap,
/// rather than a program.
pub(crate) fn is_gpumap_json(bytes: &[u8]) -> bool {
    bytes.trim_ascii_start().starts_with(b"{")
        && serde_json::from_slice::<Head>(bytes).is_ok_and(|head| head.schema.starts_with("gpumap"))
}

/// The schema that a document names; reads no further than to there.
pub(crate) fn schema(reader: impl Read) -> Option<String> {
    let mut schema = None;
    // The error is that the rest was not read.
    let _rest = serde_json::Deserializer::from_reader(reader).deserialize_map(FirstSchema(&mut schema));
    schema
}

/// Takes the value of the key `schema` and leaves what comes after it.
struct FirstSchema<'s>(&'s mut Option<String>);

impl<'de> Visitor<'de> for FirstSchema<'_> {
    type Value = ();

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a document")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some(key) = map.next_key::<String>()? {
            if key == "schema" {
                *self.0 = Some(map.next_value()?);
                return Ok(());
            }
            map.next_value::<IgnoredAny>()?;
        }
        Ok(())
    }
}

/// Reads an observation; `name` is the file's, for messages.
pub(crate) fn parse(bytes: &[u8], name: &str) -> Result<Observation, Failure> {
    weigh(bytes, name)?;
    if is_report(bytes) {
        return report(bytes, name).map(|(observation, _)| observation);
    }
    let error = match serde_json::from_slice::<Observation>(bytes) {
        Ok(observation) if observation.schema == SCHEMA => return bounded(observation, name),
        Ok(_) => None,
        Err(error) => Some(error),
    };
    let (why, needs) = match (serde_json::from_slice::<Head>(bytes), error) {
        (Ok(head), _) if head.is_newer() => {
            (format!("written by a newer gpumap ({})", head.schema), "update this gpumap")
        }
        (Ok(head), _) if head.schema != SCHEMA => {
            (format!("{:?}, not an observation ({SCHEMA})", head.schema), "save one with gpumap snapshot")
        }
        (_, Some(error)) => (format!("not an observation: {error}"), "save one with gpumap snapshot"),
        (_, None) => ("not an observation".to_owned(), "save one with gpumap snapshot"),
    };
    Err(Failure::new(ProblemCode::BadObservation, name, why, needs))
}

/// Refuses a document that would take far more memory than it has bytes.
fn weigh(bytes: &[u8], name: &str) -> Result<(), Failure> {
    if !Weight::of(bytes).is_too_large() {
        return Ok(());
    }
    Err(Failure::new(ProblemCode::TooLarge, name, TOO_MANY_PARTS, "save one with gpumap snapshot"))
}

/// The observation, unless it asks for more work than any node is worth.
fn bounded(observation: Observation, name: &str) -> Result<Observation, Failure> {
    match observation.excess() {
        Some(why) => Err(Failure::new(ProblemCode::TooLarge, name, why, "save one with gpumap snapshot")),
        None => Ok(observation),
    }
}

/// Whether a file is what `audit --report` saved.
pub(crate) fn is_report(bytes: &[u8]) -> bool {
    serde_json::from_slice::<Head>(bytes)
        .is_ok_and(|head| head.schema == report::SCHEMA && head.observation.is_some())
}

/// Of what `audit --report` saved, the parts that make the audit again.
#[derive(Deserialize)]
struct SavedAudit {
    observation: Option<Box<Observation>>,
    #[serde(default)]
    audit: MadeWith,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct MadeWith {
    options: AuditOptions,
}

/// The observation in what `audit --report` saved, and how that was made.
pub(crate) fn report(bytes: &[u8], name: &str) -> Result<(Observation, AuditOptions), Failure> {
    let bad = |error: serde_json::Error| {
        Failure::new(ProblemCode::BadObservation, name, format!("not a report of an audit: {error}"), "")
    };
    weigh(bytes, name)?;
    let report: SavedAudit = serde_json::from_slice(bytes).map_err(bad)?;
    match report.observation {
        Some(observation) if observation.schema == SCHEMA => {
            Ok((bounded(*observation, name)?, report.audit.options))
        }
        _ => Err(Failure::new(
            ProblemCode::BadObservation,
            name,
            "holds no observation that this gpumap can read",
            "update this gpumap",
        )),
    }
}

/// Observes cgroups: live, or by narrowing the scope of a saved observation.
pub(crate) fn observe(
    invocation: &mut Invocation<'_>,
    paths: &[PathBuf],
    recursive: bool,
) -> Result<Observation, Failure> {
    let Some(mut observation) = from_option(invocation)? else {
        let paths: Vec<&Path> = paths.iter().map(PathBuf::as_path).collect();
        return cgroup_paths::observe(invocation, &paths, recursive);
    };
    if !paths.is_empty() {
        let scope = paths.iter().map(|path| Ok(Scope { path: find(&observation, path)?, recursive }));
        observation.scope = scope.collect::<Result<_, Failure>>()?;
    }
    Ok(observation)
}

/// The cgroup that a path means in an observation.
pub(crate) fn find(observation: &Observation, path: &Path) -> Result<Text, Failure> {
    if let Some(pid) = target::process_of(path) {
        return cgroup_of_pid(observation, pid);
    }
    let meant = CgroupPathBuf::typed(path, Path::new(&observation.host.cgroup_root)).map(Text::from);
    if let Some(meant) = &meant
        && observation.cgroups.iter().any(|cgroup| cgroup.path == *meant)
    {
        return Ok(meant.clone());
    }
    let near = cgroup_paths::in_saved(observation, path);
    let needs = if near.is_empty() { "gpumap --from FILE cgroup -r / lists what it holds" } else { &near };
    let name = meant.as_ref().map_or_else(|| path.to_string_lossy(), Text::lossy);
    Err(Failure::new(ProblemCode::NoCgroup, name, "no such cgroup in the saved observation", needs))
}

/// The cgroup of a process in an observation.
pub(crate) fn cgroup_of_pid(observation: &Observation, pid: u32) -> Result<Text, Failure> {
    let process = observation.processes.iter().find(|process| process.pid == pid);
    process.map(|process| process.cgroup.clone()).ok_or_else(|| {
        Failure::new(
            ProblemCode::NoProcess,
            format!("pid {pid}"),
            "no such process in the saved observation",
            "",
        )
    })
}

/// The one cgroup an observation was taken for.
pub(crate) fn only_cgroup(observation: &Observation, name: &str) -> Result<Text, Failure> {
    match observation.scope.as_slice() {
        [Scope { path, recursive: false }] => Ok(path.clone()),
        _ => {
            let count = observation.cgroups.len();
            let needs = "name whose: --job ID, --pid PID or --cgroup /PATH; in a diff FILE:/PATH";
            Err(Failure::new(ProblemCode::WhichCgroup, name, format!("holds {count} cgroups"), needs))
        }
    }
}

#[derive(Deserialize)]
struct Head {
    schema: String,
    #[serde(default)]
    observation: Option<IgnoredAny>,
}

impl Head {
    fn is_newer(&self) -> bool {
        let (family, ours) = SCHEMA.rsplit_once('/').unwrap_or_default();
        let theirs = self.schema.strip_prefix(family).and_then(|rest| rest.strip_prefix('/'));
        let number = |text: &str| text.parse::<u32>().unwrap_or(0);
        theirs.is_some_and(|theirs| number(theirs) > number(ours))
    }
}

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
            Unusable::TooLate => {
                (ProblemCode::Timeout, TOO_LATE.to_owned(), "give it more time with --timeout")
            }
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
    use std::io::Write as _;

    use super::*;

    /// Make sure that the schema is found wherever it is, and that nothing after
    /// it is read.
    #[test]
    fn schemas() {
        for (text, expected) in [
            (r#"{"schema":"gpumap/1","x":"#, Some("gpumap/1")),
            (r#" { "a": {"schema": 1}, "schema" : "y" }"#, Some("y")),
            (r#"{"schema":1}"#, None),
            (r#"["schema"]"#, None),
            ("", None),
        ] {
            assert_eq!(schema(text.as_bytes()).as_deref(), expected, "{text}");
        }
        let endless = r#"{"schema":"z","#.as_bytes().chain(std::io::repeat(b' '));
        assert_eq!(schema(endless).as_deref(), Some("z"));
    }

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
