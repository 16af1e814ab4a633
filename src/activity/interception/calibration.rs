//! What one probe adds to the time between two: measured on functions of gpumap's
//! own, of which one does nothing but call the other.

use std::path::Path;

use super::{classes, tables};
use crate::loader::{AttachedProbes, FunctionEntry, LoadError, Loaded};
use crate::probing::own_place;
use crate::sys::probed;

/// The cookie of both functions: none of those of a driver.
const COOKIE: u64 = 255;
/// Rounds of calls. The round in the middle counts.
const ROUNDS: usize = 15;
const CALLS: u64 = 64;

/// The nanoseconds from the probe of one function to that of a function which it
/// calls at once; `None` where that cannot be measured.
pub(super) fn measure(loaded: &mut dyn Loaded, own: u32) -> Option<u64> {
    let key = own.to_ne_bytes();
    // Then the cost is unknown, which the answer says.
    loaded.put("pids", &key, &1_u32.to_ne_bytes()).ok()?;
    // The same.
    let measured = attach(loaded, own).ok().flatten().and_then(|_attached| {
        let mut rounds: Vec<u64> = (0..ROUNDS).filter_map(|_| round(loaded)).collect();
        rounds.sort_unstable();
        rounds.get(rounds.len() / 2).copied()
    });
    let _unless_gone = loaded.remove("pids", &key);
    measured
}

/// The time of some calls.
fn round(loaded: &mut dyn Loaded) -> Option<u64> {
    (0..CALLS).for_each(|_| probed::call());
    // A round that fails is none of those that count.
    let entries = loaded.entries("interceptions").ok()?;
    let (key, sums) = entries.first()?;
    let quick = classes::quick(&tables::classes(sums)?);
    // The same.
    loaded.remove("interceptions", key).ok()?;
    quick
}

fn attach(loaded: &mut dyn Loaded, own: u32) -> Result<Option<[AttachedProbes; 2]>, LoadError> {
    let path = Path::new("/proc/self/exe");
    let Some(addresses) = probed::addresses() else { return Ok(None) };
    let [Some(outer), Some(inner)] = addresses.map(own_place) else { return Ok(None) };
    let entry = |offset| FunctionEntry { offset, cookie: COOKIE };
    let first = loaded.attach_function("enter_library", path, entry(outer), Some(own))?;
    let second = loaded.attach_function("enter_driver", path, entry(inner), Some(own))?;
    Ok(Some([first, second]))
}
