//! Attaches the probes of a watch: at the functions that change the environment, and at
//! those that initialise a driver.

use std::time::Duration;

use super::kernel::Kernel;
use super::probes::{DRIVERS, ENVIRON, Probe};
use crate::loader::AttachedProbes;
use crate::probing::{FileRole, ProbeTarget, Prober, places};
use crate::sys::window::Windowed;

/// A function, and where it is in the file.
pub(super) type Watched = (&'static Probe, u64);

impl Prober for Kernel {
    type Point = Watched;

    const C_LIBRARIES: bool = true;
    /// The next command of a script most likely uses the file again. A probed
    /// file keeps its file system busy.
    const UNUSED: Duration = Duration::from_secs(1);

    fn find(
        &mut self,
        file: Windowed,
        kind: FileRole,
        _target: &ProbeTarget<'_>,
    ) -> Result<Vec<Watched>, String> {
        let probes: &'static [Probe] = if kind == FileRole::Driver { &DRIVERS } else { &ENVIRON };
        let names: Vec<&str> = probes.iter().map(|probe| probe.function).collect();
        let found = places(file, &names, kind == FileRole::Executable).map_err(|error| error.to_string())?;
        let probe = |name| probes.iter().find(|probe| probe.function == name);
        Ok(found.iter().filter_map(|place| Some((probe(place.function)?, place.offset))).collect())
    }

    fn attach(
        &mut self,
        places: &[Watched],
        target: &ProbeTarget<'_>,
    ) -> Result<Vec<AttachedProbes>, String> {
        Self::attach(self, places, target.path, target.pid).map_err(|error| error.to_string())
    }

    fn refused(&mut self, shown: &[u8], pid: Option<u32>, why: &str) {
        self.unprobed.add(shown, pid, why);
    }
}
