//! Builds the selection of devices that a list makes, for the lists of every
//! interface. Each interface decides what an entry means.

use crate::model::{Certainty, CutCode};
use crate::report::Cut;

use super::list::List;
use super::outcome::{Chosen, CountedDevice, Listing, Order};

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
    let entry = list.entries.get(position).map(|entry| super::list::shown(entry)).unwrap_or_default();
    Chosen::unknown(format!("entry {position} ({entry:?}): {why}"))
}

/// A list whose end was not kept.
pub(super) fn open_ended() -> Chosen {
    Chosen::unknown("the value is longer than what was kept of it")
}
