//! Ids of policies, exact or not: equal ids are equal verdicts in every view that goes by
//! them, and equal programs have equal ids wherever and whenever they are loaded.
//!
//! `GPUMAP_CASES` sets the number of random cases, `GPUMAP_SEED` the first seed.

use crate::support::asm::{Asm, alu, size};
use crate::support::generate::random::{self, PLAIN};
use crate::support::rng::Rng;
use gpumap::analyse::{self, TimeLimit};
use gpumap::bytecode::Insn;
use gpumap::model::{Device, DeviceType, MapType, Request, Verdict};
use gpumap::observation::{Answer, Cgroup, HexBytes, Map, MapEntry, Observation, Program, Scope};
use gpumap::policy::{Context, Decoder, Policy};

const CASES: u64 = 12;
/// How often each of the minors of a driver is asked about.
const ASKED: u32 = 24;

fn cases() -> std::ops::Range<u64> {
    let number = |name: &str| std::env::var(name).ok().map(|value| value.parse::<u64>().expect("a number"));
    let first = number("GPUMAP_SEED").unwrap_or(1);
    first..first + number("GPUMAP_CASES").unwrap_or(CASES)
}

/// Programs and the maps that they read, as they were loaded once.
#[derive(Clone)]
struct Loaded {
    programs: Vec<Program>,
    maps: Vec<Map>,
}

impl Loaded {
    fn policy(&self, decoder: &mut Decoder) -> Policy {
        let programs: Vec<&Program> = self.programs.iter().collect();
        let context = Context { maps: &self.maps, ..Context::default() };
        decoder.policy(&programs, &context)
    }

    /// The same loaded again: other numbers for the same things.
    fn again(&self, by: u32) -> Self {
        let mut again = self.clone();
        for program in &mut again.programs {
            program.id += by;
            program.loaded_at = format!("2026-11-26T00:00:{by:02}Z").into();
            program.map_ids.iter_mut().for_each(|id| *id += by);
            let mut insns = Insn::parse_all(&program.xlated.known().unwrap().0).unwrap();
            for insn in insns.iter_mut().filter(|insn| insn.is_wide() && insn.src != 0) {
                insn.imm += by as i32;
            }
            program.xlated = Answer::Known(HexBytes(insns.iter().flat_map(|insn| insn.bytes()).collect()));
        }
        again.maps.iter_mut().for_each(|map| map.id += by);
        again
    }
}

fn program(id: u32, asm: Asm, map_ids: Vec<u32>) -> Program {
    let xlated = Answer::Known(HexBytes(asm.finish("made").bytes()));
    Program { id, tag: format!("{id:016x}"), map_ids, xlated, ..Program::default() }
}

/// A hash of both numbers decides by a bit of `mask`: too complex to be drawn.
fn hashed(factor: i32, mask: i32) -> Asm {
    let mut asm = Asm::new();
    asm.ldx(size::W, 2, 1, 4);
    asm.ldx(size::W, 3, 1, 8);
    asm.op64(alu::LSH, 2, 20);
    asm.op64r(alu::XOR, 2, 3);
    for shift in [13, 16] {
        asm.op64(alu::MUL, 2, factor);
        asm.movr(3, 2);
        asm.op64(alu::RSH, 3, shift);
        asm.op64r(alu::XOR, 2, 3);
    }
    asm.op64(alu::AND, 2, 31);
    asm.mov(0, mask);
    asm.op64r(alu::RSH, 0, 2);
    asm.op64(alu::AND, 0, 1);
    asm.exit();
    asm
}

/// The same where the mask stands in a map.
fn hashed_with_map(factor: i32, mask: u32, map: u32) -> Loaded {
    let mut asm = Asm::new();
    asm.ldx(size::W, 6, 1, 8);
    asm.op64(alu::MUL, 6, factor);
    asm.movr(3, 6);
    asm.op64(alu::RSH, 3, 13);
    asm.op64r(alu::XOR, 6, 3);
    asm.op64(alu::MUL, 6, factor);
    asm.op64(alu::RSH, 6, 7);
    asm.op64(alu::AND, 6, 31);
    asm.ld_map_value(1, map as usize, 0);
    asm.ldx(size::W, 0, 1, 0);
    asm.op64r(alu::RSH, 0, 6);
    asm.op64(alu::AND, 0, 1);
    asm.exit();
    let entry = MapEntry { key: HexBytes(vec![0; 4]), value: HexBytes(mask.to_le_bytes().to_vec()) };
    let map = Map {
        id: map,
        kind: MapType::Array,
        key_size: 4,
        value_size: 4,
        max_entries: 1,
        flags: 1 << 7,
        frozen: true,
        entries: Answer::Known(vec![entry]),
        ..Map::default()
    };
    Loaded { programs: vec![program(1, asm, vec![map.id])], maps: vec![map] }
}

fn alone(asm: Asm) -> Loaded {
    Loaded { programs: vec![program(1, asm, Vec::new())], maps: Vec::new() }
}

/// Two sets of programs, and whether they are the same.
fn pair(seed: u64, rng: &mut Rng) -> (Loaded, Loaded, bool) {
    let (factor, mask) = (rng.any_i32() | 1, rng.any_i32());
    let twin = mask ^ 1 << rng.below(32);
    match seed % 6 {
        // One bit of a constant differs.
        0 => (alone(hashed(factor, mask)), alone(hashed(factor, twin)), false),
        1 => {
            let first = alone(hashed(factor, mask));
            (first.clone(), first.again(7), true)
        }
        // One bit in a map differs.
        2 => (hashed_with_map(factor, mask as u32, 5), hashed_with_map(factor, twin as u32, 5), false),
        3 => {
            let first = hashed_with_map(factor, mask as u32, 5);
            (first.clone(), first.again(3), true)
        }
        // A second program, which is exact, makes the difference.
        4 => {
            let first = alone(hashed(factor, mask));
            let mut second = first.clone();
            let mut denies = Asm::new();
            denies.verdict(0);
            second.programs.push(program(2, denies, Vec::new()));
            (first, second, false)
        }
        _ => {
            let exact = |rng: &mut Rng| {
                let xlated = Answer::Known(HexBytes(random::program(rng, PLAIN, 8).bytes()));
                Loaded { programs: vec![Program { id: 1, xlated, ..Program::default() }], maps: Vec::new() }
            };
            let first = exact(rng);
            let is_same = rng.chance(30);
            let second = if is_same { first.again(9) } else { exact(rng) };
            (first, second, is_same)
        }
    }
}

fn devices() -> impl Iterator<Item = Device> {
    let majors = [1, 195, 226, 511].into_iter();
    majors.flat_map(|major| (0..ASKED).map(move |minor| Device { kind: DeviceType::Char, major, minor }))
}

/// Make sure that equal ids are equal verdicts, that the same programs loaded again have
/// the same id in this decoder and in another, and that exact policies have equal ids if
/// and only if they are equal.
#[test]
fn equal_ids_are_equal_verdicts() {
    let (mut inexact, mut equal) = (0, 0);
    for seed in cases() {
        let mut rng = Rng::new(seed);
        let (first, second, is_same) = pair(seed, &mut rng);
        let decoder = &mut Decoder::new();
        let (a, b) = (first.policy(decoder), second.policy(decoder));
        let ids = (decoder.id(a), decoder.id(b));
        let known = (decoder.is_known(a), decoder.is_known(b));
        for (id, is_known) in [(&ids.0, known.0), (&ids.1, known.1)] {
            assert_eq!(id.starts_with("inexact-"), !is_known, "seed {seed}: {id}");
        }
        assert!(!is_same || ids.0 == ids.1, "seed {seed}: the same programs, {ids:?}");
        if known == (true, true) {
            assert_eq!(ids.0 == ids.1, decoder.changes(a, b).is_empty(), "seed {seed}");
        } else {
            inexact += 1;
            assert_eq!(ids.0 == ids.1, is_same, "seed {seed}: {ids:?}");
        }
        assert_eq!(ids.0 == ids.1, a == b, "seed {seed}");
        if ids.0 == ids.1 {
            equal += 1;
            for device in devices() {
                let verdicts = [a, b].map(|policy| decoder.verdict(policy, device, Request::ReadWrite));
                assert_eq!(verdicts[0], verdicts[1], "seed {seed}: {device}");
            }
        }
        // Another decoder, in which others were drawn before.
        let other = &mut Decoder::new();
        alone(hashed(0x4651, 77)).policy(other);
        let (there_b, there_a) = (second.policy(other), first.policy(other));
        assert_eq!((other.id(there_a), other.id(there_b)), ids, "seed {seed}: another decoder");
    }
    assert!(inexact > 4 && equal > 2, "{inexact} inexact, {equal} equal: no teeth");
}

/// Make sure that what several policies allow together is known by its parts, in any
/// order and each once, and is exact where it is.
#[test]
fn parts_make_the_id() {
    let decoder = &mut Decoder::new();
    let [a, b] = [0x0f0f_0f0f, 0x3377_1122].map(|mask| alone(hashed(0x4651, mask)).policy(decoder));
    let mut denies = Asm::new();
    denies.verdict(0);
    let nothing = alone(denies).policy(decoder);
    let everything = decoder.all_of(&[]);
    let (both, back) = (decoder.all_of(&[a, b]), decoder.all_of(&[b, a, b, everything]));
    assert_eq!((both, decoder.id(both)), (back, decoder.id(back)));
    assert!(![decoder.id(a), decoder.id(b)].contains(&decoder.id(both)));
    assert_eq!(decoder.all_of(&[a, everything]), a);
    assert_eq!(decoder.all_of(&[a, nothing]), nothing);
    for device in devices() {
        let [of_a, of_b, of_both] = [a, b, both].map(|one| decoder.verdict(one, device, Request::Read));
        let expected = if [of_a, of_b].contains(&Verdict::Deny) { Verdict::Deny } else { Verdict::Allow };
        assert_eq!(of_both, expected, "{device}");
    }
}

/// Make sure that programs that could not be read are not taken for each other, and that
/// ids do not depend on whether there was time.
#[test]
fn unread_programs_differ() {
    let decoder = &mut Decoder::new();
    let unread = |id| Program { id, xlated: Answer::Missing("no right".to_owned()), ..Program::default() };
    let [a, b] = [unread(1), unread(2)]
        .map(|program| Loaded { programs: vec![program], maps: Vec::new() }.policy(decoder));
    assert_ne!(decoder.id(a), decoder.id(b));
    let late = &mut Decoder::within(&TimeLimit::at(Some(std::time::Instant::now())));
    let hash = alone(hashed(0x4651, 77));
    let (drawn, cut) = (hash.policy(decoder), hash.policy(late));
    assert_eq!(decoder.id(drawn), late.id(cut));
}

/// Make sure that each cgroup has the rules of its own programs, where their policies
/// differ only in what is not drawn.
#[test]
fn each_cgroup_has_its_own_rules() {
    let masks = [0x0f0f_0f0f, 0xf00f_3311_u32.cast_signed()];
    let scope = vec![Scope { path: "/".into(), recursive: true }];
    let mut observation = Observation { scope, ..Observation::default() };
    let nothing = Answer::Known(Vec::new());
    observation.cgroups.push(Cgroup { path: "/".into(), effective: nothing, ..Cgroup::default() });
    for (place, mask) in masks.into_iter().enumerate() {
        let id = place as u32 + 1;
        observation.programs.push(program(id, hashed(0x4651, mask), Vec::new()));
        observation.cgroups.push(Cgroup {
            path: format!("/{id}").as_str().into(),
            id: id.into(),
            effective: Answer::Known(vec![id]),
            ..Cgroup::default()
        });
    }
    let answer = analyse::cgroups(&observation, &TimeLimit::default()).unwrap();
    let (cgroups, policies) = (answer.cgroups, answer.policies);
    let mut rules = Vec::new();
    for (cgroup, mask) in cgroups.iter().skip(1).zip(masks) {
        let decoder = &mut Decoder::new();
        let policy = alone(hashed(0x4651, mask)).policy(decoder);
        let shown = &policies[&cgroup.policy];
        assert_eq!(shown.id, cgroup.policy);
        for minor in 0..16 {
            let has = |listed: &&gpumap::report::ListedRule| {
                let (major, minors) = (listed.rule.major, listed.rule.minor);
                (major.first, major.last) == (195, 195) && (minors.first..=minors.last).contains(&minor)
            };
            let rule = shown.rules.iter().find(has).expect("a rule about a GPU");
            let device = Device { kind: DeviceType::Char, major: 195, minor };
            assert_eq!(
                rule.rule.verdict,
                decoder.verdict(policy, device, Request::ReadWrite),
                "{mask:#x} {minor}"
            );
        }
        rules.push(&shown.rules);
    }
    assert_ne!(rules[0], rules[1]);
}
