//! bpf(2) for the observation tests: maps, programs, attachments. Kept apart
//! from the code under test on purpose.

#![allow(unsafe_code)]

use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use gpumap::bytecode::Insn;

pub const OVERRIDE: u32 = 1;
pub const MULTI: u32 = 2;
pub const PREORDER: u32 = 1 << 6;

pub const HASH: u32 = 1;
pub const ARRAY: u32 = 2;
pub const PERCPU_ARRAY: u32 = 6;
pub const LPM_TRIE: u32 = 11;

/// `union bpf_attr`, in 4-byte words.
struct Attr([u32; 40]);

impl Attr {
    fn new(words: &[(usize, u32)]) -> Self {
        let mut attr = Self([0; 40]);
        words.iter().for_each(|(at, word)| attr.0[*at] = *word);
        attr
    }

    fn pointer<T>(mut self, at: usize, value: &[T]) -> Self {
        let address = value.as_ptr() as u64;
        (self.0[at], self.0[at + 1]) = (address as u32, (address >> 32) as u32);
        self
    }

    fn call(mut self, command: i32) -> io::Result<i32> {
        // SAFETY: the attribute is longer than any kernel's, and the slices it
        // points to outlive the call.
        let result =
            unsafe { libc::syscall(libc::SYS_bpf, command, self.0.as_mut_ptr(), size_of_val(&self.0)) };
        if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result as i32) }
    }

    fn open(self, command: i32) -> io::Result<OwnedFd> {
        // SAFETY: the kernel returned a new descriptor.
        self.call(command).map(|fd| unsafe { OwnedFd::from_raw_fd(fd) })
    }
}

fn fd(fd: &impl AsRawFd) -> u32 {
    fd.as_raw_fd() as u32
}

pub fn map(kind: u32, key: u32, value: u32, entries: u32) -> OwnedFd {
    // BPF_F_NO_PREALLOC is the law for tries.
    let flags = u32::from(kind == LPM_TRIE);
    Attr::new(&[(0, kind), (1, key), (2, value), (3, entries), (4, flags)]).open(0).unwrap()
}

pub fn update(map: &OwnedFd, key: &[u8], value: &[u8]) {
    Attr::new(&[(0, fd(map))]).pointer(2, key).pointer(4, value).call(2).unwrap();
}

pub fn freeze(map: &OwnedFd) {
    Attr::new(&[(0, fd(map))]).call(22).unwrap();
}

/// Loads a device program called `name`.
pub fn load(name: &str, insns: &[Insn]) -> OwnedFd {
    let bytes: Vec<u8> = insns.iter().flat_map(|insn| insn.bytes()).collect();
    let mut log = vec![0_u8; 1 << 16];
    let mut attr = Attr::new(&[(0, 15), (1, insns.len() as u32), (6, 1), (7, log.len() as u32), (17, 6)])
        .pointer(2, &bytes)
        .pointer(4, b"GPL\0")
        .pointer(8, &log);
    for (at, chunk) in name.as_bytes().chunks(4).enumerate() {
        let mut word = [0; 4];
        word[..chunk.len()].copy_from_slice(chunk);
        attr.0[12 + at] = u32::from_le_bytes(word);
    }
    let program = attr.open(5);
    log.retain(|byte| *byte != 0);
    program.unwrap_or_else(|error| panic!("{error}: {}", String::from_utf8_lossy(&log)))
}

/// A program that always returns `verdict`.
pub fn constant(name: &str, verdict: i32) -> OwnedFd {
    load(name, &[mov(0, verdict), exit()])
}

pub fn try_attach(cgroup: &File, program: &OwnedFd, flags: u32) -> io::Result<()> {
    Attr::new(&[(0, fd(cgroup)), (1, fd(program)), (2, 6), (3, flags)]).call(8).map(drop)
}

pub fn attach(cgroup: &File, program: &OwnedFd, flags: u32) {
    try_attach(cgroup, program, flags).unwrap();
}

pub fn detach(cgroup: &File, program: &OwnedFd) {
    Attr::new(&[(0, fd(cgroup)), (1, fd(program)), (2, 6)]).call(9).unwrap();
}

pub fn link(cgroup: &File, program: &OwnedFd) -> OwnedFd {
    Attr::new(&[(0, fd(program)), (1, fd(cgroup)), (2, 6)]).open(28).unwrap()
}

/// An id from `fdinfo`: `prog_id`, `map_id` or `link_id`.
pub fn id(object: &OwnedFd, field: &str) -> u32 {
    let text = std::fs::read_to_string(format!("/proc/self/fdinfo/{}", object.as_raw_fd())).unwrap();
    let line = text.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':'));
    line.unwrap().trim().parse().unwrap()
}

pub fn prog_id(program: &OwnedFd) -> u32 {
    id(program, "prog_id")
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
