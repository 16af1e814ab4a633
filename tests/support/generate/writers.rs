//! One random program in the shape of a random writer.

use super::lists;
use super::mapped;
use crate::support::rng::Rng;
use crate::support::source::Source;

/// What a generator has to know about the place it writes for.
#[derive(Clone, Copy, Debug)]
pub struct CgroupIds {
    /// The id of the cgroup that will be asked about.
    pub cgroup_id: u64,
}

type Writer = fn(&mut Rng, CgroupIds) -> Source;

/// Every known writer.
pub const ALL: [(&str, Writer); 17] = [
    ("slurm", |rng, _| lists::slurm(rng)),
    ("systemd", |rng, _| lists::systemd(rng)),
    ("systemd-none", |rng, _| lists::systemd_none(rng)),
    ("runc", |rng, _| lists::oci(rng, lists::Oci::Runc)),
    ("runc-rc91", |rng, _| lists::oci(rng, lists::Oci::RuncOverlap)),
    ("containerd", |rng, _| lists::oci(rng, lists::Oci::RuncOld)),
    ("crun", |rng, _| lists::oci(rng, lists::Oci::Crun)),
    ("crun-old", |rng, _| lists::oci(rng, lists::Oci::CrunOld)),
    ("youki", |rng, _| lists::oci(rng, lists::Oci::Youki)),
    ("nvcgo", |rng, _| lists::nvcgo(rng)),
    ("lxc", |rng, _| lists::lxc(rng)),
    ("htcondor", |rng, _| lists::htcondor(rng)),
    ("mesos", |rng, _| lists::mesos(rng)),
    ("libvirt", |rng, _| mapped::libvirt(rng)),
    ("parastation", |rng, _| mapped::parastation(rng)),
    ("cranesched", mapped::cranesched),
    ("oar", |rng, _| mapped::oar(rng)),
];

/// A program of a random writer.
pub fn any(rng: &mut Rng, place: CgroupIds) -> Source {
    let (name, write) = rng.pick(&ALL);
    named(write(rng, place), name)
}

/// The `number`-th program: the writers take turns.
pub fn nth(number: u64, rng: &mut Rng, place: CgroupIds) -> Source {
    let (name, write) = ALL[(number % ALL.len() as u64) as usize];
    named(write(rng, place), name)
}

fn named(source: Source, name: &str) -> Source {
    Source { shape: name.into(), ..source }
}
