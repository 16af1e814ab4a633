//! Decodes one program, or several in run order, into one policy.

use std::collections::BTreeSet;

use super::code::{self, Code, ProgramCode, codes, most_written};
use super::diagram::{Bdd, Diagram, Met};
use super::inputs::{self, Symbols};
use super::machine::Surroundings;
use super::origin::{Answerer, OriginDigest, Origins, Stack, digest_of_parts, digest_of_programs};
use super::project::{Projection, project};
use super::run_order::{Run, Shares, surroundings};
use super::time_limit::{self, TimeLimit};
use super::types::{Combination, Context, Origin, Policy};
use super::word::Word;
use super::written::Written;
use crate::model::{Device, Request, Verdict};
use crate::observation::{Program, with_inner};

/// How often a policy is computed again because a program turned out to write to
/// what it or another one has read. After that, everything that the programs may
/// write counts as written.
const MAX_ROUNDS: usize = 8;

/// How many times as much as usual a program may cost that is looked at alone.
const ROOM_OF_ONE: u32 = 8;

/// The reason of a policy whose diagram exceeded its limits.
const TOO_COMPLEX: &str = "the programs are too complex for gpumap's limits";

/// Decodes programs and answers questions about policies. Policies of one
/// decoder can be compared with each other.
#[derive(Debug)]
pub struct Decoder {
    pub(super) diagram: Diagram,
    reachable: Bdd,
    /// How many times what is usual a program may cost.
    factor: u32,
    /// The regions in which policies are unknown, by reason.
    open: Vec<(Bdd, String)>,
    /// What each program may cost.
    shares: Shares,
    /// What the policies that are not exact were made of.
    pub(super) origins: Origins,
    /// The last policy of programs: it is often asked for again, to prove answers.
    last: Option<Settled>,
}

/// A policy of programs, and what it was made of.
#[derive(Debug)]
struct Settled {
    made_of: MadeOf,
    policy: Policy,
    written: Written,
}

/// Programs with all that they read, and the maps that they reach.
#[derive(Debug, PartialEq, Eq)]
struct MadeOf {
    digest: OriginDigest,
    maps: BTreeSet<u32>,
}

impl MadeOf {
    fn of(programs: &[&Program], context: &Context<'_>) -> Self {
        let ids = programs.iter().flat_map(|program| program.map_ids.iter().copied());
        let maps = with_inner(ids, |id| context.maps.iter().find(|map| map.id == id));
        Self { digest: digest_of_programs(programs, context), maps }
    }
}

impl Default for Decoder {
    fn default() -> Self {
        Self::within(&TimeLimit::default())
    }
}

impl Decoder {
    /// An empty decoder without a time limit.
    pub fn new() -> Self {
        Self::default()
    }

    /// An empty decoder that stops when the time is over. Policies that it could not
    /// finish are unknown, for a reason that says so.
    pub fn within(limit: &TimeLimit) -> Self {
        Self::with_room(limit, 1)
    }

    /// The same for a program as long as the kernel loads them, which may cost more than
    /// one among others.
    pub fn of_one_program(limit: &TimeLimit) -> Self {
        Self::with_room(limit, ROOM_OF_ONE)
    }

    fn with_room(limit: &TimeLimit, factor: u32) -> Self {
        let mut diagram = Diagram::with_room(limit, factor);
        let reachable = inputs::reachable(&mut diagram);
        let (shares, origins) = (Shares::default(), Origins::default());
        Self { diagram, reachable, factor, open: Vec::new(), shares, origins, last: None }
    }

    /// An empty decoder for these programs. Those of them that are too complex to be
    /// drawn get equal shares of what decoding may cost; with [`Decoder::within`] the
    /// first ones get more than the others.
    pub fn of_programs<'p>(programs: impl IntoIterator<Item = &'p Program>, limit: &TimeLimit) -> Self {
        let complex = programs.into_iter().filter(|program| code::may_be_complex(program)).count();
        Self { shares: Shares::expecting(complex), ..Self::within(limit) }
    }

    /// The time limit.
    pub fn limit(&self) -> &TimeLimit {
        self.diagram.limit()
    }

    /// The policy of `programs` together, in run order. No program allows
    /// everything. Never fails: what cannot be decoded is unknown.
    pub fn policy(&mut self, programs: &[&Program], context: &Context<'_>) -> Policy {
        self.settled(&codes(programs, context), programs, context).0
    }

    /// The policy of a program that decides the same in every cgroup and beside
    /// every other program; `None` if its place matters
    /// ([`Decoder::depends_on_place`]).
    pub fn policy_anywhere(&mut self, program: &Program, context: &Context<'_>) -> Option<Policy> {
        let codes = codes(&[program], context);
        let depends = codes.iter().any(|code| code_depends_on_place(&code.code, context));
        (!depends).then(|| self.settled(&codes, &[program], context).0)
    }

    /// The policy with what answers single questions, and what the programs may
    /// write. Those that are too complex as a whole are drawn once: with what is
    /// left of the budget a second drawing would know less than the first.
    pub(super) fn settled(
        &mut self,
        codes: &[ProgramCode<'_>],
        programs: &[&Program],
        context: &Context<'_>,
    ) -> (Policy, Written) {
        // One drawing is enough for all cgroups where it is the same.
        let asks = codes.iter().any(ProgramCode::may_read_cgroup_id);
        let context = &Context { cgroup_id: context.cgroup_id.filter(|_| asks), ..*context };
        let made_of = MadeOf::of(programs, context);
        if let Some(last) = self.last.as_ref().filter(|last| last.made_of == made_of) {
            return (last.policy, last.written.clone());
        }
        let is_complex = codes.iter().any(ProgramCode::may_be_complex);
        let digest = made_of.digest;
        let is_drawn_once = is_complex || self.limit().is_over();
        if let Some(policy) = self.origins.drawn(&digest).filter(|_| is_drawn_once) {
            let written = self.origins.written(policy.origin, programs).cloned();
            return (policy, written.unwrap_or_else(|| most_written(codes)));
        }
        if self.limit().is_over() {
            return (self.late(digest), Written::everything());
        }
        let (policy, written, is_partial) = self.settle(codes, context);
        let policy = match self.is_known(policy) {
            true => policy,
            false => {
                // A single question may be settled where all at once are not.
                let answers = (is_complex || is_partial) && !self.limit().is_over();
                let answerer = answers.then(|| Stack::new(programs, context, written.clone()));
                self.made_of(policy, digest, answerer.map(Answerer::Programs))
            }
        };
        self.last = Some(Settled { made_of, policy, written: written.clone() });
        (policy, written)
    }

    /// A policy of which nothing was decoded in time.
    fn late(&mut self, digest: OriginDigest) -> Policy {
        let policy = self.nothing_drawn(time_limit::WHY);
        self.made_of(policy, digest, None)
    }

    /// A policy that is not exact, with what it was made of. If something equal was made
    /// before, that is the policy.
    pub(super) fn made_of(
        &mut self,
        drawn: Policy,
        digest: OriginDigest,
        answerer: Option<Answerer>,
    ) -> Policy {
        let origin = self.origins.add(digest, Some(drawn), answerer);
        let drawn = self.origins.drawn(&digest).unwrap_or(drawn);
        Policy { origin, ..drawn }
    }

    /// The policy, what the programs may write (so that reads of it are unknown),
    /// and whether a single question may be settled that this leaves open.
    pub(super) fn settle(
        &mut self,
        codes: &[ProgramCode<'_>],
        context: &Context<'_>,
    ) -> (Policy, Written, bool) {
        let mut written = Written::default();
        for round in 0.. {
            if round == MAX_ROUNDS {
                written.add_all(&most_written(codes));
            }
            let (policy, is_new, is_partial) = self.attempt(codes, context, &mut written);
            if !is_new || round == MAX_ROUNDS {
                return (policy, written, is_partial);
            }
        }
        (self.nothing_drawn(TOO_COMPLEX), Written::everything(), false)
    }

    /// The policy, provided that no program writes more than `written`; what they do
    /// write is added there. Also returns whether that was new, and whether a single
    /// question may be settled that this leaves open.
    fn attempt(
        &mut self,
        codes: &[ProgramCode<'_>],
        context: &Context<'_>,
        written: &mut Written,
    ) -> (Policy, bool, bool) {
        let factor = self.factor;
        let surroundings = Surroundings { factor, ..surroundings(context, None) };
        let mut run = Run::new(surroundings, written, codes.len());
        let policy = if codes.iter().any(|code| touches_retval(&code.code, context)) {
            let symbols = &mut Symbols::with_room(self.limit(), factor);
            let allowed = run.in_sequence(codes, &self.shares, symbols);
            if self.is_too_large(symbols, allowed) {
                run.cut.extend(codes.iter().map(|code| code.program.id));
            }
            self.adopt(symbols, allowed)
        } else {
            let policies: Vec<Policy> = codes
                .iter()
                .map(|code| {
                    let symbols = &mut Symbols::with_room(self.limit(), factor);
                    let allowed = run.alone(code, &Word::ZERO, &self.shares, symbols).allows;
                    if self.is_too_large(symbols, allowed) {
                        run.cut.insert(code.program.id);
                    }
                    self.adopt(symbols, allowed)
                })
                .collect();
            let all = policies.into_iter().fold(self.everything(), |sum, policy| self.both(sum, policy));
            self.whole(all)
        };
        let (is_new, is_wide, cut) = (run.is_new, run.is_wide, run.cut);
        cut.iter().for_each(|program| self.shares.give_up(*program));
        (policy, is_new, is_wide || !cut.is_empty())
    }

    /// A policy of programs that may be too complex as a whole: nothing of it is
    /// drawn, and each question is answered by running the programs on that
    /// question alone. An answer that is known is the same as that of
    /// [`Decoder::policy`]. `None` where drawing it will be quick.
    pub fn undrawn(&mut self, programs: &[&Program], context: &Context<'_>) -> Option<Policy> {
        let codes = codes(programs, context);
        let is_complex = codes.iter().any(ProgramCode::may_be_complex);
        if !is_complex {
            return None;
        }
        let stack = Stack::new(programs, context, most_written(&codes));
        let digest = digest_of_programs(programs, context);
        let origin = self.origins.add(digest, None, Some(Answerer::Programs(stack)));
        Some(Policy { allow: Bdd::FALSE, deny: Bdd::FALSE, origin })
    }

    /// The answer to one question by running the programs on it alone, and why
    /// it is unknown.
    pub(super) fn ask(
        codes: &[ProgramCode<'_>],
        context: &Context<'_>,
        written: &Written,
        bits: u64,
        limit: &TimeLimit,
    ) -> (Verdict, Option<String>) {
        if limit.is_over() {
            return (Verdict::Unknown, Some(time_limit::WHY.to_owned()));
        }
        let symbols = &mut Symbols::within(limit);
        let mut written = written.clone();
        let surroundings = surroundings(context, Some(bits));
        let mut run = Run::new(surroundings, &mut written, codes.len());
        let allowed = run.in_sequence(codes, &Shares::default(), symbols);
        match symbols.diagram.evaluate(allowed, bits) {
            _ if symbols.diagram.exhausted() => (Verdict::Unknown, Some(TOO_COMPLEX.to_owned())),
            Some(true) => (Verdict::Allow, None),
            Some(false) => (Verdict::Deny, None),
            None => (Verdict::Unknown, Some(symbols.why_open(allowed, bits))),
        }
    }

    /// The answer to a question that a policy leaves open, or the reason why there
    /// is none.
    fn fall_back(&self, origin: Origin, bits: u64) -> (Verdict, Option<String>) {
        match self.origins.answerer(origin) {
            None => (Verdict::Unknown, None),
            Some(Answerer::Programs(stack)) => {
                let ask = || Self::ask(&stack.codes(), &stack.context(), &stack.written, bits, self.limit());
                self.origins.answer(origin, bits, ask)
            }
            Some(Answerer::All(policies)) => {
                let mut open = None;
                for policy in policies {
                    match self.verdict_of(*policy, bits) {
                        Verdict::Allow => {}
                        Verdict::Deny => return (Verdict::Deny, None),
                        Verdict::Unknown => open = Some(*policy),
                    }
                }
                match open {
                    None => (Verdict::Allow, None),
                    Some(policy) => (Verdict::Unknown, Some(self.why_unknown(policy, bits).join("; "))),
                }
            }
        }
    }

    /// Whether a run's result is more than this decoder can take in.
    fn is_too_large(&self, symbols: &Symbols, result: Bdd) -> bool {
        symbols.diagram.exhausted() || !symbols.diagram.fits(result, self.diagram.room(), &mut Met::default())
    }

    /// Whether the policy of `program` may depend on the cgroup asked about or
    /// on the programs around it, so that [`Decoder::all_of`] does not apply.
    pub fn depends_on_place(program: &Program, context: &Context<'_>) -> bool {
        code_depends_on_place(&Code::new(program, context), context)
    }

    /// Whether the policy of `program` may depend on the cgroup asked about. A program
    /// that cannot be read is as unknown in one as in the other.
    pub fn reads_cgroup_id(program: &Program, context: &Context<'_>) -> bool {
        Code::new(program, context).is_ok_and(|code| code.may_read_cgroup_id())
    }

    /// The policy where every one of `policies` must allow; no policy allows
    /// everything.
    pub fn all_of(&mut self, policies: &[Policy]) -> Policy {
        let (exact, mut open): (Vec<Policy>, Vec<Policy>) =
            policies.iter().partition(|policy| policy.origin == Origin::NONE);
        let exact = exact.into_iter().fold(self.everything(), |sum, policy| self.both(sum, policy));
        open.sort_unstable_by_key(|policy| self.origins.digest(policy.origin).copied());
        open.dedup();
        let drawn = open.iter().fold(exact, |sum, policy| self.both(sum, *policy));
        match open[..] {
            [] => self.whole(drawn),
            [one] if exact == self.everything() => one,
            _ if self.is_known(drawn) => drawn,
            _ => self.all_of_open(exact, &open, drawn),
        }
    }

    /// The policy that allows everything.
    fn everything(&self) -> Policy {
        Policy { allow: self.reachable, deny: Bdd::FALSE, origin: Origin::NONE }
    }

    /// The policy where both must allow, as far as it is drawn.
    fn both(&mut self, a: Policy, b: Policy) -> Policy {
        let (allow, deny) = (self.diagram.and(a.allow, b.allow), self.diagram.or(a.deny, b.deny));
        Policy { allow, deny, origin: Origin::NONE }
    }

    /// The policy where an exact one and some others must allow, `drawn` so far.
    fn all_of_open(&mut self, exact: Policy, open: &[Policy], drawn: Policy) -> Policy {
        let drawn = self.whole(drawn);
        let digests = open.iter().filter_map(|policy| self.origins.digest(policy.origin));
        let digests: Vec<OriginDigest> = digests.copied().collect();
        let exact_id = self.id(exact);
        let parts = std::iter::once(exact_id.as_bytes()).chain(digests.iter().map(|digest| &digest[..]));
        let digest = digest_of_parts("all of", parts);
        let answers = open.iter().any(|policy| self.origins.answerer(policy.origin).is_some());
        let all = || Answerer::All(std::iter::once(exact).chain(open.iter().copied()).collect());
        self.made_of(drawn, digest, answers.then(all))
    }

    /// The programs' answer to one question. It is the kernel's answer too, except
    /// for a device that the kernel never asks about ([`Device::is_never_asked`]).
    pub fn verdict(&self, policy: Policy, device: Device, request: Request) -> Verdict {
        self.verdict_of(policy, inputs::assignment(device, request))
    }

    /// The same for the bits of a question.
    pub(super) fn verdict_of(&self, policy: Policy, bits: u64) -> Verdict {
        match self.drawn(policy, bits) {
            Verdict::Unknown => self.fall_back(policy.origin, bits).0,
            known => known,
        }
    }

    /// The answer of the diagram alone.
    pub(super) fn drawn(&self, policy: Policy, bits: u64) -> Verdict {
        let holds = |function| self.diagram.evaluate(function, bits) == Some(true);
        match (holds(policy.allow), holds(policy.deny)) {
            (true, _) => Verdict::Allow,
            (_, true) => Verdict::Deny,
            _ => Verdict::Unknown,
        }
    }

    /// Why the answer to one question is unknown; empty if it is not.
    pub fn why(&self, policy: Policy, device: Device, request: Request) -> Vec<String> {
        match self.verdict(policy, device, request) {
            Verdict::Unknown => self.why_unknown(policy, inputs::assignment(device, request)),
            _ => Vec::new(),
        }
    }

    pub(super) fn why_unknown(&self, policy: Policy, bits: u64) -> Vec<String> {
        if let (_, Some(why)) = self.fall_back(policy.origin, bits) {
            return vec![why];
        }
        let open = self.open.iter().filter(|(region, _)| self.diagram.evaluate(*region, bits) == Some(true));
        let mut reasons: Vec<String> = open.map(|(_, why)| why.clone()).collect();
        reasons.sort_unstable();
        reasons.dedup();
        reasons
    }

    /// All reasons why something about the policy is unknown.
    pub fn reasons(&self, policy: Policy) -> Vec<&str> {
        let known = [policy.allow, policy.deny];
        let open = self.open.iter().filter(|(region, _)| !known.contains(region));
        let mut reasons: Vec<&str> = open.map(|(_, why)| why.as_str()).collect();
        reasons.sort_unstable();
        reasons.dedup();
        reasons
    }

    /// Whether every verdict of the policy is known.
    pub fn is_known(&mut self, policy: Policy) -> bool {
        self.unknown(policy) == Bdd::FALSE && !self.diagram.exhausted()
    }

    /// The policy if its diagram was finished, which is the case for every
    /// policy made before the diagram outgrew its limits; one that knows
    /// nothing otherwise.
    fn whole(&mut self, policy: Policy) -> Policy {
        if self.diagram.exhausted() { self.nothing_drawn(self.why_exhausted()) } else { policy }
    }

    /// Why nothing more can be added to the diagram.
    pub(super) fn why_exhausted(&self) -> &'static str {
        if self.limit().is_over() { time_limit::WHY } else { TOO_COMPLEX }
    }

    /// The regions in which the policy is unknown, by reason.
    pub(super) fn open_regions(&mut self, policy: Policy) -> Vec<(Bdd, String)> {
        let unknown = self.unknown(policy);
        if unknown == Bdd::FALSE {
            return Vec::new();
        }
        let mut regions: Vec<(Bdd, String)> = Vec::new();
        for (region, why) in self.open.clone() {
            let here = self.diagram.and(region, unknown);
            match regions.iter_mut().find(|(_, known)| *known == why) {
                _ if here == Bdd::FALSE => {}
                Some((sum, _)) => *sum = self.diagram.or(*sum, here),
                None => regions.push((here, why)),
            }
        }
        regions
    }

    /// The region in which the policy is unknown.
    pub(super) fn unknown(&mut self, policy: Policy) -> Bdd {
        let known = self.diagram.or(policy.allow, policy.deny);
        self.diagram.and(self.reachable, !known)
    }

    /// Keeps a result of a run as a policy.
    fn adopt(&mut self, symbols: &Symbols, allowed: Bdd) -> Policy {
        if self.is_too_large(symbols, allowed) {
            return self.nothing_drawn(if self.limit().is_over() { time_limit::WHY } else { TOO_COMPLEX });
        }
        let Projection { yes, no, open } = project(symbols, allowed, &mut self.diagram);
        for (region, why) in open {
            self.note_open(region, &why);
        }
        self.policy_where(yes, no)
    }

    /// Remembers why `region` is unknown.
    pub(super) fn note_open(&mut self, region: Bdd, why: &str) {
        let region = self.diagram.and(region, self.reachable);
        if region != Bdd::FALSE {
            self.remember_open(region, why);
        }
    }

    fn remember_open(&mut self, region: Bdd, why: &str) {
        if !self.open.iter().any(|known| known.0 == region && known.1 == why) {
            self.open.push((region, why.to_owned()));
        }
    }

    /// A policy from where it allows and where it denies.
    pub(super) fn policy_where(&mut self, yes: Bdd, no: Bdd) -> Policy {
        let allow = self.diagram.and(yes, self.reachable);
        let deny = self.diagram.and(no, self.reachable);
        self.whole(Policy { allow, deny, origin: Origin::NONE })
    }

    /// A policy that is unknown everywhere because of `why`.
    pub fn unknown_policy(&mut self, why: &str) -> Policy {
        let unknown = self.nothing_drawn(why);
        self.made_of(unknown, digest_of_parts("unknown", [why.as_bytes()]), None)
    }

    /// A drawing that knows nothing because of `why`.
    fn nothing_drawn(&mut self, why: &str) -> Policy {
        // Nothing is computed here: this must work where the diagram is full.
        self.remember_open(self.reachable, why);
        Policy { allow: Bdd::FALSE, deny: Bdd::FALSE, origin: Origin::NONE }
    }
}

fn touches_retval(code: &Result<Code<'_>, String>, context: &Context<'_>) -> bool {
    context.combination == Combination::Retval && code.as_ref().map_or(true, Code::may_touch_retval)
}

fn code_depends_on_place(code: &Result<Code<'_>, String>, context: &Context<'_>) -> bool {
    touches_retval(code, context)
        || code.as_ref().is_ok_and(|code| code.may_read_cgroup_id() || !code.maps.is_empty())
}
