//! UUIDs of MIG instances, which no file of the kernel tells: from the output of
//! `nvidia-smi -L`, where the administrator names a file of it or the program.
//!
//! The list has the instances of a GPU by a number that counts from 0, and not the ids of
//! the instances. Where a GPU has one compute instance, that is the one. Where it has
//! several, they are taken to be counted in the order of their ids, as the tables of the
//! MIG User Guide show them; that is assumed, and only where the list has as many. Lines
//! `MIG-GPU-UUID/GI/CI MIG-UUID`, which a script can write with NVML, are certain.

use std::collections::BTreeMap;

use crate::model::InOrder as _;
use crate::observation::GpuFacts;
use crate::report::{Gpu, MigInstance};

/// The listed instances of a GPU.
#[derive(Debug)]
struct Listed<'a> {
    gpu: &'a str,
    /// In the order of the list, which must be that of its numbers.
    instances: Vec<&'a str>,
    /// Whether they were numbered 0, 1, ….
    counted: bool,
}

/// Gives the instances their UUIDs, as far as the list tells.
pub(super) fn name(facts: &GpuFacts, gpus: &mut [Gpu]) {
    let text = facts.mig_list.as_deref().unwrap_or_default();
    let listed = parse(text);
    for gpu in gpus.iter_mut().filter(|gpu| !gpu.mig.is_empty()) {
        let mut of_gpu = listed.iter().filter(|one| Some(one.gpu) == gpu.uuid.as_deref());
        let (Some(one), None) = (of_gpu.next(), of_gpu.next()) else { continue };
        let mut instances: Vec<&mut MigInstance> =
            gpu.mig.iter_mut().filter(|mig| mig.ci.is_some()).collect();
        instances.order_by_key(|mig| (mig.gi, mig.ci));
        if !one.counted || instances.len() != one.instances.len() {
            continue;
        }
        let is_assumed = instances.len() > 1;
        for (instance, uuid) in instances.into_iter().zip(&one.instances) {
            instance.uuid = Some((*uuid).to_owned());
            instance.uuid_assumed = is_assumed;
        }
    }
    for (name, uuid) in text.lines().filter_map(exact) {
        let is_its = |gpu: &&mut Gpu| gpu.uuid.as_deref().is_some_and(|uuid| name.starts_with(uuid));
        for gpu in gpus.iter_mut().filter(is_its) {
            let key = gpu.uuid.clone().unwrap_or_default();
            let is_meant =
                |mig: &&mut MigInstance| mig.ci.is_some_and(|ci| name == format!("{key}/{}/{ci}", mig.gi));
            for instance in gpu.mig.iter_mut().filter(is_meant) {
                instance.uuid = Some(uuid.to_owned());
                instance.uuid_assumed = false;
            }
        }
    }
    forget_repeated(gpus);
}

/// A UUID that the list gives to several instances is that of none.
fn forget_repeated(gpus: &mut [Gpu]) {
    let mut seen: BTreeMap<String, usize> = BTreeMap::new();
    for uuid in gpus.iter().flat_map(|gpu| &gpu.mig).filter_map(|mig| mig.uuid.as_ref()) {
        *seen.entry(uuid.to_ascii_lowercase()).or_default() += 1;
    }
    for mig in gpus.iter_mut().flat_map(|gpu| &mut gpu.mig) {
        let times = mig.uuid.as_ref().and_then(|uuid| seen.get(&uuid.to_ascii_lowercase()));
        if times.is_some_and(|times| *times > 1) {
            (mig.uuid, mig.uuid_assumed) = (None, false);
        }
    }
}

/// The name and the UUID of `MIG-GPU-UUID/GI/CI MIG-UUID`.
fn exact(line: &str) -> Option<(&str, &str)> {
    let (name, uuid) = line.trim().split_once(char::is_whitespace)?;
    let name = name.strip_prefix("MIG-").filter(|name| name.starts_with("GPU-"))?;
    Some((name, uuid.trim())).filter(|(_, uuid)| is_uuid(uuid))
}

/// Lines `GPU 0: NAME (UUID: GPU-…)`, each followed by those of its instances,
/// `  MIG 1g.5gb  Device  0: (UUID: MIG-…)`. Other lines are passed over.
fn parse(text: &str) -> Vec<Listed<'_>> {
    let mut found: Vec<Listed<'_>> = Vec::new();
    for line in text.lines().map(str::trim) {
        let Some((before, uuid)) = line.strip_suffix(')').and_then(|line| line.rsplit_once("(UUID: ")) else {
            continue;
        };
        if line.starts_with("GPU ") {
            found.push(Listed { gpu: uuid, instances: Vec::new(), counted: true });
        } else if let (true, Some(last)) = (line.starts_with("MIG ") && is_uuid(uuid), found.last_mut()) {
            let number = before.trim_end().strip_suffix(':').and_then(|text| text.rsplit_once(' '));
            let number = number.and_then(|(_, number)| number.parse().ok());
            last.counted &= number == Some(last.instances.len());
            last.instances.push(uuid);
        }
    }
    found
}

/// Whether it is `MIG-8-4-4-4-12` in hexadecimal.
fn is_uuid(text: &str) -> bool {
    let groups = text.strip_prefix("MIG-").unwrap_or_default().split('-');
    let hex = |group: &str| group.bytes().all(|byte| byte.is_ascii_hexdigit()).then_some(group.len());
    groups.map(hex).eq([Some(8), Some(4), Some(4), Some(4), Some(12)])
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIST: &str = "GPU 0: NVIDIA A100-SXM4-40GB (UUID: GPU-a)\n  \
        MIG 3g.20gb     Device  0: (UUID: MIG-11111111-2222-5333-8444-000000000000)\n  \
        MIG 1c.2g.10gb  Device  1: (UUID: MIG-11111111-2222-5333-8444-000000000001)\n\
        GPU 1: NVIDIA A100-SXM4-40GB (UUID: GPU-b)\n";

    fn named(list: &str, instances: &[(u32, Option<u32>)]) -> Vec<Option<String>> {
        let mig = |&(gi, ci): &(u32, Option<u32>)| MigInstance { gi, ci, ..MigInstance::default() };
        let uuid = Some("GPU-a".to_owned());
        let mut gpus = [Gpu { uuid, mig: instances.iter().map(mig).collect(), ..Gpu::default() }];
        name(&GpuFacts { mig_list: Some(list.to_owned()), ..GpuFacts::default() }, &mut gpus);
        let ends = |mig: &MigInstance| {
            assert!(!mig.uuid_assumed || instances.len() > 1);
            mig.uuid.as_ref().map(|uuid| uuid[uuid.len() - 1..].to_owned())
        };
        gpus[0].mig.iter().map(ends).collect()
    }

    /// Make sure that instances are named in the order of their ids, and only by a list
    /// that has all of them.
    #[test]
    fn names() {
        let text = |text: &str| Some(text.to_owned());
        assert_eq!(named(LIST, &[(1, Some(0)), (3, Some(0))]), [text("0"), text("1")]);
        assert_eq!(named(LIST, &[(3, Some(0)), (1, Some(0))]), [text("1"), text("0")]);
        assert_eq!(named(LIST, &[(1, Some(0)), (2, None), (3, Some(0))]), [text("0"), None, text("1")]);
        assert_eq!(named(LIST, &[(1, Some(0))]), [None]);
        assert_eq!(named(LIST, &[(1, Some(0)), (2, Some(0)), (3, Some(0))]), [None, None, None]);
        assert_eq!(
            named(&LIST.replace("Device  1", "Device  2"), &[(1, Some(0)), (3, Some(0))]),
            [None, None]
        );
        assert_eq!(named(&LIST.replace("GPU-b", "GPU-a"), &[(1, Some(0)), (3, Some(0))]), [None, None]);
        let sure = format!("{LIST}MIG-GPU-a/3/0 MIG-11111111-2222-5333-8444-000000000007\n");
        assert_eq!(named(&sure, &[(1, Some(0)), (2, Some(0)), (3, Some(0))]), [None, None, text("7")]);
        let twice = LIST.replace("000000000001", "000000000000");
        assert_eq!(named(&twice, &[(1, Some(0)), (3, Some(0))]), [None, None]);
        let one = LIST.replace("MIG 1c", "XXX 1c");
        assert_eq!(named(&one, &[(7, Some(0))]), [text("0")]);
        for other in ["", "GPU 0: A (UUID: GPU-a)\n", "No devices found.\n", "MIG x: (UUID: MIG-1)\n"] {
            assert_eq!(named(other, &[(1, Some(0))]), [None], "{other}");
        }
    }
}
