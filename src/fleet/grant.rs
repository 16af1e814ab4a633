//! The GPUs that a job has on one node, in a form that compares between nodes: number
//! and models. UUIDs and numbers differ from node to node.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::mem::size_of;
use std::rc::Rc;

use super::words::{Word, Words};
use crate::model::GrantComparison;

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
