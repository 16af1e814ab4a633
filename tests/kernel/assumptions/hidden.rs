//! Tests programs whose calls have no names because the kernel hides its symbols.
//! Only the program's tag may prove what a call is.

use gpumap::bytecode::tag;

use super::{array, devices, finish, judge};
use crate::support::asm::{Asm, Label, alu, cond, helper, size};
use crate::support::bench::{Bench, Facts};
use crate::support::generate::stacks::Stack;
use crate::support::generate::writers;
use crate::support::rng::Rng;
use crate::support::source::{MapKind, MapSpec, Source};
use crate::support::{bpf, host, inspect};

/// Those of the known writers that call helpers, all to look into hash tables.
const WITH_MAPS: [&str; 4] = ["libvirt", "parastation", "cranesched", "oar"];

fn bench() -> Bench {
    Bench::new().expect("scratch cgroups and an oracle")
}

/// The facts of a program of the named writer, as root sees them.
fn written_by(name: &str, seed: u64, bench: &mut Bench) -> (Source, Facts) {
    let (_, write) = writers::ALL.into_iter().find(|(known, _)| *known == name).expect("a writer");
    let mut rng = Rng::new(seed);
    let source = write(&mut rng, bench.place());
    let facts = bench.run(&Stack::alone(source.clone()), &mut rng).expect("a stack");
    (source, facts)
}

fn hidden(mut facts: Facts) -> Facts {
    facts.programs.iter_mut().for_each(inspect::hide);
    facts
}

/// How many answers there are.
fn all(facts: &Facts) -> usize {
    facts.devices.len() * gpumap::model::Request::ALL.len()
}

/// Make sure that the policies of libvirt and schedulers, which are in hash
/// tables, are known without symbols, and as the kernel decides.
#[test]
fn policies_in_hash_tables() {
    let Some(_host) = host::shared() else { return };
    let mut bench = bench();
    for name in WITH_MAPS {
        for seed in 0..6 {
            let (_, facts) = written_by(name, seed, &mut bench);
            assert_eq!(judge(&hidden(facts)), 0, "{name}, seed {seed}: unknown answers");
        }
    }
}

/// Make sure that the kernel's tag is the hash that gpumap takes it for.
#[test]
fn tags() {
    let Some(_host) = host::shared() else { return };
    for (name, write) in writers::ALL {
        let source = write(&mut Rng::new(3), bench().place());
        let Ok(loaded) = bpf::load(&source) else { continue };
        let program = inspect::program(&loaded.program).expect("info");
        let digits = u64::from_str_radix(&program.tag, 16).expect("a tag");
        assert!(tag::is_tag_of(&digits.to_be_bytes(), &source.insns), "{name}: {}", program.tag);
    }
}

/// Make sure that the tag is what makes a lookup known whose value is never read: with
/// another one, or none, every answer that hangs on it is unknown.
#[test]
fn without_the_right_tag() {
    let Some(_host) = host::shared() else { return };
    let loaded = super::load_alone(&by_hash_table(|_, _| {}));
    let mut facts = hidden(bench().ask(&[&loaded], &devices()));
    assert_eq!(judge(&facts), 0, "unknown answers");
    let tag = facts.programs[0].tag.clone();
    let last = if tag.ends_with('0') { "1" } else { "0" };
    for other in [String::new(), "0".repeat(16), format!("{}{last}", &tag[..15]), format!("{tag}00")] {
        facts.programs[0].tag = other;
        assert_eq!(judge(&facts), all(&facts), "an answer without proof");
    }
}

/// Make sure that a lookup whose value the program reads is known without symbols and
/// without a tag, as in a file of bare instructions: the verifier lets nothing else
/// stand there.
#[test]
fn a_lookup_that_can_be_nothing_else() {
    let Some(_host) = host::shared() else { return };
    let mut bench = bench();
    for seed in 0..6 {
        let (_, facts) = written_by("libvirt", seed, &mut bench);
        let mut facts = hidden(facts);
        facts.programs[0].tag = String::new();
        assert_eq!(judge(&facts), 0, "seed {seed}: unknown answers");
    }
}

/// Make sure that it is not proven where the program itself steps further: the values
/// may reach as far.
#[test]
fn what_looks_like_a_lookup_and_is_read() {
    let Some(_host) = host::shared() else { return };
    let mut asm = Asm::new();
    let deny = asm.label();
    let value = (0..64).map(|byte| u8::from(byte == 56)).collect();
    let spec = MapSpec { kind: MapKind::Hash, key_size: 8, entries: vec![(vec![5; 8], value)], ..array(64) };
    let map = asm.map(spec);
    asm.ld64(3, 0x0505_0505_0505_0505);
    asm.stx(size::DW, 10, -8, 3);
    asm.movr(2, 10);
    asm.op64(alu::ADD, 2, -8);
    asm.ld_map(1, map);
    asm.call(helper::MAP_LOOKUP);
    asm.jump_if(cond::EQ, 0, 0, deny);
    asm.op64(alu::ADD, 0, 0x38);
    asm.ldx(size::W, 0, 0, 0);
    asm.op64(alu::AND, 0, 1);
    asm.exit();
    asm.bind(deny);
    asm.verdict(0);
    let loaded = super::load_alone(&finish(asm, "long value"));
    let mut facts = bench().ask(&[&loaded], &devices());
    assert_eq!(judge(&facts), 0, "unknown answers");
    facts.programs[0].tag = String::new();
    let facts = hidden(facts);
    assert_eq!(judge(&facts), all(&facts), "what the call returns is not known");
}

/// `call number; if r0 == 0 goto +1; r0 += 0x38`, as the kernel writes a lookup
/// out, and then allows if r0 is not 0.
fn in_the_shape_of_a_lookup(number: i32, arguments: impl FnOnce(&mut Asm)) -> Source {
    let mut asm = Asm::new();
    let (zero, deny) = (asm.label(), asm.label());
    let spec =
        MapSpec { kind: MapKind::Hash, key_size: 8, entries: vec![(vec![0; 8], vec![1; 8])], ..array(8) };
    let map = asm.map(spec);
    asm.st(size::DW, 10, -8, 5);
    asm.movr(2, 10);
    asm.op64(alu::ADD, 2, -8);
    asm.ld_map(1, map);
    arguments(&mut asm);
    asm.call(number);
    asm.jump_if(cond::EQ, 0, 0, zero);
    asm.op64(alu::ADD, 0, 0x38);
    asm.bind(zero);
    asm.jump_if(cond::EQ, 0, 0, deny);
    asm.verdict(1);
    asm.bind(deny);
    asm.verdict(0);
    finish(asm, "shape")
}

/// Make sure that another helper in the shape of a lookup is not one.
#[test]
fn what_looks_like_a_lookup() {
    let Some(_host) = host::shared() else { return };
    let value = |asm: &mut Asm| {
        asm.movr(3, 2);
        asm.mov(4, 0);
    };
    let sources = [
        in_the_shape_of_a_lookup(helper::MAP_DELETE, |_| {}),
        in_the_shape_of_a_lookup(helper::MAP_UPDATE, value),
        in_the_shape_of_a_lookup(helper::UID_GID, |_| {}),
        in_the_shape_of_a_lookup(helper::PRANDOM, |_| {}),
        in_the_shape_of_a_lookup(helper::KTIME, |_| {}),
    ];
    for source in sources {
        let loaded = super::load_alone(&source);
        let facts = hidden(bench().ask(&[&loaded], &devices()));
        assert_eq!(judge(&facts), all(&facts), "what the helper returns is not known");
    }
}

/// A hash table that allows `c 195:*` and denies all else, after `before`.
fn by_hash_table(before: impl FnOnce(&mut Asm, Label)) -> Source {
    let mut asm = Asm::new();
    let deny = asm.label();
    let map = asm.map(MapSpec {
        kind: MapKind::Hash,
        entries: vec![(195_u32.to_le_bytes().to_vec(), vec![1; 8])],
        ..array(8)
    });
    asm.movr(6, 1);
    before(&mut asm, deny);
    asm.ldx(size::W, 2, 6, 4);
    asm.stx(size::W, 10, -4, 2);
    asm.movr(2, 10);
    asm.op64(alu::ADD, 2, -4);
    asm.ld_map(1, map);
    asm.call(helper::MAP_LOOKUP);
    asm.jump_if(cond::EQ, 0, 0, deny);
    asm.verdict(1);
    asm.bind(deny);
    asm.verdict(0);
    finish(asm, "hash table")
}

/// Make sure that calls of other helpers beside a lookup are found.
#[test]
fn other_helpers_beside() {
    let Some(_host) = host::shared() else { return };
    let source = by_hash_table(|asm, deny| {
        asm.call(helper::UID_GID);
        asm.movr(7, 0);
        asm.call(helper::PRANDOM);
        asm.stx(size::DW, 10, -16, 0);
        asm.st(size::DW, 10, -24, 0x25);
        asm.movr(1, 10);
        asm.op64(alu::ADD, 1, -24);
        asm.mov(2, 8);
        asm.movr(3, 7);
        asm.call(helper::TRACE_PRINTK);
        asm.ldx(size::W, 2, 6, 4);
        asm.jump_if(cond::EQ, 2, 8, deny);
    });
    let loaded = super::load_alone(&source);
    let facts = hidden(bench().ask(&[&loaded], &devices()));
    assert_eq!(judge(&facts), 0, "unknown answers");
}

/// Make sure that a program is unknown whose dead code the verifier took out:
/// what was loaded cannot be had back.
#[test]
fn dead_code() {
    let Some(_host) = host::shared() else { return };
    let source = by_hash_table(|asm, _| {
        let next = asm.label();
        asm.mov(3, 0);
        asm.jump_if(cond::EQ, 3, 0, next);
        asm.mov(3, 7);
        asm.bind(next);
    });
    let loaded = super::load_alone(&source);
    let facts = hidden(bench().ask(&[&loaded], &devices()));
    assert_eq!(judge(&facts), all(&facts), "an answer without proof");
}

/// Make sure that lookups in maps of every kind are undone: what symbols make
/// known is known without them.
#[test]
fn lookups_of_every_kind() {
    let Some(_host) = host::shared() else { return };
    let kinds = [MapKind::Hash, MapKind::LruHash, MapKind::PercpuHash, MapKind::Array, MapKind::PercpuArray];
    for kind in kinds {
        for value_size in [8, 24] {
            let source = by_hash_table(|asm, _| {
                let map = asm.map(MapSpec { kind, entries: vec![], ..array(value_size) });
                let none = asm.label();
                super::look_up(asm, map, none);
                asm.ldx(size::W, 3, 0, 0);
                asm.bind(none);
            });
            let loaded = super::load_alone(&source);
            let facts = bench().ask(&[&loaded], &devices());
            assert_eq!(judge(&facts), 0, "{kind:?}: unknown answers");
            assert_eq!(judge(&hidden(facts)), 0, "{kind:?}, {value_size} bytes: unknown without symbols");
        }
    }
}
