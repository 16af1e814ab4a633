//! What policies that are not exact were made of: the programs, with all that they
//! read, or other policies.
//!
//! Such a policy is known by its origin and not by what was drawn of it, which depends
//! on how much time there was: equal origins decide the same, and different ones may
//! differ where nothing was drawn. Where a drawing gave up, the origin also answers
//! single questions: the machine runs its programs on one question, with the 36 bits of
//! it as constants, so there is one semantics. What the programs may write was found
//! for all questions before, because an earlier question may have caused the write.
//!
//! Programs are hashed by all that decides what they answer: instructions, names of calls,
//! maps with their contents, the cgroup, the order. Numbers that another load or another
//! node gives the same things are left out.

use std::cell::{OnceCell, RefCell};
use std::collections::HashMap;

use sha2::{Digest as _, Sha256};

use super::code::{Code, Parsed, ProgramCode};
use super::table::{self, CheckedMaps};
use super::types::{Combination, Context, Origin, Policy};
use super::written::Written;
use crate::bytecode::{Insn, opcode};
use crate::model::{MapType, Verdict};
use crate::observation::{self, Map, MapEntry, Program, with_inner};

/// A hash of an origin.
pub type OriginDigest = [u8; 32];

/// The origins of all policies of a decoder.
#[derive(Debug, Default)]
pub struct Origins {
    known: Vec<Known>,
    by_digest: HashMap<OriginDigest, Origin>,
    /// The last answer: its verdict is often asked for, and then its reason.
    last: RefCell<Option<(Origin, u64, Answer)>>,
}

/// A verdict, and why it is unknown.
pub type Answer = (Verdict, Option<String>);

/// What is known of an origin.
#[derive(Debug)]
struct Known {
    digest: OriginDigest,
    /// What was drawn, if that was tried.
    drawn: Option<Policy>,
    /// What answers the questions that the drawing leaves open, if anything may.
    answerer: Option<Answerer>,
}

/// Answers the open questions of one policy.
#[derive(Debug)]
pub enum Answerer {
    /// These programs, run for each question.
    Programs(Stack),
    /// All of these must allow.
    All(Vec<Policy>),
}

/// Programs with all that they read.
#[derive(Debug)]
pub struct Stack {
    /// The programs in run order.
    pub programs: Vec<Program>,
    /// Their maps.
    pub maps: Vec<Map>,
    /// The cgroup asked about.
    pub cgroup_id: Option<u64>,
    /// The ids of the cgroups on the way to it.
    path: Vec<u64>,
    /// How the kernel combines the programs.
    pub combination: Combination,
    /// What the programs may have written before the question.
    pub written: Written,
    /// The programs prepared, once a question was asked.
    parsed: OnceCell<Vec<Result<Parsed, String>>>,
    /// The maps checked, then, too.
    checked: OnceCell<CheckedMaps>,
}

impl Stack {
    /// The programs with their maps.
    pub fn new(programs: &[&Program], context: &Context<'_>, written: Written) -> Self {
        let ids = programs.iter().flat_map(|program| program.map_ids.iter().copied());
        let ids = with_inner(ids, |id| context.maps.iter().find(|map| map.id == id));
        Self {
            programs: programs.iter().copied().cloned().collect(),
            maps: context.maps.iter().filter(|map| ids.contains(&map.id)).cloned().collect(),
            cgroup_id: context.cgroup_id,
            path: context.path(),
            combination: context.combination,
            written,
            parsed: OnceCell::new(),
            checked: OnceCell::new(),
        }
    }

    /// What the programs read.
    pub fn context(&self) -> Context<'_> {
        Context { maps: &self.maps, cgroups: &[], cgroup_id: self.cgroup_id, combination: self.combination }
    }

    /// Whether the programs use maps with the same ids as these.
    fn has_maps_of(&self, programs: &[&Program]) -> bool {
        let ids = self.programs.iter().map(|program| &program.map_ids);
        ids.eq(programs.iter().map(|program| &program.map_ids))
    }

    /// The programs ready to run; they are parsed once.
    pub fn codes(&self) -> Vec<ProgramCode<'_>> {
        let parsed = self
            .parsed
            .get_or_init(|| self.programs.iter().map(|program| Parsed::of(program, &self.maps)).collect());
        let checked = self.checked.get_or_init(|| table::checked(&self.maps));
        self.programs
            .iter()
            .zip(parsed)
            .map(|(program, parsed)| ProgramCode {
                program,
                code: parsed
                    .clone()
                    .map(|parsed| Code::with(parsed, program, &self.maps, self.path.clone(), Some(checked))),
                maps: &self.maps,
            })
            .collect()
    }
}

impl Origins {
    /// The origin with this hash. What was drawn first counts: it is the same policy.
    pub fn add(&mut self, digest: OriginDigest, drawn: Option<Policy>, answerer: Option<Answerer>) -> Origin {
        if let Some(origin) = self.by_digest.get(&digest).copied() {
            if let Some(known) = self.get_mut(origin).filter(|known| known.drawn.is_none()) {
                *known = Known { digest, drawn, answerer: answerer.or(known.answerer.take()) };
            }
            return origin;
        }
        self.known.push(Known { digest, drawn, answerer });
        let origin = Origin(self.known.len());
        self.by_digest.insert(digest, origin);
        origin
    }

    /// The policy of the origin with this hash if it was drawn before.
    pub fn drawn(&self, digest: &OriginDigest) -> Option<Policy> {
        let origin = *self.by_digest.get(digest)?;
        Some(Policy { origin, ..self.get(origin)?.drawn? })
    }

    /// What these programs, whose origin this is, may write, if that is known.
    pub fn written(&self, origin: Origin, programs: &[&Program]) -> Option<&Written> {
        match self.answerer(origin)? {
            Answerer::Programs(stack) if stack.has_maps_of(programs) => Some(&stack.written),
            _ => None,
        }
    }

    /// What answers the questions that a policy leaves open.
    pub fn answerer(&self, origin: Origin) -> Option<&Answerer> {
        self.get(origin)?.answerer.as_ref()
    }

    /// The hash of an origin; `None` for [`Origin::NONE`].
    pub fn digest(&self, origin: Origin) -> Option<&OriginDigest> {
        self.get(origin).map(|known| &known.digest)
    }

    /// The answer to a question: the last one if it is the same question, or else a
    /// new one.
    pub fn answer(&self, origin: Origin, bits: u64, ask: impl FnOnce() -> Answer) -> Answer {
        if let Some((last, of, answer)) = &*self.last.borrow()
            && (*last, *of) == (origin, bits)
        {
            return answer.clone();
        }
        let answer = ask();
        *self.last.borrow_mut() = Some((origin, bits, answer.clone()));
        answer
    }

    fn get(&self, origin: Origin) -> Option<&Known> {
        self.known.get(origin.0.checked_sub(1)?)
    }

    fn get_mut(&mut self, origin: Origin) -> Option<&mut Known> {
        self.known.get_mut(origin.0.checked_sub(1)?)
    }
}

/// The hash of an origin of parts, each of which is told apart from its neighbours.
pub fn digest_of_parts<'p>(kind: &'p str, parts: impl IntoIterator<Item = &'p [u8]>) -> OriginDigest {
    let mut hasher = Sha256::new();
    for part in std::iter::once(kind.as_bytes()).chain(parts) {
        hasher.update((part.len() as u64).to_le_bytes());
        hasher.update(part);
    }
    hasher.finalize().into()
}

/// The hash of programs in run order, with what they read. Of what could not be read
/// nothing shows that it is the same as something else: its numbers on this node count.
pub fn digest_of_programs(programs: &[&Program], context: &Context<'_>) -> OriginDigest {
    let mut contents = Contents { context, maps: Vec::new(), has_order: false, parts: Vec::new() };
    contents.say(&(context.combination, context.cgroup_id, context.path()));
    programs.iter().for_each(|program| contents.program(program));
    // Maps inside maps are found on the way.
    let mut next = 0;
    while let Some(id) = contents.maps.get(next).copied() {
        contents.map(id);
        next += 1;
    }
    digest_of_parts("programs", contents.parts.iter().map(Vec::as_slice))
}

/// What was found so far.
struct Contents<'a> {
    context: &'a Context<'a>,
    /// The maps, which are called by their places in this list.
    maps: Vec<u32>,
    /// Whether the order of a map's entries may matter.
    has_order: bool,
    parts: Vec<Vec<u8>>,
}

impl Contents<'_> {
    fn say(&mut self, what: &impl std::fmt::Debug) {
        self.parts.push(format!("{what:?}").into_bytes());
    }

    /// The place of a map, which is in the list from then on.
    fn place(&mut self, id: u32) -> usize {
        self.maps.iter().position(|known| *known == id).unwrap_or_else(|| {
            self.maps.push(id);
            self.maps.len() - 1
        })
    }

    fn program(&mut self, program: &Program) {
        self.say(&(&program.tag, &program.replaced_by));
        let maps: Vec<usize> = program.map_ids.iter().map(|id| self.place(*id)).collect();
        self.say(&maps);
        match program.xlated.known().map(|bytes| (Insn::parse_all(&bytes.0), &bytes.0)) {
            Some((Some(insns), _)) => self.instructions(&insns, program),
            Some((None, bytes)) => self.parts.push(bytes.clone()),
            None => self.say(&(program.id, &program.loaded_at, program.xlated.missing())),
        }
    }

    fn instructions(&mut self, insns: &[Insn], program: &Program) {
        let (mut bytes, mut names) = (Vec::with_capacity(insns.len() * 8), Vec::new());
        let mut is_second = false;
        for insn in insns {
            let is_map = matches!(insn.src, opcode::PSEUDO_MAP | opcode::PSEUDO_MAP_VALUE);
            let is_call = insn.code == opcode::JMP | opcode::CALL && insn.src != opcode::PSEUDO_CALL;
            let is_call = is_call && !is_second;
            let name = program.calls.get(&insn.imm).filter(|_| is_call);
            self.has_order |= is_call && name.is_none_or(|name| name.contains("for_each"));
            let imm = match name {
                // How far the kernel's function is away differs from build to build.
                Some(_) => 0,
                None if insn.is_wide() && is_map && !is_second => self.place(insn.imm.cast_unsigned()) as i32,
                None => insn.imm,
            };
            names.extend(name);
            is_second = insn.is_wide() && !is_second;
            bytes.extend(Insn { imm, ..*insn }.bytes());
        }
        self.parts.push(bytes);
        self.say(&names);
    }

    fn map(&mut self, id: u32) {
        let Some(map) = self.context.maps.iter().find(|map| map.id == id) else {
            return self.say(&("absent", id));
        };
        let Map { kind, key_size, value_size, max_entries, flags, frozen, hidden, entries, .. } = map;
        self.say(&((kind, key_size, value_size, max_entries), (flags, frozen, hidden)));
        match entries {
            observation::Answer::Missing(why) => self.say(&(id, why)),
            observation::Answer::Known(entries) => self.entries(map, entries),
        }
        map.programs.iter().for_each(|program| self.program(program));
    }

    /// The entries, by key where nothing goes through them: a hash map has them in an order
    /// of its own on each node.
    fn entries(&mut self, map: &Map, entries: &[MapEntry]) {
        let mut in_order: Vec<&MapEntry> = entries.iter().collect();
        // An array has them by number.
        let is_array = matches!(map.kind, MapType::Array | MapType::PercpuArray);
        if !self.has_order && !is_array {
            in_order.sort_by(|a, b| a.key.0.cmp(&b.key.0));
        }
        let mut bytes = Vec::new();
        for entry in in_order {
            let inner = entry.inner_id().filter(|_| map.holds_maps());
            let inner = inner.map(|id| (self.place(id) as u32).to_le_bytes().to_vec());
            let value = inner.as_ref().unwrap_or(&entry.value.0);
            for part in [&entry.key.0, value] {
                bytes.extend((part.len() as u32).to_le_bytes());
                bytes.extend(part);
            }
        }
        self.parts.push(bytes);
    }
}
