//! What the kernel says about loaded programs and maps, as observation facts.

#![allow(unsafe_code, reason = "the kernel fills buffers by pointer")]

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::io;
use std::os::fd::{AsRawFd as _, OwnedFd};

use gpumap::bytecode::Insn;
use gpumap::model::MapType;
use gpumap::observation::{Answer, HexBytes, HiddenBytes, Map, MapEntry, Program, Text};

use super::bpf::{Attr, bpf, bpf_fd};
use super::kallsyms;

const MAP_LOOKUP: i32 = 1;
const MAP_NEXT_KEY: i32 = 4;
const PROGRAM_BY_ID: i32 = 13;
const MAP_BY_ID: i32 = 14;
const INFO: i32 = 15;

/// Zeroed info structures are longer than the kernel's own.
struct Info([u8; 256]);

impl Info {
    fn u32(&self, at: usize) -> u32 {
        u32::from_ne_bytes([self.0[at], self.0[at + 1], self.0[at + 2], self.0[at + 3]])
    }

    fn set_u32(&mut self, at: usize, value: u32) {
        self.0[at..at + 4].copy_from_slice(&value.to_ne_bytes());
    }

    fn set_pointer<T>(&mut self, at: usize, value: *mut T) {
        self.0[at..at + 8].copy_from_slice(&(value as u64).to_ne_bytes());
    }

    fn text(&self, at: usize) -> Text {
        let name = &self.0[at..at + 16];
        let end = name.iter().position(|&byte| byte == 0).unwrap_or(16);
        Text::from(&name[..end])
    }

    fn fetch(&mut self, fd: &OwnedFd) -> io::Result<()> {
        let mut attr = Attr::new().fd(0, fd.as_raw_fd()).u32(4, 232).pointer(8, self.0.as_mut_ptr());
        bpf(INFO, &mut attr).map(drop)
    }
}

/// The machine code that the kernel made of a program.
pub struct MachineCode {
    /// The number of its kind.
    pub kind: u32,
    pub name: String,
    pub code: Vec<u8>,
}

/// Opens a program by its id.
pub fn program_by_id(id: u32) -> io::Result<OwnedFd> {
    bpf_fd(PROGRAM_BY_ID, &mut Attr::new().u32(0, id))
}

/// The machine code of one program.
pub fn machine_code(fd: &OwnedFd) -> io::Result<MachineCode> {
    let mut sizes = Info([0; 256]);
    sizes.fetch(fd)?;
    let mut code = vec![0_u8; sizes.u32(16) as usize];
    let mut info = Info([0; 256]);
    info.set_u32(16, sizes.u32(16));
    info.set_pointer(24, code.as_mut_ptr());
    info.fetch(fd)?;
    Ok(MachineCode { kind: info.u32(0), name: info.text(64).lossy().into_owned(), code })
}

/// The facts of one program.
pub fn program(fd: &OwnedFd) -> io::Result<Program> {
    let mut sizes = Info([0; 256]);
    sizes.fetch(fd)?;
    let mut xlated = vec![0_u8; sizes.u32(20) as usize];
    let mut map_ids = vec![0_u32; sizes.u32(52) as usize];
    let mut info = Info([0; 256]);
    info.set_u32(20, sizes.u32(20));
    info.set_pointer(32, xlated.as_mut_ptr());
    info.set_u32(52, sizes.u32(52));
    info.set_pointer(56, map_ids.as_mut_ptr());
    info.fetch(fd)?;
    let calls = Insn::parse_all(&xlated)
        .unwrap()
        .into_iter()
        .filter(|insn| insn.code == 0x85 && insn.src != 1 && insn.imm != 0)
        .filter_map(|insn| Some((insn.imm, kallsyms::helper(insn.imm)?.to_owned())))
        .collect();
    Ok(Program {
        id: info.u32(4),
        name: info.text(64),
        tag: info.0[8..16].iter().map(|byte| format!("{byte:02x}")).collect(),
        gpl_compatible: info.u32(84) & 1 == 1,
        uid: info.u32(48),
        map_ids,
        xlated: Answer::Known(HexBytes(xlated)),
        calls,
        ..Program::default()
    })
}

/// What the kernel shows of `program` to those who may not see its symbols. A
/// tail call keeps its number.
pub fn hide(program: &mut Program) {
    const TAIL_CALL: i32 = 12;
    program.calls.clear();
    let Answer::Known(HexBytes(bytes)) = &mut program.xlated else { return };
    let mut insns = Insn::parse_all(bytes).expect("whole slots");
    for insn in insns.iter_mut().filter(|insn| insn.code == 0x85 && insn.imm != TAIL_CALL) {
        insn.imm = 0;
    }
    *bytes = insns.iter().flat_map(|insn| insn.bytes()).collect();
}

/// The facts of one map, with its contents.
pub fn map(id: u32) -> io::Result<Map> {
    let fd = bpf_fd(MAP_BY_ID, &mut Attr::new().u32(0, id))?;
    let mut info = Info([0; 256]);
    info.fetch(&fd)?;
    let (kind, key_size, value_size) = (info.u32(0), info.u32(8), info.u32(12));
    let per_cpu = matches!(kind, 5 | 6 | 10);
    let hidden = hidden(&info);
    let room = if per_cpu { value_size.next_multiple_of(8) * possible_cpus() } else { value_size };
    let mut map = Map {
        id,
        kind: MapType::of(kind_name(kind)),
        name: info.text(24),
        key_size,
        value_size,
        max_entries: info.u32(16),
        flags: info.u32(20),
        frozen: frozen(&fd),
        hidden,
        entries: match kind {
            27 | 33 => Answer::Missing("no entries".into()),
            _ => Answer::Known(entries(&fd, key_size as usize, room as usize)?),
        },
        programs: Vec::new(),
    };
    for id in map.program_ids() {
        map.programs.push(program(&bpf_fd(PROGRAM_BY_ID, &mut Attr::new().u32(0, id))?)?);
    }
    Ok(map)
}

/// The facts of all maps that programs with these maps reach.
pub fn maps(ids: impl IntoIterator<Item = u32>) -> io::Result<Vec<Map>> {
    let (mut maps, mut left) = (BTreeMap::new(), ids.into_iter().collect::<Vec<u32>>());
    while let Some(id) = left.pop() {
        if let Entry::Vacant(place) = maps.entry(id) {
            left.extend(place.insert(map(id)?).inner_ids());
        }
    }
    Ok(maps.into_values().collect())
}

/// What gpumap makes of the map's types.
fn hidden(info: &Info) -> Vec<HiddenBytes> {
    match info.u32(64) {
        0 => Vec::new(),
        types => {
            let types = gpumap::sys::bpf::types_by_id(types).expect("types").expect("not too many");
            gpumap::bytecode::btf::hidden(&types, info.u32(72), info.u32(12))
        }
    }
}

fn kind_name(kind: u32) -> &'static str {
    match kind {
        1 => "hash",
        2 => "array",
        3 => "prog_array",
        11 => "lpm_trie",
        12 => "array_of_maps",
        27 => "ringbuf",
        33 => "arena",
        5 => "percpu_hash",
        6 => "percpu_array",
        9 => "lru_hash",
        10 => "lru_percpu_hash",
        _ => "other",
    }
}

fn frozen(fd: &OwnedFd) -> bool {
    let path = format!("/proc/self/fdinfo/{}", fd.as_raw_fd());
    let text = std::fs::read_to_string(path).expect("fdinfo");
    text.lines().any(|line| line.starts_with("frozen:") && line.ends_with('1'))
}

pub fn possible_cpus() -> u32 {
    let text = std::fs::read_to_string("/sys/devices/system/cpu/possible").expect("possible CPUs");
    let last = text.trim().rsplit(['-', ',']).next().and_then(|last| last.parse::<u32>().ok());
    last.expect("a range of CPUs") + 1
}

fn entries(fd: &OwnedFd, key_size: usize, value_room: usize) -> io::Result<Vec<MapEntry>> {
    let mut entries: Vec<MapEntry> = Vec::new();
    loop {
        let before = entries.last().map_or(std::ptr::null(), |entry| entry.key.0.as_ptr());
        let mut key = vec![0; key_size];
        let mut attr = Attr::new().fd(0, fd.as_raw_fd()).pointer(8, before).pointer(16, key.as_mut_ptr());
        match bpf(MAP_NEXT_KEY, &mut attr) {
            Err(error) if error.raw_os_error() == Some(libc::ENOENT) => return Ok(entries),
            result => result?,
        };
        let mut value = vec![0; value_room];
        let mut attr =
            Attr::new().fd(0, fd.as_raw_fd()).pointer(8, key.as_ptr()).pointer(16, value.as_mut_ptr());
        match bpf(MAP_LOOKUP, &mut attr) {
            // A slot of a map of maps or programs with nothing in it.
            Err(error) if error.raw_os_error() == Some(libc::ENOENT) => value.clear(),
            result => drop(result?),
        }
        entries.push(MapEntry { key: HexBytes(key), value: HexBytes(value) });
    }
}
