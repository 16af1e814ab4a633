//! The GPUs of one node, as far as grants and comparisons need them.

use std::collections::HashMap;

use super::document::{self, Compact};
use super::grant::Grant;
use super::mask::Mask;
use super::text::Key;
use super::words::cut;

/// A device that a set can name: a GPU, or a MIG instance on one.
#[derive(Clone, Debug)]
struct Device {
    model: String,
    numbers: Numbers,
    is_instance: bool,
}

/// The numbers by which people name a GPU.
#[derive(Clone, Copy, Debug, Default)]
struct Numbers {
    nvml: Option<u32>,
    minor: Option<u32>,
}

/// The devices of a node.
#[derive(Debug, Default)]
pub(super) struct Inventory {
    /// GPUs, then instances.
    devices: Vec<Device>,
    /// The position of each GPU by its key.
    by_key: HashMap<Key, usize>,
    gpus: usize,
}

impl Inventory {
    /// That of a full document.
    pub(super) fn of_answer(gpus: &[document::Gpu<'_>]) -> Self {
        let mut all = Self::default();
        for gpu in gpus {
            let model = gpu.model.as_deref().unwrap_or(&gpu.vendor);
            all.gpu(Key::of(&gpu.key), model, Numbers { nvml: gpu.nvml_index, minor: gpu.minor });
        }
        all
    }

    /// That of a compact document.
    pub(super) fn of_compact(node: &Compact<'_>) -> Self {
        let mut all = Self::default();
        for gpu in &node.gpus.0 {
            all.gpu(Key::of(&gpu.key), &gpu.model, Numbers { nvml: gpu.nvml, minor: gpu.minor });
        }
        for key in &node.instances.0 {
            let gpu = key.rsplitn(3, '/').nth(2).unwrap_or(key);
            let device = all.by_key.get(&Key::of(gpu)).and_then(|at| all.devices.get(*at)).cloned();
            let device = device.unwrap_or_else(|| Device {
                model: "unknown GPU".to_owned(),
                numbers: Numbers::default(),
                is_instance: true,
            });
            all.devices.push(Device { is_instance: true, ..device });
        }
        all
    }

    fn gpu(&mut self, key: Key, model: &str, numbers: Numbers) {
        self.by_key.insert(key, self.devices.len());
        self.devices.push(Device { model: cut(model).into_owned(), numbers, is_instance: false });
        self.gpus += 1;
    }

    /// How many GPUs of which models.
    pub(super) fn text(&self) -> String {
        let whole = self.devices.iter().filter(|device| !device.is_instance);
        match Grant::of(whole.map(|device| device.model.clone())) {
            grant if self.gpus == 0 => grant.text().replace("none", "no GPU"),
            grant => grant.text(),
        }
    }

    /// What a set of a full document is, and its numbers.
    pub(super) fn of_set(&self, set: &document::Set) -> (Grant, String) {
        let Some(gpus) = set.gpus.as_ref().filter(|_| set.unknown.0.is_empty()) else {
            return (Grant::Unknown, String::new());
        };
        let at = |key: &Key| self.by_key.get(key).copied();
        let on: Vec<Key> = set.instances.0.iter().map(|instance| instance.0).collect();
        let whole = gpus.0.iter().filter(|key| !on.contains(key));
        let (Some(whole), Some(on)) =
            (whole.map(at).collect::<Option<Vec<_>>>(), on.iter().map(at).collect::<Option<Vec<_>>>())
        else {
            return (Grant::Unknown, String::new());
        };
        let whole = whole.into_iter().map(|at| (at, false));
        self.granted(whole.chain(on.into_iter().map(|at| (at, true))))
    }

    /// What a set of a compact document is. `None` if it names devices that the node
    /// does not have.
    pub(super) fn of_mask(&self, mask: Option<&Mask>) -> Option<(Grant, String)> {
        let unknown = (Grant::Unknown, String::new());
        let Some(mask) = mask else { return Some(unknown) };
        if mask.certain.iter().chain(&mask.maybe).any(|at| *at >= self.devices.len()) {
            return None;
        }
        if !mask.maybe.is_empty() {
            return Some(unknown);
        }
        let instances =
            mask.certain.iter().filter_map(|at| self.devices.get(*at)).filter(|it| it.is_instance);
        let has: Vec<(Option<u32>, Option<u32>)> =
            instances.map(|device| (device.numbers.nvml, device.numbers.minor)).collect();
        // The GPU below an instance is in the set too; it is not granted as a whole.
        let is_below = |device: &Device| {
            !device.is_instance && has.contains(&(device.numbers.nvml, device.numbers.minor))
        };
        let all = mask.certain.iter().filter(|at| self.devices.get(**at).is_some_and(|it| !is_below(it)));
        Some(self.granted(all.map(|at| (*at, self.devices.get(*at).is_some_and(|it| it.is_instance)))))
    }

    fn granted(&self, devices: impl Iterator<Item = (usize, bool)>) -> (Grant, String) {
        let found: Vec<(&Device, bool)> =
            devices.filter_map(|(at, instance)| Some((self.devices.get(at)?, instance))).collect();
        let model = |(device, instance): &(&Device, bool)| {
            if *instance { format!("MIG instance of {}", device.model) } else { device.model.clone() }
        };
        let numbers: Vec<Numbers> = found.iter().map(|(device, _)| device.numbers).collect();
        (Grant::of(found.iter().map(model)), numbers_text(&numbers))
    }
}

/// Numbers in the one space that all of them have: `NVML 0-1,3`, `minor 128`.
fn numbers_text(numbers: &[Numbers]) -> String {
    let all = |of: fn(&Numbers) -> Option<u32>| numbers.iter().map(of).collect::<Option<Vec<_>>>();
    let (space, found) = match (all(|it| it.nvml), all(|it| it.minor)) {
        (Some(found), _) => ("NVML", found),
        (None, Some(found)) => ("minor", found),
        (None, None) => return String::new(),
    };
    if found.is_empty() { String::new() } else { format!("{space} {}", ranges(found)) }
}

/// Numbers as `0-1,3`.
pub(super) fn ranges(mut numbers: Vec<u32>) -> String {
    numbers.sort_unstable();
    numbers.dedup();
    let runs =
        numbers.chunk_by(|a, b| a.checked_add(1) == Some(*b)).filter_map(|run| run.first().zip(run.last()));
    let texts = runs.map(|(a, b)| if a == b { a.to_string() } else { format!("{a}-{b}") });
    texts.collect::<Vec<_>>().join(",")
}
