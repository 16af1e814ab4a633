//! What changed on the node while a resident gpumap exports: counters.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::hash::{BuildHasher as _, RandomState};

use super::metric::{
    CHECKED, DENIALS_WATCHED, DENIED, DENIED_LOST, EVENTS_LOST, GPUS_GAINED, GPUS_LOST, LOOKS,
    POLICY_CHANGES, VISIBLE_CHANGES,
};
use super::metric::{Family, count, plain};
use super::owners::OwnerName;
use crate::model::{EventKind, GpuKey};
use crate::report::{Event, Gpu, NodeAnswer, PolicyEvent};

/// GPUs that have counters at most; no node has so many.
const LIMIT: usize = 1024;

/// Owners with their GPUs that have counters of refusals at most.
const DENIED_LIMIT: usize = 4096;

/// The effects that changes of programs have, as the label `effect` names them.
const EFFECTS: [&str; 3] = ["different", "removed", "same"];

/// Counts since gpumap began.
#[derive(Debug, Default)]
pub struct Changes {
    policies: BTreeMap<&'static str, u64>,
    lost: BTreeMap<GpuKey, u64>,
    gained: BTreeMap<GpuKey, u64>,
    /// Refusals, by the labels of the metric. `None`: they cannot be seen.
    denied: Option<BTreeMap<Vec<String>, u64>>,
    denied_lost: u64,
    visible: u64,
    unseen: u64,
    looks: u64,
    checked: Option<f64>,
    /// What each process asked for at the last look, as a hash of its JSON.
    asked: HashMap<(u32, u64), u64>,
    hasher: RandomState,
}

impl Changes {
    /// The GPUs of the node have counters from the beginning: a counter that comes
    /// into being with its first change does not show that change to Prometheus.
    #[must_use]
    pub fn begin(gpus: &[Gpu]) -> Self {
        let zero = || gpus.iter().take(LIMIT).map(|gpu| (gpu.key.clone(), 0)).collect();
        let policies = EFFECTS.into_iter().map(|effect| (effect, 0)).collect();
        Self { policies, lost: zero(), gained: zero(), ..Self::default() }
    }

    /// Counts events of the programs in force.
    pub fn events(&mut self, events: &[Event]) {
        for event in events {
            match (&event.event, &event.policy) {
                (EventKind::Policy, Some(policy)) => self.policy(policy),
                (EventKind::Lost, _) => self.unseen += event.lost.unwrap_or(1),
                _ => {}
            }
        }
    }

    /// Counts what was refused, from now on: without this there are no counters.
    pub fn watch_denials(&mut self) {
        self.denied.get_or_insert_default();
    }

    /// Counts refusals. An owner that has none yet is not counted by itself where there are
    /// too many already: jobs come and go, and a counter never goes back.
    pub fn denials(&mut self, events: &[Event]) {
        let counts = self.denied.get_or_insert_default();
        for event in events {
            let Some((devices, denied)) = event.devices.as_ref().zip(event.denied.as_ref()) else {
                self.denied_lost += event.lost.unwrap_or_default();
                continue;
            };
            let gpu = denied.gpu.as_ref().map(|gpu| gpu.key.to_string()).unwrap_or_default();
            let shared = devices.held_shared.first().map(ToString::to_string).unwrap_or_default();
            let first = [plain(&gpu), plain(&shared)];
            let labels = match &event.owner {
                Some(owner) => OwnerName::of(owner).after(first),
                None => first.into_iter().chain([String::new(), String::new(), String::new()]).collect(),
            };
            if counts.len() < DENIED_LIMIT || counts.contains_key(&labels) {
                *counts.entry(labels).or_default() += denied.count;
            } else {
                self.denied_lost += denied.count;
            }
        }
    }

    fn policy(&mut self, policy: &PolicyEvent) {
        let cgroups = 1 + policy.also as u64;
        let effect = match (policy.removed, policy.equal) {
            (true, _) => "removed",
            (_, true) => "same",
            _ => "different",
        };
        *self.policies.entry(effect).or_default() += cgroups;
        if policy.removed {
            return;
        }
        for (counts, gpus) in [(&mut self.lost, &policy.lost), (&mut self.gained, &policy.gained)] {
            for gpu in gpus {
                if counts.len() < LIMIT || counts.contains_key(gpu) {
                    *counts.entry(gpu.clone()).or_default() += cgroups;
                }
            }
        }
    }

    /// Counts the processes of a look that ask for something else than at the look
    /// before.
    pub fn look(&mut self, payload: &NodeAnswer) {
        self.looks += 1;
        let mut seen = HashSet::new();
        for process in payload.cgroups.iter().flat_map(|cgroup| &cgroup.processes) {
            let Some(visible) = &process.visible else { continue };
            let Ok(json) =
                serde_json::to_vec(&(&visible.live.raw, &visible.live.gpus, &visible.live.instances))
            else {
                continue;
            };
            let who = (process.pid, process.start_time);
            let hash = self.hasher.hash_one(json);
            seen.insert(who);
            let before = self.asked.insert(who, hash);
            self.visible += u64::from(before.is_some_and(|before| before != hash));
        }
        self.asked.retain(|who, _| seen.contains(who));
    }

    /// Remembers that changes were looked for at this moment, in seconds since 1970.
    pub fn checked(&mut self, at: f64) {
        self.checked = Some(at);
    }

    /// The counters as metrics.
    #[must_use]
    pub fn families(&self) -> Vec<Family> {
        let by_gpu = |counts: &BTreeMap<GpuKey, u64>| {
            counts.iter().map(|(gpu, number)| (vec![gpu.to_string()], count(*number))).collect::<Vec<_>>()
        };
        let policies =
            self.policies.iter().map(|(effect, number)| (vec![(*effect).to_owned()], count(*number)));
        vec![
            Family::of(CHECKED, self.checked.map(|at| (Vec::new(), at))),
            Family::one(LOOKS, count(self.looks)),
            Family::of(POLICY_CHANGES, policies),
            Family::of(GPUS_LOST, by_gpu(&self.lost)),
            Family::of(GPUS_GAINED, by_gpu(&self.gained)),
            Family::one(VISIBLE_CHANGES, count(self.visible)),
            Family::one(DENIALS_WATCHED, f64::from(u8::from(self.denied.is_some()))),
            Family::of(
                DENIED,
                self.denied.iter().flatten().map(|(labels, number)| (labels.clone(), count(*number))),
            ),
            Family::of(DENIED_LOST, self.denied.is_some().then(|| (Vec::new(), count(self.denied_lost)))),
            Family::one(EVENTS_LOST, count(self.unseen)),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Owner, OwnerKind, SharedRole};
    use crate::report::{Asked, Cgroup, DeniedEvent, DevicesEvent, GpuIndexes, Process, Visible};

    fn event(policy: PolicyEvent) -> Event {
        Event { event: EventKind::Policy, policy: Some(policy), ..Event::default() }
    }

    fn value(changes: &Changes, name: &str, label: &str) -> Option<f64> {
        let families = changes.families();
        let family = families.iter().find(|family| family.metric.name == name)?;
        let has = |labels: &[String]| label.is_empty() || labels.iter().any(|value| value == label);
        Some(family.samples.iter().find(|sample| has(&sample.labels))?.value)
    }

    /// Make sure that changes count for each cgroup, that those of a removed cgroup
    /// take nothing from anybody, and that counters are there before the first change.
    #[test]
    fn policies() {
        let mut changes = Changes::begin(&[Gpu { key: "GPU-1".into(), ..Gpu::default() }]);
        assert_eq!(value(&changes, "gpumap_gpus_lost_total", "GPU-1"), Some(0.0));
        assert_eq!(value(&changes, "gpumap_policy_changes_total", "same"), Some(0.0));
        let lost = || vec!["GPU-1".into()];
        changes.events(&[
            event(PolicyEvent { lost: lost(), also: 2, ..PolicyEvent::default() }),
            event(PolicyEvent { lost: lost(), removed: true, ..PolicyEvent::default() }),
            event(PolicyEvent { equal: true, gained: lost(), ..PolicyEvent::default() }),
            Event { event: EventKind::Lost, lost: Some(4), ..Event::default() },
        ]);
        let of = |name, label| value(&changes, name, label).unwrap();
        assert_eq!(of("gpumap_policy_changes_total", "different"), 3.0);
        assert_eq!(of("gpumap_policy_changes_total", "removed"), 1.0);
        assert_eq!(of("gpumap_policy_changes_total", "same"), 1.0);
        assert_eq!(
            (of("gpumap_gpus_lost_total", "GPU-1"), of("gpumap_gpus_gained_total", "GPU-1")),
            (3.0, 1.0)
        );
        assert_eq!(of("gpumap_events_lost_total", ""), 4.0);
    }

    /// Make sure that refusals count for an owner and its GPU or shared node, that what was
    /// lost is counted, and that without a watch there is no counter.
    #[test]
    fn denials() {
        let families = Changes::default().families();
        let samples = |name: &str| families.iter().find(|it| it.metric.name == name).unwrap().samples.len();
        assert_eq!((samples("gpumap_denied_total"), samples("gpumap_denied_lost_total")), (0, 0));
        assert_eq!(value(&Changes::default(), "gpumap_denials_watched", ""), Some(0.0));
        let owner = Owner { kind: OwnerKind::Slurm, job_id: Some(4711), ..Owner::default() };
        let event = |gpu: Option<&str>, count| Event {
            event: EventKind::Denied,
            owner: Some(owner.clone()),
            devices: Some(DevicesEvent {
                held_shared: if gpu.is_none() { vec![SharedRole::Nvidiactl] } else { Vec::new() },
                ..DevicesEvent::default()
            }),
            denied: Some(DeniedEvent {
                count,
                gpu: gpu.map(|key| GpuIndexes { key: key.into(), ..GpuIndexes::default() }),
                ..DeniedEvent::default()
            }),
            ..Event::default()
        };
        let mut changes = Changes::default();
        changes.watch_denials();
        let lost = Event { event: EventKind::Lost, lost: Some(5), ..Event::default() };
        changes.denials(&[event(Some("GPU-1"), 3), event(None, 7), event(Some("GPU-1"), 4), lost]);
        let of = |label| value(&changes, "gpumap_denied_total", label);
        assert_eq!((of("GPU-1"), of("nvidiactl"), of("4711")), (Some(7.0), Some(7.0), Some(7.0)));
        assert_eq!(value(&changes, "gpumap_denied_lost_total", ""), Some(5.0));
        assert_eq!(value(&changes, "gpumap_denials_watched", ""), Some(1.0));
    }

    /// Make sure that only a process that was there before can have changed what it
    /// asks for, and that those that went are forgotten.
    #[test]
    fn visible() {
        let process = |pid: u32, raw: &str| Process {
            pid,
            visible: Some(Visible {
                live: Asked { raw: Some(raw.to_owned()), ..Asked::default() },
                ..Visible::default()
            }),
            ..Process::default()
        };
        let payload = |processes: Vec<Process>| NodeAnswer {
            cgroups: vec![Cgroup { processes, ..Cgroup::default() }],
            ..NodeAnswer::default()
        };
        let mut changes = Changes::begin(&[]);
        let mut seen = Vec::new();
        for processes in [
            vec![process(1, "0"), process(2, "0")],
            vec![process(1, "1"), process(2, "0"), process(3, "7")],
            vec![process(3, "7")],
            vec![process(1, "0"), process(3, "8")],
        ] {
            changes.look(&payload(processes));
            seen.push(value(&changes, "gpumap_visible_changes_total", "").unwrap());
        }
        assert_eq!(seen, [0.0, 1.0, 1.0, 2.0]);
        assert_eq!((changes.asked.len(), value(&changes, "gpumap_looks_total", "")), (2, Some(4.0)));
    }
}
