//! `gpumap repair`.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use clap::{ArgGroup, Args, ValueHint};

use super::PolicyTarget;

/// Show what gives lost device access back. It changes nothing.
///
/// After `systemctl daemon-reload`, `runc update` or `docker update` a container may
/// no longer open its GPU: systemd has attached a device program of its own, which
/// denies what the runtime's program allows. gpumap repair says which requests are
/// missing, which program denies them, and prints the one command that gives them
/// back while the container runs on. The command is systemd's own and outlives
/// further reloads. gpumap does not run it.
///
/// What should be allowed is never guessed. It comes from the runtime's program,
/// which stays in force beside systemd's; from a saved observation of the same
/// cgroup (--like); or from you (--allow). Environment variables do not count,
/// because users can set them.
///
/// Before it prints a command, gpumap works out what would be allowed afterwards, in
/// this cgroup and in every other one that the same program rules. gpumap prints no
/// command, but the reason, if other cgroups would gain access, if a program cannot
/// be known exactly, or if the command would do harm.
///
/// The exit status is 0 if nothing is missing, 1 if something is, and 3 if nothing
/// says what should be allowed, or not all is known.
#[derive(Debug, Args)]
#[command(group(ArgGroup::new("which").required(true)), after_help = "\
Examples:
  gpumap repair --pid 31337                     The container that this process is in.
  gpumap repair --cgroup /system.slice/docker-4f0c.scope
  gpumap repair --pid 31337 --prevent           Before the next reload.
  gpumap repair --pid 31337 --like before.json  As it was when that was saved.
  gpumap repair --cgroup /system.slice/a.service --allow /dev/nvidia0 --allow 'c 195:255'")]
pub struct RepairArgs {
    /// This cgroup: a file-system path, or a path from the cgroup root.
    #[arg(long, value_name = "PATH", value_hint = ValueHint::DirPath, group = "which")]
    cgroup: Option<PathBuf>,
    /// The cgroup of this process.
    #[arg(long, value_name = "PID", group = "which")]
    pid: Option<u32>,
    /// The cgroup of this job, by number or SLUID, or of a step.
    #[arg(long, value_name = "ID", group = "which")]
    job: Option<String>,
    /// Restore what this saved observation of the same cgroup allowed.
    ///
    /// It must be of the same boot and hold the same cgroup, by path and id. Save
    /// one with gpumap snapshot.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, conflicts_with_all = ["allow", "prevent"])]
    pub like: Option<PathBuf>,
    /// Allow this device in addition to what is allowed now; may be repeated.
    ///
    /// `rw` means reading and writing alone too, and the existence test comes with
    /// every request, as in lists of systemd and of container runtimes.
    #[arg(long, value_name = "DEVICE", conflicts_with = "prevent")]
    pub allow: Vec<OsString>,
    /// Leave this device out, whatever the source says; may be repeated.
    #[arg(long, value_name = "DEVICE")]
    pub deny: Vec<OsString>,
    /// Show what the next reload of systemd would take away, and the command that
    /// makes it harmless.
    #[arg(long)]
    pub prevent: bool,
}

impl RepairArgs {
    /// The one target that was given.
    pub fn target(&self) -> PolicyTarget<'_> {
        match (&self.cgroup, self.pid, &self.job) {
            (Some(path), ..) => PolicyTarget::Cgroup(path.as_path()),
            (_, Some(pid), _) => PolicyTarget::Pid(pid),
            (.., Some(job)) => PolicyTarget::Job(job),
            _ => PolicyTarget::Cgroup(Path::new("/")),
        }
    }
}
