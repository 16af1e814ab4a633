//! Carries out what was planned: nothing else in gpumap changes device programs of
//! cgroups, and this only for `gpumap repair --apply` and `--undo`.
//!
//! * `store` keeps journals in `/run/gpumap` and old programs in
//!   `/sys/fs/bpf/gpumap`, under one lock;
//! * `place` is the cgroup that a program is attached to: whether it is as planned,
//!   and the one system call that swaps two programs there;
//! * `prove` looks at everything below it again and asks the kernel from inside;
//! * `change` and `undo` put these together, also where a proof fails or a list is another
//!   by now; `state` says what became of a journal;
//! * `syslog` gets a line for each step.
//!
//! What may be done is decided by the plan, from facts alone. Here it is compared
//! with the kernel's answers before, and proved by them after.

mod change;
mod error;
mod place;
mod prove;
mod state;
mod store;
mod syslog;
mod undo;

pub use change::apply;
pub use error::ApplyError;
pub use state::list;
pub use undo::{Undone, undo};
