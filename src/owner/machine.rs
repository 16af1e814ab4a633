//! Recognises virtual machines and containers of libvirt (src/util/vircgroup.c).

use super::path_name::{Match, PathName, between, number, text, unescape};
use crate::model::{Owner, OwnerKind};

/// libvirt's drivers that make cgroups.
const DRIVERS: [&[u8]; 2] = [b"qemu", b"lxc"];

/// `machine-DRIVER\x2dN\x2dNAME.scope`, or `machine/DRIVER-N-NAME.libvirt-DRIVER`
/// where there is no systemd. libvirt cuts long names and drops characters that
/// systemd does not take.
pub(super) fn recognise(place: PathName<'_, '_>) -> Option<Match> {
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
