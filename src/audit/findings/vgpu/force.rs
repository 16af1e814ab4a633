//! Limits that were meant and do not hold.

use super::by_cgroup::{About, report};
use super::pages;
use crate::audit::facts::Facts;
use crate::model::{InForce, LimitCode};
use crate::report::{Finding, LimitVerdict, Process, Vgpu};

const NOT_IN_FORCE: About = About {
    kind: &pages::NOT_IN_FORCE,
    summary: "a limit was meant and is not in force",
    excuses: &[
        "it has a GPU open, or the library has it in a region: what uses no GPU needs no limit",
        "it is not HAMi's own monitor that has switched the SM limit off",
    ],
    advice: "End the process and see why: gpumap vgpu --pid PID says it in one sentence for each limit.",
};

const MIXED: About = About {
    kind: &pages::MIXED,
    summary: "builds of libvgpu.so that do not understand each other share a region",
    excuses: &["the region or the mapped files of the library show it: no version was guessed"],
    advice: "End all processes of the container and remove the region: they make it anew with the new library.",
};

const HOST_PID: About = About {
    kind: &pages::HOST_PID,
    summary: "the library takes another process for it",
    excuses: &["the entry names a pid on the node, and it is not the one that this process has there"],
    advice: "Start the processes of a GPU's containers one after the other, or use a build that serialises them.",
};

pub(super) fn find(facts: &Facts<'_>) -> Vec<Finding> {
    let mut found = report(facts, &NOT_IN_FORCE, not_in_force);
    found.extend(report(facts, &MIXED, mixed));
    found.extend(report(facts, &HOST_PID, host_pid));
    found
}

fn not_in_force(_: &Process, limits: &Vgpu) -> Option<String> {
    if !limits.may_use_gpu() {
        return None;
    }
    let fails = |verdict: &LimitVerdict| {
        let others = [LimitCode::NoLimit, LimitCode::LimitHigher, LimitCode::SwitchedOff];
        verdict.in_force == InForce::No && !others.contains(&verdict.code)
    };
    limits.devices.iter().find_map(|device| {
        let memory = device.memory_meant.is_some_and(|meant| meant > 0) && fails(&device.memory);
        let sm = device.sm_meant.is_some_and(|meant| (1..100).contains(&meant)) && fails(&device.sm);
        match (memory, sm) {
            (true, true) if device.memory == device.sm => {
                Some(format!("memory and SM: {}", device.memory.why))
            }
            (true, _) => Some(format!("memory: {}", device.memory.why)),
            (false, true) => Some(format!("SM: {}", device.sm.why)),
            (false, false) => None,
        }
    })
}

fn mixed(_: &Process, limits: &Vgpu) -> Option<String> {
    let is_mixed = matches!(limits.memory.code, LimitCode::MixedRegion | LimitCode::MixedLibraries);
    is_mixed.then(|| limits.memory.why.clone())
}

fn host_pid(_: &Process, limits: &Vgpu) -> Option<String> {
    let device = limits.devices.iter().find(|device| device.sm.code == LimitCode::HostPidOfAnother)?;
    Some(device.sm.why.clone())
}
