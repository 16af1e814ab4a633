//! The GPUs of one node, as far as grants and comparisons need them.

use std::collections::{BTreeSet, HashMap};

use super::compact_form::{Compact, Gpu};
use super::grant::{Grant, GrantRow};
use super::mask::Mask;
use super::tables::Tables;
use super::text::Key;
use super::words::{Word, Words, cut};

/// A device that a set can name: a GPU, or a MIG instance on one.
#[derive(Clone, Copy, Debug)]
struct Device {
    /// What it is. All instances on GPUs of one model are one.
    model: Word,
    numbers: Numbers,
    /// The GPU that an instance is on, by its place.
    on: Option<usize>,
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
    /// What an instance on the GPU of each place is.
    instances: Vec<Word>,
    /// The place of each GPU by its key.
    by_key: HashMap<Key, usize>,
}

impl Inventory {
    /// That of a node.
    pub(super) fn of(tables: &mut Tables, node: &Compact<'_>) -> Self {
        let mut all = Self::default();
        node.gpus.0.iter().for_each(|gpu| all.gpu(tables, gpu));
        let unknown = tables.words.number("MIG instance of unknown GPU");
        for instance in &node.instances.0 {
            let on = all.by_key.get(&instance.gpu).copied();
            let model = on.and_then(|on| all.instances.get(on)).copied().unwrap_or(unknown);
            let numbers = on.and_then(|on| all.devices.get(on)).map(|gpu| gpu.numbers).unwrap_or_default();
            all.devices.push(Device { model, numbers, on, is_instance: true });
        }
        all
    }

    fn gpu(&mut self, tables: &mut Tables, gpu: &Gpu<'_>) {
        let model = cut(gpu.model.as_deref().unwrap_or(&gpu.vendor));
        let numbers = Numbers { nvml: gpu.nvml, minor: gpu.minor };
        self.by_key.insert(Key::of(&gpu.key), self.devices.len());
        self.instances.push(tables.words.number(&format!("MIG instance of {model}")));
        let model = tables.words.number(&model);
        self.devices.push(Device { model, numbers, on: None, is_instance: false });
    }

    /// How many GPUs of which models.
    pub(super) fn text(&self, words: &Words) -> String {
        if self.instances.is_empty() {
            return "no GPU".to_owned();
        }
        let whole = self.devices.iter().filter(|device| !device.is_instance);
        Grant::of(whole.map(|device| device.model)).text(words)
    }

    /// What a set is, and its numbers. `None` if it names devices that the node
    /// does not have.
    pub(super) fn of_mask(&self, tables: &mut Tables, mask: Option<&Mask>) -> Option<GrantRow> {
        let Some(mask) = mask else { return Some(unknown(tables)) };
        if mask.certain.iter().chain(&mask.maybe).any(|at| *at >= self.devices.len()) {
            return None;
        }
        if !mask.maybe.is_empty() {
            return Some(unknown(tables));
        }
        let named = || mask.certain.iter().filter_map(|at| Some((*at, *self.devices.get(*at)?)));
        // The GPU below an instance is in the set too; it is not granted as a whole.
        let below: BTreeSet<usize> = named().filter_map(|(_, device)| device.on).collect();
        let found: Vec<Device> =
            named().filter(|(at, _)| !below.contains(at)).map(|(_, device)| device).collect();
        Some(granted(tables, &found))
    }
}

fn unknown(tables: &mut Tables) -> GrantRow {
    GrantRow { grant: tables.grants.number(Grant::Unknown), numbers: tables.words.number("") }
}

fn granted(tables: &mut Tables, found: &[Device]) -> GrantRow {
    let grant = tables.grants.number(Grant::of(found.iter().map(|device| device.model)));
    let numbers: Vec<Numbers> = found.iter().map(|device| device.numbers).collect();
    GrantRow { grant, numbers: tables.words.number(&numbers_text(&numbers)) }
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
