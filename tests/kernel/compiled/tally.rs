//! Counts the results by class.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::Write as _;
use std::time::{Duration, Instant};

use gpumap::model::{Device, Numbers, Request, Rule, Verdict};
use gpumap::observation::{Observation, Program};
use gpumap::policy::{Combination, Context, Decoder, RuleList};

use super::Case;
use crate::support::kernel;
use crate::support::law::Asked;

/// Questions of one program whose proof is compared, too.
const PROOFS: usize = 6;
/// Unknown answers, of a thousand, that a class may have in which everything
/// can be read.
const MOST_UNKNOWN: u64 = 10;

/// Counts of one class.
#[derive(Debug, Default)]
struct Count {
    programs: u64,
    refused: u64,
    mixed: u64,
    verdicts: u64,
    unknown: u64,
    longest: Duration,
    reasons: BTreeMap<String, u64>,
}

/// Counts of all classes, and what went wrong.
#[derive(Debug, Default)]
pub struct Tally {
    classes: BTreeMap<&'static str, Count>,
    /// Programs asked about through the command.
    pub views: u64,
    failures: Vec<String>,
}

impl Tally {
    /// The verifier did not take the program.
    pub fn refused(&mut self, case: &Case, log: String) {
        self.classes.entry(case.class.name).or_default().refused += 1;
        if std::env::var_os("GPUMAP_SHOW_REFUSALS").is_some() {
            eprintln!(
                "--- seed {} ({}, {} {})\n{log}\n{}",
                case.seed, case.class.name, case.level, case.set, case.written.text
            );
        }
    }

    /// Something differs that must not.
    pub fn fail(&mut self, case: &Case, difference: &str) {
        let program = program_text(&case.written.text);
        self.failures.push(format!(
            "seed {} ({}, {} {}): {difference}\n{program}",
            case.seed, case.class.name, case.level, case.set
        ));
    }

    /// Compares the decoder's answers with the kernel's.
    pub fn count(&mut self, case: &Case, asked: &Asked, compiler: &str) {
        let text = std::fs::read_to_string(&asked.snapshot).expect("a snapshot");
        let observation: Observation = serde_json::from_str(&text).expect("an observation");
        let mut wrong = Vec::new();
        let count = self.classes.entry(case.class.name).or_default();
        count.programs += 1;
        let began = Instant::now();
        let (verdicts_before, unknown_before) = (count.verdicts, count.unknown);
        compare(&observation, asked, count, &mut wrong);
        count.longest = count.longest.max(began.elapsed());
        let (verdicts, unknown) = (count.verdicts - verdicts_before, count.unknown - unknown_before);
        log(case, compiler, &format!("{verdicts} verdicts, {unknown} unknown, {} wrong", wrong.len()));
        if count.unknown > unknown_before {
            keep(case, &count.reasons);
        }
        wrong.iter().take(3).for_each(|difference| self.fail(case, difference));
    }

    /// Prints the counts; fails if anything differs or too much is unknown.
    pub fn judge(&self, cases: u64) {
        let mut text = String::new();
        for (class, count) in &self.classes {
            let per_mille = count.unknown as f64 * 1000.0 / count.verdicts.max(1) as f64;
            let _ = writeln!(
                text,
                "{class:16} {:5} programs, {:4} refused, {:5} mixed, {:8} verdicts, {:6} unknown ({per_mille:.1} of 1000), longest {:.1?}",
                count.programs, count.refused, count.mixed, count.verdicts, count.unknown, count.longest
            );
            for (why, times) in &count.reasons {
                let _ = writeln!(text, "                   {times}: {why}");
            }
        }
        eprintln!("{text}{} programs asked about through the command", self.views);
        assert!(
            self.failures.is_empty(),
            "{} differences:\n{}",
            self.failures.len(),
            self.failures.iter().take(8).cloned().collect::<Vec<_>>().join("\n")
        );
        let (programs, refused, mixed) = self.classes.values().fold((0, 0, 0), |sum, count| {
            (sum.0 + count.programs, sum.1 + count.refused, sum.2 + count.mixed)
        });
        let enough = if kernel::takes_all_programs() { 8 } else { 3 };
        assert!(
            programs * 10 >= cases * enough,
            "only {programs} of {cases} programs load ({refused} refused)"
        );
        assert!(mixed * 2 >= programs, "only {mixed} of {programs} programs decide anything");
        for class in super::CLASSES.iter().filter(|class| class.readable) {
            let Some(count) = self.classes.get(class.name) else { continue };
            let most = count.verdicts * MOST_UNKNOWN / 1000;
            assert!(count.unknown <= most, "{}: {} of {} unknown", class.name, count.unknown, count.verdicts);
        }
    }
}

fn compare(observation: &Observation, asked: &Asked, count: &mut Count, wrong: &mut Vec<String>) {
    let cgroup =
        observation.cgroups.iter().find(|cgroup| asked.cgroup.ends_with(cgroup.path.lossy().as_ref()));
    let cgroup = cgroup.expect("the cgroup asked about");
    let programs: Vec<&Program> = cgroup
        .effective
        .known()
        .expect("a list of programs")
        .iter()
        .map(|id| observation.programs.iter().find(|program| program.id == *id).expect("a program"))
        .collect();
    let context = Context {
        maps: &observation.maps,
        cgroups: &observation.cgroups,
        cgroup_id: Some(cgroup.id),
        combination: Combination::Retval,
    };
    let mut decoder = Decoder::new();
    let policy = decoder.policy(&programs, &context);
    let list = decoder.rules(policy);
    let (mut proofs, mut denied, before) = (0, 0, count.verdicts);
    for (device, allowed) in asked.devices.iter().zip(&asked.allowed) {
        for request in Request::ALL {
            let kernel = if allowed.contains(request) { Verdict::Allow } else { Verdict::Deny };
            denied += u64::from(kernel == Verdict::Deny);
            count.verdicts += 1;
            let verdict = decoder.verdict(policy, *device, request);
            let known = [Verdict::Unknown, kernel];
            if !known.contains(&verdict) {
                wrong.push(format!("{device} {request:?}: {verdict} here, {kernel} by the kernel"));
            }
            let by_rules = verdict_of_rules(&list, *device, request);
            if list.omitted.is_none() && by_rules != verdict {
                wrong.push(format!("{device} {request:?}: {verdict}, and {by_rules} by the rules"));
            }
            if verdict == Verdict::Unknown {
                count.unknown += 1;
                for why in decoder.why(policy, *device, request) {
                    *count.reasons.entry(without_numbers(&why)).or_default() += 1;
                }
            }
            let is_interesting = verdict == Verdict::Unknown || count.verdicts.is_multiple_of(67);
            if proofs < PROOFS && is_interesting {
                proofs += 1;
                let proof = decoder.prove(&programs, &context, *device, request);
                if proof.verdict != verdict {
                    wrong.push(format!(
                        "{device} {request:?}: {verdict}, and the proof says {} ({:?})",
                        proof.verdict, proof.why
                    ));
                }
            }
        }
    }
    count.mixed += u64::from(denied != 0 && denied != count.verdicts - before);
}

/// The verdict that a reader of the rules finds: that of the rule which names
/// the request, else the default. The list is not folded into a diagram again,
/// because tens of thousands of rules outgrow its limits.
fn verdict_of_rules(list: &RuleList, device: Device, request: Request) -> Verdict {
    let names = |rule: &&Rule| {
        rule.kind.is_none_or(|kind| kind == device.kind)
            && rule.requests.contains(request)
            && has(rule.major, device.major)
            && has(rule.minor, device.minor)
    };
    list.rules.iter().find(names).map_or(list.default, |rule| rule.verdict)
}

fn has(numbers: Numbers, number: u32) -> bool {
    (numbers.first..=numbers.last).contains(&number)
        && numbers.mask.is_none_or(|mask| number & mask.mask == mask.value)
}

fn without_numbers(why: &str) -> String {
    why.split(' ')
        .map(|word| if word.bytes().all(|byte| byte.is_ascii_digit()) { "N" } else { word })
        .collect::<Vec<_>>()
        .join(" ")
}

/// The generated part of the text.
fn program_text(text: &str) -> &str {
    text.split_once("SEC(\"license\") = \"GPL\";").map_or(text, |(_, rest)| rest)
}

/// Adds a line to the log, if one is wished.
fn log(case: &Case, compiler: &str, counts: &str) {
    let Some(path) = std::env::var_os("GPUMAP_LOG") else { return };
    let mut file = std::fs::File::options().append(true).create(true).open(path).expect("the log");
    let Case { seed, class, level, set, .. } = case;
    writeln!(file, "seed {seed}, {}, {compiler} {level} {set}: {counts}", class.name).expect("a line");
}

/// Keeps a program with unknown answers, if that is wished.
fn keep(case: &Case, reasons: &BTreeMap<String, u64>) {
    let Some(dir) = std::env::var_os("GPUMAP_KEEP") else { return };
    if !case.class.readable {
        return;
    }
    let head = format!("// {} {} {} {reasons:?}\n", case.class.name, case.level, case.set);
    let path = std::path::Path::new(&dir).join(format!("{}.c", case.seed));
    std::fs::write(path, head + &case.written.text).expect("a kept program");
}
