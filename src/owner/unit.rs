//! Recognises what systemd runs: units, login sessions, and users' own managers.

use super::path_name::{Match, PathName, between, text, uid};
use crate::model::{Owner, OwnerKind};

/// Units that have processes, systemd.unit(5). Slices have none of their own.
const SUFFIXES: [&[u8]; 5] = [b".service", b".scope", b".socket", b".mount", b".swap"];
/// Units of daemons that put owners into their own cgroup: HTCondor its slots,
/// and engines the containers that they start with the cgroupfs driver and
/// systemd's way of naming them.
const DAEMONS: [(&[u8], &[OwnerKind]); 4] = [
    (b"condor.service", &[OwnerKind::Htcondor]),
    (b"containerd.service", &[OwnerKind::Containerd]),
    (b"docker.service", &[OwnerKind::Docker]),
    (b"crio.service", &[OwnerKind::CriO]),
];
/// The owners that root's systemd starts in the slice of a user.
const OF_USER: &[OwnerKind] = &[OwnerKind::User, OwnerKind::Session, OwnerKind::Unit];

/// A unit, a session, or a user's slice or manager.
pub(super) fn recognise(place: PathName<'_, '_>) -> Option<Match> {
    let name = place.name();
    // A name that a user gave says nothing about other users.
    if !place.users {
        if let Some(uid) = manager(name) {
            return Match::tree(user(uid), 1);
        }
        if let Some(uid) = slice(name).filter(|_| place.top) {
            return Some(Match::tree(user(uid), 1)?.making(OF_USER));
        }
        if let Some(session) = session(place).filter(|_| place.top) {
            return Match::plain(session, 1);
        }
    }
    // The name stays as systemd writes it: `a\x2db.service` and `a-b.service`
    // are two units.
    let unit = place.top && SUFFIXES.iter().any(|suffix| name.len() > suffix.len() && name.ends_with(suffix));
    let makes = DAEMONS.iter().find(|(daemon, _)| *daemon == name).map_or(&[][..], |(_, makes)| makes);
    let owner = || Owner { name: Some(text(name)), ..PathName::owner(OwnerKind::Unit) };
    unit.then(|| Some(Match::plain(owner(), 1)?.making(makes))).flatten()
}

/// The user of `user@UID.service`, below which the user makes the cgroups.
pub(super) fn manager(name: &[u8]) -> Option<u32> {
    uid(between(name, "user@", ".service")?)
}

fn slice(name: &[u8]) -> Option<u32> {
    uid(between(name, "user-", ".slice")?)
}

/// `user-UID.slice/session-N.scope` (systemd-logind).
fn session(place: PathName<'_, '_>) -> Option<Owner> {
    let uid = slice(place.parent()?)?;
    let session = between(place.name(), "session-", ".scope")?;
    Some(Owner { session: Some(text(session)), uid: Some(uid), ..PathName::owner(OwnerKind::Session) })
}

fn user(uid: u32) -> Owner {
    Owner { uid: Some(uid), ..PathName::owner(OwnerKind::User) }
}
