//! What maps are: their type, sizes, flags and names, and how their values come back from a
//! lookup.

use std::fs::File;
use std::io::Read;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};

use crate::model::MapType;
use crate::sys::bpf::call::{BpfCommand, BpfError, fd_by_id, info};

/// `BPF_F_RDONLY`: the descriptor can look up, not update.
const READ_ONLY: u32 = 1 << 3;

/// One map, without its contents.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MapInfo {
    /// Kernel-wide id.
    pub id: u32,
    /// `BPF_MAP_TYPE_*`.
    pub kind: u32,
    /// Key size in bytes.
    pub key_size: u32,
    /// Value size in bytes (one CPU's for per-CPU maps).
    pub value_size: u32,
    /// Capacity in entries.
    pub max_entries: u32,
    /// `BPF_F_*` creation flags.
    pub flags: u32,
    /// Name without the padding, often empty.
    pub name: Vec<u8>,
    /// The types it was made with, 0 for none.
    pub types: u32,
    /// The number of the values' type among them.
    pub value_type: u32,
}

/// `struct bpf_map_info` up to the types (Linux 4.18; older kernels leave what
/// they do not know as it is, 0).
#[derive(Clone, Copy, Default)]
#[repr(C)]
struct RawInfo {
    kind: u32,
    id: u32,
    key_size: u32,
    value_size: u32,
    max_entries: u32,
    flags: u32,
    name: [u8; 16],
    interface: u32,
    kernel_value_type: u32,
    namespace_device: u64,
    namespace_inode: u64,
    types: u32,
    key_type: u32,
    value_type: u32,
    kernel_types: u32,
}

/// Opens a map by id, for reading only. Since Linux 4.13, read-only since 4.15;
/// needs `CAP_SYS_ADMIN`.
///
/// # Errors
///
/// `Gone` if no map has the id, `Refused` without the right or if the map was made
/// write-only for user space.
pub fn map_by_id(id: u32) -> Result<OwnedFd, BpfError> {
    fd_by_id(BpfCommand::MapById, id, READ_ONLY)
}

/// Reads a map's info. Since Linux 4.13.
///
/// # Errors
///
/// Those of bpf(2).
pub fn map_info(map: BorrowedFd<'_>) -> Result<MapInfo, BpfError> {
    let mut raw = RawInfo::default();
    // SAFETY: `RawInfo` is a prefix of `bpf_map_info` and holds no address.
    unsafe { info(map.as_raw_fd(), &mut raw)? };
    Ok(MapInfo {
        id: raw.id,
        kind: raw.kind,
        key_size: raw.key_size,
        value_size: raw.value_size,
        max_entries: raw.max_entries,
        flags: raw.flags,
        name: raw.name.split(|byte| *byte == 0).next().unwrap_or_default().to_vec(),
        types: raw.types,
        value_type: raw.value_type,
    })
}

/// Whether the map has one value of the stated size for each key.
pub(in crate::sys::bpf) fn has_plain_values(info: &MapInfo) -> bool {
    shape(info.kind) == Some(Shape::Plain)
}

/// Whether a map is frozen, from `/proc/self/fdinfo` (since Linux 5.2; `false` if
/// that cannot be read). bpf(2) itself does not say.
pub fn map_frozen(map: BorrowedFd<'_>) -> bool {
    let mut text = String::new();
    let read = File::open(format!("/proc/self/fdinfo/{}", map.as_raw_fd()))
        .and_then(|file| file.take(4096).read_to_string(&mut text));
    read.is_ok()
        && text.lines().any(|line| line.strip_prefix("frozen:").is_some_and(|rest| rest.trim() == "1"))
}

/// The form in which a map's values come back from a lookup.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Shape {
    /// One value of the stated size.
    Plain,
    /// One value for each possible CPU, each rounded up to 8 bytes.
    PerCpu,
    /// The id of another map or program, 4 bytes.
    Id,
}

/// The form of values of maps of the type with this number; `None` if user space
/// cannot list their entries.
pub(super) fn shape(number: u32) -> Option<Shape> {
    use MapType::{
        Array, ArrayOfMaps, CgroupStorage, Hash, HashOfMaps, LpmTrie, LruHash, LruPercpuHash, PercpuArray,
        PercpuCgroupStorage, PercpuHash, ProgArray,
    };
    match MapType::of_number(number) {
        Hash | Array | LruHash | LpmTrie | CgroupStorage => Some(Shape::Plain),
        PercpuHash | PercpuArray | LruPercpuHash | PercpuCgroupStorage => Some(Shape::PerCpu),
        ArrayOfMaps | HashOfMaps | ProgArray => Some(Shape::Id),
        _ => None,
    }
}
