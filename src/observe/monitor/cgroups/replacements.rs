//! Asks again which functions of programs were replaced by other programs
//! (`freplace`): what a program decides is then not known from its own
//! instructions, and the kernel notifies nobody.

use std::time::{Duration, Instant};

use super::state::{Differences, MonitoredCgroups};
use crate::observe::problems::Log;

/// How often all links of the node are listed for that, three system calls each.
const EVERY: Duration = Duration::from_secs(1);

impl MonitoredCgroups {
    /// Finds the cgroups on which programs are in force of which a function was
    /// replaced or given back.
    pub(super) fn ask_replacements(&mut self, found: &mut Differences, log: &mut Log) {
        if self.replacements_at.elapsed() < EVERY {
            return;
        }
        self.replacements_at = Instant::now();
        let (programs, maps) = self.cache.ask_replacements(log);
        if !programs.is_empty() {
            found.touched.extend(self.running(&programs.keys().copied().collect()));
        }
        if !maps.is_empty() {
            found.touched.extend(self.users(&maps.keys().copied().collect()));
        }
        found.old_programs.extend(programs);
        for (id, old) in maps {
            found.old_maps.entry(id).or_insert(old);
        }
    }
}
