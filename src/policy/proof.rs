//! Proves the answer to one question: it follows every program instruction by
//! instruction.

use super::annotate::{Annotation, written};
use super::code::{Code, ProgramCode, codes, most_written};
use super::decoder::Decoder;
use super::diagram::Bdd;
use super::inputs::{self, Symbols};
use super::machine::{Decisions, End, Machine, RETVAL_BITS, Surroundings, Trace};
use super::run_order::{after_return, surroundings};
use super::time_limit::{self, TimeLimit};
use super::types::Context;
use super::word::Word;
use super::written::Written;
use crate::model::{Device, Request, Verdict};
use crate::observation::Program;

/// Diagram operations for following one question through a program in words.
const BUDGET_OF_WORDS: u64 = 1_000_000;

/// Steps of a proof that are written down between two looks at the clock.
const CLOCK_STEPS: usize = 1 << 10;

/// The way of one question through all programs.
#[derive(Clone, Debug)]
pub struct Proof {
    /// The programs in run order.
    pub programs: Vec<Followed>,
    /// The verdict.
    pub verdict: Verdict,
    /// Why it is unknown.
    pub why: Option<String>,
}

/// One program's part.
#[derive(Clone, Debug, Default)]
pub struct Followed {
    /// Executed instructions.
    pub steps: Vec<FollowedStep>,
    /// Slot of the instruction that set the returned value, or that went on in another
    /// program which did.
    pub decided_at: Option<usize>,
    /// The result: true allows; `None` is unknown.
    pub returned: Option<bool>,
    /// The error in force after the kernel looked at it; `None` is unknown.
    pub retval: Option<i32>,
    /// Why the program could not be followed to its end.
    pub why: Option<String>,
}

/// One executed instruction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FollowedStep {
    /// The program that it is an instruction of, if that is another one (a tail call).
    pub program: Option<u32>,
    /// Its slot there.
    pub slot: usize,
    /// What it computes or decides.
    pub meaning: String,
}

impl Proof {
    /// A proof for which there is no time left.
    fn late(programs: usize) -> Self {
        let why = Some(time_limit::WHY.to_owned());
        let late = Followed { why: why.clone(), ..Followed::default() };
        Self { programs: vec![late; programs], verdict: Verdict::Unknown, why }
    }
}

impl Decoder {
    /// Follows one question through `programs` in run order.
    pub fn prove(
        &mut self,
        programs: &[&Program],
        context: &Context<'_>,
        device: Device,
        request: Request,
    ) -> Proof {
        if self.limit().is_over() {
            return Proof::late(programs.len());
        }
        let codes = codes(programs, context);
        let bits = inputs::assignment(device, request);
        if let Some(proof) = quick_proof(&codes, context, bits, self.limit()) {
            return proof;
        }
        let (policy, writes) = self.settled(&codes, programs, context);
        let symbols = &mut Symbols::within(self.limit());
        let (followed, allowed) = follow_all(&codes, symbols, context, &writes, bits);
        // One way through the programs does not show that the others, which
        // something unknown may choose, lead to the same answer: the policy does.
        let (verdict, why) = match self.verdict_of(policy, bits) {
            Verdict::Unknown => (Verdict::Unknown, Some(self.why_unknown(policy, bits).join("; "))),
            known => (known, None),
        };
        let why = why.map(|why| match symbols.diagram.evaluate(allowed, bits) {
            None if !symbols.diagram.exhausted() => symbols.why_open(allowed, bits),
            _ => why,
        });
        Proof { programs: followed, verdict, why }
    }

    /// The meaning of each instruction of a program, for all questions: slot and
    /// meaning of every instruction that can be reached. Empty if the program cannot
    /// be decoded.
    pub fn annotate(&mut self, program: &Program, context: &Context<'_>) -> Vec<(usize, String)> {
        let Ok(code) = Code::new(program, context) else { return Vec::new() };
        let symbols = &mut Symbols::within(self.limit());
        let (_, writes) = self.settled(&codes(&[program], context), &[program], context);
        let machine = Machine::new(&code, symbols, surroundings(context, None), &writes);
        let visits = machine.visits();
        let meaning = Annotation::new(&code, symbols, None);
        visits
            .iter()
            .take_while(|_| !self.limit().is_over())
            .filter(|(pc, _)| code.links.place(**pc).0.is_none())
            .filter_map(|(pc, (before, after))| {
                // A jump may leave the program; there is nothing to annotate.
                let operation = code.operations.get(*pc)?;
                let after = written(operation).zip(after.as_ref()).map(|(dst, after)| &after[dst]);
                Some((*pc, meaning.of(operation, before, after, None, symbols)))
            })
            .collect()
    }
}

/// The proof of programs that may be too complex as a whole, where the question
/// alone settles it.
fn quick_proof(
    codes: &[ProgramCode<'_>],
    context: &Context<'_>,
    bits: u64,
    limit: &TimeLimit,
) -> Option<Proof> {
    if !codes.iter().any(ProgramCode::may_be_complex) {
        return None;
    }
    let writes = most_written(codes);
    let (verdict, _) = Decoder::ask(codes, context, &writes, bits, limit);
    if verdict == Verdict::Unknown {
        return None;
    }
    let (programs, _) = follow_all(codes, &mut Symbols::within(limit), context, &writes, bits);
    let is_whole = programs.iter().all(|program| program.why.is_none());
    is_whole.then_some(Proof { programs, verdict, why: None })
}

/// All programs followed in run order, and where the request is allowed.
fn follow_all(
    codes: &[ProgramCode<'_>],
    symbols: &mut Symbols,
    context: &Context<'_>,
    writes: &Written,
    bits: u64,
) -> (Vec<Followed>, Bdd) {
    let mut retval = Word::ZERO;
    let mut followed = Vec::with_capacity(codes.len());
    for code in codes {
        let (part, after) = follow(code, symbols, &retval, context, writes, bits);
        followed.push(part);
        retval = after;
    }
    (followed, retval.equal_to(&Word::ZERO, &mut symbols.diagram))
}

/// One program followed, and the error in force after it.
fn follow(
    code: &ProgramCode<'_>,
    symbols: &mut Symbols,
    retval: &Word,
    context: &Context<'_>,
    writes: &Written,
    bits: u64,
) -> (Followed, Word) {
    let (mut followed, outcome) = match &code.code {
        Ok(code) => {
            let (mut followed, end) = run(code, symbols, retval, context, writes, bits);
            let (ending, outcome) = ended(end, symbols, retval, context);
            followed.why = ending.why.or(followed.why);
            (followed, outcome)
        }
        Err(why) => ended(End::Lost(why.clone()), symbols, retval, context),
    };
    let after = after_return(&outcome, symbols);
    followed.returned = symbols.diagram.evaluate(outcome.allows, bits);
    followed.retval = signed(&after, symbols, bits);
    (followed, after)
}

/// Follows one program with the words of the question, so that the meaning of
/// each step can be told; where that gets too complex, with its numbers.
fn run(
    code: &Code<'_>,
    symbols: &mut Symbols,
    retval: &Word,
    context: &Context<'_>,
    writes: &Written,
    bits: u64,
) -> (Followed, End) {
    let in_words = Surroundings { budget: BUDGET_OF_WORDS, ..surroundings(context, None) };
    let (words, end) = Machine::new(code, symbols, in_words, writes).follow(bits, retval);
    if matches!(end, End::Exit { .. }) {
        return (described(code, symbols, &words, bits), end);
    }
    // The words may have filled the diagram, so the numbers have one of their own.
    let own = &mut Symbols::within(symbols.diagram.limit());
    let start = carried(retval, RETVAL_BITS, symbols, own, bits);
    let in_numbers = surroundings(context, Some(bits));
    let (numbers, other_end) = Machine::new(code, own, in_numbers, writes).follow(bits, &start);
    if numbers.len() < words.len() {
        return (described(code, symbols, &words, bits), end);
    }
    let end = match other_end {
        End::Exit { allows, retval } => {
            let mut allows_bits = [Bdd::FALSE; 64];
            allows_bits[0] = allows;
            End::Exit {
                allows: carried(&Word::from_bits(allows_bits), 1, own, symbols, bits).bits()[0],
                retval: carried(&retval, RETVAL_BITS, own, symbols, bits),
            }
        }
        lost => lost,
    };
    let mut followed = described(code, own, &numbers, bits);
    // As far as the words lead they say more.
    let clear = words.split_last().map_or(&[][..], |(_, before)| before);
    if !symbols.diagram.exhausted() {
        followed.steps.iter_mut().zip(steps(code, symbols, clear, bits)).for_each(|(own, told)| *own = told);
    }
    (followed, end)
}

/// What the low `width` bits of a word are for the question, in other symbols.
fn carried(word: &Word, width: usize, from: &Symbols, to: &mut Symbols, bits: u64) -> Word {
    let mut places = word.bits();
    for place in places.iter_mut().take(width) {
        *place = match from.diagram.evaluate(*place, bits) {
            Some(known) => Bdd::constant(known),
            None => to.lost_word(1, &from.why_open(*place, bits)).bits()[0],
        };
    }
    places[width..].fill(Bdd::FALSE);
    Word::from_bits(places)
}

/// The steps of a run and the one that decided.
fn described(code: &Code<'_>, symbols: &mut Symbols, trace: &[Trace], bits: u64) -> Followed {
    let steps = steps(code, symbols, trace, bits);
    let is_late = steps.len() < trace.len() && symbols.diagram.limit().is_over();
    let why = is_late.then(|| time_limit::WHY.to_owned());
    Followed { decided_at: decided_at(code, trace), steps, why, ..Followed::default() }
}

fn ended(end: End, symbols: &mut Symbols, retval: &Word, context: &Context<'_>) -> (Followed, Decisions) {
    match end {
        End::Exit { allows, retval } => {
            let outcome =
                Decisions { allows, retval, writes: Written::default(), is_cut: false, is_wide: false };
            (Followed::default(), outcome)
        }
        End::Lost(why) => {
            let outcome = Decisions::lost(symbols, retval, surroundings(context, None), &why);
            (Followed { why: Some(why), ..Followed::default() }, outcome)
        }
    }
}

fn signed(word: &Word, symbols: &Symbols, bits: u64) -> Option<i32> {
    let value = word.bits()[..RETVAL_BITS].iter().enumerate().try_fold(0u32, |value, (place, bit)| {
        symbols.diagram.evaluate(*bit, bits).map(|bit| value | u32::from(bit) << place)
    })?;
    Some(value.cast_signed())
}

fn steps(code: &Code<'_>, symbols: &mut Symbols, trace: &[Trace], bits: u64) -> Vec<FollowedStep> {
    let meaning = Annotation::new(code, symbols, Some(bits));
    let mut steps = Vec::with_capacity(trace.len());
    for (index, step) in trace.iter().enumerate() {
        if index.is_multiple_of(CLOCK_STEPS) && symbols.diagram.limit().is_over() {
            break;
        }
        let Some(operation) = code.operations.get(step.pc) else { continue };
        let after = trace.get(index + 1).zip(written(operation)).map(|(next, dst)| &next.before[dst]);
        let (program, slot) = code.links.place(step.pc);
        let meaning = meaning.of(operation, &step.before, after, step.taken, symbols);
        steps.push(FollowedStep { program, slot, meaning });
    }
    steps
}

/// The last instruction that wrote r0, or after which the program went on in the one
/// that did.
fn decided_at(code: &Code<'_>, trace: &[Trace]) -> Option<usize> {
    let writes_r0 = |step: &Trace| code.operations.get(step.pc).and_then(written) == Some(0);
    let is_own = |step: &&Trace| code.links.place(step.pc).0.is_none();
    let last = trace.iter().rposition(writes_r0)?;
    trace.get(..=last)?.iter().rev().find(is_own).map(|step| step.pc)
}
