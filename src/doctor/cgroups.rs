//! Where cgroups are mounted.

use super::kind::{CheckKind, CheckResult, NodeFacts, missing, note, ok, unknown};
use crate::observation::{Answer, CgroupMode, CgroupMount};

pub(super) const KINDS: &[CheckKind] = &[
    CheckKind {
        id: "cgroup.hierarchy",
        page: "Device programs exist in cgroup2 alone. On a legacy host the v1 devices controller decides, and \
               gpumap shows what it lists.",
        look: hierarchy,
    },
    CheckKind {
        id: "cgroup.hidden-mount",
        page: "A later mount at the same place, or above it, hides a mount of cgroup2. gpumap takes the first one \
               that can be reached.",
        look: hidden,
    },
    CheckKind {
        id: "cgroup.root",
        page: "Where only a part of the hierarchy is mounted, as in a container, programs above that part are in \
               force and cannot be seen.",
        look: root,
    },
    CheckKind {
        id: "cgroup.devices-v1",
        page: "Beside cgroup2 the v1 devices controller can be mounted. Both have to allow a device. The kernel \
               does not show the denials of a v1 group that allows by default; verdicts there are unknown.",
        look: devices_v1,
    },
];

fn hierarchy(node: &NodeFacts<'_>) -> Option<CheckResult> {
    let place = match &node.setup.hierarchy {
        Answer::Known(place) => place,
        Answer::Missing(why) => {
            let fix = "mount -t cgroup2 none /sys/fs/cgroup, or name its place with --cgroup-root DIR";
            return Some(missing(format!("No cgroup hierarchy can be used: {why}."), fix));
        }
    };
    Some(match node.observation.host.cgroup_mode {
        CgroupMode::Unified => ok(format!("cgroup2 is mounted at {place}, without v1 controllers.")),
        CgroupMode::Hybrid => note(format!("cgroup2 is mounted at {place}, beside v1 controllers (hybrid).")),
        CgroupMode::Unknown => {
            unknown(format!("How cgroups are mounted is not known; {place} is used."), "mount /proc")
        }
        CgroupMode::Legacy if node.setup.hides_cgroup2 => missing(
            format!(
                "Only v1 controllers are mounted here ({place}), and processes are in cgroups of cgroup2: device \
                 programs may be in force that gpumap cannot ask for."
            ),
            "mount -t cgroup2 none DIR, or run gpumap outside of the container",
        ),
        CgroupMode::Legacy => missing(
            format!("Only v1 controllers are mounted ({place}): there are no device programs."),
            "boot with systemd.unified_cgroup_hierarchy=1",
        ),
    })
}

fn hidden(node: &NodeFacts<'_>) -> Option<CheckResult> {
    let hidden: Vec<&str> =
        node.setup.cgroup2.iter().filter(|mount| mount.hidden).map(|mount| mount.point.as_str()).collect();
    let is_reached = node.setup.cgroup2.iter().any(|mount| !mount.hidden);
    let text = format!("Later mounts hide cgroup2 at {}.", hidden.join(", "));
    match (hidden.is_empty(), is_reached) {
        (true, _) => None,
        (false, true) => Some(note(format!("{text} Another mount of it can be reached."))),
        (false, false) => {
            Some(missing(text, "mount cgroup2 at another place and give it as --cgroup-root DIR"))
        }
    }
}

fn root(node: &NodeFacts<'_>) -> Option<CheckResult> {
    let place = node.setup.hierarchy.known()?;
    let is_whole = node.setup.whole_hierarchy.or_else(|| whole_by_table(node, place))?;
    if is_whole && node.is_apart("user") {
        return Some(missing(
            "The whole cgroup hierarchy can be seen. To a user namespace the kernel shows no program of it.",
            "run gpumap outside of the container",
        ));
    }
    Some(if !is_whole {
        missing(
            "Only a part of the cgroup hierarchy can be seen: what is attached above it is in force and not shown.",
            "run gpumap outside of the container, or bind the node's mount of cgroup2 into it",
        )
    } else {
        ok("The whole cgroup hierarchy can be seen.")
    })
}

/// The same as far as the mount table says it. Observations of before `whole_hierarchy`
/// have no more.
fn whole_by_table(node: &NodeFacts<'_>, place: &str) -> Option<bool> {
    let in_use = |mount: &&CgroupMount| mount.point == place && !mount.hidden;
    let mount = node.setup.cgroup2.iter().find(in_use)?;
    Some(mount.root == "/" && !node.is_apart("cgroup"))
}

fn devices_v1(node: &NodeFacts<'_>) -> Option<CheckResult> {
    let place = node.setup.devices_v1.as_deref()?;
    let text = format!(
        "The v1 devices controller is mounted at {place}: it has its own say, and hides its denials."
    );
    Some(note(text).with_fix("boot with systemd.unified_cgroup_hierarchy=1 if nothing uses v1 any more"))
}
