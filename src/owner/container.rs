//! Recognises containers of Apptainer and LXC, which have names instead of ids.

use super::path_name::{Match, PathName, between, number, text};
use crate::model::{Owner, OwnerKind, OwnerPart};

/// A container of LXC, Incus or Apptainer.
pub(super) fn recognise(place: PathName<'_, '_>) -> Option<Match> {
    lxc(place).or_else(|| apptainer(place))
}

/// `lxc.payload.NAME`, `lxc.monitor.NAME`, `lxc.pivot` (LXC,
/// src/lxc/cgroups/cgroup.h), and the older `lxc/NAME`, `lxc.monitor/NAME`.
/// The `-N` that LXC appends when a name is taken stays: a container may be
/// called so.
fn lxc(place: PathName<'_, '_>) -> Option<Match> {
    let name = place.name();
    let monitor = || Some(OwnerPart::Monitor);
    if name == b"lxc.pivot" {
        return Match::plain(Owner { part: monitor(), ..PathName::owner(OwnerKind::Lxc) }, 1);
    }
    let (name, part, taken) = match (name, place.ahead(1)) {
        (b"lxc" | b"lxc.payload", Some(below)) => (below, None, 2),
        (b"lxc.monitor", Some(below)) => (below, monitor(), 2),
        _ => match name.strip_prefix(b"lxc.payload.") {
            Some(name) => (name, None, 1),
            None => (name.strip_prefix(b"lxc.monitor.")?, monitor(), 1),
        },
    };
    let tree = part.is_none();
    let owner = Owner { name: Some(text(name)), part, ..PathName::owner(OwnerKind::Lxc) };
    (!name.is_empty()).then_some(Match { owner, taken, tree, makes: &[] })
}

/// `apptainer-PID.scope`, `apptainer/PID` (Apptainer,
/// internal/pkg/cgroups/manager_linux.go). The pid is that of the process that made
/// the container, which has no other name.
fn apptainer(place: PathName<'_, '_>) -> Option<Match> {
    let (pid, taken) = match between(place.name(), "apptainer-", ".scope") {
        Some(pid) => (pid, 1),
        None => (place.ahead(1).filter(|_| place.name() == b"apptainer")?, 2),
    };
    number(pid)?;
    Match::tree(Owner { name: Some(text(pid)), ..PathName::owner(OwnerKind::Apptainer) }, taken)
}
