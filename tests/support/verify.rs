//! Runs a class of programs and compares two opinions about each.

use std::fmt::Write as _;
use std::path::Path;
use std::time::Instant;

use gpumap::bytecode::Insn;
use gpumap::model::{Device, Request, RequestSet, Verdict};
use gpumap::observation::Program;
use gpumap::policy::{Combination, Context, Decoder};

use super::bench::{Bench, Facts, Refused};
use super::concrete::Machine;
use super::generate::stacks::Stack;
use super::generate::writers::CgroupIds;
use super::law::{self, Asked, Scratch};
use super::minimize::minimize;
use super::rng::Rng;

/// A kind of program to test with.
pub struct Class {
    pub name: &'static str,
    /// How many programs by default.
    pub cases: u64,
    /// Percent of the programs that the verifier has to accept.
    pub floor: u64,
    /// Percent of the questions about programs marked for it to which the
    /// decoder may say "unknown".
    pub most_unknown: u64,
    pub generate: fn(u64, &mut Rng, CgroupIds) -> Stack,
    /// What the decoder gets to see.
    pub view: fn(&mut Facts),
}

/// Whose opinion is compared with the kernel's.
pub trait Judge {
    fn verdicts(&mut self, facts: &Facts, questions: &[(Device, Request)]) -> Vec<Verdict>;

    /// Whether it is gpumap's, so that every view of the command must say the same.
    fn has_views(&self) -> bool {
        false
    }
}

/// Of so many programs one is asked about through the command; `GPUMAP_VIEWS=1` asks
/// about all.
const VIEWS_EVERY: u64 = 40;

/// The decoder under test.
pub struct Decode;

impl Judge for Decode {
    fn verdicts(&mut self, facts: &Facts, questions: &[(Device, Request)]) -> Vec<Verdict> {
        let mut decoder = Decoder::new();
        let programs: Vec<&Program> = facts.programs.iter().collect();
        let context = Context {
            maps: &facts.maps,
            cgroups: &[],
            cgroup_id: Some(facts.cgroup_id),
            combination: Combination::Retval,
        };
        let policy = decoder.policy(&programs, &context);
        questions.iter().map(|&(device, request)| decoder.verdict(policy, device, request)).collect()
    }

    fn has_views(&self) -> bool {
        true
    }
}

/// The bench's own interpreter.
pub struct Interpret;

impl Judge for Interpret {
    fn verdicts(&mut self, facts: &Facts, questions: &[(Device, Request)]) -> Vec<Verdict> {
        let machine = Machine::new(&facts.programs, &facts.maps, facts.cgroup_id);
        questions.iter().map(|&(device, request)| machine.verdict(device, request)).collect()
    }
}

/// Repeats the kernel's answers: for looking at the generators alone.
pub struct Echo;

impl Judge for Echo {
    fn verdicts(&mut self, facts: &Facts, questions: &[(Device, Request)]) -> Vec<Verdict> {
        let known = self::questions(&facts.devices, &facts.allowed);
        assert_eq!(known.len(), questions.len());
        known.into_iter().map(|(_, _, verdict)| verdict).collect()
    }
}

/// What came of a class.
#[derive(Debug, Default)]
struct Tally {
    accepted: u64,
    refused: u64,
    questions: u64,
    denied: u64,
    /// Programs that neither allow nor deny everything asked.
    mixed: u64,
    /// Questions about programs marked as possibly unknown, and unknown answers.
    marked: u64,
    unknown: u64,
    /// Programs that were asked about through the command.
    views: u64,
    refusals: Vec<String>,
    failures: Vec<String>,
}

/// Failures reported in full before a class gives up.
const MOST_FAILURES: usize = 3;

/// Compares `judge` with the kernel on every program of the class.
///
/// `GPUMAP_CASES` sets the number of programs, `GPUMAP_SEED` the seed of the
/// first.
pub fn compare(class: &Class, judge: &mut dyn Judge) {
    let Some(_host) = super::host::shared() else { return };
    let mut bench = Bench::new().expect("scratch cgroups and an oracle");
    compare_on(class, judge, &mut bench);
}

/// The same on a bench that is there.
pub fn compare_on(class: &Class, judge: &mut dyn Judge, bench: &mut Bench) {
    let (cases, first) = (number("GPUMAP_CASES").unwrap_or(class.cases), number("GPUMAP_SEED").unwrap_or(1));
    let mut tally = Tally::default();
    let began = Instant::now();
    for seed in first..first + cases {
        one(class, judge, bench, seed, &mut tally);
        if tally.failures.len() >= MOST_FAILURES {
            break;
        }
    }
    let acceptance = tally.accepted * 100 / (tally.accepted + tally.refused).max(1);
    eprintln!(
        "{}: {} programs ({acceptance}% accepted), {} mixed, {} in every view, {} questions ({} denied), {} of {} unknown, {:.1?} ({:.1?} asking)",
        class.name,
        tally.accepted,
        tally.mixed,
        tally.views,
        tally.questions,
        tally.denied,
        tally.unknown,
        tally.marked,
        began.elapsed(),
        bench.asking(),
    );
    if std::env::var_os("GPUMAP_SHOW_REFUSALS").is_some() {
        tally.refusals.iter().for_each(|log| eprintln!("--- refused\n{log}"));
    }
    assert!(tally.failures.is_empty(), "{}:\n{}", class.name, tally.failures.join("\n"));
    if cases >= 50 {
        assert!(acceptance >= class.floor, "{}: only {acceptance}% accepted: no teeth left", class.name);
        assert!(tally.mixed * 4 >= tally.accepted, "{}: too few programs decide anything", class.name);
    }
    let share = tally.unknown * 100 / tally.marked.max(1);
    assert!(share <= class.most_unknown, "{}: {share}% of the answers are unknown", class.name);
}

fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok().map(|value| value.parse().expect("a number"))
}

fn one(class: &Class, judge: &mut dyn Judge, bench: &mut Bench, seed: u64, tally: &mut Tally) {
    let mut rng = Rng::new(seed);
    let stack = (class.generate)(seed, &mut rng, bench.place());
    let scratch = is_viewed(judge, seed).then(Scratch::new);
    let snapshot = scratch.as_ref().map(|scratch| scratch.path().join("snapshot.json"));
    let save = |cgroup: &Path| snapshot.iter().for_each(|to| law::snapshot(cgroup, to));
    let mut facts = match bench.run_after(&stack, &mut rng, save) {
        Ok(facts) => facts,
        Err(Refused::Load(log)) => {
            tally.refused += 1;
            tally.refusals.push(format!("seed {seed}\n{log}"));
            return;
        }
        Err(Refused::Empty) => return,
    };
    if let Some(snapshot) = snapshot {
        tally.views += 1;
        let cgroup = bench.leaf().path().to_string_lossy().into_owned();
        let (devices, allowed) = (facts.devices.clone(), facts.allowed.clone());
        let asked = Asked { snapshot, cgroup, devices, allowed };
        if let Err(difference) = law::agree(&asked, law::Views::of(seed / VIEWS_EVERY)) {
            tally.failures.push(format!("seed {seed}, {:?}: {difference}", shapes(&stack)));
        }
    }
    (class.view)(&mut facts);
    tally.accepted += 1;
    let marked = stack.sources().iter().any(|source| source.may_be_unknown);
    let result = examine(&facts, judge);
    tally.questions += facts.devices.len() as u64 * 5;
    tally.denied += result.denied;
    tally.mixed += u64::from(result.denied != 0 && result.denied != facts.devices.len() as u64 * 5);
    tally.marked += if marked { facts.devices.len() as u64 * 5 } else { 0 };
    tally.unknown += result.unknowns;
    let failure = result.wrong.or(if marked { None } else { result.unknown });
    if let Some(failure) = failure {
        let smaller = smaller(class, judge, bench, &stack, seed, failure.verdict);
        let mut text = format!("seed {seed}, {:?}: {failure}\n{}", shapes(&stack), listing(&facts));
        if let Some(smaller) = smaller {
            let _ = write!(text, "smaller:\n{smaller}");
        }
        tally.failures.push(text);
    }
}

fn is_viewed(judge: &dyn Judge, seed: u64) -> bool {
    judge.has_views() && seed.is_multiple_of(number("GPUMAP_VIEWS").unwrap_or(VIEWS_EVERY))
}

fn shapes(stack: &Stack) -> Vec<String> {
    stack.sources().iter().map(|source| source.shape.clone()).collect()
}

/// One question with two answers.
#[derive(Clone, Copy, Debug)]
struct Failure {
    device: Device,
    request: Request,
    verdict: Verdict,
    kernel: Verdict,
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let request = self.request.letters();
        write!(f, "{} {request}: {} here, {} by the kernel", self.device, self.verdict, self.kernel)
    }
}

#[derive(Default)]
struct Examined {
    denied: u64,
    unknowns: u64,
    wrong: Option<Failure>,
    unknown: Option<Failure>,
}

fn examine(facts: &Facts, judge: &mut dyn Judge) -> Examined {
    let questions = questions(&facts.devices, &facts.allowed);
    let asked: Vec<(Device, Request)> =
        questions.iter().map(|(device, request, _)| (*device, *request)).collect();
    let verdicts = judge.verdicts(facts, &asked);
    let mut result = Examined::default();
    for ((device, request, kernel), verdict) in questions.into_iter().zip(verdicts) {
        result.denied += u64::from(kernel == Verdict::Deny);
        let failure = Failure { device, request, verdict, kernel };
        if verdict == Verdict::Unknown {
            result.unknowns += 1;
            result.unknown.get_or_insert(failure);
        } else if verdict != kernel {
            result.wrong.get_or_insert(failure);
        }
    }
    result
}

fn questions(devices: &[Device], allowed: &[RequestSet]) -> Vec<(Device, Request, Verdict)> {
    let verdict =
        |set: &RequestSet, request| if set.contains(request) { Verdict::Allow } else { Verdict::Deny };
    devices
        .iter()
        .zip(allowed)
        .flat_map(|(device, set)| Request::ALL.map(|request| (*device, request, verdict(set, request))))
        .collect()
}

/// A lone program, made as small as it goes.
fn smaller(
    class: &Class,
    judge: &mut dyn Judge,
    bench: &mut Bench,
    stack: &Stack,
    seed: u64,
    kind: Verdict,
) -> Option<String> {
    let [placement] = &stack.0[..] else { return None };
    let mut last = None;
    minimize(&placement.source, |source| {
        let Ok(mut facts) = bench.run(&Stack::alone(source.clone()), &mut Rng::new(seed)) else {
            return false;
        };
        (class.view)(&mut facts);
        let result = examine(&facts, judge);
        let failure = if kind == Verdict::Unknown { result.unknown } else { result.wrong };
        if let Some(failure) = failure {
            last = Some(format!("{failure}\n{}", listing(&facts)));
        }
        failure.is_some()
    });
    last
}

/// The programs as bytes and as opcodes.
fn listing(facts: &Facts) -> String {
    let mut text = String::new();
    for program in &facts.programs {
        let bytes = &program.xlated.known().expect("dumped").0;
        let _ = writeln!(text, "program {} maps {:?} calls {:?}", program.id, program.map_ids, program.calls);
        for (at, insn) in Insn::parse_all(bytes).expect("whole slots").iter().enumerate() {
            let hex: String = insn.bytes().iter().map(|byte| format!("{byte:02x}")).collect();
            let Insn { code, dst, src, off, imm } = insn;
            let _ =
                writeln!(text, "{at:4} {hex}  code {code:#04x} dst r{dst} src r{src} off {off} imm {imm}");
        }
    }
    for map in &facts.maps {
        let _ = writeln!(text, "{map:?}");
    }
    text
}
