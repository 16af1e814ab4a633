//! What shows from outside of libraries that share a GPU by interception.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Answer, HexBytes, Text, Variable};

/// What shows of HAMi-core or SoftMig in one process.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct VgpuTraces {
    /// Mapped files that are named like the libraries (`libvgpu.so*`,
    /// `libsoftmig.so*`).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub libraries: Vec<MappedFile>,
    /// Mapped files that may be shared regions. Their contents are in
    /// `regions` of the observation.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub regions: Vec<MappedFile>,
    /// What the library's own variables say in the memory of the process.
    #[serde(default)]
    pub variables: Answer<LibraryVariables>,
    /// Whether there may be more of both: the list of mappings was not read to its
    /// end, or it has more such files than are looked at.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub cut: bool,
    /// Its pids in all pid namespaces around it, its own last (`NStgid` of
    /// `/proc/PID/status`, since Linux 4.1).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pids: Vec<u32>,
    /// Its umask (since Linux 4.7). The libraries set it to 0 and leave it so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub umask: Option<u32>,
    /// The signals it catches, bit 0 for signal 1 (`SigCgt`). The libraries
    /// catch SIGUSR1 and SIGUSR2.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub caught: Option<u64>,
    /// Whether it is in another user namespace than gpumap; `None` where that
    /// could not be seen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub other_user_namespace: Option<bool>,
    /// `/etc/ld.so.preload` below its root; `Known(null)` where there is none.
    #[serde(default)]
    pub preload: Answer<Option<Preload>>,
    /// The files in which SoftMig looks for the limits of its job, in this order, as
    /// far as they exist: those below its root, and those of the node that its root
    /// does not show.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub job_files: Vec<JobFile>,
    /// `/overrideEnv` below its root, if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub override_file: Option<OverrideFile>,
    /// Why there may be another of these files of its job, or `/overrideEnv`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unread: Option<String>,
}

/// Variables of the library in the memory of one process. Those that its file has
/// no symbol for are left out.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct LibraryVariables {
    /// The region's SM switch as the library has noted it (`cached_util_switch`,
    /// HAMi-core since April 2026); 0 is off.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub util_switch: Option<i32>,
    /// What it has read of GPU_CORE_UTILIZATION_POLICY (`env_utilization_switch`): 1
    /// always on, 2 always off, 0 as the region says.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub policy: Option<i32>,
    /// Whether it has found the pid of the process on the node (`pidfound`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host_pid_found: Option<i32>,
    /// SM limits of 16 devices as the library has noted them (`cached_sm_limit`), in
    /// percent.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub sm_limits: Vec<i32>,
}

/// A file that is mapped.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct MappedFile {
    /// Its path as the process's root shows it, without the kernel's mark of a
    /// removed file.
    pub path: Text,
    /// Major and minor number of the file system.
    pub dev: [u32; 2],
    /// Inode number.
    pub inode: u64,
    /// Whether it was removed (` (deleted)` in `/proc/PID/maps`).
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub deleted: bool,
    /// Whether a part of it is mapped to be executed.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub executable: bool,
    /// Owner, permission bits and bytes of the file; why they are not known.
    pub file: Answer<FileFacts>,
    /// Contents of a region, until they are moved to `regions` of the
    /// observation: in what gpumap saves there are none here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub contents: Option<RegionContents>,
}

/// What was read of a region, and when.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RegionContents {
    /// Nanoseconds of the monotonic clock.
    pub at: u64,
    /// The bytes; why they are not known.
    pub bytes: Answer<SparseBytes>,
}

/// What a file is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FileFacts {
    /// Owner, as gpumap's user namespace has it.
    pub uid: u32,
    /// Permission bits.
    pub mode: u16,
    /// Bytes.
    pub size: u64,
}

impl FileFacts {
    /// Whether root owns it and nobody else may write it. An access list shows in
    /// the bits of the group.
    #[must_use]
    pub fn is_of_root_alone(&self) -> bool {
        self.uid == 0 && self.mode & 0o022 == 0
    }
}

/// The list of libraries that the loader loads into every program.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Preload {
    /// Its text, at most 4 KiB.
    pub text: Text,
    /// Libraries it names that are named like those of interception and are not
    /// there.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub missing: Vec<Text>,
}

/// A file with the limits of a job.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct JobFile {
    /// Its path.
    pub path: Text,
    /// Whether it lies on the node and the process's own root does not show
    /// it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub outside: bool,
    /// Whether its job is one that the environment names, and the process is in
    /// another.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub foreign: bool,
    /// Whether it is a regular file itself, and no symbolic link to one.
    pub regular: bool,
    /// Owner, permission bits and bytes of the file or link.
    pub file: FileFacts,
    /// What it says, at most 4 KiB.
    pub text: Answer<Text>,
}

/// `/overrideEnv`: HAMi-core sets the variables in this file, which beat those of the
/// environment. Builds of 2024 and those since October 2026 do so before they read
/// limits, the others after that.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct OverrideFile {
    /// Owner, permission bits and bytes.
    pub file: FileFacts,
    /// The limits in it. Later lines come first, because they beat earlier ones.
    pub variables: Answer<Vec<Variable>>,
}

/// A file that processes map as their shared region, as it was read last.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SharedRegion {
    /// Major and minor number of the file system.
    pub dev: [u32; 2],
    /// Inode number.
    pub inode: u64,
    /// Owner, permission bits and bytes.
    pub file: FileFacts,
    /// Its contents; of a file that is larger than every known layout the
    /// beginning. Read at one moment, and perhaps written to meanwhile.
    pub contents: Answer<SparseBytes>,
}

/// Bytes of a file that are not zero.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SparseBytes {
    /// Bytes in all.
    pub size: u64,
    /// Offsets of pieces, and their bytes; all others are zero or, behind the
    /// beginning of a large file, not read.
    pub pieces: Vec<(u64, HexBytes)>,
}

/// Zero bytes that separate two pieces.
const GAP: usize = 16;
/// Bytes of the largest file that is put together again: a little more than
/// every known layout.
pub const LARGEST_REGION: usize = 2_200_000;

impl SparseBytes {
    /// The pieces of these bytes of a file with this size.
    pub fn of(bytes: &[u8], size: u64) -> Self {
        let mut pieces: Vec<(u64, HexBytes)> = Vec::new();
        let mut at = 0;
        while let Some(start) = next(bytes, at, |byte| byte != 0) {
            at = end_of_piece(bytes, start);
            let piece = bytes.get(start..at).unwrap_or_default();
            pieces.push((start as u64, HexBytes(piece.to_vec())));
        }
        Self { size, pieces }
    }

    /// The whole file; `None` where it is larger than every known layout, or a
    /// piece lies outside.
    pub fn whole(&self) -> Option<Vec<u8>> {
        let size = usize::try_from(self.size).ok().filter(|size| *size <= LARGEST_REGION)?;
        self.beginning(size)
    }

    /// The first bytes of the file, as far as it has them.
    pub fn beginning(&self, size: usize) -> Option<Vec<u8>> {
        let mut bytes = vec![0; size];
        for (at, piece) in &self.pieces {
            let at = usize::try_from(*at).ok()?;
            let end = at.checked_add(piece.0.len())?;
            bytes.get_mut(at..end)?.copy_from_slice(&piece.0);
        }
        Some(bytes)
    }

    /// Bytes of all pieces.
    pub fn len(&self) -> usize {
        self.pieces.iter().map(|(_, piece)| piece.0.len()).sum()
    }

    /// Whether all bytes are zero.
    pub fn is_empty(&self) -> bool {
        self.pieces.is_empty()
    }
}

/// Where the piece that begins at `start` ends: before the first long row of
/// zeros.
fn end_of_piece(bytes: &[u8], start: usize) -> usize {
    let mut at = start;
    loop {
        let Some(zero) = next(bytes, at, |byte| byte == 0) else { return bytes.len() };
        match next(bytes, zero, |byte| byte != 0) {
            Some(more) if more - zero < GAP => at = more,
            _ => return zero,
        }
    }
}

/// Moves the contents of regions from processes to a table, those of each file
/// that were read last.
pub fn take_regions<'a>(processes: impl Iterator<Item = &'a mut VgpuTraces>) -> Vec<SharedRegion> {
    let mut found: BTreeMap<([u32; 2], u64), (u64, SharedRegion)> = BTreeMap::new();
    for mapped in processes.flat_map(|traces| &mut traces.regions) {
        let Some(RegionContents { at, bytes }) = mapped.contents.take() else { continue };
        let (dev, inode, file) = (mapped.dev, mapped.inode, mapped.file.known().copied().unwrap_or_default());
        let is_newer = found.get(&(dev, inode)).is_none_or(|(before, known)| {
            *before < at && bytes.known().is_some() || known.contents.known().is_none()
        });
        if is_newer {
            found.insert((dev, inode), (at, SharedRegion { dev, inode, file, contents: bytes }));
        }
    }
    found.into_values().map(|(_, region)| region).collect()
}

/// The first place from `at` on whose byte is wanted.
fn next(bytes: &[u8], at: usize, wanted: impl Fn(u8) -> bool) -> Option<usize> {
    let mut from = at;
    // Most of a region is zero: whole blocks of it are passed over at once.
    if !wanted(0) {
        let blocks = bytes.get(at..)?.chunks_exact(64);
        let zeros = blocks.take_while(|block| block.iter().fold(0, |all, byte| all | byte) == 0).count();
        from = at + zeros * 64;
    }
    bytes.get(from..)?.iter().position(|byte| wanted(*byte)).map(|found| from + found)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Make sure that no byte is lost, wherever zeros are.
    #[test]
    fn round_trip() {
        let mut random = 7_u64;
        for length in (0..200).chain([4096, 5000]) {
            let bytes: Vec<u8> = (0..length)
                .map(|_| {
                    random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                    if (random >> 40) % 5 < 3 { 0 } else { (random >> 32) as u8 }
                })
                .collect();
            for bytes in [bytes.clone(), [bytes.clone(), vec![0; 40], bytes.clone()].concat()] {
                let sparse = SparseBytes::of(&bytes, bytes.len() as u64);
                assert_eq!(sparse.whole(), Some(bytes));
            }
        }
        let outside = SparseBytes { size: 3, pieces: vec![(2, HexBytes(vec![1, 2]))] };
        assert_eq!((outside.whole(), outside.beginning(4)), (None, Some(vec![0, 0, 1, 2])));
        assert_eq!(SparseBytes { size: u64::MAX, pieces: Vec::new() }.whole(), None);
    }
}
