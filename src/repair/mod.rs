//! What gives lost device access back: which requests are missing, which program
//! denies them, and the command of that program's owner which mends it.
//!
//! Everything here is a function of an observation; it changes nothing and makes
//! no system call. A plan is made in this order:
//!
//! * `intention` finds what should be allowed, from a source that it names, and
//!   never guesses; `runtime` reads files of container runtimes and units, `slurm` what
//!   Slurm allocated;
//! * what that allows and the kernel denies is missing; each program that denies
//!   some of it is named (`plan`);
//! * `systemd` writes the command where the program is systemd's, `device_allow` and
//!   `shell` say how; `owners` says what to do about programs of others;
//! * where no owner has a command, or `--direct` asks for it, `direct` plans one
//!   program in the place of the one that denies;
//! * the policy afterwards is worked out: for the cgroup, so that what remains denied
//!   is reported, and for every other cgroup that the program rules, which must gain
//!   nothing (`others`); `claims` refuses devices that are somebody else's, `since`
//!   limits that were set on purpose, `pinned` programs that systemd attaches for others;
//! * `proof` compares what a change made with what was planned.
//!
//! `src/apply` carries out a [`PlannedSwap`], and nothing else does.

mod claims;
mod device_allow;
mod direct;
mod intention;
mod others;
mod owners;
mod pinned;
mod plan;
mod proof;
mod runtime;
mod shell;
mod since;
mod slurm;
mod systemd;

#[cfg(test)]
mod tests;

pub use direct::PlannedSwap;
pub use intention::{Like, unit_of};
pub use plan::{RepairRequest, plan, prepare};
pub use proof::{Swapped, changes, differences};
