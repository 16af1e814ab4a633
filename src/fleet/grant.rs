//! The GPUs that a job has on one node, in a form that compares between nodes: number
//! and models. UUIDs and numbers differ from node to node.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use crate::model::GrantComparison;

/// The GPUs of a job on a node.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Grant {
    /// How many of each model; MIG instances are models of their own.
    Known(BTreeMap<String, u32>),
    /// Not all of it is known.
    Unknown,
}

impl Grant {
    /// What these models are.
    pub(super) fn of(models: impl IntoIterator<Item = String>) -> Self {
        let mut counts = BTreeMap::new();
        models.into_iter().for_each(|model| *counts.entry(model).or_default() += 1);
        Self::Known(counts)
    }

    /// In words: `2 NVIDIA H200`.
    pub(super) fn text(&self) -> String {
        match self {
            Self::Unknown => "unknown".to_owned(),
            Self::Known(counts) if counts.is_empty() => "none".to_owned(),
            Self::Known(counts) => {
                let parts = counts.iter().map(|(model, count)| format!("{count} {model}"));
                parts.collect::<Vec<_>>().join(", ")
            }
        }
    }

    /// How this compares with what most nodes have.
    pub(super) fn compared(&self, usual: &Self) -> GrantComparison {
        let (Self::Known(own), Self::Known(usual)) = (self, usual) else { return GrantComparison::Unknown };
        let of = |counts: &BTreeMap<String, u32>, model: &String| counts.get(model).copied().unwrap_or(0);
        let models = own.keys().chain(usual.keys());
        let mut orders: Vec<Ordering> = models.map(|model| of(own, model).cmp(&of(usual, model))).collect();
        orders.sort_unstable();
        match (orders.first(), orders.last()) {
            (None, _) | (Some(Ordering::Equal), Some(Ordering::Equal)) => GrantComparison::Same,
            (Some(Ordering::Less), Some(Ordering::Greater)) => GrantComparison::Different,
            (Some(Ordering::Less), _) => GrantComparison::Missing,
            _ => GrantComparison::Extra,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comparisons() {
        let grant = |models: &[&str]| Grant::of(models.iter().map(|model| (*model).to_owned()));
        let two = grant(&["H200", "H200"]);
        for (models, text, word) in [
            (&["H200", "H200"][..], "2 H200", GrantComparison::Same),
            (&["H200"], "1 H200", GrantComparison::Missing),
            (&[], "none", GrantComparison::Missing),
            (&["H200", "H200", "A100"], "1 A100, 2 H200", GrantComparison::Extra),
            (&["A100", "A100"], "2 A100", GrantComparison::Different),
        ] {
            assert_eq!((grant(models).text().as_str(), grant(models).compared(&two)), (text, word));
        }
        assert_eq!(
            (Grant::Unknown.compared(&two), two.compared(&Grant::Unknown)),
            (GrantComparison::Unknown, GrantComparison::Unknown)
        );
        assert_eq!(grant(&[]).compared(&grant(&[])), GrantComparison::Same);
    }
}
