//! The selection of devices that a list makes: how certain they are, and where and why
//! the list ends early.

use super::variable::List;
use crate::model::{Certainty, CutCode};
use crate::report::Cut;

/// One thing that a process can count: a GPU, one of its MIG instances, by their places in
/// the inventory, or a tile of an Intel GPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct CountedDevice {
    /// Place of the GPU in the inventory.
    pub(super) gpu: usize,
    /// Place in the GPU's instances, or the number of its tile; `None` is the whole GPU.
    pub(super) instance: Option<usize>,
}

impl CountedDevice {
    /// A whole GPU.
    pub(super) fn whole(gpu: usize) -> Self {
        Self { gpu, instance: None }
    }
}

/// How much is known of the order in which a process counts devices.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Order {
    /// It is documented.
    Known,
    /// It is not documented, and drivers keep to it.
    Assumed,
    /// The set is known and the order is not, for this reason.
    Unknown(String),
}

/// Devices in the order in which a process counts them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Listing {
    /// The devices.
    pub(super) devices: Vec<CountedDevice>,
    /// Whether a process counts them in the order of `devices`.
    pub(super) order: Order,
}

/// The answer for one interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Chosen {
    /// The devices; `None` where they are unknown.
    pub(super) listing: Option<Listing>,
    /// How sure `listing` is.
    pub(super) confidence: Certainty,
    /// The entry that ended the list, if one did.
    pub(super) cut: Option<Cut>,
    /// Why it is unknown, or what else there is to know.
    pub(super) why: Option<String>,
}

impl Chosen {
    /// Devices that are known.
    pub(super) fn known(devices: Vec<CountedDevice>, order: Order, confidence: Certainty) -> Self {
        let why = match (&order, devices.len()) {
            (Order::Unknown(why), 2..) => Some(format!("order unknown: {why}")),
            _ => None,
        };
        Self { listing: Some(Listing { devices, order }), confidence, cut: None, why }
    }

    /// The list chooses no device.
    pub(super) fn none(confidence: Certainty) -> Self {
        Self::known(Vec::new(), Order::Known, confidence)
    }

    /// Which devices it chooses is not known, for this reason.
    pub(super) fn unknown(why: impl Into<String>) -> Self {
        Self { listing: None, confidence: Certainty::Unknown, cut: None, why: Some(why.into()) }
    }

    /// The same with the entry that ended the list.
    #[must_use]
    pub(super) fn with_cut(self, cut: Option<Cut>) -> Self {
        Self { cut, ..self }
    }

    /// The same with a reason or a note.
    #[must_use]
    pub(super) fn with_why(self, why: impl Into<String>) -> Self {
        Self { why: Some(why.into()), ..self }
    }

    /// The devices, if they are known.
    pub(super) fn devices(&self) -> Option<&[CountedDevice]> {
        self.listing.as_ref().map(|listing| listing.devices.as_slice())
    }

    /// Whether the devices are known and their order is not.
    pub(super) fn is_unordered(&self) -> bool {
        let unordered =
            |listing: &Listing| listing.devices.len() > 1 && matches!(listing.order, Order::Unknown(_));
        self.listing.as_ref().is_some_and(unordered)
    }

    /// Whether there certainly is no device.
    pub(super) fn is_none(&self) -> bool {
        self.devices().is_some_and(<[CountedDevice]>::is_empty)
    }
}

/// What both of two possible worlds agree on: `self` if the devices are the
/// same, else unknown for the given reason.
pub(super) fn agreed(one: Chosen, other: &Chosen, why: &str) -> Chosen {
    let Some((a, b)) = one.listing.as_ref().zip(other.listing.as_ref()) else {
        return if one.listing.is_none() { one } else { other.clone() };
    };
    if a.devices != b.devices {
        return Chosen::unknown(why);
    }
    let confidence = one.confidence.max(other.confidence);
    Chosen { confidence, ..one }
}

/// What one entry of a list does.
#[derive(Debug)]
pub(super) enum Step {
    /// It names a device.
    Take(CountedDevice, Certainty),
    /// It ends the list: stable code, why, how sure.
    Stop(CutCode, String, Certainty),
    /// What it does is not documented, or documents disagree.
    Disputed(String),
}

/// The devices that the entries so far selected.
#[derive(Debug)]
pub(super) struct Selection {
    /// The devices so far.
    pub(super) devices: Vec<CountedDevice>,
    /// How sure they are.
    pub(super) confidence: Certainty,
    /// Where it ended.
    pub(super) cut: Option<Cut>,
}

impl Selection {
    /// An empty selection.
    pub(super) fn new() -> Self {
        Self { devices: Vec::new(), confidence: Certainty::Documented, cut: None }
    }

    /// Adds a device.
    pub(super) fn take(&mut self, device: CountedDevice, confidence: Certainty) {
        self.devices.push(device);
        self.confidence = self.confidence.max(confidence);
    }

    /// Ends the list.
    pub(super) fn stop(&mut self, cut: Cut, confidence: Certainty) {
        self.cut = Some(cut);
        self.confidence = self.confidence.max(confidence);
    }

    /// The result of ordinals, which are worth what the order is worth. Where
    /// everything or nothing is picked, the order does not matter for the set.
    pub(super) fn by_ordinal(self, base: &Listing) -> Chosen {
        let all = self.devices.len() == base.devices.len();
        let partial = !all && !self.devices.is_empty();
        let confidence = match (&base.order, partial) {
            (Order::Unknown(why), true) => {
                return Chosen::unknown(format!("order unknown: {why}")).with_cut(self.cut);
            }
            (Order::Assumed, true) => self.confidence.max(Certainty::Modelled),
            _ => self.confidence,
        };
        Chosen::known(self.devices, base.order.clone(), confidence).with_cut(self.cut)
    }

    /// The result of names, which need no order.
    pub(super) fn by_name(self) -> Chosen {
        Chosen::known(self.devices, Order::Known, self.confidence).with_cut(self.cut)
    }
}

/// An unsettled list, with the entry that is to blame.
pub(super) fn disputed(list: &List<'_>, position: usize, why: &str) -> Chosen {
    let entry = list.entries.get(position).map(|entry| super::variable::shown(entry)).unwrap_or_default();
    Chosen::unknown(format!("entry {position} ({entry:?}): {why}"))
}

/// A list whose end was not kept.
pub(super) fn open_ended() -> Chosen {
    Chosen::unknown("the value is longer than what was kept of it")
}
