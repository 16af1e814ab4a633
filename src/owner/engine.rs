//! Recognises containers by the names that container engines give to their scopes
//! and directories (systemd/common.go of opencontainers/cgroups, cri-o's
//! internal/config/cgmgr, podman's libpod/container_*.go).

use super::container;
use super::path_name::{Match, PathName, container_id};
use crate::model::{Owner, OwnerKind, OwnerPart};

/// Prefixes of ids, the kind of owner of each, and the part.
const PREFIXES: [(&str, OwnerKind, Option<OwnerPart>); 8] = [
    ("docker-", OwnerKind::Docker, None),
    ("cri-containerd-", OwnerKind::Containerd, None),
    ("nerdctl-", OwnerKind::Nerdctl, None),
    ("crio-conmon-", OwnerKind::CriO, Some(OwnerPart::Monitor)),
    ("crio-", OwnerKind::CriO, None),
    ("libpod-conmon-", OwnerKind::Podman, Some(OwnerPart::Monitor)),
    ("libpod-payload-", OwnerKind::Podman, None),
    ("libpod-", OwnerKind::Podman, None),
];

/// A container's directory.
pub(super) fn recognise(place: PathName<'_, '_>) -> Option<Match> {
    if let Some(owner) = bare(place) {
        return Match::tree(owner, 2);
    }
    if let Some(owner) = mismatched(place.name()) {
        return Match::tree(owner, 1);
    }
    let owner = named(place.name())?;
    // Podman puts the container's processes one level down, so that the scope
    // itself can be delegated.
    let below =
        owner.kind == OwnerKind::Podman && owner.part.is_none() && place.ahead(1) == Some(b"container");
    if owner.part.is_some() { Match::plain(owner, 1) } else { Match::tree(owner, 1 + usize::from(below)) }
}

/// `PREFIX-ID.scope`, or `PREFIX-ID` with the cgroupfs driver.
fn named(name: &[u8]) -> Option<Owner> {
    let name = name.strip_suffix(b".scope").unwrap_or(name);
    PREFIXES.into_iter().find_map(|(prefix, kind, part)| {
        let id = container_id(name.strip_prefix(prefix.as_bytes())?)?;
        Some(Owner { container: Some(id), part, ..PathName::owner(kind) })
    })
}

/// `docker/ID`: Docker's cgroupfs driver.
fn bare(place: PathName<'_, '_>) -> Option<Owner> {
    let id = container_id(place.ahead(1).filter(|_| place.name() == b"docker")?)?;
    Some(Owner { container: Some(id), ..PathName::owner(OwnerKind::Docker) })
}

/// `SLICE:PREFIX:ID`, which is what becomes of the systemd driver's argument
/// where the runtime has the cgroupfs driver.
fn mismatched(name: &[u8]) -> Option<Owner> {
    let mut parts = name.split(|byte| *byte == b':');
    let (slice, prefix, id) = (parts.next()?, parts.next()?, parts.next()?);
    let id = container_id(id).filter(|_| parts.next().is_none() && slice.ends_with(b".slice"))?;
    let (_, kind, _) = PREFIXES.into_iter().find(|(known, _, part)| {
        part.is_none() && known.strip_suffix('-').map(str::as_bytes) == Some(prefix)
    })?;
    let outer = container::of_slice(slice).map(Box::new);
    Some(Owner { container: Some(id), outer, ..PathName::owner(kind) })
}
