//! What gpumap asks of a loader: the compiled programs of `bpf/`, and one trait that puts
//! them into the kernel.

use std::any::Any;
use std::fmt;
use std::io::Read;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;

use super::error::LoadError;
use crate::sys::bpf::FunctionEntry;

/// A way to load objects. Since Linux 5.8, if the kernel is built with BTF.
pub trait Loader {
    /// Loads the programs of an object and makes its maps. Needs `CAP_BPF` and
    /// `CAP_PERFMON`, or `CAP_SYS_ADMIN`.
    ///
    /// # Errors
    ///
    /// Why the kernel refuses a program that is not optional.
    fn load(&self, wanted: &ObjectSpec<'_>) -> Result<Box<dyn Loaded>, LoadError>;
}

/// An object to be loaded.
#[derive(Clone, Copy, Debug)]
pub struct ObjectSpec<'a> {
    /// The object.
    pub object: &'static Object,
    /// A further object, with a session program that shares the maps of the
    /// first one by their names. Since Linux 6.13.
    pub session: Option<&'static Object>,
    /// Programs of the object at entries and returns that are loaded once more, for links
    /// over many functions. Since Linux 6.6.
    pub multi: &'a [&'static str],
    /// Programs of the object that are not loaded.
    pub left_out: &'a [&'a str],
    /// Programs that the kernel may refuse: they are left out then.
    pub optional: &'a [&'a str],
    /// A map whose capacity differs from the source: its name and its number of
    /// entries (of a ring, its bytes). No two objects have such a map with the same
    /// name.
    pub capacity: Option<(&'static str, u32)>,
}

impl ObjectSpec<'_> {
    /// A whole object as it is.
    pub fn whole(object: &'static Object) -> Self {
        Self { object, session: None, multi: &[], left_out: &[], optional: &[], capacity: None }
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

    /// Runs a program at the entry or the return of a function of the kernel, whichever the
    /// program is for, as long as the program is loaded.
    ///
    /// # Errors
    ///
    /// No such program, or a kernel that does not let programs there.
    fn attach_kernel(&mut self, program: &'static str, function: &str) -> Result<(), LoadError>;

    /// How often a program that [`Self::attach_kernel`] or [`Self::attach_tracepoint`] attached
    /// was not run although its function was called or returned, or its tracepoint was passed,
    /// as far as the kernel counts that: an fexit program since Linux 5.12, a kprobe since 6.7
    /// (for a caller with `CAP_SYS_ADMIN`), a program at a tracepoint since 6.1. 0 where it
    /// does not.
    ///
    /// # Errors
    ///
    /// No such program, or the kernel's reason.
    fn missed(&self, program: &'static str) -> Result<u64, LoadError>;

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
        entry: FunctionEntry,
        pid: Option<u32>,
    ) -> Result<AttachedProbes, LoadError>;

    /// Runs the session program at the entries and returns of functions of a
    /// file: in every process that maps it, or in one and in no other. Since
    /// Linux 6.13.
    ///
    /// # Errors
    ///
    /// Why the kernel does not put probes there.
    fn attach_session(
        &self,
        file: &Path,
        entries: &[FunctionEntry],
        pid: Option<u32>,
    ) -> Result<AttachedProbes, LoadError>;

    /// Runs one of [`ObjectSpec::multi`] at the entries or at the returns of functions of a
    /// file, whichever the program is for, in every process that maps it. Since Linux
    /// 6.6.
    ///
    /// # Errors
    ///
    /// Why the kernel does not put probes there.
    fn attach_multi(
        &self,
        program: &'static str,
        file: &Path,
        entries: &[FunctionEntry],
    ) -> Result<AttachedProbes, LoadError>;

    /// Makes an iterator ready to be read.
    ///
    /// # Errors
    ///
    /// No such program, or a kernel before 6.1 for one over cgroups.
    fn iterator(
        &mut self,
        program: &'static str,
        over: IteratorScope<'_>,
    ) -> Result<Box<dyn Iterate>, LoadError>;
}

/// The objects of the kernel that an iterator visits.
#[derive(Clone, Copy, Debug)]
pub enum IteratorScope<'a> {
    /// All objects of its kind.
    All,
    /// A cgroup and everything below, parents first. The descriptor is of its
    /// directory and was not opened with `O_PATH`. Since Linux 6.1.
    Cgroups(BorrowedFd<'a>),
}

/// An iterator: a program that the kernel runs for each object of a kind while
/// a file is read. Nothing is attached to what other processes do.
pub trait Iterate: Send + Sync {
    /// A new file. Reading it to its end runs the program for every object.
    ///
    /// # Errors
    ///
    /// The kernel's reason.
    fn open(&self) -> Result<Box<dyn Read>, LoadError>;
}

/// Its name alone: what lies behind it would bring the text of all its facts into the program.
impl fmt::Debug for dyn Iterate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Iterate")
    }
}

/// A ring buffer. Its descriptor is readable when it has records.
pub trait Ring: AsFd + Send {
    /// Passes records to `take`, oldest first, until it returns false or the ring is
    /// empty. Returns whether the ring is empty.
    fn read(&mut self, take: &mut dyn FnMut(&[u8]) -> bool) -> bool;
}

/// Probes in a file. They are taken out when the value is dropped.
pub struct AttachedProbes {
    link: Box<dyn Any + Send>,
    descriptors: usize,
}

impl AttachedProbes {
    pub(super) fn new(link: impl Any + Send, descriptors: usize) -> Self {
        Self { link: Box::new(link), descriptors }
    }

    /// The most descriptors that it opens.
    pub fn descriptors(&self) -> usize {
        self.descriptors
    }
}

impl fmt::Debug for AttachedProbes {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let is_held = (*self.link).type_id();
        formatter.debug_struct("Attached").field("link", &is_held).finish_non_exhaustive()
    }
}

/// A compiled object.
#[derive(Debug)]
pub struct Object {
    /// The ELF file.
    pub(super) code: &'static [u8],
    /// Its iterators, and the kind of kernel object that each runs over.
    pub(super) iterators: &'static [(&'static str, &'static str)],
    /// Its programs that are made for one function of the kernel (fexit), and that function.
    pub(super) functions: &'static [(&'static str, &'static str)],
    /// Its session program; empty if it has none.
    pub(super) session: &'static str,
}

/// `bpf/watch.bpf.c`: the calls and the course of processes.
pub static WATCH: Object = Object {
    code: aya::include_bytes_aligned!("../../bpf/watch.bpf.o"),
    iterators: &[("find_homes", "task")],
    functions: &[],
    session: "",
};

/// `bpf/session.bpf.c`: one program at entry and return of the functions that
/// change the environment.
pub static SESSION: Object =
    object(aya::include_bytes_aligned!("../../bpf/session.bpf.o"), "session_environ");

/// `bpf/activity.bpf.c`: sums of the calls of drivers' functions, and the course
/// of processes.
pub static ACTIVITY: Object = object(aya::include_bytes_aligned!("../../bpf/activity.bpf.o"), "");

/// `bpf/activity_session.bpf.c`: one program at entry and return of drivers'
/// functions.
pub static ACTIVITY_SESSION: Object =
    object(aya::include_bytes_aligned!("../../bpf/activity_session.bpf.o"), "session_call");

/// `bpf/interception.bpf.c`: the time between a library before the driver and the
/// driver.
pub static INTERCEPTION: Object = object(aya::include_bytes_aligned!("../../bpf/interception.bpf.o"), "");

/// `bpf/scan.bpf.c`: iterators over processes and over their open files.
pub static SCAN: Object = Object {
    code: aya::include_bytes_aligned!("../../bpf/scan.bpf.o"),
    iterators: &[("tasks", "task"), ("files", "task_file")],
    functions: &[],
    session: "",
};

/// `bpf/cgroups.bpf.c`: an iterator over cgroups and their device programs.
pub static CGROUPS: Object = Object {
    code: aya::include_bytes_aligned!("../../bpf/cgroups.bpf.o"),
    iterators: &[("lists", "cgroup")],
    functions: &[],
    session: "",
};

/// `bpf/denials.bpf.c`: devices that the kernel refuses.
pub static DENIALS: Object = Object {
    code: aya::include_bytes_aligned!("../../bpf/denials.bpf.o"),
    iterators: &[],
    functions: &[("on_answer", CHECK)],
    session: "",
};

/// The function of the kernel that every request for a device goes through.
pub const CHECK: &str = "devcgroup_check_permission";

/// All objects.
pub(super) static ALL: [&Object; 8] =
    [&WATCH, &SESSION, &ACTIVITY, &ACTIVITY_SESSION, &INTERCEPTION, &SCAN, &CGROUPS, &DENIALS];

/// An object without iterators.
const fn object(code: &'static [u8], session: &'static str) -> Object {
    Object { code, iterators: &[], functions: &[], session }
}
