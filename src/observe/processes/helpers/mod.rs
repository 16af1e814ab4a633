//! Helper processes that look into other processes, and how long they may take.

pub(in crate::observe) mod depth;
mod pool;
mod slow_processes;

pub(in crate::observe) use pool::{HelperPool, Requests};
