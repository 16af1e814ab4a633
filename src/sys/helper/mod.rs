//! Helper processes: copies of this process that do what might never return, so
//! that this process always does.
//!
//! Reading another user's memory or files can block for good, and then not even
//! `SIGKILL` ends the reader (a FUSE server that took a request and never answers
//! it). A helper that blocks is killed and abandoned: it holds no descriptor of this
//! process, and goes as soon as the kernel lets it go.

mod abandoned;
mod child;
mod parent;

pub(super) use abandoned::Child;
pub use abandoned::{MOST_LEFT_BEHIND, left_behind, own};
pub use child::{Channel, Ended, MESSAGE_LIMIT};
pub use parent::{Helper, wait};
