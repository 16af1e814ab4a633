//! What gives lost device access back: which requests are missing, which program
//! denies them, and the command of that program's owner which mends it.
//!
//! A plan is a function of an observation; making it changes nothing and makes no system
//! call. `apply` alone carries out its [`PlannedSwap`]. A plan is made in this order:
//!
//! * `intention` finds what should be allowed, from a source that it names, and
//!   never guesses; `runtime` reads files of container runtimes and units, `slurm` what
//!   Slurm allocated;
//! * what that allows and the kernel denies is missing; each program that denies
//!   some of it is named (`plan`);
//! * `systemd` writes the command where the program is systemd's; `owners` says what to do
//!   about programs of others, and refuses to undo limits that were set on purpose;
//! * where no owner has a command, or `--direct` asks for it, `direct` plans one
//!   program in the place of the one that denies;
//! * the policy afterwards is worked out: for the cgroup, so that what remains denied
//!   is reported, and for every other cgroup that the program rules, which must gain
//!   nothing (`others`, which also refuses devices that are somebody else's); `pinned`
//!   looks at programs that systemd attaches for others;
//! * `proof` compares what a change made with what was planned.

pub mod apply;
mod direct;
mod intention;
mod others;
mod owners;
mod pinned;
mod plan;
mod proof;
mod runtime;
mod slurm;
mod systemd;

#[cfg(test)]
mod tests;

pub use direct::PlannedSwap;
pub use intention::{Like, unit_of};
pub use plan::{RepairRequest, plan, prepare};
pub use proof::{Swapped, changes, differences};
