//! What gpumap itself may do.

use super::kind::{CheckKind, CheckResult, NodeFacts, missing, note, ok, unknown};

pub(super) const KINDS: &[CheckKind] = &[
    CheckKind {
        id: "rights.capabilities",
        page: "Root has every right that gpumap uses. Without CAP_SYS_ADMIN no program's instructions are \
               shown and every verdict of a cgroup with programs is unknown; without CAP_SYS_PTRACE and \
               CAP_DAC_READ_SEARCH other users' environments and descriptors stay closed. PRIVILEGES in \
               gpumap(1) lists which command needs what.",
        look: capabilities,
    },
    CheckKind {
        id: "rights.namespaces",
        page: "In a user namespace other than the node's, capabilities do not count for programs and for \
               processes of others. In another pid namespace gpumap sees a part of the node's processes alone, in another cgroup \
               namespace the cgroups that are mounted there.",
        look: namespaces,
    },
    CheckKind {
        id: "rights.seccomp",
        page: "A container runtime or a systemd unit can filter system calls. gpumap needs bpf(2), and \
               gpumap watch perf_event_open(2) and fanotify_init(2) as well.",
        look: seccomp,
    },
];

/// Capabilities, and what is lost without them.
const NEEDED: [(&str, &str); 3] = [
    ("CAP_SYS_ADMIN", "the instructions of device programs"),
    ("CAP_SYS_PTRACE", "environments and memory of other users' processes"),
    ("CAP_DAC_READ_SEARCH", "descriptors of other users' processes and closed directories"),
];

fn capabilities(node: &NodeFacts<'_>) -> Option<CheckResult> {
    let run = "run gpumap as root of the node, or give it these capabilities";
    if let Some(why) = node.setup.rights.capabilities.missing() {
        return Some(unknown(format!("The capabilities of gpumap are not known: {why}."), run));
    }
    let lacking = NEEDED.iter().filter(|(name, _)| !node.has(name));
    let lacking: Vec<String> = lacking.map(|(name, lost)| format!("{name} ({lost})")).collect();
    Some(match lacking.as_slice() {
        [] => ok("gpumap has CAP_SYS_ADMIN, CAP_SYS_PTRACE and CAP_DAC_READ_SEARCH."),
        names => missing(format!("gpumap lacks {}.", names.join(", ")), run),
    })
}

fn namespaces(node: &NodeFacts<'_>) -> Option<CheckResult> {
    if let Some(why) = &node.setup.rights.namespaces_unknown {
        let text = format!("The namespaces of gpumap are not known ({why}).");
        return Some(unknown(text, "mount the node's /proc"));
    }
    Some(match node.setup.rights.foreign_namespaces.as_slice() {
        [] => ok("gpumap is in the node's own user, pid and cgroup namespaces."),
        [_] if node.is_apart("cgroup") && node.setup.whole_hierarchy == Some(true) => note(
            "gpumap is in a cgroup namespace of its own, and sees the node's whole hierarchy all the same.",
        ),
        names => missing(
            format!("gpumap is in namespaces of its own ({}): it sees a part of the node.", names.join(", ")),
            "run gpumap outside of the container",
        ),
    })
}

fn seccomp(node: &NodeFacts<'_>) -> Option<CheckResult> {
    node.setup.rights.seccomp.then(|| {
        note("A seccomp filter is in force. What it refuses shows in the checks of engines below.")
            .with_fix("if an engine is refused, allow bpf, perf_event_open, fanotify_init and fanotify_mark")
    })
}
