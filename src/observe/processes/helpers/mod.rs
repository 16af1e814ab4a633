//! Helper processes that look into other processes, and how long they may take.

pub(in crate::observe) mod care;
mod crew;
mod stalls;

pub(in crate::observe) use crew::{Crew, Duty};
