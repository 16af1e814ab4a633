//! The GPUs of one node, and those that a job has on it, in a form that compares between
//! nodes: number and models. UUIDs and numbers differ from node to node. What many nodes
//! have in common is kept once.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::mem::size_of;
use std::rc::Rc;

use super::compact_form::{Compact, Gpu};
use super::limits::{Word, Words, cut};
use super::text::{Key, Mask};
use crate::model::GrantComparison;

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

/// Models that a grant names in words.
const MODELS: usize = 16;

/// What a grant takes beside its models: counts, places in the table and in the list.
const OVERHEAD: usize = 120;

/// The GPUs of a job on a node.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Grant {
    /// How many of each model, in the order of the words' numbers; MIG instances are
    /// models of their own.
    Known(Vec<(Word, u32)>),
    /// Not all of it is known.
    Unknown,
}

impl Grant {
    /// What these models are.
    pub(super) fn of(models: impl IntoIterator<Item = Word>) -> Self {
        let mut counts: BTreeMap<Word, u32> = BTreeMap::new();
        models.into_iter().for_each(|model| *counts.entry(model).or_default() += 1);
        Self::Known(counts.into_iter().collect())
    }

    /// In words: `2 NVIDIA H200`. Of more models than any node has the first are named.
    pub(super) fn text(&self, words: &Words) -> String {
        match self {
            Self::Unknown => "unknown".to_owned(),
            Self::Known(counts) if counts.is_empty() => "none".to_owned(),
            Self::Known(counts) => {
                let mut counts: Vec<(&str, u32)> =
                    counts.iter().map(|(model, count)| (words.get(*model), *count)).collect();
                counts.sort_unstable();
                let parts = counts.iter().take(MODELS).map(|(model, count)| format!("{count} {model}"));
                let more = counts.len().checked_sub(MODELS).filter(|more| *more > 0);
                let more = more.map(|more| format!("{more} more models"));
                parts.chain(more).collect::<Vec<_>>().join(", ")
            }
        }
    }

    /// How this compares with what most nodes have.
    pub(super) fn compared(&self, usual: &Self) -> GrantComparison {
        let (Self::Known(own), Self::Known(usual)) = (self, usual) else { return GrantComparison::Unknown };
        let own: BTreeMap<Word, u32> = own.iter().copied().collect();
        let usual: BTreeMap<Word, u32> = usual.iter().copied().collect();
        let of = |counts: &BTreeMap<Word, u32>, model: &Word| counts.get(model).copied().unwrap_or(0);
        let models = own.keys().chain(usual.keys());
        let orders: BTreeSet<Ordering> =
            models.map(|model| of(&own, model).cmp(&of(&usual, model))).collect();
        match (orders.first(), orders.last()) {
            (None, _) | (Some(Ordering::Equal), Some(Ordering::Equal)) => GrantComparison::Same,
            (Some(Ordering::Less), Some(Ordering::Greater)) => GrantComparison::Different,
            (Some(Ordering::Less), _) => GrantComparison::Missing,
            _ => GrantComparison::Extra,
        }
    }

    fn bytes(&self) -> usize {
        let models = if let Self::Known(counts) = self { counts.len() } else { 0 };
        OVERHEAD + models * size_of::<(Word, u32)>()
    }
}

/// The number of a grant in [`Grants`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct GrantNumber(u32);

/// A set of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct GrantRow {
    /// Which grant.
    pub(super) grant: GrantNumber,
    /// The numbers of its GPUs.
    pub(super) numbers: Word,
}

/// All grants, each once.
#[derive(Debug, Default)]
pub(super) struct Grants {
    all: Vec<Rc<Grant>>,
    numbers: HashMap<Rc<Grant>, GrantNumber>,
    bytes: usize,
}

impl Grants {
    /// The number of a grant.
    pub(super) fn number(&mut self, grant: Grant) -> GrantNumber {
        if let Some(number) = self.numbers.get(&grant) {
            return *number;
        }
        let number = GrantNumber(u32::try_from(self.all.len()).unwrap_or(u32::MAX));
        self.bytes += grant.bytes();
        let grant = Rc::new(grant);
        self.all.push(Rc::clone(&grant));
        self.numbers.insert(grant, number);
        number
    }

    /// The memory that all grants take, about.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// The grant with a number.
    pub(super) fn get(&self, number: GrantNumber) -> &Grant {
        let found = usize::try_from(number.0).ok().and_then(|at| self.all.get(at));
        found.map_or(&Grant::Unknown, |grant| grant)
    }
}

/// Words and grants of all nodes.
#[derive(Debug, Default)]
pub(super) struct Tables {
    /// Words.
    pub(super) words: Words,
    /// What jobs have.
    pub(super) grants: Grants,
}

impl Tables {
    /// The memory that all of it takes, about.
    pub(super) fn bytes(&self) -> usize {
        self.words.bytes() + self.grants.bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comparisons() {
        let mut words = Words::default();
        let grant = |words: &mut Words, models: &[&str]| {
            Grant::of(models.iter().map(|model| words.number(model)).collect::<Vec<_>>())
        };
        let two = grant(&mut words, &["H200", "H200"]);
        for (models, text, word) in [
            (&["H200", "H200"][..], "2 H200", GrantComparison::Same),
            (&["H200"], "1 H200", GrantComparison::Missing),
            (&[], "none", GrantComparison::Missing),
            (&["H200", "H200", "A100"], "1 A100, 2 H200", GrantComparison::Extra),
            (&["A100", "A100"], "2 A100", GrantComparison::Different),
        ] {
            let found = grant(&mut words, models);
            assert_eq!((found.text(&words).as_str(), found.compared(&two)), (text, word));
        }
        assert_eq!(
            (Grant::Unknown.compared(&two), two.compared(&Grant::Unknown)),
            (GrantComparison::Unknown, GrantComparison::Unknown)
        );
        assert_eq!(Grant::of([]).compared(&Grant::of([])), GrantComparison::Same);
    }

    /// Make sure that a grant of more models than any node has is named in few words.
    #[test]
    fn many_models() {
        let mut words = Words::default();
        let many: Vec<Word> = (0..1000).map(|number| words.number(&format!("model {number:03}"))).collect();
        let text = Grant::of(many).text(&words);
        assert!(
            text.starts_with("1 model 000, 1 model 001, ") && text.ends_with(", 984 more models"),
            "{text}"
        );
    }
}
