//! Loads the compiled programs of `bpf/` into the kernel.
//!
//! There is one trait, [`Loader`], and two engines behind it. aya is written in
//! Rust and is what a plain build has. The cargo feature `libbpf` adds libbpf,
//! the kernel developers' own loader, through libbpf-rs; a build with it uses
//! libbpf. Both load the same objects and attach them at the same places, and
//! tests compare what comes of it.
//!
//! Whatever an engine loads or attaches is held by descriptors of this process.
//! When the process ends, however it ends, the kernel removes all of it.

mod aya;
#[cfg(feature = "libbpf")]
mod libbpf;
pub mod objects;

use std::any::Any;
use std::cell::RefCell;
use std::fmt;
use std::io::Read;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;
use std::rc::{Rc, Weak};

use objects::Object;

pub use crate::sys::bpf::Entry;

/// The variable with which tests choose an engine: `aya` or `libbpf`
/// (CONTRIBUTING.md).
const CHOICE: &str = "GPUMAP_TEST_LOADER";

/// A way to load objects. Since Linux 5.8, if the kernel is built with BTF.
pub trait Loader {
    /// Loads the programs of an object and makes its maps. Needs `CAP_BPF` and
    /// `CAP_PERFMON`, or `CAP_SYS_ADMIN`.
    ///
    /// # Errors
    ///
    /// Why the kernel refuses a program that is not optional.
    fn load(&self, wanted: &Wanted<'_>) -> Result<Box<dyn Loaded>, LoadError>;
}

/// The libraries that can load objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Engine {
    /// aya.
    Aya,
    /// libbpf. Only in a build with the cargo feature `libbpf`.
    Libbpf,
}

impl Engine {
    /// The engine that a test wants, else libbpf if this build has it.
    fn chosen() -> Result<Self, LoadError> {
        match std::env::var(CHOICE).as_deref() {
            Ok("aya") => Ok(Self::Aya),
            Ok("libbpf") => Ok(Self::Libbpf),
            Ok(_) => Err(LoadError::NoEngine),
            Err(_) if cfg!(feature = "libbpf") => Ok(Self::Libbpf),
            Err(_) => Ok(Self::Aya),
        }
    }
}

/// An object to be loaded.
#[derive(Clone, Copy, Debug)]
pub struct Wanted<'a> {
    /// The object.
    pub object: &'static Object,
    /// A further object, with a session program that shares the maps of the
    /// first one by their names. Since Linux 6.13.
    pub session: Option<&'static Object>,
    /// Programs of the object that are not loaded.
    pub left_out: &'a [&'a str],
    /// Programs that the kernel may refuse: they are left out then.
    pub optional: &'a [&'a str],
    /// A map whose capacity differs from the source: its name and its number of
    /// entries (of a ring, its bytes). No two objects have such a map with the same
    /// name.
    pub capacity: Option<(&'static str, u32)>,
}

impl Wanted<'_> {
    /// A whole object as it is.
    pub fn whole(object: &'static Object) -> Self {
        Self { object, session: None, left_out: &[], optional: &[], capacity: None }
    }
}

/// Keys of a map with their values.
pub type Entries = Vec<(Vec<u8>, Vec<u8>)>;

/// The loaded programs and maps, until the value is dropped. Links, iterators
/// and rings that were taken from it stay.
pub trait Loaded {
    /// Puts an entry into a map.
    ///
    /// # Errors
    ///
    /// No map of this name, or the kernel's reason.
    fn put(&mut self, map: &'static str, key: &[u8], value: &[u8]) -> Result<(), LoadError>;

    /// Takes an entry out of a map, if it is there.
    ///
    /// # Errors
    ///
    /// No map of this name, or the kernel's reason.
    fn remove(&mut self, map: &'static str, key: &[u8]) -> Result<(), LoadError>;

    /// All keys and values of a map.
    ///
    /// # Errors
    ///
    /// No map of this name, or the kernel's reason.
    fn entries(&self, map: &'static str) -> Result<Entries, LoadError>;

    /// Takes a ring buffer out, to read it.
    ///
    /// # Errors
    ///
    /// No ring of this name, or no memory to map it.
    fn ring(&mut self, map: &'static str) -> Result<Box<dyn Ring>, LoadError>;

    /// Runs a program at one of the kernel's tracepoints as long as the program
    /// is loaded.
    ///
    /// # Errors
    ///
    /// No such program or tracepoint.
    fn attach_tracepoint(&mut self, program: &'static str, tracepoint: &str) -> Result<(), LoadError>;

    /// Runs a program at the entry of a function or at its return, whichever
    /// the program is for. A cookie other than 0 needs Linux 5.15.
    ///
    /// # Errors
    ///
    /// Why the kernel does not put a probe there.
    fn attach_function(
        &mut self,
        program: &'static str,
        file: &Path,
        entry: Entry,
        pid: Option<u32>,
    ) -> Result<Attached, LoadError>;

    /// Runs the session program at the entries and returns of functions of a
    /// file: in every process that maps it, or in one and in no other. Since
    /// Linux 6.13.
    ///
    /// # Errors
    ///
    /// Why the kernel does not put probes there.
    fn attach_session(&self, file: &Path, entries: &[Entry], pid: Option<u32>)
    -> Result<Attached, LoadError>;

    /// Makes an iterator ready to be read.
    ///
    /// # Errors
    ///
    /// No such program, or a kernel before 6.1 for one over cgroups.
    fn iterator(&mut self, program: &'static str, over: Over<'_>) -> Result<Box<dyn Iterate>, LoadError>;
}

/// The objects of the kernel that an iterator visits.
#[derive(Clone, Copy, Debug)]
pub enum Over<'a> {
    /// All objects of its kind.
    All,
    /// A cgroup and everything below, parents first. The descriptor is of its
    /// directory and was not opened with `O_PATH`. Since Linux 6.1.
    Cgroups(BorrowedFd<'a>),
}

/// An iterator: a program that the kernel runs for each object of a kind while
/// a file is read. Nothing is attached to what other processes do.
pub trait Iterate: fmt::Debug + Send + Sync {
    /// A new file. Reading it to its end runs the program for every object.
    ///
    /// # Errors
    ///
    /// The kernel's reason.
    fn open(&self) -> Result<Box<dyn Read>, LoadError>;
}

/// A ring buffer. Its descriptor is readable when it has records.
pub trait Ring: AsFd + Send {
    /// Passes records to `take`, oldest first, until it returns false or the ring is
    /// empty. Returns whether the ring is empty.
    fn read(&mut self, take: &mut dyn FnMut(&[u8]) -> bool) -> bool;
}

/// Probes in a file. They are taken out when the value is dropped.
pub struct Attached {
    link: Box<dyn Any + Send>,
    descriptors: usize,
}

impl Attached {
    fn new(link: impl Any + Send, descriptors: usize) -> Self {
        Self { link: Box::new(link), descriptors }
    }

    /// The most descriptors that it opens.
    pub fn descriptors(&self) -> usize {
        self.descriptors
    }
}

impl fmt::Debug for Attached {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let is_held = (*self.link).type_id();
        formatter.debug_struct("Attached").field("link", &is_held).finish_non_exhaustive()
    }
}

/// Why an object cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LoadError {
    /// The kernel does not describe its types.
    #[error("the kernel has no BTF ({0})")]
    NoTypes(String),
    /// The kernel refuses a program, a map or a link.
    #[error("{0}")]
    Refused(String),
    /// The object lacks a program or a map: a fault of the build.
    #[error("the program object has no {0}")]
    Missing(&'static str),
    /// This build does not have the wanted engine.
    #[error("this gpumap was built without the engine that GPUMAP_TEST_LOADER names")]
    NoEngine,
}

impl LoadError {
    fn refused(error: &dyn std::error::Error) -> Self {
        Self::Refused(one_line(error))
    }
}

thread_local! {
    static SHARED: RefCell<Weak<dyn Loader>> = const { RefCell::new(Weak::<aya::KernelTypes>::new()) };
}

/// The loader of this thread. Making one takes aya some 50 ms and 25 MiB,
/// because it reads the kernel's description of its types. So as long as
/// somebody holds one, who asks for it gets the same.
///
/// # Errors
///
/// [`LoadError::NoTypes`].
pub fn shared() -> Result<Rc<dyn Loader>, LoadError> {
    if let Some(shared) = SHARED.with_borrow(Weak::upgrade) {
        return Ok(shared);
    }
    share(Engine::chosen()?)
}

/// Makes a loader with this engine. As long as a caller holds it, [`shared`] returns
/// it to all callers in this thread.
///
/// # Errors
///
/// [`LoadError::NoTypes`], or [`LoadError::NoEngine`] if this build has no such
/// engine.
pub fn share(engine: Engine) -> Result<Rc<dyn Loader>, LoadError> {
    let loader = new(engine)?;
    SHARED.with_borrow_mut(|shared| *shared = Rc::downgrade(&loader));
    Ok(loader)
}

fn new(engine: Engine) -> Result<Rc<dyn Loader>, LoadError> {
    match engine {
        Engine::Aya => Ok(Rc::new(aya::KernelTypes::read()?)),
        #[cfg(feature = "libbpf")]
        Engine::Libbpf => Ok(Rc::new(libbpf::Libbpf::new())),
        #[cfg(not(feature = "libbpf"))]
        Engine::Libbpf => Err(LoadError::NoEngine),
    }
}

/// An error with its causes on one line, without the verifier's log.
fn one_line(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    text.lines().next().unwrap_or_default().chars().take(200).collect()
}
