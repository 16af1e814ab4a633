//! Compares the decoder with the kernel on generated programs: each is loaded and
//! attached, and every verdict is compared.
//!
//! `GPUMAP_CASES` sets the number of programs of each class, `GPUMAP_SEED` the
//! first seed (failures print theirs).

use crate::support;
use crate::support::bench::{Bench, Facts};
use crate::support::generate::random::{self, FULL, PLAIN};
use crate::support::generate::stacks::{self, Stack};
use crate::support::generate::state::Features;
use crate::support::generate::writers::{self, CgroupIds};
use crate::support::generate::{heavy, mutable};
use crate::support::rng::Rng;
use crate::support::source::Source;
use crate::support::sysctl::Setting;
use crate::support::verify::{Class, Decode, Echo, Interpret, compare, compare_on};
use crate::support::{bpf, host, inspect};
use gpumap::bytecode::{Insn, opcode};
use gpumap::observation::{Answer, HexBytes, Program};
use gpumap::policy::{Combination, Context, Decoder};

fn as_it_is(_: &mut Facts) {}

const WRITERS: Class = Class {
    name: "writers",
    cases: 340,
    floor: 90,
    most_unknown: 0,
    generate: |seed, rng, place| Stack::alone(writers::nth(seed, rng, place)),
    view: as_it_is,
};

const ARITHMETIC: Class = Class {
    name: "arithmetic",
    cases: 200,
    floor: 80,
    most_unknown: 0,
    generate: |_, rng, _| Stack::alone(random::program(rng, PLAIN, 14)),
    view: as_it_is,
};

const EVERYTHING: Class = Class {
    name: "everything",
    cases: 300,
    floor: 75,
    most_unknown: 0,
    generate: |_, rng, _| Stack::alone(random::program(rng, FULL, 14)),
    view: as_it_is,
};

const UNMODELLED: Class = Class {
    name: "unmodelled helpers",
    cases: 60,
    floor: 75,
    most_unknown: 60,
    generate: |_, rng, _| Stack::alone(random::program(rng, Features { unmodelled: true, ..FULL }, 12)),
    view: as_it_is,
};

const STACKS: Class = Class {
    name: "stacks",
    cases: 200,
    floor: 60,
    most_unknown: 0,
    generate: |_, rng, place| stacks::any(rng, place),
    view: as_it_is,
};

const COMPILED: Class = Class {
    name: "compiled policies",
    cases: 150,
    floor: 95,
    most_unknown: 0,
    generate: |seed, rng, place| Stack::alone(compiled(seed, rng, place)),
    view: as_it_is,
};

/// A program that gpumap makes of the policy of a generated one.
fn compiled(seed: u64, rng: &mut Rng, place: CgroupIds) -> Source {
    let source = loop {
        let source =
            if seed.is_multiple_of(3) { random::program(rng, PLAIN, 10) } else { writers::any(rng, place) };
        if source.maps.is_empty() {
            break source;
        }
    };
    let program = Program { xlated: Answer::Known(HexBytes(source.bytes())), ..Program::default() };
    let context = Context { maps: &[], cgroups: &[], cgroup_id: None, combination: Combination::Retval };
    let mut decoder = Decoder::new();
    let policy = decoder.policy(&[&program], &context);
    let insns = decoder.compile(policy).expect("a program of a known policy");
    // What the first program was about is what to ask the second one.
    let hints = source.numbers().windows(2).map(|pair| (pair[0], pair[1])).collect();
    Source { shape: format!("compiled from {}", source.shape), insns, hints, ..Source::default() }
}

/// Make sure that the kernel takes the programs that gpumap compiles, and that
/// they decide as they are read.
#[test]
fn compiled_policies_match_the_kernel() {
    compare(&COMPILED, &mut Decode);
}

/// Make sure that the shapes of all known writers are decoded exactly.
#[test]
fn writers_match_the_kernel() {
    compare(&WRITERS, &mut Decode);
}

/// Make sure that arithmetic, branches, stack traffic and loops are exact.
#[test]
fn arithmetic_matches_the_kernel() {
    compare(&ARITHMETIC, &mut Decode);
}

/// Make sure that maps, calls and atomics are exact.
#[test]
fn everything_matches_the_kernel() {
    compare(&EVERYTHING, &mut Decode);
}

/// Make sure that an unmodelled helper never leads to a wrong verdict.
#[test]
fn unmodelled_helpers_are_never_wrong() {
    compare(&UNMODELLED, &mut Decode);
}

/// Make sure that several programs combine as the kernel combines them.
#[test]
fn stacks_match_the_kernel() {
    compare(&STACKS, &mut Decode);
}

/// Make sure that the bench is right: an interpreter of numbers, written
/// independently of the decoder, agrees with the kernel.
#[test]
fn harness_agrees_with_kernel() {
    for class in [&WRITERS, &ARITHMETIC, &EVERYTHING, &STACKS] {
        compare(class, &mut Interpret);
    }
}

const MUTABLE: Class = Class {
    name: "mutable maps",
    cases: 60,
    floor: 95,
    most_unknown: 100,
    generate: |_, rng, _| Stack::alone(mutable::program(rng)),
    view: as_it_is,
};

const HEAVY: Class = Class {
    name: "heavy arithmetic",
    cases: 20,
    floor: 90,
    most_unknown: 100,
    generate: |_, rng, _| heavy::stack(rng),
    view: as_it_is,
};

const HIDDEN: Class = Class {
    name: "hidden symbols",
    cases: 150,
    floor: 75,
    most_unknown: 100,
    generate: |seed, rng, place| {
        // The tag proves what the calls of known writers are. Random programs
        // have code that the verifier takes out or rewrites in other ways.
        let mut source = either(seed, rng, place);
        source.may_be_unknown = !seed.is_multiple_of(2) && source.insns.iter().any(is_helper);
        Stack::alone(source)
    },
    view: |facts| facts.programs.iter_mut().for_each(inspect::hide),
};

const BLINDED: Class = Class {
    name: "blinded constants",
    cases: 200,
    floor: 75,
    most_unknown: 100,
    generate: |seed, rng, place| {
        let mut source = either(seed, rng, place);
        // A blinded map reference does not say which map, nor a blinded
        // address of a value which of the map's bytes.
        source.may_be_unknown = source.maps.len() > 1 || source.insns.iter().any(is_value_address);
        Stack::alone(source)
    },
    view: as_it_is,
};

fn is_value_address(insn: &Insn) -> bool {
    insn.is_wide() && insn.src == opcode::PSEUDO_MAP_VALUE
}

/// Writers and random programs by turns.
fn either(seed: u64, rng: &mut Rng, place: CgroupIds) -> Source {
    if seed.is_multiple_of(2) { writers::nth(seed / 2, rng, place) } else { random::program(rng, FULL, 10) }
}

fn is_helper(insn: &Insn) -> bool {
    insn.code == 0x85 && insn.src == 0
}

/// Make sure that policies in hash tables are known by what the kernel really
/// shows without symbols, and as it decides.
#[test]
fn hidden_hash_tables_are_known() {
    let Some(_host) = host::exclusive() else { return };
    let mut bench = Bench::new().expect("scratch cgroups and an oracle");
    // The bench knows the symbols from before.
    assert_eq!(support::kallsyms::helper(1), None);
    let _restrict = Setting::change("kernel/kptr_restrict", "2").expect("kptr_restrict");
    compare_on(&HIDDEN_TABLES, &mut Decode, &mut bench);
}

const HIDDEN_TABLES: Class = Class {
    name: "hash tables of writers, hidden by the kernel",
    cases: 40,
    floor: 100,
    most_unknown: 0,
    generate: |seed, rng, place| {
        let tables = ["libvirt", "parastation", "cranesched", "oar"];
        let name = tables[(seed % 4) as usize];
        let number = writers::ALL.iter().position(|(known, _)| *known == name).expect("a writer");
        Stack::alone(writers::nth(number as u64, rng, place))
    },
    view: |facts| {
        for program in &facts.programs {
            let shown = program.xlated.known().map(|bytes| Insn::parse_all(&bytes.0).expect("whole slots"));
            assert!(shown.iter().flatten().filter(|insn| is_helper(insn)).all(|insn| insn.imm == 0));
            assert!(program.calls.is_empty(), "a symbol: {:?}", program.calls);
        }
    },
};

/// Make sure that a map which the program itself changes never leads to a wrong
/// verdict.
#[test]
fn mutable_maps_are_never_wrong() {
    compare(&MUTABLE, &mut Decode);
}

/// Make sure that arithmetic beyond the decoder's limits is never wrong.
#[test]
fn heavy_arithmetic_is_never_wrong() {
    compare(&HEAVY, &mut Decode);
}

/// Make sure that lookups decode where the kernel hides its symbols.
#[test]
fn hidden_symbols_match_the_kernel() {
    compare(&HIDDEN, &mut Decode);
}

/// Make sure that programs whose constants the kernel blinded decode exactly.
#[test]
fn blinded_programs_match_the_kernel() {
    let Some(_host) = host::exclusive() else { return };
    let mut bench = Bench::new().expect("scratch cgroups and an oracle");
    let _harden = Setting::change("net/core/bpf_jit_harden", "2").expect("bpf_jit_harden");
    compare_on(&BLINDED, &mut Decode, &mut bench);
}

/// Make sure that `hide` shows what the kernel shows with `kptr_restrict`.
#[test]
fn harness_hides_as_the_kernel_does() {
    let Some(_host) = host::exclusive() else { return };
    for seed in 0..20 {
        let source = either(seed, &mut Rng::new(seed), CgroupIds { cgroup_id: 1 });
        let Ok(loaded) = bpf::load(&source) else { continue };
        let mut expected = inspect::program(&loaded.program).expect("info");
        inspect::hide(&mut expected);
        let restrict = Setting::change("kernel/kptr_restrict", "2").expect("kptr_restrict");
        let hidden = inspect::program(&loaded.program).expect("info");
        drop(restrict);
        assert_eq!(hidden.xlated, expected.xlated, "seed {seed}");
    }
}

/// Make sure that blinding changes no meaning for the bench's interpreter
/// either.
#[test]
fn harness_agrees_on_blinded_programs() {
    let Some(_host) = host::exclusive() else { return };
    let mut bench = Bench::new().expect("scratch cgroups and an oracle");
    let _harden = Setting::change("net/core/bpf_jit_harden", "2").expect("bpf_jit_harden");
    compare_on(&Class { cases: 60, ..ARITHMETIC }, &mut Interpret, &mut bench);
}

/// Make sure that the remaining classes have teeth: programs that the verifier
/// accepts and that allow some and deny some.
#[test]
fn generators_have_teeth() {
    for class in [UNMODELLED, MUTABLE, HEAVY, HIDDEN, BLINDED] {
        compare(&class, &mut Echo);
    }
}
