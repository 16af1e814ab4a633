//! Finds the programs that a `bpf_link` holds: they go away with the owner of the
//! link, and cannot be detached otherwise.

use std::collections::HashMap;
use std::os::fd::AsFd;

use super::walk::VisitedCgroup;
use crate::observation::{Answer, Attached, Cgroup};
use crate::observe::problems::{Log, refusal};
use crate::observe::rights::unless_held;
use crate::sys::bpf::{self, BpfError};
use crate::sys::caps::Capability::SysAdmin;

/// No more links than this are looked at.
const MAX_LINKS: usize = 1 << 20;

/// (cgroup id, program id) → link id.
type Links = HashMap<(u64, u32), u32>;

/// Fills in the links of every own program.
pub(in crate::observe) fn fill(seen: &mut [VisitedCgroup], log: &mut Log) {
    if seen.iter().all(|seen| own(&seen.cgroup).is_none_or(|own| own.programs.is_empty())) {
        return;
    }
    let links = list(log).unwrap_or_else(|error| {
        if error.is_refused() {
            log.no_right("BPF links", refusal(error, &[SysAdmin]), unless_held(&[SysAdmin], "CAP_SYS_ADMIN"));
        }
        // Before Linux 5.8 links have no ids to ask for.
        Links::new()
    });
    seen.iter_mut().for_each(|seen| add(&mut seen.cgroup, &links));
}

fn own(cgroup: &Cgroup) -> Option<&Attached> {
    cgroup.own.known()
}

fn add(cgroup: &mut Cgroup, links: &Links) {
    let id = cgroup.id;
    let Answer::Known(own) = &mut cgroup.own else { return };
    let held = own.programs.iter().filter_map(|program| Some((*program, *links.get(&(id, *program))?)));
    own.links = held.collect();
}

fn list(log: &mut Log) -> Result<Links, BpfError> {
    let mut links = Links::new();
    let mut last = 0;
    for _ in 0..MAX_LINKS {
        let Some(id) = bpf::next_link_id(last)? else { break };
        if log.out_of_time("listing links") {
            break;
        }
        let info = bpf::link_by_id(id).and_then(|link| bpf::link_info(link.as_fd()));
        match info {
            Ok(Some(link)) => drop(links.insert((link.cgroup, link.program), link.id)),
            Err(error) if !error.is_gone() => return Err(error),
            Ok(None) | Err(_) => {}
        }
        last = id;
    }
    Ok(links)
}
