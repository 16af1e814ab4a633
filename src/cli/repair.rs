//! `gpumap repair`.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use clap::{ArgGroup, Args, ValueHint};

use super::PolicyTarget;
use super::target;

/// Show what gives lost device access back, and give it back if told to.
///
/// After `systemctl daemon-reload`, `runc update` or `docker update` a container may
/// no longer open its GPU: systemd has attached a device program of its own, which
/// denies what the runtime's program allows. gpumap repair says which requests are
/// missing, which program denies them, and prints the one command that gives them
/// back while the container runs on. The command is systemd's own and outlives
/// further reloads. gpumap does not run it.
///
/// Where the owner of the program has no such command, or --direct asks for it, the
/// plan is a stop-gap: one program in the place of the one that denies, which allows
/// exactly the same and what is missing. Without --apply nothing is changed.
///
/// Without a name, gpumap plans for each owner on this node of which gpumap audit finds that
/// it lost access (access-lost). That changes nothing either; options go with a name.
///
/// What should be allowed is never guessed. It comes from the runtime's program,
/// which stays in force beside systemd's; for a Slurm job from Slurm's own program and
/// gres.conf; else from files of runc, crun, containerd,
/// docker, podman or CRI-O in their usual places, or from the files of a service of
/// systemd's. Or name it: a saved observation of the same cgroup (--like), the GPUs
/// that Slurm allocated (--allocated), or single devices (--allow). Environment variables are claims of the user's and say
/// nothing here.
///
/// Before it prints a command, gpumap works out what would be allowed afterwards, in
/// this cgroup and in every other one that the same program rules. gpumap prints no
/// command, but the reason, if other cgroups would gain access, if a program cannot
/// be known exactly, or if the command would do harm.
///
/// With --apply, gpumap asks the kernel again for everything that the plan rests on,
/// loads the new program, reads it back and decodes it, keeps the old one, writes a
/// journal to /run/gpumap, and replaces the program in one system call. Then it looks
/// at every cgroup below again and asks the kernel from inside. If anything is not as
/// planned, the old program goes back.
///
/// The exit status is 0 if nothing is missing (any more), 1 if something is, 2 if
/// --apply or --undo failed, and 3 if nothing says what should be allowed, or not all
/// is known.
#[derive(Debug, Args)]
#[command(
    group(ArgGroup::new("which")),
    after_help = "\
Examples:
  gpumap repair                                 Everybody here who has lost access.
  gpumap repair 4f0c9d21                        A container.
  gpumap repair --pid 31337                     The container that this process is in.
  gpumap repair --cgroup /system.slice/docker-4f0c.scope
  gpumap repair --pid 31337 --prevent           Before the next reload.
  gpumap repair --pid 31337 --like before.json  As it was when that was saved.
  gpumap repair --cgroup /system.slice/a.service --allow /dev/nvidia0 --allow 'c 195:255'
  gpumap repair --job 4711 --allocated 0,2      Slurm's program of the job is gone.
  gpumap repair --pid 31337 --direct            The stop-gap, as a plan.
  gpumap repair --pid 31337 --direct --apply    The stop-gap, done and proved.
  gpumap repair --list                          What was done, and what became of it.
  gpumap repair --undo /run/gpumap/repair-77.json"
)]
pub struct RepairArgs {
    /// A cgroup's path, a job's number, or a container's id, its beginning or its name.
    #[arg(value_name = "WHAT", group = "which", help_heading = "Arguments")]
    named: Option<String>,
    /// This cgroup: a file-system path, or a path from the cgroup root.
    #[arg(long, value_name = "PATH", value_hint = ValueHint::DirPath, value_parser = target::cgroup(), group = "which")]
    cgroup: Option<PathBuf>,
    /// The cgroup of this process.
    #[arg(long, value_name = "PID", value_parser = target::pid, group = "which")]
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
    /// Allow the GPUs that Slurm allocated to the job: this list, separated by commas.
    ///
    /// Repeat what `scontrol -d show job` prints behind IDX for this node. Each entry is
    /// a number as Slurm counts GPUs (gres.conf says which GPU that is), a UUID, a PCI
    /// address or a node. It is needed only where Slurm's own program of the job is
    /// gone: while that is there, it says by itself what was allocated.
    #[arg(long, value_name = "LIST", conflicts_with_all = ["allow", "like", "prevent"])]
    pub allocated: Option<String>,
    /// Leave this device out, whatever the source says; may be repeated.
    #[arg(long, value_name = "DEVICE")]
    pub deny: Vec<OsString>,
    /// Show what the next reload of systemd would take away, and the command that
    /// makes it harmless.
    #[arg(long)]
    pub prevent: bool,
    /// Plan a program of gpumap's in the place of the one that denies, also where its
    /// owner has a command.
    ///
    /// It is a stop-gap: the owner does not know of it, and makes its own program again
    /// at the next occasion, which the plan names.
    #[arg(long, conflicts_with = "prevent")]
    pub direct: bool,
    /// Everybody at and below this cgroup may gain what is missing.
    ///
    /// A program that is attached to a slice or to a job rules all below. Without this
    /// option nobody but the repaired cgroup may gain.
    #[arg(long, value_name = "CGROUP", value_hint = ValueHint::DirPath, value_parser = target::cgroup(), conflicts_with = "prevent")]
    pub at: Option<PathBuf>,
    /// Put the planned program in the place of the one that denies. This is the one
    /// thing in gpumap that changes device programs.
    #[arg(long, conflicts_with = "prevent")]
    pub apply: bool,
    /// Take back what this journal tells of, a file in /run/gpumap.
    ///
    /// The old program goes back if the programs are still those that the repair left.
    /// Otherwise gpumap's program is taken away if no verdict depends on it, and the old
    /// one is not put back: its owner has made another one since.
    #[arg(long, value_name = "JOURNAL", value_hint = ValueHint::FilePath, group = "which", conflicts_with_all = ["like", "allow", "allocated", "deny", "prevent", "direct", "at", "apply"])]
    pub undo: Option<PathBuf>,
    /// List what was replaced since the node was booted, and what became of it.
    ///
    /// Journals of changes that are over are removed.
    #[arg(long, group = "which", conflicts_with_all = ["like", "allow", "allocated", "deny", "prevent", "direct", "at", "apply"])]
    pub list: bool,
}

impl RepairArgs {
    /// Whether nobody was named.
    pub fn is_about_all(&self) -> bool {
        self.named.is_none() && self.cgroup.is_none() && self.pid.is_none() && self.job.is_none()
    }

    /// Whether an option asks for something that goes with a name alone.
    pub fn needs_a_name(&self) -> bool {
        let lists = [&self.allow, &self.deny].iter().any(|list| !list.is_empty());
        let named = self.like.is_some() || self.allocated.is_some() || self.at.is_some();
        lists || named || self.prevent || self.direct || self.apply
    }

    /// The one target that was given.
    pub fn target(&self) -> PolicyTarget<'_> {
        match (&self.cgroup, self.pid, &self.job, &self.named) {
            (Some(path), ..) => PolicyTarget::Cgroup(path.as_path()),
            (_, Some(pid), ..) => PolicyTarget::Pid(pid),
            (.., Some(job), _) => PolicyTarget::Job(job),
            (.., Some(word)) if word.contains('/') => PolicyTarget::Cgroup(Path::new(word)),
            (.., Some(word)) => PolicyTarget::Job(word),
            _ => PolicyTarget::Cgroup(Path::new("/")),
        }
    }

    /// The container that was named, if what was named can be one.
    pub fn container(&self) -> Option<&str> {
        let word = self.named.as_deref()?;
        let is_job = word.bytes().next().is_some_and(|byte| byte.is_ascii_digit())
            && word.bytes().all(|byte| byte.is_ascii_digit() || b"._+".contains(&byte));
        (!is_job && !word.contains('/')).then_some(word)
    }
}
