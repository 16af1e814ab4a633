//! MIG: the instances that exist on a GPU and their capability nodes.
//!
//! Each instance has a directory under `capabilities/gpuG/mig`, G being the
//! GPU's minor. Its access file names the minor of the capability node; the
//! table `mig-minors` names the minors of all possible instances. Where both
//! name one and disagree, or neither names one, the minor is unknown: it is never
//! computed.

use std::collections::BTreeMap;

use crate::observation::GpuFacts;
use crate::report::MigInstance;

use super::devices::Majors;
use super::facts::{number, text, under, value};

/// Name of the capability nodes' driver in `/proc/devices`; the major is
/// dynamic.
pub(super) const DRIVER: &str = "nvidia-caps";
/// The table of all possible instances: `gpu0/gi1/ci0/access 13`.
const MINORS: &str = "/proc/driver/nvidia-caps/mig-minors";

/// The instances of the GPU with this minor, by GPU instance and compute
/// instance. A GPU instance without compute instances is listed once.
pub(super) fn instances(facts: &GpuFacts, majors: &Majors, gpu: u32) -> Vec<MigInstance> {
    let prefix = format!("/proc/driver/nvidia/capabilities/gpu{gpu}/mig/");
    let access: BTreeMap<_, _> =
        under(facts, &prefix).filter_map(|(path, text)| Some((place(path)?, text))).collect();
    let minor = |gi, ci| access.get(&(gi, ci)).and_then(|access| minor(facts, gpu, (gi, ci), access));
    let is_parent = |gi| access.range((gi, Some(0))..=(gi, Some(u32::MAX))).next().is_some();
    let listed = access.keys().filter(|(gi, ci)| ci.is_some() || !is_parent(*gi));
    let instance = |&(gi, ci): &(u32, Option<u32>)| MigInstance {
        gi,
        ci,
        gi_minor: minor(gi, None),
        ci_minor: ci.and_then(|ci| minor(gi, Some(ci))),
        major: majors.char_major(DRIVER),
    };
    listed.map(instance).collect()
}

/// Which instance `giI/access` or `giI/ciC/access` belongs to.
fn place(path: &str) -> Option<(u32, Option<u32>)> {
    let path = path.strip_suffix("/access")?;
    match path.split_once('/') {
        Some((gi, ci)) => Some((number(gi, "gi")?, Some(number(ci, "ci")?))),
        None => Some((number(path, "gi")?, None)),
    }
}

/// The minor of one capability, if its sources agree.
fn minor(facts: &GpuFacts, gpu: u32, (gi, ci): (u32, Option<u32>), access: &str) -> Option<u32> {
    let own = value(access, "DeviceFileMinor").and_then(|minor| minor.parse().ok());
    let name = match ci {
        Some(ci) => format!("gpu{gpu}/gi{gi}/ci{ci}/access"),
        None => format!("gpu{gpu}/gi{gi}/access"),
    };
    let listed = tabled(facts, &name);
    match (own, listed) {
        (Some(own), Some(listed)) if own != listed => None,
        _ => own.or(listed),
    }
}

/// The minor that the table lists for a name.
fn tabled(facts: &GpuFacts, name: &str) -> Option<u32> {
    let lines = text(facts, MINORS)?.lines();
    let mut minors = lines.filter_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    minors.next()?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The layout of today's driver (`nv-caps.c`), as a cross-check only.
    fn formula(gpu: u32, gi: u32, ci: Option<u32>) -> u32 {
        3 + 135 * gpu + 9 * gi + ci.map_or(0, |ci| 1 + ci)
    }

    fn facts(files: &[(&str, &str)]) -> GpuFacts {
        let files = files.iter().map(|(path, text)| ((*path).to_owned(), (*text).to_owned())).collect();
        GpuFacts { files, ..GpuFacts::default() }
    }

    const GI: &str = "/proc/driver/nvidia/capabilities/gpu2/mig/gi7/access";
    const CI: &str = "/proc/driver/nvidia/capabilities/gpu2/mig/gi7/ci0/access";

    fn of(files: &[(&str, &str)]) -> Vec<MigInstance> {
        let facts = facts(files);
        instances(&facts, &Majors::new(&facts), 2)
    }

    #[test]
    fn access_files_and_table_agree_with_the_layout() {
        let table = "config 1\ngpu2/gi7/access 336\ngpu2/gi7/ci0/access 337\n";
        let devices = "Character devices:\n235 nvidia-caps\n";
        let found =
            of(&[(GI, "DeviceFileMinor: 336"), (CI, ""), (MINORS, table), ("/proc/devices", devices)]);
        let expected = MigInstance {
            gi: 7,
            ci: Some(0),
            gi_minor: Some(formula(2, 7, None)),
            ci_minor: Some(formula(2, 7, Some(0))),
            major: Some(235),
        };
        assert_eq!(found, [expected]);
    }

    #[test]
    fn unknown_where_no_file_speaks_or_files_disagree() {
        let found = of(&[(GI, "")]);
        assert_eq!((found[0].ci, found[0].gi_minor, found[0].major), (None, None, None));
        let found = of(&[(GI, "DeviceFileMinor: 336"), (MINORS, "gpu2/gi7/access 12\n")]);
        assert_eq!(found[0].gi_minor, None);
    }

    #[test]
    fn a_parent_is_listed_only_without_children() {
        assert_eq!(of(&[(GI, ""), (CI, "")]).len(), 1);
        assert_eq!(of(&[(CI, "")])[0].gi_minor, None);
    }
}
