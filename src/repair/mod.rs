//! What gives lost device access back: which requests are missing, which program
//! denies them, and the command of that program's owner which mends it.
//!
//! Everything here is a function of an observation; it changes nothing and makes
//! no system call. A plan is made in this order:
//!
//! * `intention` finds what should be allowed, from a source that it names, and
//!   never guesses;
//! * what that allows and the kernel denies is missing; each program that denies
//!   some of it is told (`plan`);
//! * `systemd` writes the command where the program is systemd's, `device_allow` and
//!   `shell` say how; `owners` says what to do about programs of others;
//! * the policy after the command is worked out: for the cgroup, so that what
//!   remains denied is told, and for every other cgroup that the program rules, which
//!   must gain nothing (`others`).

mod device_allow;
mod intention;
mod others;
mod owners;
mod plan;
mod shell;
mod systemd;

#[cfg(test)]
mod tests;

pub use intention::{Like, unit_of};
pub use plan::{RepairRequest, plan};
