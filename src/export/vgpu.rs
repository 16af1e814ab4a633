//! Limits of HAMi-core and SoftMig, by owner.

use std::collections::BTreeMap;

use super::catalogue::{VGPU_MEMORY_LIMIT, VGPU_MEMORY_USED, VGPU_PROCESSES, VGPU_SM_LIMIT};
use super::metric::{Family, count};
use super::owner_name::{OwnerName, OwnerNames};
use crate::report::{Payload, Vgpu, VgpuDevice};

/// Sums and smallest values by GPU and owner.
type ByGpu = BTreeMap<(String, OwnerName), u64>;

#[derive(Default)]
struct Limits {
    processes: BTreeMap<(String, String, OwnerName), u64>,
    memory_limit: ByGpu,
    memory_used: ByGpu,
    sm_limit: ByGpu,
}

pub(super) fn families(payload: &Payload, names: &OwnerNames<'_>) -> Vec<Family> {
    let mut limits = Limits::default();
    for cgroup in payload.cgroups.iter().flatten() {
        let Some(name) = names.kept(&cgroup.owner.clone().unwrap_or_default()) else { continue };
        cgroup
            .processes
            .iter()
            .filter_map(|process| process.vgpu.as_ref())
            .for_each(|vgpu| limits.add(vgpu, &name));
    }
    let by_gpu = |values: ByGpu, scale: f64| {
        values.into_iter().map(move |((gpu, name), value)| (name.after([gpu]), count(value) / scale))
    };
    let processes = limits.processes.into_iter();
    vec![
        Family::of(
            VGPU_PROCESSES,
            processes.map(|((limit, state, name), number)| (name.after([limit, state]), count(number))),
        ),
        Family::of(VGPU_MEMORY_LIMIT, by_gpu(limits.memory_limit, 1.0)),
        Family::of(VGPU_MEMORY_USED, by_gpu(limits.memory_used, 1.0)),
        Family::of(VGPU_SM_LIMIT, by_gpu(limits.sm_limit, 100.0)),
    ]
}

impl Limits {
    fn add(&mut self, vgpu: &Vgpu, name: &OwnerName) {
        for (limit, verdict) in [("memory", &vgpu.memory), ("sm", &vgpu.sm)] {
            let key = (limit.to_owned(), verdict.in_force.to_string(), name.clone());
            *self.processes.entry(key).or_default() += 1;
        }
        vgpu.devices.iter().for_each(|device| self.device(device, name));
    }

    fn device(&mut self, device: &VgpuDevice, name: &OwnerName) {
        let Some(gpu) = &device.gpu else { return };
        let key = || (gpu.clone(), name.clone());
        let smallest = |values: &mut ByGpu, value: u64| {
            let kept = values.entry(key()).or_insert(value);
            *kept = value.min(*kept);
        };
        // 0 is no limit; of multiprocessors 100 percent is none either.
        if let Some(limit) = device.memory_limit.filter(|limit| *limit > 0) {
            smallest(&mut self.memory_limit, limit);
        }
        if let Some(limit) = device.sm_limit.filter(|limit| (1..100).contains(limit)) {
            smallest(&mut self.sm_limit, limit);
        }
        if let Some(used) = device.memory_used {
            let sum = self.memory_used.entry(key()).or_default();
            *sum = sum.saturating_add(used);
        }
    }
}
