//! The environment of a process: as it was given at exec, and as it is now.

pub(in crate::observe) mod at_exec;
pub(crate) mod live;
