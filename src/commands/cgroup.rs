//! `gpumap cgroup`: what may be opened from cgroups.

use super::session::View;
use super::{Failure, Session, saved};
use crate::cli::{CgroupArgs, Exit};
use crate::{analyse, render};

/// Runs the command.
pub(super) fn run(session: &mut Session<'_>, args: &CgroupArgs) -> Result<Exit, Failure> {
    if args.paths.is_empty() && session.global.from.is_none() {
        let needs = "name one, such as /system.slice, or all of them with -r /";
        return Err(Failure::new("usage", "", "no cgroup was named", needs));
    }
    session.look.detail = !args.recursive;
    let observation = saved::observe(session, &args.paths, args.recursive)?;
    let payload = analyse::cgroups(&observation)?;
    let is_subtree = observation.scope.iter().any(|scope| scope.recursive);
    let view: View = if is_subtree { render::summary } else { render::cgroups };
    session.answer(&observation, payload, view)
}
