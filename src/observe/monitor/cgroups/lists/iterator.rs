//! The iterator over cgroups of `bpf/cgroups.bpf.c`.

use std::fmt;
use std::io::Read as _;
use std::os::fd::AsFd as _;

use super::record::{Taken, Walked};
use crate::loader::objects::CGROUPS;
use crate::loader::{self, Iterate, IteratorScope, LoadError, ObjectSpec, Ring};
use crate::sys::dir::Dir;

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
