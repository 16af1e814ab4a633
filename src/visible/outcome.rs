//! The result of a list: the selected devices, how certain they are, and where
//! and why the list ended.

use crate::model::Certainty;
use crate::report::Cut;

/// One thing that a process can count: a GPU or one of its MIG instances, by
/// their places in the inventory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct CountedDevice {
    /// Place of the GPU in the inventory.
    pub(super) gpu: usize,
    /// Place in the GPU's instances; `None` is the whole GPU.
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
