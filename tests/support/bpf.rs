//! bpf(2) for the tests: load, attach, query. Independent of the code under
//! test on purpose.

#![allow(unsafe_code, reason = "bpf(2) has no safe wrapper")]

use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd as _, BorrowedFd, FromRawFd as _, OwnedFd, RawFd};

use super::asm::{Asm, size};
use super::kernel::release;
use super::source::{MapSpec, Source};

pub const MAP_CREATE: i32 = 0;
const MAP_UPDATE: i32 = 2;
const MAP_DELETE: i32 = 3;
const PROG_LOAD: i32 = 5;
const PROG_ATTACH: i32 = 8;
const PROG_DETACH: i32 = 9;
const PROG_QUERY: i32 = 16;
const MAP_FREEZE: i32 = 22;
const LINK_CREATE: i32 = 28;
const LINK_UPDATE: i32 = 29;
const LINK_DETACH: i32 = 34;
pub const PROG_TYPE_KPROBE: u32 = 2;
const PROG_TYPE_CGROUP_DEVICE: u32 = 15;
const ATTACH_CGROUP_DEVICE: u32 = 6;

/// `BPF_F_ALLOW_OVERRIDE`.
pub const OVERRIDE: u32 = 1;
/// `BPF_F_ALLOW_MULTI`.
pub const MULTI: u32 = 2;
/// `BPF_F_REPLACE`.
pub const REPLACE: u32 = 4;
/// `BPF_F_PREORDER`.
pub const PREORDER: u32 = 64;

/// `union bpf_attr`, longer than any kernel's: the tail is zero.
#[repr(C, align(8))]
pub struct Attr([u8; 192]);

impl Attr {
    pub fn new() -> Self {
        Self([0; 192])
    }

    #[must_use]
    pub fn u32(mut self, at: usize, value: u32) -> Self {
        self.0[at..at + 4].copy_from_slice(&value.to_ne_bytes());
        self
    }

    #[must_use]
    pub fn bytes(mut self, at: usize, value: &[u8]) -> Self {
        self.0[at..at + value.len()].copy_from_slice(value);
        self
    }

    #[must_use]
    pub fn fd(self, at: usize, fd: RawFd) -> Self {
        self.u32(at, fd as u32)
    }

    #[must_use]
    pub fn pointer<T>(mut self, at: usize, value: *const T) -> Self {
        self.0[at..at + 8].copy_from_slice(&(value as u64).to_ne_bytes());
        self
    }

    pub fn get_u32(&self, at: usize) -> u32 {
        u32::from_ne_bytes([self.0[at], self.0[at + 1], self.0[at + 2], self.0[at + 3]])
    }
}

/// The system call. Pointers inside `attr` are the caller's promise.
pub fn bpf(command: i32, attr: &mut Attr) -> io::Result<RawFd> {
    // SAFETY: `attr` is a writable buffer of the size given; the pointers in it
    // are to live buffers of the functions of this bench.
    let result = unsafe { libc::syscall(libc::SYS_bpf, command, attr.0.as_mut_ptr(), attr.0.len()) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result as RawFd) }
}

/// The same, where the result is a new file descriptor.
pub fn bpf_fd(command: i32, attr: &mut Attr) -> io::Result<OwnedFd> {
    // SAFETY: the kernel has just made this descriptor for us.
    bpf(command, attr).map(|fd| unsafe { OwnedFd::from_raw_fd(fd) })
}

/// A loaded program and its maps.
#[derive(Debug)]
pub struct Loaded {
    pub program: OwnedFd,
    pub maps: Vec<OwnedFd>,
}

/// Whether device programs can be loaded here at all.
pub fn probe() -> Result<(), String> {
    let mut asm = Asm::new();
    asm.verdict(1);
    load(&asm.finish("probe")).map(drop)
}

/// Creates the maps and loads the program; the error is the verifier's log.
pub fn load(source: &Source) -> Result<Loaded, String> {
    let maps: Vec<OwnedFd> = source
        .maps
        .iter()
        .map(|spec| create_map(spec).map_err(|error| format!("map {spec:?}: {error}")))
        .collect::<Result<_, _>>()?;
    load_with(source, maps)
}

/// The same with maps that are there already.
pub fn load_with(source: &Source, maps: Vec<OwnedFd>) -> Result<Loaded, String> {
    let bytes = with_maps(source, &maps);
    let program = load_bytes("", &bytes, source.gpl, source.attach_type)?;
    Ok(Loaded { program, maps })
}

/// The same for a program with types: for each of its functions the first
/// instruction and the number of its type.
pub fn load_typed(
    source: &Source,
    maps: Vec<OwnedFd>,
    types: &OwnedFd,
    functions: &[[u32; 2]],
) -> Result<Loaded, String> {
    let bytes = with_maps(source, &maps);
    let typed = |attr: Attr| {
        let count = u32::try_from(functions.len()).unwrap();
        attr.fd(72, types.as_raw_fd()).u32(76, 8).pointer(80, functions.as_ptr()).u32(88, count)
    };
    let program = load_as("", &bytes, source.gpl, source.attach_type, typed)?;
    Ok(Loaded { program, maps })
}

fn with_maps(source: &Source, maps: &[OwnedFd]) -> Vec<u8> {
    let mut insns = source.insns.clone();
    for at in 0..insns.len() {
        if insns[at].code == 0x18 && (insns[at].src == 1 || insns[at].src == 2) {
            insns[at].imm = maps[insns[at].imm as usize].as_raw_fd();
        }
    }
    insns.iter().flat_map(|insn| insn.bytes()).collect()
}

/// A map whose entries are maps like `inner`, an array of `max_entries`.
pub fn create_array_of_maps(inner: &OwnedFd, max_entries: u32) -> io::Result<OwnedFd> {
    let attr = Attr::new().u32(0, 12).u32(4, 4).u32(8, 4).u32(12, max_entries);
    bpf_fd(MAP_CREATE, &mut attr.fd(20, inner.as_raw_fd()))
}

/// Types in BTF's binary form.
pub fn load_types(btf: &[u8]) -> io::Result<OwnedFd> {
    const BTF_LOAD: i32 = 18;
    bpf_fd(BTF_LOAD, &mut Attr::new().pointer(0, btf.as_ptr()).u32(16, u32::try_from(btf.len()).unwrap()))
}

/// An array of one value of type `value_type`, its key of type `key_type`.
pub fn create_typed_array(
    types: &OwnedFd,
    key_type: u32,
    value_type: u32,
    value_size: u32,
) -> io::Result<OwnedFd> {
    let attr = Attr::new().u32(0, 2).u32(4, 4).u32(8, value_size).u32(12, 1);
    let attr = attr.fd(48, types.as_raw_fd()).u32(52, key_type).u32(56, value_type);
    bpf_fd(MAP_CREATE, &mut { attr })
}

/// Loads a program for probes that writes to its stack, far from its top.
pub fn probe_with_stack() -> OwnedFd {
    let mut asm = Asm::new();
    asm.mov(1, 42);
    asm.stx(size::DW, 10, -256, 1);
    asm.verdict(0);
    let bytes: Vec<u8> = asm.finish("stack").insns.iter().flat_map(|insn| insn.bytes()).collect();
    let mut attr = Attr::new()
        .u32(0, PROG_TYPE_KPROBE)
        .u32(4, u32::try_from(bytes.len() / 8).unwrap())
        .pointer(8, bytes.as_ptr())
        .pointer(16, c"GPL".as_ptr());
    bpf_fd(PROG_LOAD, &mut attr).unwrap()
}

/// Loads instructions as a program of this name, of 15 bytes at most; the error
/// is the verifier's log.
pub fn load_bytes(name: &str, bytes: &[u8], gpl: bool, attach_type: bool) -> Result<OwnedFd, String> {
    load_as(name, bytes, gpl, attach_type, |attr| attr)
}

fn load_as(
    name: &str,
    bytes: &[u8],
    gpl: bool,
    attach_type: bool,
    more: impl Fn(Attr) -> Attr,
) -> Result<OwnedFd, String> {
    // Linux 4.15 and 4.16 know no types of attachments.
    let expected = if attach_type && release() >= (4, 17) { ATTACH_CGROUP_DEVICE } else { 0 };
    let load = |log: &mut [u8]| {
        let license: &[u8] = if gpl { b"GPL\0" } else { b"Apache\0" };
        let mut attr = Attr::new()
            .u32(0, PROG_TYPE_CGROUP_DEVICE)
            .u32(4, u32::try_from(bytes.len() / 8).unwrap())
            .pointer(8, bytes.as_ptr())
            .pointer(16, license.as_ptr())
            .bytes(48, name.as_bytes())
            .u32(68, expected);
        attr = more(attr);
        if !log.is_empty() {
            attr = attr.u32(24, 1).u32(28, u32::try_from(log.len()).unwrap()).pointer(32, log.as_mut_ptr());
        }
        bpf_fd(PROG_LOAD, &mut attr)
    };
    load(&mut []).or_else(|_| {
        let mut log = vec![0; 1 << 20];
        load(&mut log).map_err(|error| {
            let end = log.iter().position(|&byte| byte == 0).unwrap_or(log.len());
            format!("{error}: {}", String::from_utf8_lossy(&log[..end]))
        })
    })
}

pub fn create_map(spec: &MapSpec) -> io::Result<OwnedFd> {
    let mut attr = Attr::new()
        .u32(0, spec.kind as u32)
        .u32(4, spec.key_size)
        .u32(8, spec.value_size)
        .u32(12, spec.max_entries)
        .u32(16, spec.flags);
    let map = bpf_fd(MAP_CREATE, &mut attr)?;
    for (key, value) in &spec.entries {
        update(&map, key, value)?;
    }
    if spec.freeze {
        freeze(&map)?;
    }
    Ok(map)
}

/// Keeps system calls from changing the map.
pub fn freeze(map: &OwnedFd) -> io::Result<()> {
    bpf(MAP_FREEZE, &mut Attr::new().fd(0, map.as_raw_fd())).map(drop)
}

/// Sets one entry.
pub fn update(map: &OwnedFd, key: &[u8], value: &[u8]) -> io::Result<()> {
    let mut attr = Attr::new().fd(0, map.as_raw_fd()).pointer(8, key.as_ptr()).pointer(16, value.as_ptr());
    bpf(MAP_UPDATE, &mut attr).map(drop)
}

/// Takes one entry out of a map.
pub fn delete(map: &OwnedFd, key: &[u8]) -> io::Result<()> {
    let mut attr = Attr::new().fd(0, map.as_raw_fd()).pointer(8, key.as_ptr());
    bpf(MAP_DELETE, &mut attr).map(drop)
}

/// Attaches with flags, optionally in place of another program.
pub fn attach(cgroup: &File, program: &OwnedFd, flags: u32, replace: Option<&OwnedFd>) -> io::Result<()> {
    let mut attr = Attr::new()
        .fd(0, cgroup.as_raw_fd())
        .fd(4, program.as_raw_fd())
        .u32(8, ATTACH_CGROUP_DEVICE)
        .u32(12, flags | if replace.is_some() { REPLACE } else { 0 })
        .fd(16, replace.map_or(0, |old| old.as_raw_fd()));
    bpf(PROG_ATTACH, &mut attr).map(drop)
}

/// Attaches by a `bpf_link`, which goes with its last descriptor: that may be one that a
/// process which another test has just forked still holds. [`unlink`] does not wait for it.
pub fn link(cgroup: &File, program: &OwnedFd, flags: u32) -> io::Result<OwnedFd> {
    let mut attr = Attr::new()
        .fd(0, program.as_raw_fd())
        .fd(4, cgroup.as_raw_fd())
        .u32(8, ATTACH_CGROUP_DEVICE)
        .u32(12, flags);
    bpf_fd(LINK_CREATE, &mut attr)
}

/// Puts another program in a link.
pub fn update_link(link: &OwnedFd, program: &OwnedFd) -> io::Result<()> {
    let mut attr = Attr::new().fd(0, link.as_raw_fd()).fd(4, program.as_raw_fd());
    bpf(LINK_UPDATE, &mut attr).map(drop)
}

/// Takes the program of a link away, whoever holds the link.
pub fn unlink(link: &OwnedFd) -> io::Result<()> {
    bpf(LINK_DETACH, &mut Attr::new().fd(0, link.as_raw_fd())).map(drop)
}

pub fn detach(cgroup: &File, program: BorrowedFd<'_>) -> io::Result<()> {
    let mut attr =
        Attr::new().fd(0, cgroup.as_raw_fd()).fd(4, program.as_raw_fd()).u32(8, ATTACH_CGROUP_DEVICE);
    bpf(PROG_DETACH, &mut attr).map(drop)
}

/// The ids of the programs in effect in a cgroup, in run order.
pub fn effective(cgroup: &File) -> io::Result<Vec<u32>> {
    let mut ids = vec![0_u32; 512];
    let mut attr = Attr::new()
        .fd(0, cgroup.as_raw_fd())
        .u32(4, ATTACH_CGROUP_DEVICE)
        .u32(8, 1)
        .pointer(16, ids.as_mut_ptr())
        .u32(24, u32::try_from(ids.len()).unwrap());
    bpf(PROG_QUERY, &mut attr)?;
    ids.truncate(attr.get_u32(24) as usize);
    Ok(ids)
}
