//! Takes documents of nodes one by one and keeps what a report needs of each.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde_json::error::Category;

use super::answer::{Audited, Gaps, Newest, State, digest};
use super::compact::compact;
use super::document::{self, Answer};
use super::line::is_of_name;
use super::pieces::{InputPosition, LONGEST_DOCUMENT, Other, Sink};
use super::refusal::Refusal;
use super::tables::Tables;
use super::words::cut;
use super::{audited, state};
use crate::analyse::{self, CallerAllocation};
use crate::audit::{self, Config};
use crate::model::ProblemCode;
use crate::observation::{self, Observation, Problem};
use crate::report;

/// The longest name of a node: what uname(2) has room for.
const NAME: usize = 64;
/// Documents that cannot be used and are told one by one.
const TOLD: usize = 200;
/// Lines of one input that are no document and are told one by one.
const TEXTS: usize = 3;
/// Characters that are shown of text that is no document.
const SHOWN: usize = 60;

/// All that is known of the nodes so far.
#[derive(Debug, Default)]
pub struct Gatherer {
    pub(super) tables: Tables,
    pub(super) nodes: BTreeMap<String, GatheredNode>,
    pub(super) documents: usize,
    bad: Vec<Problem>,
    more_bad: usize,
}

/// A node.
#[derive(Debug, Default)]
pub(super) struct GatheredNode {
    /// What runs there.
    pub(super) state: Option<Newest<State>>,
    /// Its findings.
    pub(super) audit: Option<Newest<Audited>>,
    /// Whether there are several documents of one kind.
    pub(super) is_repeated: bool,
}

/// A node at one moment: what every document says of itself.
#[derive(Clone, Copy, Debug)]
pub(super) struct Head<'a> {
    /// The node.
    pub(super) name: &'a str,
    /// When it was looked at.
    pub(super) taken_at: Timestamp,
    /// Tells documents of the same time apart.
    pub(super) digest: u64,
}

impl Gatherer {
    /// A place for the documents of one input; `name` is the input's, for messages.
    pub fn input<'g>(&'g mut self, name: &'g str) -> Intake<'g> {
        Intake { gatherer: self, name, texts: 0 }
    }

    /// An input that cannot be read, or not to its end.
    pub fn refuse(&mut self, input: &str, why: &str) {
        self.tell(input, why.to_owned());
    }

    /// What could not be used.
    pub(super) fn bad(&mut self) -> Vec<Problem> {
        let mut all = std::mem::take(&mut self.bad);
        if self.more_bad > 0 {
            all.push(problem(format!("{} more", self.more_bad), "cannot be used either".to_owned()));
        }
        all
    }

    fn tell(&mut self, what: &str, why: String) {
        if self.bad.len() < TOLD {
            self.bad.push(problem(what.to_owned(), why));
        } else {
            self.more_bad += 1;
        }
    }

    fn read(&mut self, bytes: &[u8]) -> Result<(), Refusal> {
        let schema = document::schema(bytes)?;
        match schema.as_str() {
            report::SCHEMA => self.answer(&serde_json::from_slice(bytes)?, bytes),
            observation::SCHEMA => self.observation(serde_json::from_slice(bytes)?, bytes),
            other if other.starts_with("gpumap") => {
                Err(Refusal::why(format!("it has the schema {other}, which this gpumap cannot read")))
            }
            _ => Err(Refusal::why("it is JSON, and no document of gpumap")),
        }
    }

    fn answer(&mut self, answer: &Answer<'_>, bytes: &[u8]) -> Result<(), Refusal> {
        if answer.fleet.is_some() {
            return Err(Refusal::why("it is a report of gpumap fleet; give it with --baseline"));
        }
        let is_audit = &*answer.command == "audit" && answer.findings.is_some();
        let is_node = &*answer.command == "node" && (answer.owners.is_some() || answer.compact.is_some());
        if !is_audit && !is_node {
            return Err(unusable(answer));
        }
        let head = head(&answer.host.name, &answer.taken_at, bytes)?;
        if is_audit {
            audited::check(answer)?;
        }
        let state = match (&answer.compact, answer.observation) {
            (Some(node), _) if is_node => Some(state::of_compact(&mut self.tables, answer, node)?),
            (None, _) if is_node => Some(state::of_answer(&mut self.tables, answer)),
            (_, Some(observation)) => {
                let observation = bounded(serde_json::from_str(observation.get())?)?;
                if observation.host.name != *answer.host.name {
                    return Err(Refusal::why("its observation is of another node"));
                }
                Some(self.state_of(&observation)?)
            }
            _ => None,
        };
        if is_audit {
            let (what, gaps) =
                (audited::of_answer(&mut self.tables, answer), state::gaps(&mut self.tables, answer));
            self.add_audit(head, what, gaps);
        }
        if let Some(what) = state {
            let gaps = state::gaps(&mut self.tables, answer);
            self.add_state(head, what, gaps);
        }
        self.documents += 1;
        Ok(())
    }

    /// Analyses an observation as `node` and `audit` do.
    fn observation(&mut self, observation: Observation, bytes: &[u8]) -> Result<(), Refusal> {
        let observation = bounded(observation)?;
        let head = head(&observation.host.name, &observation.taken_at, bytes)?;
        let granted = CallerAllocation::default();
        let state = self.state_of(&observation)?;
        let payload = audit::audit(&observation, &granted, &Config::default());
        let payload = payload.map_err(|error| Refusal::why(error.to_string()))?;
        let unknown = payload.has_unknown();
        let what = audited::of_payload(&mut self.tables, &payload);
        let gaps = state::gaps_of(&mut self.tables, &observation, unknown);
        self.add_audit(head, what, gaps);
        let gaps = state::gaps_of(&mut self.tables, &observation, unknown);
        self.add_state(head, state, gaps);
        self.documents += 1;
        Ok(())
    }

    fn state_of(&mut self, observation: &Observation) -> Result<State, Refusal> {
        let payload = analyse::node(observation, &CallerAllocation::default());
        let payload = payload.map_err(|error| Refusal::why(error.to_string()))?;
        let node = compact(observation, &payload);
        state::of_observation(&mut self.tables, observation, &node)
    }

    fn add_state(&mut self, head: Head<'_>, what: State, gaps: Gaps) {
        let part = Newest { taken_at: head.taken_at, digest: head.digest, what, gaps };
        let node = self.nodes.entry(head.name.to_owned()).or_default();
        node.is_repeated |= newest(&mut node.state, part);
    }

    fn add_audit(&mut self, head: Head<'_>, what: Audited, gaps: Gaps) {
        let part = Newest { taken_at: head.taken_at, digest: head.digest, what, gaps };
        let node = self.nodes.entry(head.name.to_owned()).or_default();
        node.is_repeated |= newest(&mut node.audit, part);
    }
}

/// Keeps the newer one; whether there was one already.
fn newest<T>(slot: &mut Option<Newest<T>>, part: Newest<T>) -> bool {
    match slot {
        Some(former) => {
            if part.replaces(former) {
                *former = part;
            }
            true
        }
        None => {
            *slot = Some(part);
            false
        }
    }
}

/// The node that a document is of.
fn head<'a>(name: &'a str, taken_at: &str, bytes: &[u8]) -> Result<Head<'a>, Refusal> {
    let is_name = (1..=NAME).contains(&name.len()) && name.bytes().all(is_of_name);
    if !is_name {
        return Err(Refusal::why(format!("'{}' is no name of a node", cut(name))));
    }
    let taken_at = taken_at.parse();
    let taken_at = taken_at.map_err(|_| Refusal::why("it does not say when it was made"))?;
    Ok(Head { name, taken_at, digest: digest(bytes) })
}

fn bounded(observation: Observation) -> Result<Observation, Refusal> {
    match observation.excess() {
        _ if observation.schema != observation::SCHEMA => {
            Err(Refusal::why("its observation has another schema"))
        }
        Some(why) => Err(Refusal::why(why)),
        None => Ok(observation),
    }
}

/// Why an answer says nothing about a whole node.
fn unusable(answer: &Answer<'_>) -> Refusal {
    let command = cut(&answer.command);
    match answer.errors.0.first() {
        Some(problem) if matches!(&*command, "node" | "audit") => {
            let what =
                if problem.what.is_empty() { String::new() } else { format!("{}: ", cut(&problem.what)) };
            Refusal::why(format!("gpumap {command} could not work there: {what}{}", cut(&problem.why)))
        }
        _ => Refusal::why(format!(
            "it is an answer of gpumap {command}; fleet reads those of node and audit, and observations"
        )),
    }
}

fn problem(what: String, why: String) -> Problem {
    Problem { code: ProblemCode::BadDocument, what, why, needs: String::new() }
}

/// Takes the documents of one input.
#[derive(Debug)]
pub struct Intake<'g> {
    gatherer: &'g mut Gatherer,
    name: &'g str,
    /// Lines that are no document.
    texts: usize,
}

impl Intake<'_> {
    /// Nothing more comes of this input.
    pub fn finish(self) {
        let more = self.texts.saturating_sub(TEXTS);
        if more > 0 {
            self.gatherer.tell(self.name, format!("{more} more lines are no document"));
        }
    }

    fn tell(&mut self, place: InputPosition<'_>, why: String) {
        let label = place.label.map(|label| format!("label {label}, ")).unwrap_or_default();
        let what = format!("{}, {label}line {}", self.name, place.line);
        self.gatherer.tell(&what, why);
    }
}

impl Sink for Intake<'_> {
    fn try_document(&mut self, place: InputPosition<'_>, bytes: &[u8]) -> bool {
        match self.gatherer.read(bytes) {
            Ok(()) => true,
            Err(Refusal::Json(error)) if error.classify() != Category::Data => false,
            Err(refusal) => {
                self.tell(place, refusal.text());
                true
            }
        }
    }

    fn document(&mut self, place: InputPosition<'_>, bytes: &[u8]) {
        if let Err(refusal) = self.gatherer.read(bytes) {
            self.tell(place, refusal.text());
        }
    }

    fn other(&mut self, place: InputPosition<'_>, why: Other<'_>) {
        let why = match why {
            Other::Text(_) if self.texts >= TEXTS => {
                self.texts += 1;
                return;
            }
            Other::Text(text) => {
                self.texts += 1;
                let text: String =
                    String::from_utf8_lossy(text.get(..4 * SHOWN).unwrap_or(text)).into_owned();
                let shown: String = text.chars().take(SHOWN).collect();
                format!("it is no document: {shown}{}", if shown.len() < text.len() { "…" } else { "" })
            }
            Other::TooLong => format!("it is longer than {} MiB", LONGEST_DOCUMENT >> 20),
            Other::TooMany => {
                "too many documents are unfinished at the same time; give a file for each node".to_owned()
            }
        };
        self.tell(place, why);
    }
}
