//! The manual's pages of these findings.

use crate::audit::kind::Kind;
use crate::model::Severity;

pub(super) const LOST: Kind = Kind {
    id: "access-lost",
    severity: Severity::Warning,
    title: "GPU access lost after a systemd reload",
    page: "\
A container or job was given GPUs by a device program of its runtime. Later systemd attached a program of its own to the same unit, made of the unit's DevicePolicy= and DeviceAllow=, and that one denies them. Both are in force, and one denial is enough.

It comes about when the GPUs were added behind systemd's back, as a runtime hook does, and then `systemctl daemon-reload`, `daemon-reexec` or a change of the unit's properties made systemd apply its settings anew. Processes that have a GPU open keep it; whatever is started or opened now fails, with NVIDIA's tools as \"Failed to initialize NVML: Unknown Error\".

It is no finding if systemd's program was loaded first, for then the GPUs were never granted in this unit, nor if another program denies them too.

What helps: `gpumap repair` prints the command that gives the GPUs back while the container runs on, where there is a safe one; the finding has it too. Else start the container again. To keep it from happening, let the runtime tell systemd of the devices (CDI or `--device` in place of a hook), or use a runtime whose cgroups systemd does not manage.",
};

pub(super) const RELOAD: Kind = Kind {
    id: "reload-would-lose",
    severity: Severity::Warning,
    title: "the next systemd reload would take GPUs away",
    page: "\
The programs in force in a unit allow GPUs that the unit's settings, DevicePolicy= and DeviceAllow= in its files, deny. At the next `systemctl daemon-reload` systemd attaches a program made of these settings beside the others, and the GPUs are lost: see `access-lost`.

The unit's files are read as systemd would read them now, drop-ins and templates included; names such as char-nvidia are looked up among the drivers that are loaded now. Where a setting cannot be resolved exactly there is no finding.

It is no finding if the settings allow the GPUs, if they make no program (DevicePolicy=auto without DeviceAllow=), if systemd could not attach one because the cgroup's own program excludes others, or if the unit has no program, no GPU open and no job or container in it.

What helps: `gpumap repair --prevent` prints the command that makes the next reload harmless; the finding has it too. To be rid of the cause, let the runtime tell systemd of the devices (CDI or `--device`), or add a drop-in with DeviceAllow= for them before anything is reloaded.",
};
