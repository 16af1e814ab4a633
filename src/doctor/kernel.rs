//! What the kernel is built and set to show.

use super::kind::{CheckKind, CheckResult, NodeFacts, missing, note, ok, unknown};
use crate::observation::Answer;

pub(super) const KINDS: &[CheckKind] = &[
    CheckKind {
        id: "kernel.queries",
        page: "gpumap asks the kernel which programs are in force on a cgroup (BPF_PROG_QUERY). Without an \
               answer nothing is known about what cgroups may open. The kernel answers CAP_NET_ADMIN; since \
               Linux 6.9 CAP_SYS_ADMIN stands for it.",
        look: queries,
    },
    CheckKind {
        id: "kernel.lockdown",
        page: "Under lockdown in confidentiality mode the kernel refuses BPF programs the helpers that read its \
               memory. The checks of engines show what works all the same.",
        look: lockdown,
    },
    CheckKind {
        id: "kernel.btf",
        page: "BTF is the kernel's description of its own types (CONFIG_DEBUG_INFO_BTF). The BPF programs of \
               gpumap watch and the iterators need it; answers of other commands do not depend on it.",
        look: btf,
    },
    CheckKind {
        id: "kernel.symbols",
        page: "Programs call helpers by address. Names come from /proc/kallsyms, which shows addresses to \
               CAP_SYSLOG, or to nobody with kernel.kptr_restrict=2. Without them some calls are proved by the \
               program's tag, and others make verdicts unknown.",
        look: symbols,
    },
    CheckKind {
        id: "kernel.jit-harden",
        page: "With net.core.bpf_jit_harden the kernel blinds constants of programs before it shows them. gpumap \
               undoes that; programs with several maps can stay unknown.",
        look: jit_harden,
    },
    CheckKind {
        id: "kernel.ptrace",
        page: "With kernel.yama.ptrace_scope=3 nobody may read the memory of a process. gpumap then knows what \
               processes asked for when they were executed, and not what they set since.",
        look: ptrace,
    },
    CheckKind {
        id: "kernel.hidepid",
        page: "With the option hidepid of /proc, processes of others are visible to CAP_SYS_PTRACE alone.",
        look: hidepid,
    },
    CheckKind {
        id: "kernel.clock",
        page: "Times in answers are those of the node's clock. Clocks that differ make answers of several nodes \
               and metrics hard to compare.",
        look: clock,
    },
];

fn queries(node: &NodeFacts<'_>) -> Option<CheckResult> {
    Some(match node.setup.queries.missing() {
        None => ok("The kernel says which programs are in force on cgroups."),
        Some(why) => missing(
            format!("The kernel does not say which programs are in force on cgroups: {why}."),
            "run gpumap as root, or give it CAP_NET_ADMIN, on Linux 4.15 or later with cgroup2 mounted",
        ),
    })
}

/// Whether BPF programs may not read the kernel's memory.
pub(super) fn is_confidential(node: &NodeFacts<'_>) -> bool {
    node.value("/sys/kernel/security/lockdown").is_some_and(|text| text.contains("[confidentiality]"))
}

fn lockdown(node: &NodeFacts<'_>) -> Option<CheckResult> {
    is_confidential(node).then(|| {
        note("The kernel is locked down for confidentiality: BPF programs may not read its memory.")
            .with_fix("if an engine is refused, boot with lockdown=integrity")
    })
}

fn btf(node: &NodeFacts<'_>) -> Option<CheckResult> {
    Some(match &node.setup.btf {
        Answer::Known(size) => ok(format!("The kernel describes its types ({} KiB of BTF).", size >> 10)),
        Answer::Missing(why) => missing(
            format!("The kernel does not describe its types: {why}."),
            "use a kernel with CONFIG_DEBUG_INFO_BTF=y, and mount sysfs so that nothing covers /sys/kernel/btf",
        ),
    })
}

fn symbols(node: &NodeFacts<'_>) -> Option<CheckResult> {
    let restrict = node.value("/proc/sys/kernel/kptr_restrict");
    Some(match node.setup.symbols.known() {
        Some(true) => ok("/proc/kallsyms shows addresses, so helpers of programs have names."),
        Some(false) if restrict == Some("2") => missing(
            "/proc/kallsyms shows no addresses to anybody: kernel.kptr_restrict is 2.",
            "sysctl kernel.kptr_restrict=1",
        ),
        // A user namespace gives the capability, and not what it stands for on the node.
        Some(false) if node.has("CAP_SYSLOG") => missing(
            "/proc/kallsyms shows no addresses, although gpumap has CAP_SYSLOG.",
            "run gpumap as root of the node and not in a user namespace",
        ),
        Some(false) => missing("/proc/kallsyms shows no addresses.", "give gpumap CAP_SYSLOG"),
        None => {
            let why = node.setup.symbols.missing().unwrap_or_default();
            let fix =
                "use a kernel with CONFIG_KALLSYMS=y, and mount /proc so that nothing covers /proc/kallsyms";
            unknown(format!("The names of the kernel's functions cannot be read: {why}."), fix)
        }
    })
}

fn jit_harden(node: &NodeFacts<'_>) -> Option<CheckResult> {
    match node.setting("/proc/sys/net/core/bpf_jit_harden")? {
        Answer::Missing(why) => Some(
            note(format!(
                "Whether the kernel blinds constants of programs is not known: bpf_jit_harden: {why}."
            ))
            .with_fix("run gpumap as root"),
        ),
        Answer::Known(value) if value == "0" => None,
        Answer::Known(value) => Some(note(format!(
            "net.core.bpf_jit_harden is {value}: the kernel blinds the constants of programs{}. gpumap undoes \
             that, except where it matters which of several maps a program reads.",
            if value == "1" { " that are loaded without CAP_BPF" } else { "" }
        ))),
    }
}

fn ptrace(node: &NodeFacts<'_>) -> Option<CheckResult> {
    let value = node.value("/proc/sys/kernel/yama/ptrace_scope")?;
    (value == "3").then(|| {
        missing(
            "kernel.yama.ptrace_scope is 3: nobody may read what processes set at run time.",
            "set kernel.yama.ptrace_scope to 2 at the next boot (3 cannot be taken back)",
        )
    })
}

fn hidepid(node: &NodeFacts<'_>) -> Option<CheckResult> {
    let value = node.setup.hidepid.as_deref()?;
    Some(if node.has("CAP_SYS_PTRACE") {
        note(format!("/proc is mounted with hidepid={value}. CAP_SYS_PTRACE sees through it."))
    } else if node.setup.hidepid_exempt {
        note(format!(
            "/proc is mounted with hidepid={value}, which does not concern a group that gpumap is in."
        ))
    } else {
        missing(
            format!("/proc is mounted with hidepid={value}: processes of others cannot be looked at."),
            "give gpumap CAP_SYS_PTRACE, or run it as root",
        )
    })
}

fn clock(node: &NodeFacts<'_>) -> Option<CheckResult> {
    Some(match node.setup.clock_synchronized.known() {
        Some(true) => ok("The clock is synchronised."),
        Some(false) => note("The kernel takes its clock for not synchronised.").with_fix(
            "run chronyd, ntpd or systemd-timesyncd, unless the host of this machine sets its clock",
        ),
        None => note("Whether the clock is synchronised is not known."),
    })
}
