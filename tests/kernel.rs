//! The decoder against the kernel: generated programs, attached for real, every
//! verdict compared.
//!
//! Needs root, a cgroup2 mount and bpf(2); without them the tests say so and
//! pass, unless `GPUMAP_REQUIRE_ROOT=1`. `GPUMAP_CASES` sets the number of
//! programs of each class, `GPUMAP_SEED` the first seed (failures print theirs).

mod support;

use support::bench::Facts;
use support::generate::random::{self, FULL, PLAIN};
use support::generate::stacks::{self, Stack};
use support::generate::state::Features;
use support::generate::writers;
use support::verify::{Class, Decode, Interpret, compare};

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
    cases: 300,
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
