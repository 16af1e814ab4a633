//! Programs of files that go on in others: what stands beside a program is not a part
//! of it, and what a program is called by does not change it.

use crate::support::asm::{Asm, cond, helper, size};
use gpumap::model::{Device, DeviceType, MapType, Request, Verdict};
use gpumap::observation::{Answer, HexBytes, Map, MapEntry, Program};
use gpumap::policy::{Context, Decoder};

const MAP: u32 = 7;

fn program(id: u32, asm: Asm, calls: &[(i32, &str)]) -> Program {
    Program {
        id,
        xlated: Answer::Known(HexBytes(asm.finish("").bytes())),
        map_ids: vec![MAP],
        calls: calls.iter().map(|(number, name)| (*number, (*name).to_owned())).collect(),
        ..Program::default()
    }
}

/// A map with these programs at 0, 1, ….
fn map(programs: Vec<Program>) -> Map {
    let bytes = |number: u32| HexBytes(number.to_le_bytes().to_vec());
    let entry =
        |(index, program): (usize, &Program)| MapEntry { key: bytes(index as u32), value: bytes(program.id) };
    Map {
        id: MAP,
        kind: MapType::ProgArray,
        key_size: 4,
        value_size: 4,
        max_entries: 8,
        entries: Answer::Known(programs.iter().enumerate().map(entry).collect()),
        programs,
        ..Map::default()
    }
}

/// Goes on in the program at `index`.
fn go_on(asm: &mut Asm, index: i32) {
    asm.ld_map(2, MAP as usize);
    asm.mov(3, index);
    asm.call(helper::TAIL_CALL);
}

fn caller(index: i32) -> Program {
    let mut asm = Asm::new();
    go_on(&mut asm, index);
    asm.verdict(0);
    program(1, asm, &[])
}

/// The verdict about the minor 3, and why it is unknown.
fn verdict(program: &Program, map: &Map) -> (Verdict, String) {
    let (mut decoder, maps) = (Decoder::new(), std::slice::from_ref(map));
    let policy = decoder.policy(&[program], &Context { maps, ..Context::default() });
    let device = Device { kind: DeviceType::Char, major: 195, minor: 3 };
    let why = decoder.why(policy, device, Request::Read).join("; ");
    let proof = decoder.prove(&[program], &Context { maps, ..Context::default() }, device, Request::Read);
    let verdict = decoder.verdict(policy, device, Request::Read);
    assert_eq!(proof.verdict, verdict);
    (verdict, why)
}

/// A program that ends where its last instruction does nothing.
fn endless() -> Program {
    let mut asm = Asm::new();
    let next = asm.label();
    // Whatever this program jumps to is not what stands behind it.
    asm.mov(0, 0);
    asm.jump(next);
    asm.bind(next);
    Program { map_ids: Vec::new(), ..program(2, asm, &[]) }
}

fn allows(id: u32) -> Program {
    let mut asm = Asm::new();
    asm.verdict(1);
    Program { map_ids: Vec::new(), ..program(id, asm, &[]) }
}

/// Make sure that a program ends with its last instruction, and that one which is not
/// there is named.
#[test]
fn programs_end() {
    let whole = map(vec![endless(), allows(3)]);
    let (of_endless, why) = verdict(&caller(0), &whole);
    assert_eq!(of_endless, Verdict::Unknown);
    assert!(why.contains("program 2, which leads out of itself"), "{why}");
    assert_eq!(verdict(&caller(1), &whole).0, Verdict::Allow);
    assert_eq!(verdict(&caller(2), &whole).0, Verdict::Deny);
    let unread = Program { xlated: Answer::Missing("no right".to_owned()), ..allows(4) };
    let (of_unread, why) = verdict(&caller(0), &map(vec![unread]));
    assert_eq!(of_unread, Verdict::Unknown);
    assert!(why.contains("program 4, of which nothing is known") && why.contains("no right"), "{why}");
    let (of_absent, why) = verdict(&caller(0), &Map { programs: Vec::new(), ..map(vec![allows(3)]) });
    assert_eq!(of_absent, Verdict::Unknown);
    assert!(why.contains("the program continues in another one (tail call)"), "{why}");
}

/// Make sure that a program in a map is that one, and not another of its number.
#[test]
fn numbers_of_programs() {
    assert_eq!(verdict(&caller(0), &map(vec![allows(1)])).0, Verdict::Allow);
}

/// Make sure that the number of a call means in each program what it means there.
#[test]
fn numbers_of_calls() {
    let asks = |id, name| {
        let mut asm = Asm::new();
        let allow = asm.label();
        asm.call(99);
        asm.jump_if(cond::EQ, 0, 0, allow);
        asm.verdict(0);
        asm.bind(allow);
        asm.verdict(1);
        Program { map_ids: Vec::new(), ..program(id, asm, &[(99, name)]) }
    };
    let whole = map(vec![asks(3, "bpf_get_retval"), asks(4, "bpf_ktime_get_ns")]);
    let mut asm = Asm::new();
    asm.movr(6, 1);
    asm.call(99);
    asm.movr(1, 6);
    asm.ldx(size::W, 7, 6, 8);
    go_on(&mut asm, 0);
    asm.verdict(0);
    assert_eq!(verdict(&program(1, asm, &[(99, "bpf_ktime_get_ns")]), &whole).0, Verdict::Allow);
    let (of_time, why) = verdict(&caller(1), &whole);
    assert_eq!(of_time, Verdict::Unknown);
    assert!(why.contains("bpf_ktime_get_ns"), "{why}");
}
