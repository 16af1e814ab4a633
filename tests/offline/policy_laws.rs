//! Laws that every policy keeps, whatever program it comes from: rules say what
//! the policy says, differences are where verdicts differ, ids are identities,
//! order does not matter where the kernel has none. No privileges needed.
//!
//! `GPUMAP_CASES` sets the number of random cases, `GPUMAP_SEED` the first seed.

use std::time::{Duration, Instant};

use crate::support::asm::{Asm, alu, cond, size};
use crate::support::generate::random::{self, PLAIN};
use crate::support::generate::writers::{self, CgroupIds};
use crate::support::generate::{heavy, rules};
use crate::support::probe;
use crate::support::rng::Rng;
use crate::support::source::Source;
use gpumap::model::{Device, DeviceType, MAX_MAJOR, MAX_MINOR, Numbers, Request, Rule, Verdict};
use gpumap::observation::{Answer, HexBytes, Program};
use gpumap::policy::{Combination, Context, Decoder, Policy, PolicyDifference, RuleList};

const CASES: u64 = 60;
/// Time that writing down one policy may take, in an unoptimised build.
const BOUND: Duration = Duration::from_secs(20);

fn cases() -> std::ops::Range<u64> {
    let number = |name: &str| std::env::var(name).ok().map(|value| value.parse::<u64>().expect("a number"));
    let first = number("GPUMAP_SEED").unwrap_or(1);
    first..first + number("GPUMAP_CASES").unwrap_or(CASES)
}

/// A writer's program without maps, or a random one.
fn source(seed: u64, rng: &mut Rng) -> Source {
    if seed.is_multiple_of(3) {
        return random::program(rng, PLAIN, 10);
    }
    loop {
        let source = writers::any(rng, CgroupIds { cgroup_id: 1 });
        if source.maps.is_empty() {
            return source;
        }
    }
}

fn decode(decoder: &mut Decoder, sources: &[&Source]) -> Policy {
    let program =
        |source: &&Source| Program { xlated: Answer::Known(HexBytes(source.bytes())), ..Program::default() };
    let programs: Vec<Program> = sources.iter().map(program).collect();
    let context = Context { maps: &[], cgroups: &[], cgroup_id: None, combination: Combination::Retval };
    decoder.policy(&programs.iter().collect::<Vec<_>>(), &context)
}

fn contains(numbers: Numbers, number: u32) -> bool {
    let has_bits = |mask: gpumap::model::Mask| number & mask.mask == mask.value;
    (numbers.first..=numbers.last).contains(&number) && numbers.mask.is_none_or(has_bits)
}

fn covers(rule: &Rule, device: Device, request: Request) -> bool {
    rule.kind.is_none_or(|kind| kind == device.kind)
        && contains(rule.major, device.major)
        && contains(rule.minor, device.minor)
        && rule.requests.contains(request)
}

/// The list read by hand; rules that overlap are a failure.
fn by_rules(list: &RuleList, device: Device, request: Request) -> Verdict {
    let mut found = list.rules.iter().filter(|rule| covers(rule, device, request));
    let verdict = found.next().map_or(list.default, |rule| rule.verdict);
    assert!(found.next().is_none(), "two rules for {device} {}", request.letters());
    verdict
}

/// The corners of every rule and their neighbours.
fn corners(list: &[Rule]) -> impl Iterator<Item = Device> {
    list.iter().flat_map(|rule| {
        let around = |numbers: Numbers, max: u32| {
            let all = [numbers.first.wrapping_sub(1), numbers.first, numbers.last, numbers.last + 1];
            all.into_iter().filter(move |number| *number <= max)
        };
        let (major, minor) = (rule.major, rule.minor);
        around(major, MAX_MAJOR).flat_map(move |major| {
            around(minor, MAX_MINOR).flat_map(move |minor| {
                [DeviceType::Char, DeviceType::Block].map(move |kind| Device { kind, major, minor })
            })
        })
    })
}

/// Checks that the rules say what the policy says, and returns them.
fn agree(decoder: &mut Decoder, policy: Policy, devices: &[Device], what: &str) -> RuleList {
    let list = decoder.rules(policy);
    assert!(list.default != Verdict::Unknown || !list.rules.is_empty(), "{what}: nothing known");
    if list.omitted.is_some() {
        return list;
    }
    assert_eq!(decoder.policy_of_rules(&list), policy, "{what}: {list:?}");
    let near: Vec<Device> = corners(&list.rules).take(400).collect();
    for &device in devices.iter().chain(&near) {
        for request in Request::ALL {
            let verdict = decoder.verdict(policy, device, request);
            let read = by_rules(&list, device, request);
            assert_eq!(read, verdict, "{what}: {device} {}: {list:?}", request.letters());
        }
    }
    list
}

/// Whether two rules have a question in common. Masks are compared as cubes,
/// ranges as ranges; a mask beside a range is left to the sampled points.
fn overlap(a: &Rule, b: &Rule) -> bool {
    let numbers = |a: Numbers, b: Numbers| match (a.mask, b.mask) {
        (Some(a), Some(b)) => (a.value ^ b.value) & a.mask & b.mask == 0,
        (None, None) => a.first <= b.last && b.first <= a.last,
        _ => false,
    };
    let kinds = a.kind.is_none() || b.kind.is_none() || a.kind == b.kind;
    let requests = a.requests.iter().any(|request| b.requests.contains(request));
    kinds && requests && numbers(a.major, b.major) && numbers(a.minor, b.minor)
}

/// Make sure that the rules of one program are disjoint, describe the same
/// policy and read as the verdicts do.
#[test]
fn rules_say_what_the_policy_says() {
    let mut listed = 0;
    for seed in cases() {
        let mut rng = Rng::new(seed);
        let source = source(seed, &mut rng);
        let devices = probe::devices(&[&source], &mut rng);
        let decoder = &mut Decoder::new();
        let policy = decode(decoder, &[&source]);
        assert!(decoder.is_known(policy), "seed {seed}: {:?}", decoder.reasons(policy));
        let list = agree(decoder, policy, &devices, &format!("seed {seed}"));
        assert_eq!(list.unknown, [], "seed {seed}");
        listed += u64::from(list.omitted.is_none());
        for (at, rule) in list.rules.iter().enumerate().take(200) {
            let twice = list.rules[..at].iter().find(|other| overlap(rule, other));
            assert!(twice.is_none(), "seed {seed}: {rule} and {twice:?}");
        }
    }
    let all = cases().end - cases().start;
    assert!(listed * 10 >= all * 8, "only {listed} of {all} policies have a short form");
}

/// Make sure that the same holds for several programs together.
#[test]
fn stacks_have_rules_too() {
    for seed in cases() {
        let mut rng = Rng::new(seed);
        let sources: Vec<Source> =
            (0..rng.between(0, 4)).map(|at| source(seed + u64::from(at), &mut rng)).collect();
        let all: Vec<&Source> = sources.iter().collect();
        let devices = probe::devices(&all, &mut rng);
        let decoder = &mut Decoder::new();
        let policy = decode(decoder, &all);
        agree(decoder, policy, &devices, &format!("seed {seed}"));
        for &device in &devices {
            for request in Request::ALL {
                let alone = sources.iter().map(|source| {
                    let one = decode(decoder, &[source]);
                    decoder.verdict(one, device, request)
                });
                if seed % 10 != 0 {
                    break;
                }
                let expected = alone.fold(Verdict::Allow, |sum, verdict| sum.max(verdict));
                assert_eq!(decoder.verdict(policy, device, request), expected, "seed {seed}");
            }
        }
    }
}

/// Make sure that neither the order of programs nor that of policies matters
/// where no program looks at the others.
#[test]
fn order_does_not_matter() {
    for seed in cases() {
        let mut rng = Rng::new(seed);
        let sources: Vec<Source> =
            (0..rng.between(2, 5)).map(|at| source(seed + u64::from(at), &mut rng)).collect();
        let decoder = &mut Decoder::new();
        let mut order: Vec<&Source> = sources.iter().collect();
        let together = decode(decoder, &order);
        for _ in 0..3 {
            shuffle(&mut order, &mut rng);
            assert_eq!(decode(decoder, &order), together, "seed {seed}");
            let mut policies: Vec<Policy> = order.iter().map(|source| decode(decoder, &[source])).collect();
            assert_eq!(decoder.all_of(&policies), together, "seed {seed}");
            policies.push(together);
            policies.extend_from_within(..1);
            assert_eq!(decoder.all_of(&policies), together, "seed {seed}: said twice");
        }
    }
}

fn shuffle<T>(items: &mut [T], rng: &mut Rng) {
    for at in (1..items.len()).rev() {
        let other = rng.below(u32::try_from(at).expect("a short list") + 1) as usize;
        items.swap(at, other);
    }
}

/// Two programs that often agree somewhere, and now and then everywhere.
fn pair(seed: u64, rng: &mut Rng) -> [Source; 2] {
    let first = source(seed, rng);
    let mut second = match rng.below(4) {
        0 => first.clone(),
        _ => source(seed + 1, rng),
    };
    if rng.chance(30) {
        // One number in it becomes its neighbour.
        second = first.clone();
        let at = rng.below(u32::try_from(second.insns.len()).expect("a short program")) as usize;
        let insn = &mut second.insns[at];
        if insn.code & 7 == 5 && insn.code != 0x95 && insn.code != 0x85 {
            insn.imm ^= 1;
        }
    }
    [first, second]
}

/// Make sure that the changes from one policy to another are exactly where the
/// verdicts differ, and that ids tell equal from different, in every decoder.
#[test]
fn changes_and_ids() {
    let (mut equal, mut different) = (0, 0);
    for seed in cases() {
        let mut rng = Rng::new(seed);
        let [first, second] = pair(seed, &mut rng);
        let devices = probe::devices(&[&first, &second], &mut rng);
        let decoder = &mut Decoder::new();
        let (a, b) = (decode(decoder, &[&first]), decode(decoder, &[&second]));
        assert_eq!((decoder.changes(a, a), decoder.changes(b, b)), (vec![], vec![]), "seed {seed}");
        let changes = decoder.changes(a, b);
        assert_eq!(changes.is_empty(), a == b, "seed {seed}");
        assert_eq!(decoder.id(a) == decoder.id(b), a == b, "seed {seed}");
        *if a == b { &mut equal } else { &mut different } += 1;
        let other = &mut Decoder::new();
        let (there_b, there_a) = (decode(other, &[&second]), decode(other, &[&first]));
        let ids = (other.id(there_a), other.id(there_b));
        assert_eq!(ids, (decoder.id(a), decoder.id(b)), "seed {seed}: another decoder");
        for device in
            devices.into_iter().chain(changes.iter().flat_map(|change| corners(&change.rules)).take(400))
        {
            for request in Request::ALL {
                let verdicts = [a, b].map(|policy| decoder.verdict(policy, device, request));
                check_change(&changes, verdicts, device, request, seed);
            }
        }
    }
    assert!(equal > 0 && different > equal, "{equal} pairs are equal, {different} differ: no teeth");
}

fn check_change(
    changes: &[PolicyDifference],
    [from, to]: [Verdict; 2],
    device: Device,
    request: Request,
    seed: u64,
) {
    let named: Vec<&PolicyDifference> = changes
        .iter()
        .filter(|change| change.rules.iter().any(|rule| covers(rule, device, request)))
        .collect();
    let question = format!("seed {seed}: {device} {}: {from} to {to}", request.letters());
    let is_omitted =
        changes.iter().any(|change| (change.from, change.to) == (from, to) && change.omitted.is_some());
    match named[..] {
        [] => assert!(from == to || is_omitted, "{question}: not named"),
        [change] => assert_eq!((change.from, change.to), (from, to), "{question}"),
        _ => panic!("{question}: named twice"),
    }
    assert!(changes.iter().all(|change| change.omitted.is_some() || !change.rules.is_empty()), "{question}");
}

/// A line of a v1 list, and what it matches by the kernel's documentation.
struct Line {
    text: String,
    rule: rules::Rule,
}

fn line(rng: &mut Rng) -> Line {
    let rule = rules::rule(rng);
    let kind = if rule.kind == Some(rules::CHAR) { 'c' } else { 'b' };
    let number = |number: Option<u32>| number.map_or("*".to_owned(), |number| number.to_string());
    // The kernel prints r, w, m in this order.
    let letters: String = [(2, 'r'), (4, 'w'), (1, 'm')]
        .into_iter()
        .filter(|(bit, _)| rule.access & bit != 0)
        .map(|(_, c)| c)
        .collect();
    let text = format!("{kind} {}:{} {letters}", number(rule.major), number(rule.minor));
    Line { text, rule }
}

fn listed(lines: &[Line], device: Device, request: Request) -> bool {
    lines.iter().any(|Line { rule, .. }| {
        rule.kind == Some(device.kind as i32)
            && rule.major.is_none_or(|major| major == device.major)
            && rule.minor.is_none_or(|minor| minor == device.minor)
            && request.bits() & !(rule.access as u32) == 0
    })
}

/// Make sure that a v1 allow-list means what the kernel matches, whatever the
/// order of its lines, and has rules like any policy.
#[test]
fn v1_lists() {
    for seed in cases() {
        let mut rng = Rng::new(seed);
        let mut lines: Vec<Line> = (0..rng.below(12)).map(|_| line(&mut rng)).collect();
        let hints =
            lines.iter().map(|line| (line.rule.major.unwrap_or(7), line.rule.minor.unwrap_or(7))).collect();
        let devices = probe::devices(&[&Source { hints, ..Source::default() }], &mut rng);
        let decoder = &mut Decoder::new();
        let texts = |lines: &[Line]| lines.iter().map(|line| line.text.clone()).collect::<Vec<_>>();
        let policy = decoder.devices_v1(b"/a", &texts(&lines));
        agree(decoder, policy, &devices, &format!("seed {seed}: {:?}", texts(&lines)));
        for &device in &devices {
            for request in Request::ALL {
                let expected = if listed(&lines, device, request) { Verdict::Allow } else { Verdict::Deny };
                assert_eq!(decoder.verdict(policy, device, request), expected, "seed {seed}: {device}");
            }
        }
        shuffle(&mut lines, &mut rng);
        let again = [texts(&lines), texts(&lines)].concat();
        assert_eq!(decoder.devices_v1(b"/b", &again), policy, "seed {seed}");
    }
}

/// Make sure that a v1 list that cannot be read, or that hides its denials, is
/// unknown and never allows.
#[test]
fn v1_lists_in_doubt() {
    let decoder = &mut Decoder::new();
    for odd in ["a *:* rwm", "c 195:3", "x 1:3 r", "c 1:3 q", "c 1-3:3 r", "c 99999:0 r", "c 1:-3 r", "\u{0}"]
    {
        let lines = ["c 1:3 rw".to_owned(), odd.to_owned()];
        let policy = decoder.devices_v1(b"/job", &lines);
        let device = Device { kind: DeviceType::Char, major: 1, minor: 3 };
        let verdict = decoder.verdict(policy, device, Request::Read);
        assert_eq!(verdict, Verdict::Unknown, "{odd}");
        assert!(!decoder.why(policy, device, Request::Read).is_empty(), "{odd}: no reason");
    }
    let root = decoder.devices_v1(b"/", &["a *:* rwm".to_owned()]);
    assert_eq!(root, decoder.all_of(&[]));
}

/// `r0 = decide(r2 = major, r3 = minor)`.
fn numbers(decide: impl FnOnce(&mut Asm)) -> Source {
    let mut asm = Asm::new();
    asm.ldx(size::W, 2, 1, 4);
    asm.ldx(size::W, 3, 1, 8);
    decide(&mut asm);
    asm.exit();
    asm.finish("irregular")
}

/// Make sure that every other minor is one rule with a mask.
#[test]
fn every_other_minor_is_a_mask() {
    for bit in [0, 1, 5, 19] {
        let source = numbers(|asm| {
            asm.movr(0, 3);
            asm.op64(alu::RSH, 0, bit);
            asm.op64(alu::AND, 0, 1);
        });
        let decoder = &mut Decoder::new();
        let policy = decode(decoder, &[&source]);
        let list = agree(decoder, policy, &[], "bit");
        assert_eq!((list.omitted, list.rules.len()), (None, 1), "bit {bit}: {list:?}");
        let device = |minor| Device { kind: DeviceType::Char, major: 195, minor };
        assert_eq!(decoder.verdict(policy, device(1 << bit), Request::Read), Verdict::Allow);
        assert_eq!(decoder.verdict(policy, device(0), Request::Read), Verdict::Deny);
    }
}

/// Make sure that a policy without a short form says exactly how much it left
/// out: half of all questions, where the parity of the minor decides.
#[test]
fn what_is_left_out_is_counted() {
    let source = numbers(|asm| {
        for shift in [16, 8, 4, 2, 1] {
            asm.movr(4, 3);
            asm.op64(alu::RSH, 4, shift);
            asm.op64r(alu::XOR, 3, 4);
        }
        asm.movr(0, 3);
        asm.op64(alu::AND, 0, 1);
    });
    let decoder = &mut Decoder::new();
    let began = Instant::now();
    let policy = decode(decoder, &[&source]);
    let list = decoder.rules(policy);
    assert!(began.elapsed() < BOUND, "{:?}", began.elapsed());
    let half = 2 * u64::from(MAX_MAJOR + 1) * u64::from(MAX_MINOR + 1) / 2 * Request::ALL.len() as u64;
    assert_eq!((list.omitted, list.rules), (Some(half), vec![]));
    let nothing = decoder.all_of(&[]);
    let changes = decoder.changes(policy, nothing);
    assert_eq!(changes.len(), 1);
    assert_eq!(
        (changes[0].from, changes[0].to, changes[0].omitted),
        (Verdict::Deny, Verdict::Allow, Some(half))
    );
}

/// A few random steps on the bits of both numbers.
fn bit_tricks(rng: &mut Rng) -> Source {
    numbers(|asm| {
        asm.movr(0, 3);
        for _ in 0..rng.between(1, 5) {
            let register = rng.pick(&[0, 2, 3]);
            match rng.below(4) {
                0 => asm.op64(
                    rng.pick(&[alu::ADD, alu::XOR, alu::AND, alu::OR]),
                    register,
                    rng.any_i32() & 0xf_ffff,
                ),
                1 => asm.op64(
                    rng.pick(&[alu::RSH, alu::LSH]),
                    register,
                    i32::try_from(rng.below(12)).expect("small"),
                ),
                _ => {
                    asm.op64r(rng.pick(&[alu::ADD, alu::XOR, alu::AND, alu::OR]), register, rng.pick(&[2, 3]))
                }
            }
        }
        asm.op64r(rng.pick(&[alu::XOR, alu::ADD]), 0, 2);
        let (mask, deny) = (rng.any_i32() & 0xffff, asm.label());
        asm.op64(alu::AND, 0, mask);
        asm.jump_if(rng.pick(&[cond::EQ, cond::GT]), 0, rng.any_i32() & mask, deny);
        asm.verdict(1);
        asm.bind(deny);
        asm.verdict(0);
    })
}

/// Make sure that irregular policies are written down in full or say that they
/// are not, in bounded time.
#[test]
fn irregular_policies_are_never_cut_silently() {
    let mut omitted = 0;
    for seed in cases() {
        let mut rng = Rng::new(seed);
        let source = if seed % 4 == 0 { heavy_one(&mut rng) } else { bit_tricks(&mut rng) };
        let devices = probe::devices(&[&source], &mut rng);
        let decoder = &mut Decoder::new();
        let began = Instant::now();
        let policy = decode(decoder, &[&source]);
        let list = decoder.rules(policy);
        assert!(began.elapsed() < BOUND, "seed {seed}: {:?}", began.elapsed());
        omitted += u64::from(list.omitted.is_some());
        if let Some(count) = list.omitted {
            assert!(count > 0, "seed {seed}: left out nothing");
            continue;
        }
        if !decoder.is_known(policy) {
            assert!(!decoder.reasons(policy).is_empty(), "seed {seed}: unknown for no reason");
        }
        for device in devices {
            for request in Request::ALL {
                let verdict = decoder.verdict(policy, device, request);
                assert_eq!(by_rules(&list, device, request), verdict, "seed {seed}: {device}");
            }
        }
    }
    assert!(omitted > 0, "every policy has a short form: no teeth");
}

fn heavy_one(rng: &mut Rng) -> Source {
    heavy::stack(rng).0.swap_remove(0).source
}
