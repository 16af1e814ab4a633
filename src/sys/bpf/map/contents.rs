//! Reads every entry of a map: in batches where the kernel can, else key by key.

use std::collections::HashSet;
use std::os::fd::{AsRawFd, BorrowedFd};

use super::info::{MapInfo, Shape, shape};
use crate::sys::bpf::call::{Body, BpfCommand, BpfError, call};

/// `CONFIG_NR_CPUS` is at most this on every architecture. Per-CPU values are
/// read into room for as many CPUs, so that a wrong `possible` file cannot
/// make the kernel write past the buffer.
const MAX_CPUS: usize = 8192;

/// Entries of one batch, and the bytes they may take.
const BATCH_ENTRIES: usize = 4096;

const BATCH_BYTES: usize = 1 << 20;

/// The bounds on reading a map.
#[derive(Clone, Copy, Debug)]
pub struct ContentLimits {
    /// Entries.
    pub entries: usize,
    /// Bytes of keys and values together.
    pub bytes: usize,
}

impl Default for ContentLimits {
    fn default() -> Self {
        Self { entries: 1 << 20, bytes: 64 << 20 }
    }
}

/// The result of reading a map.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Contents {
    /// Every entry, key and value, in the kernel's order.
    Entries(Vec<(Vec<u8>, Vec<u8>)>),
    /// Entries of this type cannot be listed.
    Unreadable,
    /// Over the limits.
    TooLarge,
    /// Entries came and went faster than they could be listed.
    Changing,
    /// The number of CPUs is unknown.
    NoCpuCount,
}

/// Reads a whole map. Since Linux 4.12 (listing from the start), in batches
/// since 5.6.
///
/// # Errors
///
/// Those of bpf(2).
pub fn contents(map: BorrowedFd<'_>, info: &MapInfo, limits: ContentLimits) -> Result<Contents, BpfError> {
    let Some(shape) = shape(info.kind) else { return Ok(Contents::Unreadable) };
    let sizes = match Sizes::new(info, shape) {
        Ok(sizes) => sizes,
        Err(why) => return Ok(why),
    };
    if sizes.key == 0 || sizes.room == 0 {
        return Ok(Contents::Unreadable);
    }
    let mut reader =
        MapReader { map, sizes, limits, capacity: capacity(info), entries: Vec::new(), bytes: 0 };
    if shape == Shape::Plain && sizes.key >= 4 {
        match reader.batches() {
            Err(error) if error.is_unsupported() => reader.restart(),
            Err(error) => return Err(error),
            Ok(outcome) => return Ok(reader.finish(outcome)),
        }
    }
    let outcome = reader.one_by_one()?;
    Ok(reader.finish(outcome))
}

/// How many entries a map can have. Those that the kernel makes for each cgroup state
/// none: it demands that `max_entries` be 0 (`cgroup_storage_map_alloc`,
/// `kernel/bpf/local_storage.c`).
fn capacity(info: &MapInfo) -> usize {
    match info.max_entries {
        0 => usize::MAX,
        entries => entries as usize,
    }
}

/// The number of possible CPUs, from sysfs.
pub fn possible_cpus() -> Option<usize> {
    count_cpus(&std::fs::read_to_string("/sys/devices/system/cpu/possible").ok()?)
}

fn count_cpus(text: &str) -> Option<usize> {
    let count = text.trim().split(',').try_fold(0_usize, |sum, range| {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let (first, last) = (first.parse::<usize>().ok()?, last.parse::<usize>().ok()?);
        sum.checked_add(last.checked_sub(first)?.checked_add(1)?)
    })?;
    (count <= MAX_CPUS).then_some(count)
}

/// Sizes in bytes of one entry: as kept, and as the kernel may write it.
#[derive(Clone, Copy, Debug)]
struct Sizes {
    key: usize,
    value: usize,
    room: usize,
}

impl Sizes {
    fn new(info: &MapInfo, shape: Shape) -> Result<Self, Contents> {
        let (key, value) = (info.key_size as usize, info.value_size as usize);
        match shape {
            Shape::Plain => Ok(Self { key, value, room: value }),
            Shape::Id => Ok(Self { key, value: 4, room: 4.max(value) }),
            Shape::PerCpu => {
                let each = value.next_multiple_of(8);
                let cpus = possible_cpus().ok_or(Contents::NoCpuCount)?;
                let room = each.checked_mul(MAX_CPUS).ok_or(Contents::TooLarge)?;
                Ok(Self { key, value: each * cpus, room })
            }
        }
    }

    fn entry(self) -> usize {
        (self.key + self.value).max(1)
    }
}

/// Why reading stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome {
    Complete,
    TooLarge,
    Changing,
}

struct MapReader<'a> {
    map: BorrowedFd<'a>,
    sizes: Sizes,
    limits: ContentLimits,
    capacity: usize,
    entries: Vec<(Vec<u8>, Vec<u8>)>,
    bytes: usize,
}

#[derive(Clone, Copy, Default)]
#[repr(C)]
struct ElementBody {
    map_fd: u32,
    padding: u32,
    key: u64,
    value: u64,
    flags: u64,
}

// SAFETY: the layout of the element commands, the hole named.
unsafe impl Body for ElementBody {}

#[derive(Clone, Copy, Default)]
#[repr(C)]
struct BatchBody {
    in_batch: u64,
    out_batch: u64,
    keys: u64,
    values: u64,
    count: u32,
    map_fd: u32,
    element_flags: u64,
    flags: u64,
}

// SAFETY: the layout of `bpf_attr.batch`.
unsafe impl Body for BatchBody {}

impl MapReader<'_> {
    fn restart(&mut self) {
        self.entries.clear();
        self.bytes = 0;
    }

    fn finish(self, outcome: Outcome) -> Contents {
        match outcome {
            Outcome::Complete => Contents::Entries(self.entries),
            Outcome::TooLarge => Contents::TooLarge,
            Outcome::Changing => Contents::Changing,
        }
    }

    /// Takes one entry; says why it cannot.
    fn push(&mut self, key: &[u8], value: &[u8]) -> Result<(), Outcome> {
        self.bytes += self.sizes.entry();
        if self.entries.len() >= self.limits.entries || self.bytes > self.limits.bytes {
            return Err(Outcome::TooLarge);
        }
        if self.entries.len() >= self.capacity {
            return Err(Outcome::Changing);
        }
        self.entries.push((key.to_vec(), value.to_vec()));
        Ok(())
    }

    fn batches(&mut self) -> Result<Outcome, BpfError> {
        let mut room = self.capacity.min(BATCH_ENTRIES).min(BATCH_BYTES / self.sizes.entry()).max(1);
        let mut batch = Batch::new(self.sizes, room);
        loop {
            let (last, count) = match batch.next(self.map) {
                Ok(count) => (false, count),
                Err((error, count)) if error.errno == libc::ENOENT => (true, count),
                // One bucket of a hash map holds more than the buffer.
                Err((error, _)) if error.errno == libc::ENOSPC && room < self.capacity => {
                    room = room.saturating_mul(2).min(self.capacity);
                    if room.saturating_mul(self.sizes.entry()) > self.limits.bytes {
                        return Ok(Outcome::TooLarge);
                    }
                    batch.grow(room);
                    continue;
                }
                Err((error, _)) => return Err(error),
            };
            for (key, value) in batch.entries().take(count) {
                if let Err(outcome) = self.push(key, value) {
                    return Ok(outcome);
                }
            }
            if last {
                return Ok(Outcome::Complete);
            }
            batch.advance();
        }
    }

    fn one_by_one(&mut self) -> Result<Outcome, BpfError> {
        let mut seen = HashSet::new();
        let mut key: Option<Vec<u8>> = None;
        // A map that keeps losing keys while they are read would never end.
        for _ in 0..=self.capacity.min(self.limits.entries).saturating_mul(2) {
            let Some(next) = self.next_key(key.as_deref())? else { return Ok(Outcome::Complete) };
            if !seen.insert(next.clone()) {
                return Ok(Outcome::Changing);
            }
            if let Some(value) = self.lookup(&next)?
                && let Err(outcome) = self.push(&next, &value)
            {
                return Ok(outcome);
            }
            key = Some(next);
        }
        Ok(Outcome::Changing)
    }

    fn next_key(&self, key: Option<&[u8]>) -> Result<Option<Vec<u8>>, BpfError> {
        let mut next = vec![0; self.sizes.key];
        let mut body = self.element(key, &mut next);
        // SAFETY: key (or null for the first) and next key are `key_size`
        // bytes.
        found(unsafe { call(BpfCommand::MapNextKey, &mut body) }, next)
    }

    fn lookup(&self, key: &[u8]) -> Result<Option<Vec<u8>>, BpfError> {
        let mut value = vec![0; self.sizes.room.max(8)];
        let mut body = self.element(Some(key), &mut value);
        // SAFETY: the key is `key_size` bytes, the value at least as many as
        // the kernel writes for this type (`Sizes`).
        let result = unsafe { call(BpfCommand::MapLookup, &mut body) };
        value.truncate(self.sizes.value);
        found(result, value)
    }

    fn element(&self, key: Option<&[u8]>, value: &mut [u8]) -> ElementBody {
        ElementBody {
            map_fd: self.map.as_raw_fd().cast_unsigned(),
            key: key.map_or(0, |key| key.as_ptr() as u64),
            value: value.as_mut_ptr() as u64,
            ..ElementBody::default()
        }
    }
}

fn found<T>(result: Result<libc::c_long, BpfError>, value: T) -> Result<Option<T>, BpfError> {
    match result {
        Ok(_) => Ok(Some(value)),
        Err(error) if error.errno == libc::ENOENT => Ok(None),
        Err(error) => Err(error),
    }
}

/// The buffers of batch lookups and the place reached.
struct Batch {
    sizes: Sizes,
    room: usize,
    keys: Vec<u8>,
    values: Vec<u8>,
    position: Vec<u8>,
    reached: Vec<u8>,
    started: bool,
}

impl Batch {
    fn new(sizes: Sizes, room: usize) -> Self {
        // The position is a key, or a 4-byte bucket number for hash maps.
        let position = vec![0; sizes.key.max(8)];
        let mut batch = Self {
            sizes,
            room: 0,
            keys: Vec::new(),
            values: Vec::new(),
            reached: position.clone(),
            position,
            started: false,
        };
        batch.grow(room);
        batch
    }

    fn grow(&mut self, room: usize) {
        self.room = room;
        self.keys.resize(room * self.sizes.key, 0);
        self.values.resize(room * self.sizes.room, 0);
    }

    fn next(&mut self, map: BorrowedFd<'_>) -> Result<usize, (BpfError, usize)> {
        let mut body = BatchBody {
            in_batch: if self.started { self.position.as_ptr() as u64 } else { 0 },
            out_batch: self.reached.as_mut_ptr() as u64,
            keys: self.keys.as_mut_ptr() as u64,
            values: self.values.as_mut_ptr() as u64,
            count: u32::try_from(self.room).unwrap_or(u32::MAX),
            map_fd: map.as_raw_fd().cast_unsigned(),
            ..BatchBody::default()
        };
        // SAFETY: keys and values have room for `count` entries of the map's
        // sizes, the positions for a key or a bucket number.
        let result = unsafe { call(BpfCommand::MapLookupBatch, &mut body) };
        let count = (body.count as usize).min(self.room);
        result.map(|_| count).map_err(|error| (error, count))
    }

    fn advance(&mut self) {
        std::mem::swap(&mut self.position, &mut self.reached);
        self.started = true;
    }

    fn entries(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        self.keys.chunks_exact(self.sizes.key).zip(self.values.chunks_exact(self.sizes.room))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Make sure that CPU lists of every form are counted, and nonsense is not.
    #[test]
    fn cpu_lists() {
        assert_eq!(count_cpus("0-1\n"), Some(2));
        assert_eq!(count_cpus("0"), Some(1));
        assert_eq!(count_cpus("0,2-3,8"), Some(4));
        for bad in ["", "3-1", "x", "0-", "0-99999999", "0-18446744073709551615"] {
            assert_eq!(count_cpus(bad), None, "{bad}");
        }
    }
}
