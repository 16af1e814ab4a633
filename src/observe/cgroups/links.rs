//! Finds the programs that a `bpf_link` holds: they go away with the owner of the
//! link, and cannot be detached otherwise.

use std::collections::HashMap;
use std::os::fd::AsFd;

use super::walk::VisitedCgroup;
use crate::model::ProblemCode;
use crate::observation::{Answer, Attached, Cgroup};
use crate::observe::problems::{Log, links_failed};
use crate::sys::bpf;

/// No more links than this are looked at.
const MAX_LINKS: usize = 1 << 20;

/// (cgroup id, program id) → link id.
type Links = HashMap<(u64, u32), u32>;

/// Fills in the links of every own program.
pub(in crate::observe) fn fill(seen: &mut [VisitedCgroup], log: &mut Log) {
    if seen.iter().all(|seen| own(&seen.cgroup).is_none_or(|own| own.programs.is_empty())) {
        return;
    }
    let links = list(log);
    seen.iter_mut().for_each(|seen| add(&mut seen.cgroup, &links));
}

fn own(cgroup: &Cgroup) -> Option<&Attached> {
    cgroup.own.known()
}

fn add(cgroup: &mut Cgroup, links: &Result<Links, String>) {
    let id = cgroup.id;
    let Answer::Known(own) = &mut cgroup.own else { return };
    match links {
        Ok(links) => {
            let held =
                own.programs.iter().filter_map(|program| Some((*program, *links.get(&(id, *program))?)));
            own.links = held.collect();
        }
        Err(why) => own.links_unknown = (!own.programs.is_empty()).then(|| why.clone()),
    }
}

/// All links that attach device programs; or why they are not known, a clause, which is
/// a problem.
fn list(log: &mut Log) -> Result<Links, String> {
    let mut links = Links::new();
    let mut last = 0;
    for _ in 0..MAX_LINKS {
        let id = match bpf::next_link_id(last) {
            Ok(Some(id)) => id,
            Ok(None) => return Ok(links),
            // Before Linux 5.8 links have no ids to ask for.
            Err(error) if error.is_unsupported() => return Ok(Links::new()),
            Err(error) => return Err(links_failed(error, log)),
        };
        if log.out_of_time("listing links") {
            return Err("the time limit was reached".to_owned());
        }
        match bpf::link_by_id(id).and_then(|link| bpf::link_info(link.as_fd())) {
            Ok(Some(link)) => drop(links.insert((link.cgroup, link.program), link.id)),
            Ok(None) => {}
            Err(error) if error.is_gone() => {}
            Err(error) => return Err(links_failed(error, log)),
        }
        last = id;
    }
    let why = format!("the node has more than {MAX_LINKS} links");
    log.once(ProblemCode::TooMany, "BPF links", why.clone(), "");
    Err(why)
}
