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
    if let Some(why) = node.setup.software.missing() {
        return Some(unknown(
            format!("Processes cannot be listed: {why}."),
            "mount /proc, or name it with --proc DIR",
        ));
    }
    let found: Vec<&str> = AGENTS.iter().filter(|(comm, _)| node.runs(comm)).map(|(_, name)| *name).collect();
    Some(match found.as_slice() {
        [] => ok("No agent runs that is known to detach device programs."),
        names => note(format!("{} runs, which detaches device programs.", names.join(" and "))).with_fix(
            "gpumap audit shows the cgroups that are open now; gpumap watch tells when programs go",
        ),
    })
}
