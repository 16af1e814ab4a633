//! One program or several in run order → one policy.

use std::collections::BTreeSet;

use crate::observation::{Map, Program};

use super::code::Code;
use super::deadline;
use super::device::{Device, Request, Verdict};
use super::diagram::{Bdd, Diagram};
use super::inputs::{self, Symbols};
use super::machine::{Machine, Outcome, RETVAL_BITS, Surroundings};
use super::project::{Projection, project};
use super::word::Word;

/// `-EPERM`, what the kernel sets where a program returns 0.
pub const DENIED: i32 = -1;
/// Errors are -4095 to -1 (`MAX_ERRNO`, `linux/err.h`).
const MAX_ERRNO: u64 = 4095;

/// Why a policy is unknown whose diagram outgrew its limits.
const TOO_COMPLEX: &str = "the programs are too complex for gpumap's limits";

/// Decodes programs and answers questions about policies. Policies of one
/// decoder can be compared with each other.
#[derive(Debug)]
pub struct Decoder {
    pub(super) diagram: Diagram,
    reachable: Bdd,
    /// Where policies are unknown, by reason.
    open: Vec<(Bdd, String)>,
}

/// What programs read besides their arguments.
#[derive(Clone, Copy, Debug)]
pub struct Context<'a> {
    /// The maps, with contents.
    pub maps: &'a [Map],
    /// The id of the cgroup asked about; `None` when a program is looked at on
    /// its own.
    pub cgroup_id: Option<u64>,
    /// How this kernel combines several programs.
    pub combination: Combination,
}

/// How the kernel combines the results of several programs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Combination {
    /// Before Linux 5.18: allowed if every program returns 1.
    AllMustAllow,
    /// Since Linux 5.18: a return of 0 sets `-EPERM` unless an error is
    /// already set, and a program may change the error with `bpf_set_retval`.
    #[default]
    Retval,
}

/// What one or more programs decide, for every device and request. Equal
/// policies of one decoder are equal values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Policy {
    /// Where the request is allowed for certain.
    pub(super) allow: Bdd,
    /// Where it is denied for certain.
    pub(super) deny: Bdd,
}

impl Combination {
    /// What a kernel of release `uname -r` does. Kernels whose distributor
    /// ports BPF back inside an old number (`.el`) count as new: for them only
    /// trying would tell, and the new rule claims less.
    pub fn of_kernel(release: &str) -> Self {
        let mut numbers = release.split(['.', '-']).map_while(|part| part.parse::<u32>().ok());
        match (numbers.next(), numbers.next()) {
            (Some(major), Some(minor)) if (major, minor) < (5, 18) && !release.contains(".el") => {
                Self::AllMustAllow
            }
            _ => Self::Retval,
        }
    }
}

impl Default for Decoder {
    fn default() -> Self {
        let mut diagram = Diagram::default();
        let reachable = inputs::reachable(&mut diagram);
        Self { diagram, reachable, open: Vec::new() }
    }
}

impl Decoder {
    /// An empty decoder.
    pub fn new() -> Self {
        Self::default()
    }

    /// The policy of `programs` together, in run order. No program allows
    /// everything. Never fails: what cannot be decoded is unknown.
    pub fn policy(&mut self, programs: &[&Program], context: &Context<'_>) -> Policy {
        if deadline::is_over() {
            return self.unknown_policy(deadline::WHY);
        }
        let codes: Vec<_> = programs.iter().map(|program| Code::new(program, context.maps)).collect();
        self.settle(&codes, context).0
    }

    /// The policy, and the ids of the maps that the programs may write to:
    /// their contents change with every question, so they are not used.
    pub(super) fn settle(
        &mut self,
        codes: &[Result<Code<'_>, String>],
        context: &Context<'_>,
    ) -> (Policy, BTreeSet<u32>) {
        let mut written = BTreeSet::new();
        loop {
            let known = written.len();
            let policy = self.attempt(codes, context, &mut written);
            if written.len() == known {
                return (policy, written);
            }
        }
    }

    /// The policy, provided that no program writes to other maps than
    /// `written`; the maps they do write to are added there.
    fn attempt(
        &mut self,
        codes: &[Result<Code<'_>, String>],
        context: &Context<'_>,
        written: &mut BTreeSet<u32>,
    ) -> Policy {
        if codes.iter().any(|code| touches_retval(code, context)) {
            return self.in_sequence(codes, context, written);
        }
        let policies: Vec<Policy> = codes.iter().map(|code| self.alone(code, context, written)).collect();
        self.all_of(&policies)
    }

    /// Whether the policy of `program` may depend on the cgroup asked about or
    /// on the programs around it, so that [`Decoder::all_of`] does not apply.
    pub fn depends_on_place(program: &Program, context: &Context<'_>) -> bool {
        let code = Code::new(program, context.maps);
        touches_retval(&code, context)
            || code.is_ok_and(|code| code.may_read_cgroup_id() || !code.maps.is_empty())
    }

    /// The policy where every one of `policies` must allow; no policy allows
    /// everything.
    pub fn all_of(&mut self, policies: &[Policy]) -> Policy {
        let all = policies.iter().copied().reduce(|sum, policy| Policy {
            allow: self.diagram.and(sum.allow, policy.allow),
            deny: self.diagram.or(sum.deny, policy.deny),
        });
        self.whole(all.unwrap_or(Policy { allow: self.reachable, deny: Bdd::FALSE }))
    }

    /// The kernel's answer to one question.
    pub fn verdict(&self, policy: Policy, device: Device, request: Request) -> Verdict {
        let bits = inputs::assignment(device, request);
        let holds = |function| self.diagram.evaluate(function, bits) == Some(true);
        match (holds(policy.allow), holds(policy.deny)) {
            (true, _) => Verdict::Allow,
            (_, true) => Verdict::Deny,
            _ => Verdict::Unknown,
        }
    }

    /// Why the answer to one question is unknown; empty if it is not.
    pub fn why(&self, policy: Policy, device: Device, request: Request) -> Vec<&str> {
        let bits = inputs::assignment(device, request);
        if self.verdict(policy, device, request) != Verdict::Unknown {
            return Vec::new();
        }
        let open = self.open.iter().filter(|(region, _)| self.diagram.evaluate(*region, bits) == Some(true));
        let mut reasons: Vec<&str> = open.map(|(_, why)| why.as_str()).collect();
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
        if self.diagram.exhausted() { self.unknown_policy(self.why_exhausted()) } else { policy }
    }

    /// Why nothing more can be added to the diagram.
    pub(super) fn why_exhausted(&self) -> &'static str {
        if deadline::is_over() { deadline::WHY } else { TOO_COMPLEX }
    }

    /// Where the policy is unknown, by reason.
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

    /// Where the policy is unknown.
    pub(super) fn unknown(&mut self, policy: Policy) -> Bdd {
        let known = self.diagram.or(policy.allow, policy.deny);
        self.diagram.and(self.reachable, !known)
    }

    fn alone(
        &mut self,
        code: &Result<Code<'_>, String>,
        context: &Context<'_>,
        written: &mut BTreeSet<u32>,
    ) -> Policy {
        let symbols = &mut Symbols::default();
        let outcome = run(code, symbols, &Word::ZERO, context, written);
        self.adopt(symbols, outcome.allows)
    }

    fn in_sequence(
        &mut self,
        codes: &[Result<Code<'_>, String>],
        context: &Context<'_>,
        written: &mut BTreeSet<u32>,
    ) -> Policy {
        let symbols = &mut Symbols::default();
        let mut retval = Word::ZERO;
        for code in codes {
            let outcome = run(code, symbols, &retval, context, written);
            retval = after_return(&outcome, symbols);
        }
        let allowed = retval.equal_to(&Word::ZERO, &mut symbols.diagram);
        self.adopt(symbols, allowed)
    }

    /// Keeps a result of a run as a policy.
    fn adopt(&mut self, symbols: &Symbols, allowed: Bdd) -> Policy {
        if symbols.diagram.exhausted() {
            return self.unknown_policy(if deadline::is_over() { deadline::WHY } else { TOO_COMPLEX });
        }
        let Projection { yes, no, open } = project(symbols, allowed, &mut self.diagram);
        for (region, why) in open {
            self.note_open(region, &why);
        }
        self.policy_of(yes, no)
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
    pub(super) fn policy_of(&mut self, yes: Bdd, no: Bdd) -> Policy {
        let allow = self.diagram.and(yes, self.reachable);
        let deny = self.diagram.and(no, self.reachable);
        self.whole(Policy { allow, deny })
    }

    /// A policy that is unknown everywhere because of `why`.
    pub fn unknown_policy(&mut self, why: &str) -> Policy {
        // Nothing is computed here: this must work where the diagram is full.
        self.remember_open(self.reachable, why);
        Policy { allow: Bdd::FALSE, deny: Bdd::FALSE }
    }
}

fn touches_retval(code: &Result<Code<'_>, String>, context: &Context<'_>) -> bool {
    context.combination == Combination::Retval && code.as_ref().map_or(true, Code::may_touch_retval)
}

/// Runs one program; a program that cannot be run decides anything. Maps it
/// writes to are added to `written`.
pub(super) fn run(
    code: &Result<Code<'_>, String>,
    symbols: &mut Symbols,
    retval: &Word,
    context: &Context<'_>,
    written: &mut BTreeSet<u32>,
) -> Outcome {
    let surroundings = surroundings(context);
    let result = match code {
        Ok(code) => Machine::new(code, symbols, surroundings, written).run(retval),
        Err(why) => Err(why.clone()),
    };
    let outcome = result.unwrap_or_else(|why| {
        let allows = symbols.unknown_bit(&why);
        let retval = if surroundings.has_retval {
            symbols.unknown_word(RETVAL_BITS as u32, &why)
        } else {
            retval.clone()
        };
        Outcome { allows, retval, writes: BTreeSet::new() }
    });
    written.extend(&outcome.writes);
    outcome
}

pub(super) fn surroundings(context: &Context<'_>) -> Surroundings {
    Surroundings { cgroup_id: context.cgroup_id, has_retval: context.combination == Combination::Retval }
}

/// The error in force once the kernel has looked at what a program returned
/// (`bpf_prog_run_array_cg`, `kernel/bpf/cgroup.c`).
pub(super) fn after_return(outcome: &Outcome, symbols: &mut Symbols) -> Word {
    let retval = outcome.retval.sign_extended(RETVAL_BITS);
    let diagram = &mut symbols.diagram;
    let is_error = !retval.less_than(&Word::Constant(0u64.wrapping_sub(MAX_ERRNO)), diagram);
    let keeps = diagram.or(outcome.allows, is_error);
    let denied = Word::Constant(DENIED as i64 as u64).zero_extended(RETVAL_BITS);
    Word::ite(keeps, &outcome.retval, &denied, diagram)
}
