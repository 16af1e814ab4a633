//! The compiled objects of `bpf/`, as `make -C bpf` writes them. They are part
//! of the gpumap binary, so that nobody needs clang to build it.

/// A compiled object.
#[derive(Debug)]
pub struct Object {
    /// The ELF file.
    pub(super) code: &'static [u8],
    /// Its iterators, and the kind of kernel object that each runs over.
    pub(super) iterators: &'static [(&'static str, &'static str)],
    /// Its session program; empty if it has none.
    pub(super) session: &'static str,
}

/// `bpf/watch.bpf.c`: the calls and the course of processes.
pub static WATCH: Object = Object {
    code: aya::include_bytes_aligned!("../../bpf/watch.bpf.o"),
    iterators: &[("find_homes", "task")],
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
    session: "",
};

/// `bpf/cgroups.bpf.c`: an iterator over cgroups and their device programs.
pub static CGROUPS: Object = Object {
    code: aya::include_bytes_aligned!("../../bpf/cgroups.bpf.o"),
    iterators: &[("lists", "cgroup")],
    session: "",
};

/// All objects.
pub(super) static ALL: [&Object; 7] =
    [&WATCH, &SESSION, &ACTIVITY, &ACTIVITY_SESSION, &INTERCEPTION, &SCAN, &CGROUPS];

/// An object without iterators.
const fn object(code: &'static [u8], session: &'static str) -> Object {
    Object { code, iterators: &[], session }
}
