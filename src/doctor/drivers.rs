//! What the drivers of GPUs offer.

use super::kind::{CheckKind, CheckResult, NodeFacts, missing, note, ok, unknown};
use crate::model::Vendor;
use crate::report::Gpu;

pub(super) const KINDS: &[CheckKind] = &[
    CheckKind {
        id: "driver.gpus",
        page: "gpumap lists GPUs from /proc/driver, sysfs and /dev. It never opens one.",
        look: gpus,
    },
    CheckKind {
        id: "driver.nvidia",
        page: "The NVIDIA driver names its GPUs in /proc/driver/nvidia: UUID, PCI address and minor number. \
               Without these files GPUs have the numbers of their nodes alone.",
        look: nvidia,
    },
    CheckKind {
        id: "driver.amd",
        page: "amdgpu describes its GPUs in sysfs and in the topology of KFD.",
        look: |node| other(node, &Vendor::Amd, "AMD", "amdgpu"),
    },
    CheckKind {
        id: "driver.intel",
        page: "i915 and xe describe their GPUs in sysfs.",
        look: |node| other(node, &Vendor::Intel, "Intel", "i915 or xe"),
    },
    CheckKind {
        id: "driver.nodes",
        page: "A GPU without a device node can be opened by nobody. nvidia-modprobe or udev makes the nodes.",
        look: nodes,
    },
    CheckKind {
        id: "driver.persistence",
        page: "Without nvidia-persistenced the NVIDIA driver gives up the state of a GPU that nobody has open; \
               the next job waits seconds for it, and settings are lost.",
        look: persistence,
    },
    CheckKind {
        id: "driver.libraries",
        page: "gpumap watch sees cuInit, hipInit and hsa_init in drivers' libraries where the dynamic linker \
               looks for them. A library elsewhere is found when a process has mapped it, which can be too late.",
        look: libraries,
    },
];

fn gpus(node: &NodeFacts<'_>) -> Option<CheckResult> {
    let count = node.gpus.len();
    Some(match count {
        0 if !node.observation.errors.is_empty() => unknown(
            "No GPU is seen, and not everything could be read.",
            "see the errors, and run gpumap as root",
        ),
        0 => note("No GPU is here: no driver shows one, and /dev has no node of one.")
            .with_fix("load the driver; from a container that sees the host below DIR, give --gpu-root DIR"),
        1 => ok("1 GPU is here."),
        _ => ok(format!("{count} GPUs are here.")),
    })
}

fn of<'a>(node: &'a NodeFacts<'_>, vendor: &Vendor) -> Vec<&'a Gpu> {
    node.gpus.iter().filter(|gpu| gpu.vendor == *vendor).collect()
}

fn nvidia(node: &NodeFacts<'_>) -> Option<CheckResult> {
    let gpus = of(node, &Vendor::Nvidia);
    if gpus.is_empty() {
        return None;
    }
    let nameless = gpus.iter().filter(|gpu| gpu.uuid.is_none()).count();
    let version = node.observation.gpu_facts.nvidia_release();
    if version.is_none() && nameless == gpus.len() {
        let text = "There are NVIDIA GPUs, and /proc/driver/nvidia does not describe them.";
        return Some(missing(text, "load the module nvidia, or show its /proc/driver/nvidia to gpumap"));
    }
    let driver = version.map_or_else(
        || "The NVIDIA driver, whose version /proc/driver/nvidia/version does not say,".to_owned(),
        |version| format!("The NVIDIA driver {version}"),
    );
    let text = format!("{driver} describes {} of {} GPUs.", gpus.len() - nameless, gpus.len());
    Some(if nameless == 0 && version.is_none() {
        note(text)
    } else if nameless == 0 {
        ok(text)
    } else {
        missing(text, "look for lost GPUs (Xid 79) in the kernel's log, and reset them or reboot")
    })
}

fn other(node: &NodeFacts<'_>, vendor: &Vendor, name: &str, module: &str) -> Option<CheckResult> {
    let count = of(node, vendor).len();
    (count > 0).then(|| ok(format!("sysfs describes {count} GPUs of {name} ({module}).")))
}

fn nodes(node: &NodeFacts<'_>) -> Option<CheckResult> {
    let lacking =
        node.gpus.iter().filter(|gpu| !gpu.excluded && !gpu.nodes.iter().any(|node| node.gate)).count();
    (lacking > 0).then(|| {
        missing(
            format!("{lacking} of {} GPUs have no device node.", node.gpus.len()),
            "run nvidia-modprobe or udevadm trigger; in a container, look at the host's /dev with --gpu-root DIR",
        )
    })
}

fn persistence(node: &NodeFacts<'_>) -> Option<CheckResult> {
    if of(node, &Vendor::Nvidia).is_empty() {
        return None;
    }
    Some(match (node.runs("nvidia-persiste"), node.hides_processes()) {
        (true, _) => ok("nvidia-persistenced runs."),
        (false, None) => {
            note("nvidia-persistenced does not run.").with_fix("systemctl enable --now nvidia-persistenced")
        }
        (false, Some(why)) => note(format!("Whether nvidia-persistenced runs is not known: {why}."))
            .with_fix("run gpumap as root of the node and not in a container"),
    })
}

fn libraries(node: &NodeFacts<'_>) -> Option<CheckResult> {
    if node.gpus.is_empty() && node.setup.libraries.is_empty() {
        return None;
    }
    Some(match node.setup.libraries.as_slice() {
        [] => note("The dynamic linker's directories have no library of a driver (libcuda, libamdhip64, libhsa-runtime64).")
            .with_fix("name the directory in /etc/ld.so.conf.d, unless only containers use the GPUs"),
        found => ok(format!("Drivers' libraries: {}.", found.join(", "))),
    })
}
