//! Tests what the kernel's types make possible: pointers of the kernel in map
//! values, and reads of kernel memory.

use super::{Bench, TRIGGER, finish, judge, load, map};
use crate::support::asm::{Asm, cond, helper, size};
use crate::support::kernel::needs;
use crate::support::{bpf, host};

/// The number of a function among the kernel's types.
pub fn function(name: &str) -> i32 {
    number(name, 12).unwrap_or_else(|| panic!("no function {name}"))
}

/// The number of a type of this kind and name among the kernel's types.
pub fn number(name: &str, kind: u32) -> Option<i32> {
    let btf = std::fs::read("/sys/kernel/btf/vmlinux").expect("the kernel's types");
    let word = |at: usize| u32::from_ne_bytes(btf[at..at + 4].try_into().expect("four bytes"));
    let header = word(4) as usize;
    let (types, length, strings) = (header + word(8) as usize, word(12) as usize, header + word(16) as usize);
    let (mut at, mut number) = (types, 1);
    while at < types + length {
        let (info, start) = (word(at + 4), strings + word(at) as usize);
        let members = (info & 0xffff) as usize;
        if info >> 24 & 0x1f == kind && btf[start..].starts_with(format!("{name}\0").as_bytes()) {
            return Some(number);
        }
        at += 12
            + match info >> 24 & 0x1f {
                1 | 14 | 17 => 4,
                3 => 12,
                4 | 5 | 15 | 19 => members * 12,
                6 | 13 => members * 8,
                _ => 0,
            };
        number += 1;
    }
    None
}

/// Types: `u32`, and `struct { struct task_struct __kptr_untrusted *p; }`.
fn pointer_types() -> Vec<u8> {
    let strings = b"\0u32\0task_struct\0kptr_untrusted\0value\0p\0";
    let at = |name: &[u8]| {
        strings.windows(name.len() + 1).position(|text| text[..name.len()] == *name && text[name.len()] == 0)
    };
    let at = |name: &[u8]| at(name).expect("a string") as u32;
    let types: Vec<u32> = [
        [at(b"u32"), 1 << 24, 4, 32].as_slice(),
        &[at(b"task_struct"), 7 << 24, 0],
        &[at(b"kptr_untrusted"), 18 << 24, 2],
        &[0, 2 << 24, 3],
        &[at(b"value"), 4 << 24 | 1, 8, at(b"p"), 4, 0],
    ]
    .concat();
    binary(&types, strings)
}

/// Types with their strings in BTF's binary form.
pub fn binary(types: &[u32], strings: &[u8]) -> Vec<u8> {
    let length = types.len() as u32 * 4;
    let header = [0x0001_eb9f, 24, 0, length, length, strings.len() as u32];
    header.iter().chain(types).flat_map(|word| word.to_ne_bytes()).chain(strings.iter().copied()).collect()
}

/// Make sure that a pointer of the kernel in a map value, which user space
/// reads as 0, is not taken for 0.
#[test]
fn a_kernel_pointer_in_a_map() {
    let Some(_host) = host::shared() else { return };
    if !needs(5, 19, "a pointer of the kernel in a map") {
        return;
    }
    let types = bpf::load_types(&pointer_types()).expect("types");
    let map = bpf::create_typed_array(&types, 1, 5, 8).expect("a typed map");
    let mut bench = Bench::new().expect("scratch cgroups and an oracle");
    let look_up = |asm: &mut Asm| {
        let none = asm.label();
        super::look_up(asm, 0, none);
        none
    };
    let mut asm = Asm::new();
    let none = look_up(&mut asm);
    asm.movr(7, 0);
    asm.call(helper::TASK_BTF);
    asm.stx(size::DW, 7, 0, 0);
    asm.bind(none);
    asm.verdict(1);
    let writer = load(&finish(asm, "writer"), &[&map]);
    bench.ask(&[&writer], &[TRIGGER]);
    let mut asm = Asm::new();
    let none = look_up(&mut asm);
    asm.ldx(size::DW, 1, 0, 0);
    asm.jump_if(cond::EQ, 1, 0, none);
    asm.verdict(1);
    asm.bind(none);
    asm.verdict(0);
    let reader = load(&finish(asm, "reader"), &[&map]);
    let facts = bench.ask(&[&reader], &super::devices());
    assert!(facts.allowed.iter().all(|allowed| !allowed.is_empty()), "the pointer was not stored");
    judge(&facts);
}

/// Make sure that kernel memory beside a map's structure is not taken for the
/// map's values.
#[test]
fn a_cast_of_a_map() {
    let Some(_host) = host::shared() else { return };
    if !needs(6, 2, "bpf_rdonly_cast") {
        return;
    }
    let cast = function("bpf_rdonly_cast");
    let kind = number("bpf_map_ops", 4).expect("a type made of 8-byte members");
    let values = map(&super::array(64));
    let mut asm = Asm::new();
    let one = asm.label();
    asm.ld_map(1, 0);
    asm.mov(2, kind);
    asm.call_kernel(cast);
    // Some of the numbers and addresses there is not 0.
    asm.op64(super::alu::ADD, 0, 8);
    asm.movr(1, 0);
    for place in 0..8 {
        asm.ldx(size::DW, 2, 1, place * 8);
        asm.jump_if(cond::NE, 2, 0, one);
    }
    asm.verdict(0);
    asm.bind(one);
    asm.verdict(1);
    let loaded = load(&finish(asm, "cast"), &[&values]);
    let facts = Bench::new().expect("scratch cgroups and an oracle").ask(&[&loaded], &super::devices());
    assert!(facts.allowed.iter().any(|allowed| !allowed.is_empty()), "nothing was read");
    judge(&facts);
}
