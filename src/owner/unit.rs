//! systemd's units, and machines of systemd-machined and libvirt.

use super::path_name::{Match, PathName, between, number, text, uid, unescape};
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

/// libvirt's drivers that make cgroups.
const DRIVERS: [&[u8]; 2] = [b"qemu", b"lxc"];

/// `machine-DRIVER\x2dN\x2dNAME.scope`, or `machine/DRIVER-N-NAME.libvirt-DRIVER`
/// where there is no systemd. libvirt cuts long names and drops characters that
/// systemd does not take.
pub(super) fn recognise_machine(place: PathName<'_, '_>) -> Option<Match> {
    if let Some(name) = between(place.name(), "machine-", ".scope") {
        return Match::tree(owner(&unescape(name))?, 1);
    }
    let name = place.ahead(1).filter(|_| place.name() == b"machine")?;
    let end = name.windows(9).rposition(|part| part == b".libvirt-")?;
    Match::tree(owner(name.get(..end)?)?, 2)
}

/// The machine of `DRIVER-N-NAME`.
fn owner(name: &[u8]) -> Option<Owner> {
    let mut parts = name.splitn(3, |byte| *byte == b'-');
    let (driver, id, name) = (parts.next()?, parts.next()?, parts.next()?);
    let good = DRIVERS.contains(&driver) && number(id).is_some() && !name.is_empty();
    good.then(|| Owner { name: Some(text(name)), ..PathName::owner(OwnerKind::Libvirt) })
}
