//! Decodes the records of the iterator, as `bpf/cgroups.h` defines them, and
//! collects those of a whole walk.

use std::collections::HashMap;
use std::ops::Range;

/// Size of `struct cgroup_record`, and of the ring's own header before each.
const RECORD: usize = 32;
const HEADER: usize = 8;
/// Of `enum cgroup_flag`.
const OWN_CUT: u16 = 1;
const EFFECTIVE_CUT: u16 = 2;
const END: u16 = 4;

/// The lists of one cgroup in a walk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Listed<'a> {
    /// Of the own list; 0 where the kernel counts none (most before 6.17).
    pub revision: u64,
    /// Link count of its directory: two more than it has children.
    pub links: u64,
    /// Attach flags of the own list.
    pub attach_flags: u32,
    /// Ids of its own programs, as `BPF_PROG_QUERY` lists them; `None` if there are
    /// more than a record has room for (64).
    pub own: Option<&'a [u32]>,
    /// Ids of the programs in force in run order; `None` for more than 128.
    pub effective: Option<&'a [u32]>,
}

/// Every cgroup at one moment.
#[derive(Debug, Default)]
pub struct Walked {
    all: HashMap<u64, Entry>,
    /// The ids of all cgroups, one list after the other.
    ids: Vec<u32>,
}

#[derive(Debug)]
struct Entry {
    revision: u64,
    links: u64,
    attach_flags: u32,
    own: Option<Range<usize>>,
    effective: Option<Range<usize>>,
}

/// The kind of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Taken {
    Cgroup,
    End,
}

impl Walked {
    /// An empty result with room for this many cgroups.
    pub(super) fn with_capacity(cgroups: usize) -> Self {
        Self { all: HashMap::with_capacity(cgroups), ids: Vec::with_capacity(cgroups) }
    }

    /// The number of cgroups.
    pub fn len(&self) -> usize {
        self.all.len()
    }

    /// Whether the walk has no cgroup.
    pub fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// The cgroup with this id, which is the inode number of its directory; `None`
    /// if the walk did not meet it.
    pub fn get(&self, id: u64) -> Option<Listed<'_>> {
        let entry = self.all.get(&id)?;
        let ids = |range: &Option<Range<usize>>| self.ids.get(range.clone()?);
        Some(Listed {
            revision: entry.revision,
            links: entry.links,
            attach_flags: entry.attach_flags,
            own: ids(&entry.own),
            effective: ids(&entry.effective),
        })
    }

    /// Adds the next record; `None` if it is incomplete or one before it is missing.
    pub(super) fn take(&mut self, bytes: &[u8]) -> Option<Taken> {
        if usize::try_from(word(bytes, 16)?).ok()? != self.all.len() {
            return None;
        }
        let flags = half(bytes, 26)?;
        if flags & END != 0 {
            return Some(Taken::End);
        }
        let own = self.add(bytes, RECORD, half(bytes, 28)?)?;
        let effective = self.add(bytes, RECORD + own.len() * 4, half(bytes, 30)?)?;
        let entry = Entry {
            revision: long(bytes, 8)?,
            links: u64::from(word(bytes, 20)?) + 2,
            attach_flags: half(bytes, 24)?.into(),
            own: (flags & OWN_CUT == 0).then_some(own),
            effective: (flags & EFFECTIVE_CUT == 0).then_some(effective),
        };
        self.all.insert(long(bytes, 0)?, entry).is_none().then_some(Taken::Cgroup)
    }

    /// Takes over ids that begin at a place of the record.
    fn add(&mut self, bytes: &[u8], at: usize, count: u16) -> Option<Range<usize>> {
        let start = self.ids.len();
        let ids = bytes.get(at..at + usize::from(count) * 4)?;
        self.ids.extend(ids.chunks_exact(4).filter_map(|id| word(id, 0)));
        Some(start..self.ids.len())
    }
}

/// Bytes that a record with so many ids takes in the ring.
pub(super) fn room(ids: usize) -> usize {
    (HEADER + RECORD + ids.saturating_mul(4)).next_multiple_of(8)
}

fn half(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_ne_bytes(*bytes.get(at..)?.first_chunk()?))
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(*bytes.get(at..)?.first_chunk()?))
}

fn long(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_ne_bytes(*bytes.get(at..)?.first_chunk()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(id: u64, number: u32, flags: u16, own: &[u32], effective: &[u32]) -> Vec<u8> {
        let mut record = [id, 7].map(u64::to_ne_bytes).concat();
        record.extend([number, 3].map(u32::to_ne_bytes).concat());
        let counts = [own.len(), effective.len()].map(|count| u16::try_from(count).unwrap());
        record.extend([2, flags, counts[0], counts[1]].map(u16::to_ne_bytes).concat());
        assert_eq!(record.len(), RECORD);
        record.extend([own, effective].concat().iter().flat_map(|id| id.to_ne_bytes()));
        record
    }

    /// Make sure that lists do not mix, and that a list that was cut is not taken
    /// for a whole one.
    #[test]
    fn lists() {
        let mut walked = Walked::default();
        let first = record(40, 0, 0, &[5], &[5, 6]);
        assert!((0..first.len()).all(|length| Walked::default().take(&first[..length]).is_none()));
        assert_eq!(walked.take(&first), Some(Taken::Cgroup));
        assert_eq!(walked.take(&record(41, 1, OWN_CUT, &[8], &[])), Some(Taken::Cgroup));
        assert_eq!(walked.take(&record(42, 2, EFFECTIVE_CUT, &[], &[9])), Some(Taken::Cgroup));
        assert_eq!(walked.take(&record(0, 3, END, &[], &[])), Some(Taken::End));
        let expected =
            Listed { revision: 7, links: 5, attach_flags: 2, own: Some(&[5]), effective: Some(&[5, 6]) };
        assert_eq!(walked.get(40), Some(expected));
        let lists = |id| walked.get(id).map(|listed| (listed.own, listed.effective));
        assert_eq!(lists(41), Some((None, Some([].as_slice()))));
        assert_eq!(lists(42), Some((Some([].as_slice()), None)));
        assert_eq!((walked.get(43), walked.len()), (None, 3));
    }

    /// Make sure that a walk that lacks any record is refused.
    #[test]
    fn gaps() {
        let mut walked = Walked::default();
        assert_eq!(walked.take(&record(40, 1, 0, &[], &[])), None);
        assert_eq!(walked.take(&record(40, 0, 0, &[], &[])), Some(Taken::Cgroup));
        assert_eq!(walked.take(&record(0, 2, END, &[], &[])), None);
        assert_eq!(walked.take(&record(40, 1, 0, &[], &[])), None, "twice the same cgroup");
    }
}
