//! `gpumap watch`.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueHint};

/// Report what changes, as it happens.
///
/// A process that changes its visible devices while it runs (setenv and its
/// kin of every C library in use), with what it asked for before and asks for
/// now inside the set its cgroup allows; new processes with their values; the
/// initialisation of CUDA, HIP and ROCr, after which a change has no effect;
/// device programs that are attached, replaced or lost, as the exact difference
/// of rules; processes that are moved to another cgroup, with what they left and
/// the GPUs that they gained or lost; GPUs that processes open and close. One line
/// an event, with --json one JSON document a line.
///
/// The first line says what serves and how long it took until everything was in
/// place (`ready`). A second one counts the processes whose changes are not seen as
/// they happen, if there are any; -v names them with the reason, and so does
/// `not_seen` of the event `start`. What of the node cannot be watched at all is a
/// `problem`, told once.
///
/// Programs, the maps they read and open devices are looked at once a second;
/// what was opened and closed in between is not seen. With -v and in JSON only
/// there are programs that are replaced by others with the same rules, as Slurm
/// does at every step, and processes that execute a program with the variables
/// that they had before, as most commands of a shell. A value that gives no GPU has
/// the reason behind it (`why`): an unknown UUID, an index that is out of range, a
/// list that ends early, a cgroup that allows none.
///
/// A process is moved when somebody writes it into a `cgroup.procs` file, which
/// includes itself, or a thread of it into `cgroup.threads`; or it begins in another
/// cgroup than its parent (clone3). With --job and --cgroup, moves into and out of
/// these are told. In a watch of the whole node people see moves that lead out of a
/// job, container, pod or virtual machine, or give a GPU; with -v and in JSON there
/// are all. Moves in hierarchies of cgroup v1 are not told.
///
/// Programs are loaded into the kernel for it, which takes root and Linux 5.8
/// with BTF. They are gone when gpumap ends, however it ends.
///
/// Functions are watched in every C library that a process maps, those of
/// containers included, and in static programs that have their symbols; so
/// Python, node.js and Go with cgo are seen. What programs do without the C
/// library (perl, bash), and what the first process of a library does before
/// that is watched, is found when environments are read again, in turn, and
/// said to be from `memory`. Static programs without symbols and Go without cgo
/// are named as what is not seen. What a shell exports is seen in the programs
/// that it starts.
///
/// Drivers' libraries are watched from the beginning where the dynamic linker's
/// configuration or a vendor's usual place has them, which holds for containers
/// that get the node's driver; others from when a process is seen to have them
/// mapped. If one is initialised before that, whether a change has an effect is
/// left open.
///
/// A file that only root can change (owned by root, writable by nobody else, on a
/// mount that root made and that heeds set-user-ID bits) is watched in every
/// process. Any other one, such as a user's own C library or static program, or
/// software on a nosuid mount, is watched in each process in scope apart, so that
/// what it says of itself concerns nobody else; the first calls after a fork or
/// an exec may come before that, and are found in memory. Not watched at all,
/// but named by `uncovered`, is what a user can make wait for ever: files on FUSE,
/// on overlays that a user mounted, in disk images mounted nosuid (as containers
/// of users often are), in memory without a mount, and files on which a process
/// has a lease. Each user may have 1,024 files and a quarter of the probes, and
/// cost a tenth of the time; of one file at most 64 MiB of symbols are read, of
/// one process 16 C libraries. `uncovered` names what was used up. A file is let go
/// of a second after its last process.
///
/// A setenv call that is watched takes some 0.7 microseconds longer if it is
/// filtered out (before Linux 6.13: some 1.1), some microseconds longer if it
/// is reported. With --pid alone these are the calls of the processes named
/// (and of what they fork, until that executes a program), and nothing else is
/// touched. With --cgroup or --job, and with no target, they are those of every
/// process on the node that uses the same C library: only so the first call of
/// a new process is seen. Those of processes that are not watched are filtered
/// out.
///
/// Every change is told while there are no more than 5,000 of them a second, and
/// bursts of up to 30,000 at once. Beyond that the kernel may have to drop
/// some: `lost` says how many and, in JSON, whose (`lost_by`). What is not known
/// of that user's processes after that (the value before, what was asked for
/// before) is left out; of other users' nothing is in doubt. One user's events,
/// however many, do not push out another's: while much waits to be told, each
/// user adds at most 32 KiB, some 200 changes. A user is the real uid of a
/// process; in a user namespace, who made the outermost one. Processes whose
/// end was dropped are said to have ended when they are found gone. It takes
/// up to 64 MiB of memory, most of it for what waits to be told.
///
/// No page of a process is brought into memory for it, because the process
/// decides how long that takes. A value that is not there when a call returns is
/// read later from memory that cannot block; so is what a call changed whose
/// variable's name is not there. If that cannot be read either, `uncovered` or
/// `exit` says so. What a process did with the rights of another user between
/// two events of its own may be among what that user lost. At most 65,536
/// processes of one user and 262,144 of all are followed; those beyond are
/// counted in `lost`. At most 16 MiB of variables are kept of one user's
/// processes: beyond that, values of before are left out.
///
/// One user's processes may cause 128 MiB of output at once and 64 KiB a second
/// after that, some 5 GiB a day. Events beyond that are counted in `lost`.
///
/// If nobody reads the output, nothing more is taken from the kernel, which
/// counts what it drops. Signals and --for end the watch all the same.
///
/// The exit status is 0 when it was ended as asked, 1 if --until-change saw no
/// change before --for was over, 2 if it could not watch, 3 if it ended before
/// all was written because nobody read it.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  gpumap watch
  gpumap watch --job 4711 --json
  gpumap watch --pid 31337 --until-change --for 5m
  gpumap watch --state /run/gpumap.state")]
pub struct WatchArgs {
    /// Cgroups, with everything below them.
    #[arg(long, value_name = "PATH", value_hint = ValueHint::DirPath)]
    pub cgroup: Vec<PathBuf>,
    /// Jobs, by number or SLUID.
    #[arg(long, value_name = "ID")]
    pub job: Vec<String>,
    /// Processes; not their children.
    #[arg(long, value_name = "PID")]
    pub pid: Vec<u32>,
    /// End after this time, such as 30s or 5m.
    #[arg(long = "for", value_name = "DURATION", value_parser = super::duration::parse)]
    pub lasting: Option<Duration>,
    /// End after the first change.
    #[arg(long)]
    pub until_change: bool,
    /// Keep the last change of each process in this file, for gpumap pid.
    ///
    /// Only its owner may read it; it is replaced as a whole.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub state: Option<PathBuf>,
}
