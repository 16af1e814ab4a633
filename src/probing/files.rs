//! The files that are known: what is attached to them, or why nothing does, and how
//! many processes use them. A file is let go soon after its last process.

use std::collections::HashMap;
use std::fmt::Debug;
use std::path::Path;
use std::rc::{Rc, Weak};
use std::time::{Duration, Instant};

use super::budget::Budgets;
use super::file_systems::{Beneath, FileSystems, ProbedFileSystem};
use super::locks::{Locks, Release, descriptors};
use super::look::Mapped;
use super::prober::{FileId, FileRole, ProbeTarget, Prober};
use crate::loader::AttachedProbes;
use crate::sys::dir::Dir;
use crate::sys::regular_file::{NotOpened, RegularFile};
use crate::sys::stat::FileStat;

/// How often it is looked which files nobody uses.
const TIDY: Duration = Duration::from_millis(250);

/// How long a failure is remembered, which keeps nothing busy.
const FAILED: Duration = Duration::from_secs(30);

/// How long the end of a watch waits for processes that hold the locks of their
/// memory maps. After that they hold up the node.
const AT_END: Duration = Duration::from_secs(5);

/// What a file contains, as far as its inode tells: a number that is used again
/// for another file comes with other times.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Version {
    changed: (i64, u32),
    modified: (i64, u32),
    size: u64,
}

/// A file that a process has.
#[derive(Clone, Copy, Debug)]
pub(super) struct WantedFile<'a> {
    pub(super) file: &'a RegularFile,
    /// The mapping by which it was found.
    pub(super) mapped: Option<Mapped>,
    /// What it is to the process.
    pub(super) kind: FileRole,
    /// Its name, for display.
    pub(super) shown: &'a [u8],
}

/// For whom a file is watched.
#[derive(Clone, Copy, Debug)]
pub(super) struct Asker<'a> {
    /// The process's directory in `/proc`; `None` for a file of the node.
    pub(super) process: Option<&'a Dir>,
    /// Who is charged.
    pub(super) uid: u32,
    /// The only process that probes may be put into if they must not be shared
    /// with others; `None`: it is not followed.
    pub(super) pid: Option<u32>,
    /// Whether probes are never shared.
    pub(super) apart: bool,
}

/// A file in use: ended by [`Files::end`].
#[derive(Debug)]
pub(super) struct Use {
    pub(super) version: Version,
    /// What watches it for this process alone, and who is charged for that.
    own: Option<(Vec<AttachedProbes>, u32)>,
}

/// A file that was looked at.
#[derive(Debug)]
struct KnownFile<P> {
    version: Version,
    /// Who is charged.
    uid: u32,
    users: usize,
    /// Since when nobody uses it.
    since: Instant,
    state: FileState<P>,
}

impl<P> KnownFile<P> {
    /// Whether it is the same file with the same contents, probed for all, and root's:
    /// a process has it, so that its number is of no other file.
    fn is_shared_still(&self, stat: &FileStat) -> bool {
        let is_same = self.users > 0 && Version::of(stat).has_contents_of(self.version);
        is_same && matches!(self.state, FileState::Shared(_)) && belongs_to_root(stat)
    }
}

/// Probes in every process that maps a file, or one that shows the same file.
#[derive(Debug)]
struct SharedProbes {
    /// The file that they were attached to.
    id: FileId,
    /// Who is charged.
    uid: u32,
    links: Vec<AttachedProbes>,
}

/// What watches a file.
#[derive(Debug)]
enum FileState<P> {
    /// Probes in every process.
    Shared(Rc<SharedProbes>),
    /// Probes in each process apart, here.
    Apart(Vec<P>),
    /// Nothing, for this reason.
    Failed(String),
}

/// All of them.
#[derive(Debug)]
pub(super) struct Files<P> {
    known: HashMap<FileId, KnownFile<P>>,
    /// What is attached to files that overlays show.
    beneath: HashMap<Beneath, Weak<SharedProbes>>,
    pub(super) budgets: Budgets,
    pub(super) file_systems: FileSystems,
    release: Release,
    locks: Locks,
    tidied: Instant,
}

impl Version {
    /// Of a file as it is now.
    pub(super) fn of(stat: &FileStat) -> Self {
        Self { changed: stat.changed, modified: stat.modified, size: stat.size }
    }

    /// Whether the contents are those of the other: where nobody but root can write
    /// them, the times tell. Removing a name of the file changes the inode alone.
    fn has_contents_of(self, other: Self) -> bool {
        (self.modified, self.size) == (other.modified, other.size)
    }
}

/// Which file it is.
pub(super) fn id(stat: &FileStat) -> FileId {
    (stat.dev, stat.inode)
}

impl<P: Clone + Debug> Files<P> {
    /// None yet. `proc` has the processes that may map them.
    pub(super) fn new(proc: &Path) -> Self {
        let budgets = Budgets::new();
        let release = Release::start(budgets.descriptors(), Locks::of(proc));
        let (file_systems, locks) = (FileSystems::new(), Locks::of(proc));
        let (known, beneath) = (HashMap::new(), HashMap::new());
        Self { known, beneath, budgets, file_systems, release, locks, tidied: Instant::now() }
    }

    /// Watches a file for a process, if it is not watched already.
    ///
    /// # Errors
    ///
    /// Why it is not watched.
    pub(super) fn begin(
        &mut self,
        prober: &mut impl Prober<Point = P>,
        wanted: &WantedFile<'_>,
        asker: &Asker<'_>,
    ) -> Result<Use, String> {
        let (id, version) = (id(wanted.file.stat()), Version::of(wanted.file.stat()));
        if let Some(joined) = self.join(wanted.file.stat()) {
            return Ok(joined);
        }
        if self.known.get(&id).is_none_or(|known| known.version != version) {
            let now = Instant::now();
            self.budgets.allows(asker.uid, now)?;
            self.locks.free()?;
            let state = self.look(prober, wanted, asker).unwrap_or_else(FileState::Failed);
            self.learn(prober, id, version, asker.uid, state);
        }
        let known = self.known.get_mut(&id).ok_or("it is not known")?;
        let own = match &known.state {
            FileState::Failed(why) => return Err(why.clone()),
            FileState::Shared(_) => None,
            FileState::Apart(places) => {
                let pid = asker.pid.ok_or("it may be watched in processes that are followed alone")?;
                self.budgets.allows(asker.uid, Instant::now())?;
                self.locks.free()?;
                let target =
                    ProbeTarget { path: &wanted.file.path(), id, shown: wanted.shown, pid: Some(pid) };
                Some(prober.attach(places, &target)?)
            }
        };
        known.users += 1;
        if let Some(own) = &own {
            self.budgets.opened(asker.uid, descriptors(own));
        }
        Ok(Use { version, own: own.map(|own| (own, asker.uid)) })
    }

    /// The use of a file that is watched for all processes already: nobody is
    /// charged for it. `None` where that has to be found out.
    pub(super) fn join(&mut self, stat: &FileStat) -> Option<Use> {
        let known = self.known.get_mut(&id(stat)).filter(|known| known.is_shared_still(stat))?;
        // Attached anew it would be probed twice for a moment.
        known.version = Version::of(stat);
        known.users += 1;
        Some(Use { version: known.version, own: None })
    }

    /// A child uses what its parent does; `None` for what is watched for the
    /// parent alone.
    pub(super) fn share(&mut self, id: FileId, parents: &Use) -> Option<Use> {
        let known = self.known.get_mut(&id).filter(|_| parents.own.is_none())?;
        known.users += 1;
        Some(Use { version: parents.version, own: None })
    }

    /// A process uses a file no longer.
    pub(super) fn end(&mut self, id: FileId, ended: Use) {
        let now = Instant::now();
        if let Some((own, uid)) = ended.own {
            self.budgets.closed(uid, descriptors(&own));
            self.release.end(own);
        }
        if let Some(known) = self.known.get_mut(&id) {
            known.users = known.users.saturating_sub(1);
            known.since = now;
        }
    }

    /// Lets go of files that nobody uses.
    pub(super) fn tidy<Q: Prober<Point = P>>(&mut self, prober: &mut Q) {
        let now = Instant::now();
        if now.saturating_duration_since(self.tidied) < TIDY {
            return;
        }
        self.tidied = now;
        let old = |known: &KnownFile<P>| {
            let kept = if matches!(known.state, FileState::Failed(_)) { FAILED } else { Q::UNUSED };
            known.users == 0 && now.saturating_duration_since(known.since) >= kept
        };
        let ids: Vec<FileId> = self.known.iter().filter(|(_, known)| old(known)).map(|(id, _)| *id).collect();
        for id in ids {
            self.forget(prober, id);
        }
        self.budgets.tidy(now);
    }

    /// How many files are watched.
    pub(super) fn count(&self) -> usize {
        self.known.values().filter(|known| !matches!(known.state, FileState::Failed(_))).count()
    }

    fn learn(
        &mut self,
        prober: &mut impl Prober<Point = P>,
        id: FileId,
        version: Version,
        uid: u32,
        state: FileState<P>,
    ) {
        // One that was changed in place keeps its users.
        let users = self.forget(prober, id);
        let now = Instant::now();
        self.budgets.file(uid, true);
        self.known.insert(id, KnownFile { version, uid, users, since: now, state });
    }

    /// Forgets a file; how many used it.
    fn forget(&mut self, prober: &mut impl Prober<Point = P>, id: FileId) -> usize {
        let Some(known) = self.known.remove(&id) else { return 0 };
        self.budgets.file(known.uid, false);
        if let FileState::Shared(shared) = known.state
            && let Some(last) = Rc::into_inner(shared)
        {
            self.budgets.closed(last.uid, descriptors(&last.links));
            self.release.end(last.links);
            prober.released(last.id);
        }
        known.users
    }

    /// Attaches probes for everybody, unless the same file has them by another overlay:
    /// the kernel would run both for each call.
    fn attach_shared(
        &mut self,
        prober: &mut impl Prober<Point = P>,
        places: &[P],
        target: &ProbeTarget<'_>,
        uid: u32,
        beneath: Option<Beneath>,
    ) -> Result<FileState<P>, String> {
        self.beneath.retain(|_, shared| shared.strong_count() > 0);
        let known = beneath.as_ref().and_then(|beneath| self.beneath.get(beneath)?.upgrade());
        if let Some(known) = known {
            return Ok(FileState::Shared(known));
        }
        let links = prober.attach(places, target)?;
        self.budgets.opened(uid, descriptors(&links));
        let shared = Rc::new(SharedProbes { id: target.id, uid, links });
        if let Some(beneath) = beneath {
            self.beneath.insert(beneath, Rc::downgrade(&shared));
        }
        Ok(FileState::Shared(shared))
    }

    /// Reads a file, and watches it for everybody if it is root's.
    fn look(
        &mut self,
        prober: &mut impl Prober<Point = P>,
        wanted: &WantedFile<'_>,
        asker: &Asker<'_>,
    ) -> Result<FileState<P>, String> {
        let file_system = self.file_systems.of(wanted.file, asker.process)?;
        if wanted.mapped.is_some_and(|mapped| !is_mapped(wanted, &file_system, mapped)) {
            return Err("another file took its place while it was looked at".to_owned());
        }
        let file = wanted.file.open().map_err(|why| match why {
            NotOpened::Call(nix::errno::Errno::EWOULDBLOCK) => "another process has a lease on it".to_owned(),
            why => format!("it cannot be opened ({why})"),
        })?;
        let file = crate::sys::window::Windowed::new(file, wanted.file.stat().size);
        let path = wanted.file.path();
        let target = ProbeTarget { path: &path, id: id(wanted.file.stat()), shown: wanted.shown, pid: None };
        let places = prober.find(file, wanted.kind, &target)?;
        if places.is_empty() {
            return Err(none(wanted.kind).to_owned());
        }
        if asker.apart || !is_roots(wanted.file.stat(), &file_system) {
            return Ok(FileState::Apart(places));
        }
        let beneath = match file_system.numbered {
            true => None,
            false => Some(Beneath::of(wanted.file, file_system.device, wanted.mapped)?),
        };
        self.attach_shared(prober, &places, &target, asker.uid, beneath)
    }
}

impl<P> Drop for Files<P> {
    /// All probes are taken out after this.
    fn drop(&mut self) {
        if self.known.values().any(|known| !matches!(known.state, FileState::Failed(_))) {
            self.locks.wait(Some(AT_END));
        }
    }
}

/// Why a file without any of the functions is not watched.
pub fn none(kind: FileRole) -> &'static str {
    if kind == FileRole::Executable {
        "a static executable without the C library's functions, or without symbols"
    } else {
        "a library without the functions that are watched"
    }
}

/// Whether a file is still the one that was seen in a process's map.
///
/// On an overlay, maps of newer kernels (seen on 6.12, and on Ubuntu's 5.15) show its
/// device. Older ones show device and inode number of the file beneath, which the file
/// itself does not tell. Its name does as well: the file was found by the kernel's link
/// from this very mapping, whose name is the one in the map as long as the mapping is.
fn is_mapped(wanted: &WantedFile<'_>, file_system: &ProbedFileSystem, mapped: Mapped) -> bool {
    if file_system.numbered {
        return (file_system.device, wanted.file.stat().inode) == (mapped.device, mapped.inode);
    }
    // A file whose name cannot be read counts as another one, which is told.
    file_system.device == mapped.device || wanted.file.name().is_ok_and(|name| name == wanted.shown)
}

/// Whether nobody but root can change a file: what a set-user-ID bit of root's
/// on it would be worth. Probes that such a file's symbols name may be put into
/// every process.
fn is_roots(stat: &FileStat, file_system: &ProbedFileSystem) -> bool {
    file_system.believed && belongs_to_root(stat)
}

fn belongs_to_root(stat: &FileStat) -> bool {
    const OTHERS_WRITE: u16 = 0o022;
    stat.uid == 0 && stat.permissions & OTHERS_WRITE == 0
}
