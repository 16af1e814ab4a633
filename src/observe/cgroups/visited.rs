//! What a walk of the hierarchy found.

use crate::observation::Cgroup;

/// A cgroup that was visited, and whether it was asked for or is only an ancestor.
#[derive(Debug)]
pub(in crate::observe) struct VisitedCgroup {
    pub(in crate::observe) cgroup: Cgroup,
    pub(in crate::observe) requested: bool,
}
