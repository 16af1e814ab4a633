//! Reads the lists of programs of all monitored cgroups: by one query for each
//! cgroup, or by one walk of a BPF iterator over all of them.
//!
//! A walk takes a third of the time of the queries, but loading the iterator takes
//! as long as ten checks of thousands of cgroups. So few cgroups are queried, and
//! many are read by the iterator if it works here.

use std::collections::HashMap;
use std::fmt;
use std::io::Read as _;
use std::ops::Range;
use std::os::fd::AsFd as _;

use super::nodes::{CgroupNode, Nodes};
use crate::loader::interface::CGROUPS;
use crate::loader::{self, Iterate, IteratorScope, LoadError, ObjectSpec, Ring};
use crate::observation::Text;
use crate::observe::cgroups::hierarchy::Hierarchy;
use crate::sys::bpf::{ListKind, query};
use crate::sys::dir::Dir;
use crate::sys::fields::{half, long, word};
use crate::sys::heap;

/// From this many cgroups on the iterator is used; fewer are queried one by one.
const MANY: usize = 500;
/// The iterator is not used if it would show this many times the monitored
/// cgroups.
const TIMES: usize = 3;
/// After this many failed walks in a row the iterator is not used any more.
const FAILURES: u8 = 3;

/// How the lists of programs are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ListSource {
    /// `BPF_PROG_QUERY` on every cgroup.
    Queries,
    /// A BPF iterator over cgroups. Needs `CAP_BPF` and `CAP_PERFMON`, and
    /// Linux 6.1 with BTF.
    Iterator,
}

/// The way that is in use.
#[derive(Debug)]
pub(super) struct ListReader {
    walk: Option<Walk>,
    /// Fewer cgroups than this are queried one by one.
    least: usize,
    failures: u8,
}

impl ListReader {
    /// Queries, which always work if anything does.
    pub(super) fn by_queries() -> Self {
        Self { walk: None, least: MANY, failures: 0 }
    }

    /// The way that the caller names, or else the better one. The iterator is used
    /// only if it loads and agrees with the queries about all of `nodes`.
    pub(super) fn choose(hierarchy: &Hierarchy, nodes: &Nodes, wanted: Option<ListSource>) -> Self {
        let least = if wanted == Some(ListSource::Iterator) { 0 } else { MANY };
        let count = nodes.len();
        if wanted == Some(ListSource::Queries) || count < least {
            return Self::by_queries();
        }
        let tried = Walk::load(&hierarchy.handle, room(nodes)).and_then(|mut walk| {
            let walked = walk.read()?;
            Ok((walk, walked))
        });
        heap::give_back();
        // Without the iterator the queries answer the same.
        let walk = tried.ok().filter(|(_, walked)| {
            let is_worth_it = least == 0 || walked.len() <= count.saturating_mul(TIMES);
            is_worth_it && passes(hierarchy, nodes, walked)
        });
        Self { walk: walk.map(|(walk, _)| walk), least, failures: 0 }
    }

    pub(super) fn source(&self) -> ListSource {
        if self.walk.is_some() { ListSource::Iterator } else { ListSource::Queries }
    }

    /// All lists at this moment, if a walk is better than `count` queries; `None` too
    /// if the walk fails.
    pub(super) fn walk(&mut self, count: usize) -> Option<Walked> {
        if count < self.least {
            return None;
        }
        let result = self.walk.as_mut()?.read();
        // The queries answer the same.
        self.failures = if result.is_ok() { 0 } else { self.failures.saturating_add(1) };
        if self.failures >= FAILURES {
            self.walk = None;
        }
        // The queries answer the same.
        result.ok()
    }
}

/// Bytes that the records take, and as many again for new cgroups.
fn room(nodes: &Nodes) -> usize {
    let ids = |node: &CgroupNode| {
        let own = node.cgroup.own.known().map_or(0, |own| own.programs.len());
        own + node.cgroup.effective.known().map_or(0, Vec::len)
    };
    nodes.iter().map(|(_, node)| record_room(ids(node))).sum::<usize>().saturating_mul(2)
}

/// The iterator's program.
const PROGRAM: &str = "lists";
/// The ring that it writes to.
const RING: &str = "lists_ring";
/// Bytes of the smallest and the largest ring. Sizes are powers of two. The used
/// part counts twice as memory of gpumap.
const ROOM: (usize, usize) = (256 << 10, 64 << 20);

/// Why there is no walk.
#[derive(Debug, thiserror::Error)]
pub enum ListsError {
    /// The kernel does not describe its types, is too old for iterators over
    /// cgroups, or a right is missing.
    #[error("the iterator over cgroups cannot be loaded ({0})")]
    Load(String),
    /// The kernel does not run it.
    #[error("the iterator over cgroups cannot be read ({0})")]
    Read(String),
    /// The records of a walk did not fit into the ring.
    #[error("the records of the iterator over cgroups are not whole")]
    NotWhole,
}

/// Shows the lists of a cgroup and of everything below.
///
/// Nothing is attached to what other processes do: the program runs when
/// it is read.
pub struct Walk {
    iterator: Box<dyn Iterate>,
    ring: Box<dyn Ring>,
    /// Cgroups that the last walk showed.
    last: usize,
}

impl Walk {
    /// Loads the iterator over `top` with a ring of `room` bytes, at least.
    /// Since Linux 6.1 with BTF; needs `CAP_BPF` and `CAP_PERFMON`.
    ///
    /// # Errors
    ///
    /// [`ListsError::Load`].
    pub fn load(top: &Dir, room: usize) -> Result<Self, ListsError> {
        let room = room.clamp(ROOM.0, ROOM.1).next_power_of_two();
        let room = u32::try_from(room).unwrap_or(u32::MAX);
        let wanted = ObjectSpec { capacity: Some((RING, room)), ..ObjectSpec::whole(&CGROUPS) };
        let mut loaded = loader::shared()?.load(&wanted)?;
        // The handle is one that the kernel does not take here (`O_PATH`).
        let top = top.open_file(c".").map_err(|error| ListsError::Load(error.desc().to_owned()))?;
        let iterator = loaded.iterator(PROGRAM, IteratorScope::Cgroups(top.as_fd()))?;
        Ok(Self { iterator, ring: loaded.ring(RING)?, last: 0 })
    }

    /// Walks over every cgroup once; the kernel lets none change during the walk.
    ///
    /// # Errors
    ///
    /// [`ListsError::Read`], or [`ListsError::NotWhole`] when there are more cgroups
    /// than the ring has room for.
    pub fn read(&mut self) -> Result<Walked, ListsError> {
        // The rest of a walk that failed.
        self.ring.read(&mut |_| true);
        let mut file = self.iterator.open().map_err(|error| ListsError::Read(error.to_string()))?;
        // It writes to the ring alone.
        file.read(&mut [0; 8]).map_err(|error| ListsError::Read(error.to_string()))?;
        let mut walked = Walked::with_capacity(self.last);
        let mut taken = None;
        self.ring.read(&mut |bytes| {
            taken = walked.take(bytes);
            taken == Some(Taken::Cgroup)
        });
        if taken != Some(Taken::End) {
            return Err(ListsError::NotWhole);
        }
        self.last = walked.len();
        Ok(walked)
    }
}

impl fmt::Debug for Walk {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Walk")
            .field("iterator", &self.iterator)
            .field("last", &self.last)
            .finish_non_exhaustive()
    }
}

impl From<LoadError> for ListsError {
    fn from(error: LoadError) -> Self {
        Self::Load(error.to_string())
    }
}

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
enum Taken {
    Cgroup,
    End,
}

impl Walked {
    /// An empty result with room for this many cgroups.
    fn with_capacity(cgroups: usize) -> Self {
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
    fn take(&mut self, bytes: &[u8]) -> Option<Taken> {
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
fn record_room(ids: usize) -> usize {
    (HEADER + RECORD + ids.saturating_mul(4)).next_multiple_of(8)
}

/// Whether a walk says what the queries had said before it, of one cgroup at
/// least, and of every one of which they say the same after it. Only those are
/// queried again about which the walk says something else.
fn passes(hierarchy: &Hierarchy, nodes: &Nodes, walked: &Walked) -> bool {
    let mut agreed = 0;
    nodes.iter().all(|(path, node)| {
        let agrees = walked.get(node.cgroup.id).is_some_and(|listed| agrees(&listed, node));
        agreed += usize::from(agrees);
        agrees || !is_unchanged(hierarchy, nodes, path, node)
    }) && agreed > 0
}

/// Whether the queries say, after the walk, what they had said before it.
fn is_unchanged(hierarchy: &Hierarchy, nodes: &Nodes, path: &Text, node: &CgroupNode) -> bool {
    let ask = |dir: &Dir| {
        // What cannot be asked fails the test, and the queries are used.
        let [own, effective] = [ListKind::Own, ListKind::Effective].map(|kind| query(dir.as_fd(), kind).ok());
        // The same.
        Some((own?, effective?, dir.stat().ok()?))
    };
    // The same.
    let Ok(Some((own, effective, stat))) = nodes.with_dir(hierarchy, path, ask) else { return false };
    let (was_own, was_effective) = (node.cgroup.own.known(), node.cgroup.effective.known());
    own.revision == node.revision
        && was_own.is_some_and(|was| was.programs == own.ids)
        && was_effective == Some(&effective.ids)
        && stat.links == node.links
}

/// Flags are compared where there are programs: they outlive them.
fn agrees(listed: &Listed<'_>, node: &CgroupNode) -> bool {
    let Some((own, effective)) = node.cgroup.own.known().zip(node.cgroup.effective.known()) else {
        return false;
    };
    listed.revision == node.revision
        && listed.links == node.links
        && listed.own.is_none_or(|ids| *ids == own.programs)
        && listed.effective.is_none_or(|ids| ids == effective)
        && (own.programs.is_empty() || listed.attach_flags == own.flags)
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
