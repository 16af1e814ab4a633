//! What `fleet` keeps of one document, with the findings of its node: a few words and
//! numbers, and a row for each job and each finding.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::mem::size_of;

use jiff::Timestamp;

use super::alike::alike;
use super::compact;
use super::document::{Answer, Finding};
use super::inventory::{GrantRow, Tables};
use super::kept::{Kept, KeptFinding, KeptOwners};
use super::limits::{Refusal, Word};
use super::text::Key;
use crate::model::{OwnerKind, Severity};
use crate::report::AuditAnswer;

/// What a node is and what runs there.
#[derive(Debug)]
pub(super) struct State {
    /// Properties with their values.
    pub(super) properties: Vec<(Word, Word)>,
    /// The Slurm cluster that it belongs to, if it says so.
    pub(super) cluster: Option<Word>,
    /// Whether it tells which drivers there are.
    pub(super) has_drivers: bool,
    /// Its boot and its GPUs' UUIDs, which no other node has.
    pub(super) identities: Vec<Identity>,
    /// Jobs.
    pub(super) jobs: Vec<JobRow>,
    /// All owners, for a page.
    pub(super) kept: Kept<KeptOwners>,
}

impl State {
    /// The memory that its rows take beside the words, about.
    pub(super) fn bytes(&self) -> usize {
        size_of::<Newest<Self>>()
            + self.properties.len() * size_of::<(Word, Word)>()
            + self.identities.len() * size_of::<Identity>()
            + self.jobs.len() * size_of::<JobRow>()
    }
}

/// What no two nodes have in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Identity {
    /// A GPU, by its UUID.
    Gpu(Key),
    /// A boot of the kernel.
    Boot(Key),
}

/// A job on a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct JobRow {
    /// Its name.
    pub(super) job: Word,
    /// What the kernel lets it open.
    pub(super) allowed: GrantRow,
    /// What it was allocated, if not just the job itself says so.
    pub(super) allocated: Option<GrantRow>,
}

/// Findings of a node.
#[derive(Debug)]
pub(super) struct Audited {
    /// Findings that count, those that are alike as one.
    pub(super) findings: Vec<FindingRow>,
    /// How many the node's configuration accepts.
    pub(super) ignored: usize,
    /// The audit's configuration.
    pub(super) config: Word,
    /// The findings one by one, for a page.
    pub(super) kept: Kept<Vec<KeptFinding>>,
}

impl Audited {
    /// The memory that its rows take beside the words, about.
    pub(super) fn bytes(&self) -> usize {
        let rows = self.findings.iter();
        let rows = rows.map(|row| {
            let devices: usize = row.fingerprints.iter().map(|one| one.devices.len()).sum();
            size_of::<FindingRow>()
                + row.fingerprints.len() * size_of::<Fingerprint>()
                + devices * size_of::<u64>()
        });
        size_of::<Newest<Self>>() + rows.sum::<usize>()
    }
}

/// Findings of one node that are alike.
#[derive(Clone, Debug)]
pub(super) struct FindingRow {
    /// What they have in common.
    pub(super) alike: Alike,
    /// One of them.
    pub(super) example: Word,
    /// Their fingerprints.
    pub(super) fingerprints: Vec<Fingerprint>,
}

/// What a finding is known by.
#[derive(Clone, Debug)]
pub(super) struct Fingerprint {
    whole: u64,
    /// Those of each device, where the finding joins several.
    devices: Vec<u64>,
}

impl Fingerprint {
    /// Those of what the finding says, device by device.
    pub(super) fn parts(&self) -> &[u64] {
        if self.devices.is_empty() { std::slice::from_ref(&self.whole) } else { &self.devices }
    }

    /// Whether a former report has it all. One of an earlier gpumap has it as a whole.
    pub(super) fn is_in(&self, former: &BTreeSet<u64>) -> bool {
        former.contains(&self.whole) || self.parts().iter().all(|part| former.contains(part))
    }

    /// The whole.
    pub(super) fn whole(&self) -> u64 {
        self.whole
    }
}

/// What findings that are alike have in common.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Alike {
    /// Their severity.
    pub(super) severity: Severity,
    /// Their id.
    pub(super) id: Word,
    /// The kind of owner they are about.
    pub(super) owner: Option<OwnerKind>,
    /// Their words without numbers and ids.
    pub(super) words: Word,
}

/// What could not be seen on a node.
#[derive(Debug, Default)]
pub(super) struct Gaps {
    /// Number and an example of each code.
    pub(super) problems: BTreeMap<Word, (usize, Word)>,
    /// Whether the document says that nothing is missing.
    pub(super) complete: bool,
}

/// One part of a document.
#[derive(Debug)]
pub(super) struct Newest<T> {
    /// When the node was looked at.
    pub(super) taken_at: Timestamp,
    /// Tells documents of the same time apart.
    pub(super) digest: u64,
    /// Under which name it came.
    pub(super) claim: Claim,
    /// Whether it is of a time to come.
    pub(super) is_future: bool,
    /// Tells the files and labels apart that documents came in.
    pub(super) source: u64,
    /// What was seen.
    pub(super) what: T,
    /// What was not.
    pub(super) gaps: Gaps,
}

impl<T> Newest<T> {
    /// Whether this replaces another of the same node: what came under the node's own name
    /// does, else the newer one. A date of a time to come wins over nothing. Of two of the
    /// same time the choice does not depend on which came first.
    pub(super) fn replaces(&self, other: &Self) -> bool {
        let rank = |one: &Self| (one.claim, !one.is_future, one.taken_at, one.digest);
        rank(self) > rank(other)
    }

    /// Whether two files or labels hold answers of one node, which do not both have its name.
    pub(super) fn disputes(&self, other: &Self) -> bool {
        self.source != other.source && (self.claim, other.claim) != (Claim::Own, Claim::Own)
    }
}

/// Under which name a document came.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Claim {
    /// None, or another one than that of the node in it.
    Other,
    /// That of the node.
    Own,
}

/// A digest of the ends of a document.
pub(super) fn digest(bytes: &[u8]) -> u64 {
    const END: usize = 4096;
    let mut hasher = DefaultHasher::new();
    bytes.len().hash(&mut hasher);
    bytes.get(..END).unwrap_or(bytes).hash(&mut hasher);
    bytes.get(bytes.len().saturating_sub(END)..).hash(&mut hasher);
    hasher.finish()
}

/// Findings of a node, by what those that are alike have in common.
type Rows = BTreeMap<Alike, FindingRow>;

/// Refuses an audit that leaves findings out.
pub(super) fn check(answer: &Answer<'_>) -> Result<(), Refusal> {
    let Some(audit) = &answer.audit else { return Err(Refusal::why("it does not say how it was made")) };
    if !audit.options.paths.0.is_empty() || audit.options.job.is_some() {
        return Err(Refusal::why(
            "it is an audit of a part of the node: make it without PATH and --from-env",
        ));
    }
    if !audit.known_fingerprints.0.is_empty() {
        let why = "it was made with --baseline, which leaves findings out; give fleet a baseline instead";
        return Err(Refusal::why(why));
    }
    Ok(())
}

/// The findings of `audit --json`.
pub(super) fn of_answer(tables: &mut Tables, answer: &Answer<'_>) -> Audited {
    let findings = answer.findings.as_ref().map(|list| list.0.as_slice()).unwrap_or_default();
    let (counted, ignored): (Vec<_>, Vec<_>) = findings.iter().partition(|one| one.ignored.is_none());
    let mut rows = Rows::new();
    counted.into_iter().for_each(|finding| add(tables, &mut rows, finding));
    let config = answer.audit.as_ref().and_then(|audit| audit.options.config.as_ref());
    let config = config.map_or_else(|| "none".to_owned(), |config| compact::digest(config.text.as_bytes()));
    Audited {
        findings: rows.into_values().collect(),
        ignored: ignored.len(),
        config: tables.words.number(&config),
        kept: Kept::Unwanted,
    }
}

/// The findings of an observation, audited without a configuration.
pub(super) fn of_payload(tables: &mut Tables, answer: &AuditAnswer) -> Audited {
    let mut rows = Rows::new();
    answer.findings.iter().for_each(|finding| add(tables, &mut rows, &finding.into()));
    let (findings, config) = (rows.into_values().collect(), tables.words.number("none"));
    Audited { findings, ignored: 0, config, kept: Kept::Unwanted }
}

fn add(tables: &mut Tables, rows: &mut Rows, found: &Finding<'_>) {
    let alike = Alike {
        severity: found.severity,
        id: tables.words.number(&found.id),
        owner: found.owner.as_ref().map(|owner| short(&owner.kind)),
        words: tables.words.number(&alike(&found.summary)),
    };
    let devices = found.device_fingerprints.0.iter().map(|one| fingerprint(one)).collect();
    let fingerprint = Fingerprint { whole: fingerprint(&found.fingerprint), devices };
    let example = tables.words.number(&found.summary);
    match rows.get_mut(&alike) {
        Some(row) => {
            row.fingerprints.push(fingerprint);
            if tables.words.get(example) < tables.words.get(row.example) {
                row.example = example;
            }
        }
        None => {
            rows.insert(alike.clone(), FindingRow { alike, example, fingerprints: vec![fingerprint] });
        }
    }
}

/// A kind of owner that later versions name is kept short.
fn short(kind: &OwnerKind) -> OwnerKind {
    match kind {
        OwnerKind::Other(word) => OwnerKind::Other(word.chars().take(40).collect()),
        kind => kind.clone(),
    }
}

/// A fingerprint as a number: its 16 hexadecimal digits. Anything else is no
/// fingerprint of gpumap's, and stands for itself by its digest.
fn fingerprint(text: &str) -> u64 {
    let is_hex = text.len() == 16 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    let text = if is_hex { text.to_owned() } else { compact::digest(text.as_bytes()) };
    u64::from_str_radix(&text, 16).unwrap_or_default()
}
