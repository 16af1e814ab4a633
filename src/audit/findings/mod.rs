//! All findings, one file or folder for each family.
//!
//! To add a finding, write a file here that declares its [`Kind`]s and a
//! `FAMILY` with the function that looks for them, and list it in
//! [`FAMILIES`]. `fixtures/audit/ID/` holds the observations it is tested with.

mod activity;
mod driver_not_loaded;
mod dropped_denials;
mod dynamic_policy;
mod environment;
mod forged_job_name;
mod grants;
mod holders;
mod mig_capability;
mod refused;
mod repair_orphan;
mod side_devices;
mod stale_numbers;
mod unconstrained;
mod units;
mod verdicts;
mod vgpu;

#[cfg(test)]
mod tests;

use super::kind::{Family, Kind};

pub(super) use driver_not_loaded::{gpus_without_driver, is_only_about};
pub(super) use holders::is_standing;
pub(super) use refused::lost as refusals_lost;
pub use units::ACCESS_LOST;
pub(super) use verdicts::mismatches;

/// The families in the order of the manual.
pub(super) const FAMILIES: &[Family] = &[
    unconstrained::FAMILY,
    forged_job_name::FAMILY,
    dropped_denials::FAMILY,
    grants::FAMILY,
    holders::FAMILY,
    environment::FAMILY,
    side_devices::FAMILY,
    mig_capability::FAMILY,
    stale_numbers::FAMILY,
    units::FAMILY,
    repair_orphan::FAMILY,
    dynamic_policy::FAMILY,
    driver_not_loaded::FAMILY,
    verdicts::FAMILY,
    activity::FAMILY,
    refused::FAMILY,
    vgpu::FAMILY,
];

/// All kinds of findings in the order of the manual.
pub fn kinds() -> impl Iterator<Item = &'static Kind> {
    FAMILIES.iter().flat_map(|family| family.kinds)
}

/// The kind with an id.
pub fn kind(id: &str) -> Option<&'static Kind> {
    kinds().find(|kind| kind.id == id)
}
