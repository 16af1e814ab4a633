//! What libraries between programs and the driver cost: HAMi's libvgpu.so and
//! SoftMig's libsoftmig.so do their bookkeeping before each call reaches the driver.
//!
//! A probe at the library's function and one at the driver's function of the same
//! name give the time between them, summed in the kernel by process and function.
//! Only processes that have such a library are probed, and only once their first
//! call of a driver was counted. The time has the cost of one probe in it, which
//! [`prober`] measures on this node. Nothing is loaded where nobody has such a
//! library.

mod prober;
mod tables;

use std::path::{Path, PathBuf};

use super::{ActivityError, CountingOptions};
use crate::observation::Activity;
use crate::probing::{Libraries, ProcessScope};
use prober::{Between, Side};

/// Measures the time in libraries that stand before the driver, as long as it lives.
pub struct Interception {
    between: Between,
    libraries: Libraries<(Side, u32, u64)>,
    proc: PathBuf,
}

impl Interception {
    /// Measures nothing yet.
    #[must_use]
    pub fn new(scope: &ProcessScope, proc: &Path, options: CountingOptions) -> Self {
        let apart = !scope.all && scope.cgroups.is_empty();
        Self {
            between: Between::new(scope.clone(), options.smaller),
            libraries: Libraries::new(apart, proc),
            proc: proc.to_owned(),
        }
    }

    /// Adds to a reading what is known of its processes, and looks for libraries of
    /// those that are new in it. Those that have ended can no longer be looked at. Needs
    /// Linux 5.15 with BTF where one has such a library.
    ///
    /// # Errors
    ///
    /// That of the kernel.
    pub fn complete(&mut self, activity: &mut Activity) -> Result<(), ActivityError> {
        for process in activity.processes.iter().filter(|process| process.ended_ns.is_none()) {
            if !self.between.is_known(process.pid, process.start_time) {
                let coverage = self.libraries.cover(&mut self.between, &self.proc, process.pid, true);
                self.between.looked_at(process.pid, process.start_time, coverage);
            }
        }
        for process in activity.processes.iter_mut().filter(|process| process.ended_ns.is_some()) {
            process.interception_unseen = !self.between.is_known(process.pid, process.start_time);
        }
        self.libraries.tidy_used(&mut self.between, &self.proc);
        self.between.keep(&activity.processes);
        activity.uncovered.extend(self.between.uncovered());
        if let Some(loaded) = self.between.loaded.as_deref_mut() {
            tables::fill(loaded, activity)?;
            tables::clear(loaded, activity, &mut self.between.returned)?;
        }
        for process in activity.processes.iter().filter(|process| process.ended_ns.is_some()) {
            self.libraries.exited(process.pid, process.start_time);
            self.between.forget(process.pid, process.start_time);
        }
        let is_any = activity.processes.iter().any(|process| !process.intercepted.is_empty());
        activity.probe_ns = self.between.probe_ns.filter(|_| is_any);
        Ok(())
    }
}
