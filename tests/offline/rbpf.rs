//! Compares the decoder with rbpf, an interpreter by other people. Needs no
//! privileges.
//!
//! rbpf 0.3 knows no calls between subprograms, no v4 instructions, no atomics and
//! no maps, and it sign-extends the results of 32-bit additions and
//! multiplications. The generated programs avoid these.

use crate::support::concrete::Machine;
use crate::support::generate::random::{self, RBPF};
use crate::support::generate::writers::{self, CgroupIds};
use crate::support::probe;
use crate::support::rng::Rng;
use crate::support::source::Source;
use gpumap::model::{Device, Request, Verdict};
use gpumap::observation::{Answer, HexBytes, Program};
use gpumap::policy::{Combination, Context, Decoder};

const PROGRAMS: u64 = 150;

fn program(source: &Source) -> Program {
    Program { xlated: Answer::Known(HexBytes(source.bytes())), ..Program::default() }
}

/// What rbpf computes for one question.
fn interpret(machine: &rbpf::EbpfVmRaw<'_>, device: Device, request: Request) -> Verdict {
    let access = request.bits() << 16 | device.kind as u32;
    let mut context = [access, device.major, device.minor].map(u32::to_le_bytes).concat();
    match machine.execute_program(&mut context) {
        Ok(0) => Verdict::Deny,
        Ok(_) => Verdict::Allow,
        Err(error) => panic!("rbpf: {error}"),
    }
}

/// Compares on the devices that the program is about.
fn compare(seed: u64, source: &Source, rng: &mut Rng, judge: impl Fn(&Program, Device, Request) -> Verdict) {
    let bytes = source.bytes();
    let machine = rbpf::EbpfVmRaw::new(Some(&bytes)).expect("a program for rbpf");
    let program = program(source);
    for device in probe::devices(&[source], rng) {
        for request in Request::ALL {
            let (expected, verdict) =
                (interpret(&machine, device, request), judge(&program, device, request));
            let question = format!("{device} {}", request.letters());
            assert_eq!(verdict, expected, "seed {seed}, {question}, program {:?}", HexBytes(bytes.clone()));
        }
    }
}

/// Asks the decoder about a single program.
fn decode(seed: u64, source: &Source, rng: &mut Rng) {
    let mut decoder = Decoder::new();
    let one = program(source);
    let context = Context { maps: &[], cgroups: &[], cgroup_id: None, combination: Combination::Retval };
    let policy = decoder.policy(&[&one], &context);
    compare(seed, source, rng, |_, device, request| decoder.verdict(policy, device, request));
}

fn cases() -> std::ops::Range<u64> {
    let number = |name: &str| std::env::var(name).ok().map(|value| value.parse::<u64>().expect("a number"));
    let first = number("GPUMAP_SEED").unwrap_or(1);
    first..first + number("GPUMAP_CASES").unwrap_or(PROGRAMS)
}

/// Make sure that random programs mean the same to the decoder and to rbpf.
#[test]
fn random_programs_match_rbpf() {
    for seed in cases() {
        let mut rng = Rng::new(seed);
        let source = random::program(&mut rng, RBPF, 12);
        decode(seed, &source, &mut rng);
    }
}

/// Make sure that the writers' rule lists mean the same to the decoder and to
/// rbpf.
#[test]
fn writers_match_rbpf() {
    for seed in cases() {
        let mut rng = Rng::new(seed);
        let source = writers::nth(seed, &mut rng, CgroupIds { cgroup_id: 1 });
        if source.maps.is_empty() {
            decode(seed, &source, &mut rng);
        }
    }
}

/// Make sure that rbpf and the bench's own interpreter agree, so that a
/// difference above is the decoder's.
#[test]
fn harness_agrees_with_rbpf() {
    for seed in cases() {
        let mut rng = Rng::new(seed);
        let source = random::program(&mut rng, RBPF, 12);
        compare(seed, &source, &mut rng, |program, device, request| {
            Machine::new(std::slice::from_ref(program), &[], 1).verdict(device, request)
        });
    }
}
