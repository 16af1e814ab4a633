//! Device programs and maps in one line each: named programs of a few
//! instructions, without labels. What fails ends the test.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd as _, AsRawFd as _, OwnedFd};

use gpumap::bytecode::Insn;

use super::bpf::{self, Attr, bpf_fd};
use super::inspect;

pub const HASH: u32 = 1;
pub const ARRAY: u32 = 2;
pub const PERCPU_ARRAY: u32 = 6;
pub const LPM_TRIE: u32 = 11;

pub fn map(kind: u32, key: u32, value: u32, entries: u32) -> OwnedFd {
    // BPF_F_NO_PREALLOC is the law for tries.
    let flags = u32::from(kind == LPM_TRIE);
    let attr = Attr::new().u32(0, kind).u32(4, key).u32(8, value).u32(12, entries).u32(16, flags);
    bpf_fd(bpf::MAP_CREATE, &mut { attr }).unwrap()
}

pub fn update(map: &OwnedFd, key: &[u8], value: &[u8]) {
    bpf::update(map, key, value).unwrap();
}

pub fn freeze(map: &OwnedFd) {
    bpf::freeze(map).unwrap();
}

/// Loads a device program called `name`.
pub fn load(name: &str, insns: &[Insn]) -> OwnedFd {
    let bytes: Vec<u8> = insns.iter().flat_map(|insn| insn.bytes()).collect();
    bpf::load_bytes(name, &bytes, true, true).unwrap_or_else(|why| panic!("{why}"))
}

/// A program that always returns `verdict`.
pub fn constant(name: &str, verdict: i32) -> OwnedFd {
    load(name, &[mov(0, verdict), exit()])
}

pub fn try_attach(cgroup: &File, program: &OwnedFd, flags: u32) -> io::Result<()> {
    bpf::attach(cgroup, program, flags, None)
}

pub fn attach(cgroup: &File, program: &OwnedFd, flags: u32) {
    try_attach(cgroup, program, flags).unwrap();
}

pub fn detach(cgroup: &File, program: &OwnedFd) {
    bpf::detach(cgroup, program.as_fd()).unwrap();
}

pub fn link(cgroup: &File, program: &OwnedFd) -> OwnedFd {
    bpf::link(cgroup, program, 0).unwrap()
}

/// An id from `fdinfo`: `map_id` or `link_id`.
pub fn id(object: &OwnedFd, field: &str) -> u32 {
    let text = std::fs::read_to_string(format!("/proc/self/fdinfo/{}", object.as_raw_fd())).unwrap();
    let line = text.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':'));
    line.unwrap().trim().parse().unwrap()
}

pub fn prog_id(program: &OwnedFd) -> u32 {
    inspect::program(program).unwrap().id
}

pub fn mov(dst: u8, imm: i32) -> Insn {
    Insn { code: 0xb7, dst, imm, ..Insn::default() }
}

pub fn mov_reg(dst: u8, src: u8) -> Insn {
    Insn { code: 0xbf, dst, src, ..Insn::default() }
}

pub fn add(dst: u8, imm: i32) -> Insn {
    Insn { code: 0x07, dst, imm, ..Insn::default() }
}

/// `*(u64 *)(r10 + off) = imm`
pub fn store(off: i16, imm: i32) -> Insn {
    Insn { code: 0x7a, dst: 10, off, imm, ..Insn::default() }
}

pub fn call(helper: i32) -> Insn {
    Insn { code: 0x85, imm: helper, ..Insn::default() }
}

pub fn exit() -> Insn {
    Insn { code: 0x95, ..Insn::default() }
}

pub fn load_map(dst: u8, map: &OwnedFd) -> [Insn; 2] {
    [Insn { code: 0x18, dst, src: 1, imm: map.as_raw_fd(), ..Insn::default() }, Insn::default()]
}
