//! Entries of regions: use over the limit, and use of processes that are gone.

use std::collections::BTreeSet;

use super::by_cgroup::{About, report};
use super::pages;
use crate::audit::facts::Facts;
use crate::observation::Observation;
use crate::report::{Finding, Process, RegionProcess, Vgpu};
use crate::vgpu::Survey;

const OVER: About = About {
    kind: &pages::OVER,
    summary: "its region counts more memory than the limit",
    excuses: &["the region's own count is compared with the region's own limit"],
    advice: "See gpumap vgpu -v: a limit that was lowered holds for what is asked for from now on, not for what \
             is there.",
};

const DEAD: About = About {
    kind: &pages::DEAD,
    summary: "memory of processes that are gone counts as used in its region",
    excuses: &["the whole node was looked at, and nobody has the pid of the entry"],
    advice: "Start a process in the container or let one ask for memory up to the limit: both clear such entries; \
             or end all of its processes and remove the region.",
};

pub(super) fn find(facts: &Facts<'_>) -> Vec<Finding> {
    let mut found = report(facts, &OVER, over);
    let survey = Survey::new(facts.inspection.observation());
    let observation = facts.inspection.observation();
    let is_whole = observation.scope.iter().any(|scope| scope.recursive && scope.path.as_bytes() == b"/");
    let users = Users::of(observation);
    found.extend(report(facts, &DEAD, |_, limits| dead(&survey, limits, is_whole, &users)));
    found
}

fn over(_: &Process, limits: &Vgpu) -> Option<String> {
    limits.devices.iter().find_map(|device| {
        let (limit, counted) = device.memory_limit.zip(device.memory_counted)?;
        (limit > 0 && counted > limit)
            .then(|| format!("device {}: {counted} bytes are counted, the limit is {limit}", device.device))
    })
}

/// The processes of the node.
struct Users {
    /// Their pids on the node.
    pids: BTreeSet<u32>,
    /// The regions that they map, each with the pid in their own namespace.
    inside: BTreeSet<([u32; 2], u64, u32)>,
}

impl Users {
    fn of(observation: &Observation) -> Self {
        let pids = observation.processes.iter().map(|process| process.pid).collect();
        let details = observation.processes.iter().filter_map(|process| process.detail.as_ref());
        let inside = details.filter_map(|detail| detail.vgpu.as_ref()).flat_map(|traces| {
            let own = traces.pids.last().copied().unwrap_or(0);
            traces.regions.iter().map(move |region| (region.dev, region.inode, own))
        });
        Self { pids, inside: inside.collect() }
    }
}

/// An entry that is counted and whose process is gone.
fn dead(survey: &Survey, limits: &Vgpu, is_whole: bool, users: &Users) -> Option<String> {
    let file = limits.region.as_ref().filter(|_| limits.entry.is_some())?;
    let region = survey.region(file.dev, file.inode)?.ok()?;
    let used =
        |entry: &RegionProcess| entry.devices.iter().map(|device| device.total).fold(0, u64::saturating_add);
    let is_gone = |entry: &&RegionProcess| {
        let host = u32::try_from(entry.hostpid).unwrap_or(0);
        let ended = entry.pid == 0 && entry.status == 0;
        let here = (file.dev, file.inode, u32::try_from(entry.pid).unwrap_or(0));
        ended || is_whole && host != 0 && !users.pids.contains(&host) && !users.inside.contains(&here)
    };
    let entries = region.procs.iter().flatten().filter(|entry| entry.in_range && used(entry) > 0);
    let gone: Vec<&RegionProcess> = entries.filter(is_gone).collect();
    let bytes = gone.iter().map(|entry| used(entry)).fold(0, u64::saturating_add);
    (!gone.is_empty()).then(|| format!("{} of the entries in {} hold {bytes} bytes", gone.len(), file.path))
}
