//! What gpumap can and cannot know on a node, and what would help: the answers of
//! `gpumap doctor`, from facts alone.
//!
//! Each file judges one part of the setup. To add a check, write a [`CheckKind`] and its
//! function into the file of its part; the manual takes its page from there.

mod cgroups;
mod drivers;
mod engines;
mod kernel;
mod kind;
mod own;
mod redact;
mod rights;
mod slurm;
mod software;

use crate::gpu;
use crate::observation::{Observation, Setup};
use crate::report::{DoctorAnswer, DoctorCheck};

pub use kind::CheckKind;
pub use redact::{REDACTED, redact};

use kind::NodeFacts;

/// The parts, in the order of the answer and of the manual.
const PARTS: [&[CheckKind]; 8] = [
    rights::KINDS,
    kernel::KINDS,
    engines::KINDS,
    cgroups::KINDS,
    drivers::KINDS,
    slurm::KINDS,
    software::KINDS,
    own::KINDS,
];

/// Every kind of check in the order of the manual.
pub fn kinds() -> impl Iterator<Item = &'static CheckKind> {
    PARTS.into_iter().flatten()
}

/// Judges the setup of a node, a check for each thing that applies there.
pub fn examine(observation: &Observation, setup: &Setup) -> DoctorAnswer {
    let node = NodeFacts { observation, setup, gpus: gpu::inventory(&observation.gpu_facts) };
    let checks = kinds().filter_map(|kind| {
        let found = (kind.look)(&node)?;
        Some(DoctorCheck { id: kind.id.to_owned(), state: found.state, found: found.text, fix: found.fix })
    });
    DoctorAnswer { doctor: checks.collect() }
}

#[cfg(test)]
mod tests;
