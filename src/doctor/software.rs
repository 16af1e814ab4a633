//! Other programs that run on the node.

use super::kind::{CheckKind, CheckResult, NodeFacts, note, ok, unknown};

pub(super) const KINDS: &[CheckKind] = &[CheckKind {
    id: "software.detaching-agents",
    page: "Some agents detach device programs from cgroups to reach GPUs themselves: Datadog's system-probe from \
           its own cgroup, container-hotplug from those of containers. Whatever is detached allows every device. \
           They are found by the names of their processes, which is a hint and no proof.",
    look: agents,
}];

/// Names of processes as the kernel keeps them, and whose they are.
const AGENTS: [(&str, &str); 2] =
    [("system-probe", "Datadog's system-probe"), ("container-hotpl", "container-hotplug")];

fn agents(node: &NodeFacts<'_>) -> Option<CheckResult> {
    let found: Vec<&str> = AGENTS.iter().filter(|(comm, _)| node.runs(comm)).map(|(_, name)| *name).collect();
    Some(match (found.as_slice(), node.hides_processes()) {
        ([], Some(why)) => unknown(
            format!("Whether an agent runs that detaches device programs is not known: {why}."),
            "run gpumap as root of the node and not in a container",
        ),
        ([], None) => ok("No process has the name of an agent that is known to detach device programs."),
        (names, _) => note(format!(
            "A process has the name of an agent that detaches device programs: {}.",
            names.join(" and ")
        ))
        .with_fix("gpumap audit shows the cgroups that are open now; gpumap watch tells when programs go"),
    })
}
