//! The manual's pages of these findings.

use crate::audit::kind::Kind;
use crate::model::Severity;

pub(super) const LOST: Kind = Kind {
    id: "access-lost",
    severity: Severity::Warning,
    title: "GPU access lost after a systemd reload",
    page: "\
The device program of a container's or job's runtime allows GPUs. Later systemd attached a program of its own to the same unit, made from the unit's DevicePolicy= and DeviceAllow=, and that program denies them. Both are in force, and one denial is enough.

Causes: the GPUs were added without systemd, as a runtime hook does, and then `systemctl daemon-reload`, `daemon-reexec` or a change of the unit's properties made systemd apply its settings again. Processes that have a GPU open keep it; programs that are started now fail, with NVIDIA's tools as \"Failed to initialize NVML: Unknown Error\".

Excuses: systemd's program was loaded first, so that the GPUs were never granted in this unit; another program denies them too.

What to do: run the command that `gpumap repair` prints, which gives the GPUs back while the container runs on, if there is a safe one; the finding has it too. Else start the container again. To prevent it, let the runtime tell systemd which devices it needs (CDI or `--device` in place of a hook), or use a runtime whose cgroups systemd does not manage.",
};

pub(super) const RELOAD: Kind = Kind {
    id: "reload-would-lose",
    severity: Severity::Warning,
    title: "the next systemd reload would take GPUs away",
    page: "\
The programs in force in a unit allow GPUs that the unit's settings, DevicePolicy= and DeviceAllow= in its files, deny. At the next `systemctl daemon-reload` systemd attaches a program made from these settings in addition, and the GPUs are lost: see `access-lost`.

The unit's files are read as systemd would read them now, drop-ins and templates included; names such as char-nvidia are looked up among the drivers that are loaded now. If a setting cannot be resolved exactly there is no finding.

Causes: a runtime added the GPUs without systemd, as a hook does.

Excuses: the settings allow the GPUs; they make no program (DevicePolicy=auto without DeviceAllow=); systemd could not attach one because the cgroup's own program excludes others; the unit has no program, no GPU open and no job or container in it.

What to do: run the command that `gpumap repair --prevent` prints, which makes the next reload harmless; the finding has it too. To remove the cause, let the runtime tell systemd which devices it needs (CDI or `--device`), or add a drop-in with DeviceAllow= for them before anything is reloaded.",
};

pub(super) const UNMATCHED: Kind = Kind {
    id: "device-allow-unmatched",
    severity: Severity::Warning,
    title: "DeviceAllow= of a unit names no device of this node",
    page: "\
DeviceAllow= in the files of a systemd unit names a GPU driver (char-NAME) or a node that does not exist on this node. systemd makes no rule of such a line, says nothing, and the unit can open no GPU of that vendor.

Causes: the driver has another name in /proc/devices (NVIDIA's is `nvidia-frontend` up to release 525 or so and `nvidia` later); the module was not loaded when the unit was started; a typing error.

Excuses: the unit may open a GPU of the vendor by another line, since many files name the drivers of several releases; a unit without processes; names that gpumap cannot look up.

What to do: write the name that stands in /proc/devices, or both, run `systemctl daemon-reload`, and start the unit again.",
};
