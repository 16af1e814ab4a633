//! Recognises programs that may hold GPUs of others: the driver's own daemons,
//! monitoring, MPS, display servers, and those that the configuration names. A
//! command name is no proof, because every process can choose its own.

use crate::audit::facts::Facts;
use crate::audit::tenants::Place;
use crate::model::{CgroupPath, SharedRole};
use crate::report::Process;

/// Daemons by the name of their executable, with the units they run in.
const DAEMONS: [(&str, &[&str]); 5] = [
    ("nvidia-persistenced", &["nvidia-persistenced.service"]),
    ("nv-hostengine", &["nvidia-dcgm.service", "dcgm.service"]),
    ("dcgm-exporter", &["dcgm-exporter.service", "nvidia-dcgm-exporter.service"]),
    ("nv-fabricmanager", &["nvidia-fabricmanager.service"]),
    ("nvidia-imex", &["nvidia-imex.service"]),
];

/// Display servers and what runs on them as their part.
const DISPLAY: [&str; 9] = [
    "Xorg",
    "Xwayland",
    "gnome-shell",
    "kwin_wayland",
    "kwin_x11",
    "gdm-x-session",
    "weston",
    "sway",
    "plasmashell",
];

/// Daemons of schedulers, which may keep NVML open for accounting.
const SCHEDULERS: [&str; 3] = ["slurmd", "slurmstepd", "psid"];

/// Directories that only root writes to.
const SYSTEM: [&str; 6] =
    ["/usr/bin/", "/usr/sbin/", "/usr/lib/", "/usr/libexec/", "/usr/local/sbin/", "/opt/slurm/sbin/"];

/// The executable of a process; what a package update replaced is still it.
pub(super) fn exe(facts: &Facts<'_>, process: &Process) -> Option<String> {
    let exe = facts.observed(process)?.detail.as_ref()?.exe.known()?.lossy().into_owned();
    Some(exe.strip_suffix(" (deleted)").map(str::to_owned).unwrap_or(exe))
}

/// Whether a process may hold any GPU. `place` is its cgroup.
pub(super) fn is_excused(facts: &Facts<'_>, process: &Process, place: Place<'_>) -> bool {
    candidate(facts, process, place, |known| known.is_standing() || known.is_mps())
}

/// Whether a process holds GPUs all the time, whoever computes: it keeps nobody from using
/// them. An MPS daemon of a user does not, because it is there for that user's processes.
pub(in crate::audit) fn is_standing(facts: &Facts<'_>, process: &Process, place: Place<'_>) -> bool {
    candidate(facts, process, place, |known| known.is_standing() || process.uid == 0 && known.is_mps())
}

fn candidate(
    facts: &Facts<'_>,
    process: &Process,
    place: Place<'_>,
    is: impl FnOnce(Candidate<'_>) -> bool,
) -> bool {
    exe(facts, process).is_some_and(|exe| is(Candidate { facts, process, exe: &exe, place }))
}

/// Whether a process is a server of MPS, by its executable.
pub(super) fn is_mps_server(facts: &Facts<'_>, process: &Process) -> bool {
    exe(facts, process).is_some_and(|exe| is_executable(&exe, "nvidia-cuda-mps-server"))
}

/// Whether a path is this executable in a directory of the system.
fn is_executable(exe: &str, name: &str) -> bool {
    exe.strip_suffix(name).is_some_and(|directory| {
        directory.ends_with('/') && SYSTEM.iter().any(|system| directory.starts_with(system))
    })
}

struct Candidate<'a> {
    facts: &'a Facts<'a>,
    process: &'a Process,
    exe: &'a str,
    place: Place<'a>,
}

impl Candidate<'_> {
    fn is_standing(&self) -> bool {
        self.is_configured()
            || self.is_daemon()
            || self.is_monitoring()
            || self.is_display()
            || self.is_scheduler()
    }

    /// All that the configuration says must match.
    fn is_configured(&self) -> bool {
        self.facts.config.daemons.iter().any(|daemon| {
            let place = CgroupPath::new(&self.process.cgroup);
            let inside = place.is_at_or_below(CgroupPath::new(&daemon.cgroup));
            daemon.exe == self.exe && daemon.uid == self.process.uid && inside
        })
    }

    /// Whether it is a daemon in a system service: as root, or as the user that its
    /// own unit sets.
    fn is_daemon(&self) -> bool {
        let Some(rest) = self.process.cgroup.strip_prefix("/system.slice/") else { return false };
        let Some((_, units)) = DAEMONS.iter().find(|(name, _)| self.is(name)) else { return false };
        let unit = rest.split('/').next().unwrap_or_default();
        self.process.uid == 0 || units.contains(&unit)
    }

    /// `nvidia-smi` of root, outside of jobs and containers.
    fn is_monitoring(&self) -> bool {
        let outside = self.facts.tenant_at(self.place).is_none();
        outside && self.process.uid == 0 && self.is("nvidia-smi")
    }

    /// Whether it is an MPS daemon: of root, or of a user who has processes in a job
    /// or container here, which are the server's clients.
    fn is_mps(&self) -> bool {
        let is_mps = self.is("nvidia-cuda-mps-server") || self.is("nvidia-cuda-mps-control");
        is_mps && (self.process.uid == 0 || self.has_tenant())
    }

    fn has_tenant(&self) -> bool {
        let mut places = self.facts.tenants.iter().flat_map(|tenant| &tenant.cgroups);
        let is_its = |process: &Process| process.uid == self.process.uid;
        places.any(|place| place.cgroup.processes.iter().any(is_its))
    }

    /// A display server: of root, or without the node that computing takes.
    fn is_display(&self) -> bool {
        let slices = ["/user.slice/", "/system.slice/"];
        let computes = self.process.held_shared.iter().any(SharedRole::hints_at_computing);
        slices.iter().any(|slice| self.process.cgroup.starts_with(slice))
            && DISPLAY.iter().any(|name| self.is(name))
            && (self.process.uid == 0 || !computes)
    }

    /// The scheduler's own daemon in the scheduler's own cgroup.
    fn is_scheduler(&self) -> bool {
        let owner = self.place.cgroup.owner.as_ref();
        let own = owner.is_some_and(|owner| owner.part.is_some())
            || ["/system.slice/slurmd.service", "/system.slice/psid.service"]
                .contains(&self.process.cgroup.as_str());
        let name = self.exe.rsplit('/').next().unwrap_or_default();
        self.process.uid == 0 && own && SCHEDULERS.contains(&name)
    }

    fn is(&self, name: &str) -> bool {
        is_executable(self.exe, name)
    }
}
