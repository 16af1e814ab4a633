//! The iterator over cgroups, as `bpf/cgroups.bpf.c` has it. aya loads it and
//! bpf(2) is called for the rest, so that no other loader is needed.

use std::fmt;
use std::io::Read as _;
use std::os::fd::AsFd as _;

use aya::maps::{MapData, RingBuf};
use aya::programs::{Iter, Program};
use aya::{Btf, Ebpf};

use super::record::{Taken, Walked};
use crate::observe::programs::kernel_types::KernelTypes;
use crate::sys::dir::Dir;
use crate::sys::iter::Iterator as Link;

/// Compiled from `bpf/cgroups.bpf.c`.
const OBJECT: &[u8] = aya::include_bytes_aligned!("../../../../../bpf/cgroups.bpf.o");
/// The ring that it writes to.
const RING: &str = "lists_ring";
/// Bytes of the smallest and the largest ring. Sizes are powers of two; what is
/// used of it is memory of gpumap, twice.
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
    link: Link,
    ring: RingBuf<MapData>,
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
        let types = KernelTypes::shared().map_err(|error| load(&error))?;
        let room = room.clamp(ROOM.0, ROOM.1).next_power_of_two();
        let room = u32::try_from(room).unwrap_or(u32::MAX);
        let object = types.load(|loader| loader.map_max_entries(RING, room).load(OBJECT));
        let mut object = object.map_err(|error| load(&error))?;
        let link = link(&mut object, top, types.btf())?;
        let ring = object.take_map(RING).ok_or_else(|| ListsError::Load("no ring".to_owned()))?;
        Ok(Self { link, ring: RingBuf::try_from(ring).map_err(|error| load(&error))?, last: 0 })
    }

    /// Walks over every cgroup once; the kernel lets none change meanwhile.
    ///
    /// # Errors
    ///
    /// [`ListsError::Read`], or [`ListsError::NotWhole`] when there are more
    /// cgroups than the ring has room for.
    pub fn read(&mut self) -> Result<Walked, ListsError> {
        // What a walk that failed has left.
        while self.ring.next().is_some() {}
        let mut file = self.link.open().map_err(|error| ListsError::Read(error.to_string()))?;
        // It writes to the ring alone.
        file.read(&mut [0; 8]).map_err(|error| ListsError::Read(error.to_string()))?;
        let mut walked = Walked::with_capacity(self.last);
        while let Some(bytes) = self.ring.next() {
            if walked.take(&bytes).ok_or(ListsError::NotWhole)? == Taken::End {
                self.last = walked.len();
                return Ok(walked);
            }
        }
        Err(ListsError::NotWhole)
    }
}

impl fmt::Debug for Walk {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Walk")
            .field("link", &self.link)
            .field("last", &self.last)
            .finish_non_exhaustive()
    }
}

fn link(object: &mut Ebpf, top: &Dir, btf: &Btf) -> Result<Link, ListsError> {
    let program: Option<&mut Program> = object.program_mut("lists");
    let program: &mut Iter = program
        .and_then(|program| program.try_into().ok())
        .ok_or_else(|| ListsError::Load("no program".to_owned()))?;
    program.load("cgroup", btf).map_err(|error| load(&error))?;
    let fd = program.fd().map_err(|error| load(&error))?;
    // The handle is one that the kernel does not take here (`O_PATH`).
    let top = top.open_file(c".").map_err(|error| load(&error))?;
    Link::over_cgroups(fd.as_fd(), top.as_fd()).map_err(|error| load(&error))
}

/// The first line: the verifier's log is for nobody.
fn load(error: &dyn std::error::Error) -> ListsError {
    let cause = error.source().map(|cause| format!(": {cause}")).unwrap_or_default();
    let text = format!("{error}{cause}");
    ListsError::Load(text.lines().next().unwrap_or_default().chars().take(200).collect())
}
