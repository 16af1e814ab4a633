//! Takes documents of nodes one by one and keeps what a report needs of each.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use serde_json::error::Category;

use super::answer::{self, Audited, Claim, Gaps, Newest, State, digest};
use super::compact::compact;
use super::compact_form::Compact;
use super::document::{self, Answer};
use super::inventory::Tables;
use super::kept::{Kept, Room};
use super::limits::{self, Refusal, Word, cut};
use super::line::{self, is_of_name};
use super::pieces::{InputPosition, LONGEST_DOCUMENT, Other, Sink};
use super::{full, owners, state};
use crate::analyse::{self, CallerAllocation, CommandAnswer as _, TimeLimit};
use crate::audit::{self, Config};
use crate::model::ProblemCode;
use crate::observation::{self, Observation, Problem};
use crate::report;

/// The longest name of a node: what uname(2) has room for.
const NAME: usize = 64;

/// Documents that cannot be used and are reported one by one.
const TOLD: usize = 200;

/// How far the clock of a node may be ahead.
const AHEAD: SignedDuration = SignedDuration::from_mins(1);

/// Nodes of one report.
const NODES: usize = 1 << 17;

/// Bytes of all that is kept of documents: different words, grants, rows of jobs and of
/// findings. 10,000 nodes of 50 jobs take some 60 MiB. What a hostile node makes up has
/// an end here.
const ROOM: usize = if cfg!(test) { 1 << 20 } else { 256 << 20 };

/// Lines of one input that are no document and are reported one by one.
const TEXTS: usize = 3;

/// Characters that are shown of text that is no document.
const SHOWN: usize = 60;

/// All that is known of the nodes so far.
#[derive(Debug, Default)]
pub struct Gatherer {
    pub(super) tables: Tables,
    pub(super) nodes: BTreeMap<String, GatheredNode>,
    pub(super) documents: usize,
    /// Now: documents of a later time are named. `None`: no time is too late.
    now: Option<Timestamp>,
    /// The file and label of the document that is read.
    source: u64,
    /// The bytes that their rows take.
    rows: usize,
    /// For decoding observations.
    limit: TimeLimit,
    /// How much of single nodes may still be kept for a page; `None` if none is made.
    room: Option<Room>,
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
    /// Whether they came in several files or labels that do not all have its name.
    pub(super) is_disputed: bool,
    /// Answers that came under another name, by that name.
    pub(super) foreign: BTreeMap<Word, GatheredNode>,
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
    /// The name under which it came, if that is another one.
    pub(super) other_name: Option<&'a str>,
    claim: Claim,
    is_future: bool,
    source: u64,
}

impl GatheredNode {
    /// What [`newest`] says of one more document.
    pub(super) fn repeats(&mut self, repeated: Option<bool>) {
        self.is_repeated |= repeated.is_some();
        self.is_disputed |= repeated == Some(true);
    }
}

impl Head<'_> {
    fn part<T>(&self, what: T, gaps: Gaps) -> Newest<T> {
        Newest {
            taken_at: self.taken_at,
            digest: self.digest,
            claim: self.claim,
            is_future: self.is_future,
            source: self.source,
            what,
            gaps,
        }
    }
}

impl Gatherer {
    /// One that also keeps what [`super::page`] says of single nodes.
    pub fn for_page() -> Self {
        Self { room: Some(Room::default()), ..Self::default() }
    }

    /// The same at this time: documents of a later one are problems, and replace no other.
    #[must_use]
    pub fn at(self, now: Timestamp) -> Self {
        Self { now: Some(now), ..self }
    }

    /// Sets the time limit for decoding observations.
    pub fn set_limit(&mut self, limit: &TimeLimit) {
        self.limit = limit.clone();
    }

    /// A place for the documents of one input; `name` is the input's, for messages.
    pub fn input<'g>(&'g mut self, name: &'g str) -> Intake<'g> {
        Intake { gatherer: self, name, texts: 0, labels: BTreeMap::new() }
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

    /// Reads a document that came under this name. Returns the node that it is of.
    fn read(&mut self, bytes: &[u8], name: Option<&str>) -> Result<String, Refusal> {
        if self.tables.bytes() + self.rows > ROOM {
            return Err(Refusal::why(format!(
                "there is no room for it: what is kept of the documents before it has {} MiB",
                ROOM >> 20
            )));
        }
        let schema = document::schema(bytes)?;
        match schema.as_str() {
            report::SCHEMA => self.answer(&document::read(bytes)?, bytes, name),
            observation::SCHEMA => {
                limits::check_text(bytes)?;
                self.observation(serde_json::from_slice(bytes)?, bytes, name)
            }
            other if other.starts_with("gpumap") => {
                Err(Refusal::why(format!("it has the schema {other}, which this gpumap cannot read")))
            }
            _ => Err(Refusal::why("it is JSON, and no document of gpumap")),
        }
    }

    fn answer(&mut self, answer: &Answer<'_>, bytes: &[u8], name: Option<&str>) -> Result<String, Refusal> {
        if answer.fleet.is_some() {
            return Err(Refusal::why("it is a report of gpumap fleet; give it with --baseline"));
        }
        // `node --audit` answers both.
        let is_audit = matches!(&*answer.command, "audit" | "node") && answer.findings.is_some();
        let is_node = &*answer.command == "node" && (answer.owners.is_some() || answer.compact.is_some());
        if !is_audit && !is_node {
            return Err(unusable(answer));
        }
        let head = self.head(&answer.host.name, answer.taken_at.parse().ok(), bytes, name)?;
        if is_audit {
            answer::check(answer)?;
        }
        let state = match answer.observation {
            _ if is_node => Some(self.state_of_answer(answer, bytes)?),
            Some(observation) => {
                limits::check_text(observation.get().as_bytes())?;
                let observation = bounded(serde_json::from_slice(observation.get().as_bytes())?)?;
                if observation.host.name != *answer.host.name {
                    return Err(Refusal::why("its observation is of another node"));
                }
                Some(self.state_of(&observation)?)
            }
            None => None,
        };
        if is_audit {
            let (tables, room) = (&mut self.tables, &mut self.room);
            let what = answer::of_answer(tables, answer);
            let what = Audited { kept: Room::findings_of_answer(room, tables, answer), ..what };
            let gaps = state::gaps(tables, answer);
            self.add_audit(head, what, gaps);
        }
        if let Some(what) = state {
            let gaps = state::gaps(&mut self.tables, answer);
            self.add_state(head, what, gaps);
        }
        self.documents += 1;
        Ok(head.name.to_owned())
    }

    /// Analyses an observation as `node` and `audit` do.
    fn observation(
        &mut self,
        observation: Observation,
        bytes: &[u8],
        name: Option<&str>,
    ) -> Result<String, Refusal> {
        let observation = bounded(observation)?;
        let head = self.head(&observation.host.name, observation.taken_at.timestamp(), bytes, name)?;
        let granted = CallerAllocation::default();
        let state = self.state_of(&observation)?;
        let payload = audit::audit(&observation, &granted, &Config::default(), &self.limit);
        let payload = payload.map_err(|error| Refusal::why(error.to_string()))?;
        let unknown = payload.has_unknown();
        let found = payload.findings.as_slice();
        let kept = Room::findings_of(&mut self.room, &mut self.tables, found);
        let what = Audited { kept, ..answer::of_payload(&mut self.tables, &payload) };
        let gaps = state::gaps_of(&mut self.tables, &observation, unknown);
        self.add_audit(head, what, gaps);
        let gaps = state::gaps_of(&mut self.tables, &observation, unknown);
        self.add_state(head, state, gaps);
        self.documents += 1;
        Ok(head.name.to_owned())
    }

    /// Turns an answer of `node` into its compact form, unless it is one.
    fn state_of_answer(&mut self, answer: &Answer<'_>, bytes: &[u8]) -> Result<State, Refusal> {
        let every = match (&answer.compact, &self.room) {
            (None, Some(_)) => Some(owners::every_owner(bytes)),
            _ => None,
        };
        let is_unreadable = matches!(every, Some(Err(_)));
        let full = match (&answer.compact, every) {
            (Some(_), _) => None,
            (None, Some(Ok(every))) => Some(full::compact(answer, &every)?),
            (None, _) => {
                let jobs = answer.owners.as_ref().map(|owners| owners.0.as_slice());
                Some(full::compact(answer, jobs.unwrap_or_default())?)
            }
        };
        let Some(node) = answer.compact.as_ref().or(full.as_ref()) else { return Err(unusable(answer)) };
        let state = state::of_answer(&mut self.tables, answer, node)?;
        let kept = match is_unreadable {
            true => Kept::Unreadable,
            false => Room::owners_of(&mut self.room, &mut self.tables, node),
        };
        Ok(State { kept, ..state })
    }

    fn state_of(&mut self, observation: &Observation) -> Result<State, Refusal> {
        let payload = analyse::node(observation, &CallerAllocation::default(), &self.limit);
        let payload = payload.map_err(|error| Refusal::why(error.to_string()))?;
        let node = compact(observation, &payload);
        let node = Compact::from(&node);
        let state = state::of_observation(&mut self.tables, observation, &node)?;
        let kept = Room::owners_of(&mut self.room, &mut self.tables, &node);
        Ok(State { kept, ..state })
    }

    fn add_state(&mut self, head: Head<'_>, what: State, gaps: Gaps) {
        let size = |state: &State| (state.kept.count(), state.bytes());
        let new = size(&what);
        let node = self.node(head);
        let before = node.state.as_ref().map_or((0, 0), |part| size(&part.what));
        let repeated = newest(&mut node.state, head.part(what, gaps));
        node.repeats(repeated);
        let now = node.state.as_ref().map_or((0, 0), |part| size(&part.what));
        self.rows = self.rows + now.1 - before.1;
        if let Some(room) = &mut self.room {
            room.give_back_owners(before.0 + new.0 - now.0);
        }
    }

    fn add_audit(&mut self, head: Head<'_>, what: Audited, gaps: Gaps) {
        let size = |audit: &Audited| (audit.kept.count(), audit.bytes());
        let new = size(&what);
        let node = self.node(head);
        let before = node.audit.as_ref().map_or((0, 0), |part| size(&part.what));
        let repeated = newest(&mut node.audit, head.part(what, gaps));
        node.repeats(repeated);
        let now = node.audit.as_ref().map_or((0, 0), |part| size(&part.what));
        self.rows = self.rows + now.1 - before.1;
        if let Some(room) = &mut self.room {
            room.give_back_findings(before.0 + new.0 - now.0);
        }
    }

    /// Where the answer of a node is kept.
    fn node(&mut self, head: Head<'_>) -> &mut GatheredNode {
        let node = self.nodes.entry(head.name.to_owned()).or_default();
        match head.other_name {
            Some(name) => node.foreign.entry(self.tables.words.number(name)).or_default(),
            None => node,
        }
    }

    /// The node that a document is of, which came under the name of `from`.
    fn head<'a>(
        &mut self,
        name: &'a str,
        taken_at: Option<Timestamp>,
        bytes: &[u8],
        from: Option<&'a str>,
    ) -> Result<Head<'a>, Refusal> {
        let is_name = (1..=NAME).contains(&name.len()) && name.bytes().all(is_of_name);
        if !is_name {
            return Err(Refusal::why(format!("'{}' is no name of a node", cut(name))));
        }
        if self.nodes.len() >= NODES && !self.nodes.contains_key(name) {
            return Err(Refusal::why(format!("there are more than {NODES} nodes")));
        }
        let taken_at = taken_at.ok_or_else(|| Refusal::why("it does not say when it was made"))?;
        let other_name = from.filter(|from| !line::is_same(from, name));
        let is_own = from.is_some() && other_name.is_none();
        let claim = if is_own { Claim::Own } else { Claim::Other };
        let is_future = self.now.is_some_and(|now| taken_at > now.saturating_add(AHEAD).unwrap_or(now));
        if is_future {
            let why = format!("dated {taken_at}, in the future: it counts only where nothing else is known");
            self.tell(name, why);
        }
        Ok(Head { name, taken_at, digest: digest(bytes), other_name, claim, is_future, source: self.source })
    }
}

/// Keeps the one that counts. `None`: there was none before; else whether that is disputed.
pub(super) fn newest<T>(slot: &mut Option<Newest<T>>, part: Newest<T>) -> Option<bool> {
    match slot {
        Some(former) => {
            let is_disputed = part.disputes(former);
            if part.replaces(former) {
                *former = part;
            }
            Some(is_disputed)
        }
        None => {
            *slot = Some(part);
            None
        }
    }
}

fn bounded(observation: Observation) -> Result<Observation, Refusal> {
    if observation.schema != observation::SCHEMA {
        return Err(Refusal::why("its observation has another schema"));
    }
    limits::check(&observation).map(|()| observation)
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
    /// The label of each node that answered under one.
    labels: BTreeMap<String, String>,
}

impl Intake<'_> {
    /// Nothing more comes of this input.
    pub fn finish(self) {
        let more = self.texts.saturating_sub(TEXTS);
        if more > 0 {
            self.gatherer.tell(self.name, format!("{more} more lines are no document"));
        }
    }

    /// The name under which a document came: that of its label, or of its file.
    fn read(&mut self, place: InputPosition<'_>, bytes: &[u8]) -> Result<(), Refusal> {
        let name = match place.label {
            Some(label) => line::of_label(label),
            None => line::of_file(self.name),
        };
        self.gatherer.source =
            digest(format!("{}\0{}", self.name, place.label.unwrap_or_default()).as_bytes());
        let host = self.gatherer.read(bytes, name)?;
        self.answered(place, host);
        Ok(())
    }

    /// Tells a node that answers under two labels: two nodes have one name, or one of
    /// them says that it is the other.
    fn answered(&mut self, place: InputPosition<'_>, host: String) {
        let Some(label) = place.label else { return };
        match self.labels.get(&host) {
            Some(former) if former != label => {
                let why = format!("it says that it is {host}, as what came under the label {former} does");
                self.tell(place, why);
            }
            Some(_) => {}
            None => drop(self.labels.insert(host, label.to_owned())),
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
        match self.read(place, bytes) {
            Ok(()) => true,
            Err(Refusal::Json(error)) if error.classify() != Category::Data => false,
            Err(refusal) => {
                self.tell(place, refusal.text());
                true
            }
        }
    }

    fn document(&mut self, place: InputPosition<'_>, bytes: &[u8]) {
        if let Err(refusal) = self.read(place, bytes) {
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
