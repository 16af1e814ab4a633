//! Reads a map with all its entries, or the reason why it cannot be read.

use std::os::fd::AsFd;

use crate::bytecode::btf;
use crate::model::{MapType, ProblemCode};
use crate::observation::{Answer, HexBytes, HiddenBytes, Map, MapEntry};
use crate::observe::problems::{Log, refusal};
use crate::observe::rights::{refused, unless_held};
use crate::sys::bpf::{self, BpfError, ContentLimits, Contents, MapInfo};
use crate::sys::caps::Capability::SysAdmin;

/// How often a map that changes is listed again.
const TRIES: usize = 3;

/// `BPF_F_RDONLY_PROG` and `BPF_F_WRONLY_PROG`: such a map has no locks, timers
/// or kernel pointers in it (`map_check_btf`, `kernel/bpf/syscall.c`).
const ONE_WAY: u32 = 1 << 7 | 1 << 8;

/// Reads one map.
pub(in crate::observe) fn read(id: u32, log: &mut Log) -> Map {
    match open(id) {
        Ok((map, Ok(contents))) => Map { entries: entries(id, contents, log), ..map },
        Ok((map, Err(error))) => Map { entries: Answer::Missing(why(id, error, log)), ..map },
        Err(error) => Map { id, entries: Answer::Missing(why(id, error, log)), ..Map::default() },
    }
}

fn open(id: u32) -> Result<(Map, Result<Contents, BpfError>), BpfError> {
    let fd = bpf::map_by_id(id)?;
    let info = bpf::map_info(fd.as_fd())?;
    let contents = stable(|| bpf::contents(fd.as_fd(), &info, ContentLimits::default()));
    Ok((describe(&info, bpf::map_frozen(fd.as_fd())), contents))
}

fn stable(read: impl Fn() -> Result<Contents, BpfError>) -> Result<Contents, BpfError> {
    for _ in 1..TRIES {
        match read() {
            Ok(Contents::Changing) => {}
            other => return other,
        }
    }
    read()
}

fn describe(info: &MapInfo, frozen: bool) -> Map {
    Map {
        id: info.id,
        kind: MapType::of_number(info.kind),
        name: info.name.as_slice().into(),
        key_size: info.key_size,
        value_size: info.value_size,
        max_entries: info.max_entries,
        flags: info.flags,
        frozen,
        hidden: hidden(info),
        entries: Answer::default(),
        programs: Vec::new(),
    }
}

/// The parts of the values that the kernel does not show. A map without types
/// has none; where its types cannot be read, any part may be one.
fn hidden(info: &MapInfo) -> Vec<HiddenBytes> {
    if info.types == 0 || info.value_type == 0 || info.flags & ONE_WAY != 0 {
        return Vec::new();
    }
    match bpf::types_by_id(info.types) {
        Ok(Some(types)) => btf::hidden(&types, info.value_type, info.value_size),
        _ => vec![HiddenBytes { first: 0, size: info.value_size }],
    }
}

fn entries(id: u32, contents: Contents, log: &mut Log) -> Answer<Vec<MapEntry>> {
    let (code, why) = match contents {
        Contents::Entries(entries) => {
            let entry = |(key, value)| MapEntry { key: HexBytes(key), value: HexBytes(value) };
            return Answer::Known(entries.into_iter().map(entry).collect());
        }
        Contents::Unreadable => {
            return Answer::Missing("entries of this map type cannot be listed".to_owned());
        }
        Contents::TooLarge => {
            let limits = ContentLimits::default();
            (ProblemCode::TooLarge, format!("over {} entries or {} MiB", limits.entries, limits.bytes >> 20))
        }
        Contents::Changing => {
            (ProblemCode::ChangedWhileRead, "its keys came and went while they were listed".to_owned())
        }
        Contents::NoCpuCount => {
            (ProblemCode::Unreadable, "/sys/devices/system/cpu/possible cannot be read".to_owned())
        }
    };
    log.add(code, format!("map {id}"), why.clone(), "");
    Answer::Missing(why)
}

fn why(id: u32, error: BpfError, log: &mut Log) -> String {
    if error.is_gone() {
        return "the map was removed while it was read".to_owned();
    }
    if error.is_refused() {
        log.no_right("BPF maps", refusal(error, &[SysAdmin]), unless_held(&[SysAdmin], "CAP_SYS_ADMIN"));
        return refused(&[SysAdmin], "CAP_SYS_ADMIN", "open the map");
    }
    log.add(ProblemCode::Unreadable, format!("map {id}"), error.to_string(), "");
    error.to_string()
}
