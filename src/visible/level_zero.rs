//! Intel: `ZE_AFFINITY_MASK` (Level Zero specification, core programming guide; what it
//! leaves open as `ExecutionEnvironment::parseAffinityMask` of intel/compute-runtime does
//! it). A mask selects and does not reorder. What its numbers count, GPUs or tiles,
//! `ZE_FLAT_DEVICE_HIERARCHY` says:
//!
//! | value | `N` | `N.T` |
//! |---|---|---|
//! | `COMPOSITE` | GPU N | tile T of GPU N |
//! | `FLAT`, `COMBINED` | tile N of all GPUs, one after the other | is passed over |
//!
//! Not set it means `FLAT` (Intel's documentation since 2023). Drivers before 2023 counted
//! GPUs, and newer ones do so for GPUs that never have several tiles: for one with a single
//! tile both are the same, but for `N.T`.

use std::collections::BTreeSet;

use super::mig::decimal;
use super::outcome::open_ended;
use super::outcome::{Chosen, CountedDevice, Listing, Order, disputed};
use super::population;
use super::population::Population;
use super::variable::List;
use super::variable::VariableState;
use crate::model::Certainty;

/// The three variables.
#[derive(Clone, Copy, Debug)]
pub(super) struct Variables<'a> {
    /// `ZE_AFFINITY_MASK`.
    pub(super) mask: VariableState<'a>,
    /// `ZE_FLAT_DEVICE_HIERARCHY`.
    pub(super) hierarchy: VariableState<'a>,
    /// `ZE_ENABLE_PCI_ID_DEVICE_ORDER`.
    pub(super) order: VariableState<'a>,
}

/// What the numbers of a mask count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Counted {
    Gpus,
    Tiles,
}

/// An entry of a mask: a number, and the tile behind a point.
type Entry = (usize, Option<u32>);

/// A GPU with what was picked of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Picked {
    whole: bool,
    tiles: BTreeSet<u32>,
}

/// The devices of a process.
pub(super) fn resolve(population: &Population<'_>, variables: Variables<'_>) -> Chosen {
    let (places, order) = population::level_zero(population, variables.order);
    let base = Listing { devices: places.into_iter().map(CountedDevice::whole).collect(), order };
    match variables.mask {
        _ if base.devices.is_empty() => Chosen::none(Certainty::Documented),
        VariableState::Unknown(why) => Chosen::unknown(why),
        VariableState::Unset => Chosen::known(base.devices, base.order, Certainty::Documented),
        VariableState::Empty => {
            let all = Chosen::known(base.devices, base.order, Certainty::Modelled);
            noted(all, &["Intel's driver takes an empty mask for none".to_owned()])
        }
        VariableState::Value(variable) => {
            let list = List::of(variable);
            let mask = Mask { population, base: &base, list: &list };
            if list.open { open_ended() } else { mask.chosen(variables.hierarchy) }
        }
    }
}

/// A mask, and what it selects from.
struct Mask<'a> {
    population: &'a Population<'a>,
    base: &'a Listing,
    list: &'a List<'a>,
}

impl Mask<'_> {
    fn chosen(&self, hierarchy: VariableState<'_>) -> Chosen {
        let mut entries: Vec<Entry> = Vec::new();
        for (position, text) in self.list.entries.iter().enumerate() {
            match entry(text) {
                Some(entry) => entries.push(entry),
                None => return disputed(self.list, position, "what this entry selects is not known"),
            }
        }
        let by = |counted| self.by(counted, &entries);
        match hierarchy {
            VariableState::Unknown(why) => {
                let unknown =
                    || Chosen::unknown(format!("whether the mask counts tiles is not known: {why}"));
                self.same(by(Counted::Tiles), &by(Counted::Gpus)).unwrap_or_else(unknown)
            }
            VariableState::Value(variable) if !variable.cut && variable.value.as_bytes() == b"COMPOSITE" => {
                by(Counted::Gpus)
            }
            VariableState::Value(variable)
                if !variable.cut && [&b"FLAT"[..], b"COMBINED"].contains(&variable.value.as_bytes()) =>
            {
                by(Counted::Tiles)
            }
            _ => self.by_default(by(Counted::Tiles), &by(Counted::Gpus), &entries),
        }
    }

    /// What a mask selects where nothing says what it counts.
    fn by_default(&self, tiles: Chosen, gpus: &Chosen, entries: &[Entry]) -> Chosen {
        let has_tiles = entries.iter().any(|(_, tile)| tile.is_some());
        match self.same(tiles.clone(), gpus) {
            Some(same) => same,
            None if has_tiles => Chosen::unknown(
                "N.T is a tile where ZE_FLAT_DEVICE_HIERARCHY is COMPOSITE and nothing where it is FLAT, \
                 and which of them is the default depends on the GPU and the driver",
            ),
            None if tiles.listing.is_none() => tiles,
            None => {
                let confidence = tiles.confidence.max(Certainty::Modelled);
                let why = "numbers count tiles: FLAT is the default of drivers since 2023 \
                           (ZE_FLAT_DEVICE_HIERARCHY)";
                noted(Chosen { confidence, ..tiles }, &[why.to_owned()])
            }
        }
    }

    /// The first of two answers that choose the same.
    fn same(&self, one: Chosen, other: &Chosen) -> Option<Chosen> {
        let confidence = one.confidence.max(other.confidence);
        let is_known = one.listing.is_some() && one.listing == other.listing;
        is_known.then_some(Chosen { confidence, ..one })
    }

    /// What it selects where its numbers count this.
    fn by(&self, counted: Counted, entries: &[Entry]) -> Chosen {
        let mut picked = vec![Picked::default(); self.base.devices.len()];
        let mut notes = Vec::new();
        let mut confidence = Certainty::Documented;
        for (position, (number, tile)) in entries.iter().enumerate() {
            let found = match counted {
                Counted::Gpus => self.part_of(*number, *tile),
                Counted::Tiles if tile.is_some() => Ok(None),
                Counted::Tiles => self.tile(*number),
            };
            match found {
                Err(why) => return disputed(self.list, position, &why),
                Ok(Some((place, tile))) => {
                    let Some(picked) = picked.get_mut(place) else { continue };
                    picked.whole |= tile.is_none();
                    picked.tiles.extend(tile);
                }
                Ok(None) => {
                    confidence = Certainty::Modelled;
                    notes.push(format!("entry {position} selects nothing and is passed over"));
                }
            }
        }
        notes.truncate(1);
        self.listed(picked, confidence, notes)
    }

    /// The picked parts as devices, in the order of the GPUs.
    fn listed(&self, mut picked: Vec<Picked>, confidence: Certainty, mut notes: Vec<String>) -> Chosen {
        for (place, picked) in picked.iter_mut().enumerate() {
            let all = self.tiles(place).is_some_and(|count| picked.tiles.len() == count as usize);
            if picked.whole || all {
                *picked = Picked { whole: true, tiles: BTreeSet::new() };
            }
        }
        let none = picked.iter().all(|picked| *picked == Picked::default());
        if let (Order::Unknown(why), false, false) = (&self.base.order, none, self.is_alike(&picked)) {
            return Chosen::unknown(format!("order unknown: {why}"));
        }
        let mut devices = Vec::new();
        for (device, picked) in self.base.devices.iter().zip(&picked) {
            let key = &self.population.gpu(device.gpu).key;
            devices.extend(picked.whole.then_some(*device));
            for tile in &picked.tiles {
                notes.push(format!("tile {tile} of {key}"));
                devices.push(CountedDevice { instance: Some(*tile as usize), ..*device });
            }
        }
        noted(Chosen::known(devices, self.base.order.clone(), confidence), &notes)
    }

    /// Whether the same was picked of every GPU, so that their order does not matter.
    fn is_alike(&self, picked: &[Picked]) -> bool {
        let same = picked.windows(2).all(|pair| pair[0] == pair[1]);
        let counts: BTreeSet<Option<u32>> = (0..picked.len()).map(|place| self.tiles(place)).collect();
        same && (picked.first().is_some_and(|first| first.whole) || counts.len() == 1)
    }

    /// How many tiles the GPU in a place has; `None` where that is not known.
    fn tiles(&self, place: usize) -> Option<u32> {
        self.population.gpu(self.base.devices.get(place)?.gpu).tiles
    }

    /// A GPU, or a tile of it: its place, and the tile where it has several.
    fn part_of(&self, number: usize, tile: Option<u32>) -> Result<Option<(usize, Option<u32>)>, String> {
        if number >= self.base.devices.len() {
            return Ok(None);
        }
        match (tile, self.tiles(number)) {
            (None, _) => Ok(Some((number, None))),
            (Some(tile), Some(count)) => Ok((tile < count).then_some((number, Some(tile)))),
            // Every GPU has a first one.
            (Some(0), None) => Ok(Some((number, Some(0)))),
            (Some(_), None) => Err(self.uncounted(number)),
        }
    }

    /// The tile with this number of all.
    fn tile(&self, number: usize) -> Result<Option<(usize, Option<u32>)>, String> {
        let mut before = 0_usize;
        for place in 0..self.base.devices.len() {
            let inside = u32::try_from(number - before).unwrap_or(u32::MAX);
            match self.tiles(place) {
                Some(count) if inside < count => return Ok(Some((place, Some(inside)))),
                Some(count) => before += count as usize,
                None if inside == 0 => return Ok(Some((place, Some(0)))),
                None => return Err(self.uncounted(place)),
            }
        }
        Ok(None)
    }

    fn uncounted(&self, place: usize) -> String {
        let key = self.base.devices.get(place).map(|device| self.population.gpu(device.gpu).key.as_str());
        format!("how many tiles {} has is not known", key.unwrap_or_default())
    }
}

/// `N` or `N.T` in plain decimals. The driver takes other forms for numbers too, and dies of
/// what is none.
fn entry(text: &[u8]) -> Option<Entry> {
    let mut parts = text.split(|byte| *byte == b'.');
    let number = decimal(parts.next()?)?;
    let tile = parts.next().map(|tile| decimal(tile).ok_or(())).transpose().ok()?;
    parts.next().is_none().then_some((usize::try_from(number).ok()?, tile))
}

/// An answer with what else there is to know.
fn noted(chosen: Chosen, notes: &[String]) -> Chosen {
    let all: Vec<String> = chosen.why.iter().chain(notes).take(NOTES).cloned().collect();
    if all.is_empty() { chosen } else { chosen.with_why(all.join("; ")) }
}

/// Notes of an answer: a GPU has two tiles today.
const NOTES: usize = 32;
