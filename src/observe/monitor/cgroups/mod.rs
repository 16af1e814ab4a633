//! Cgroups and their lists of programs, kept up to date.

mod change;
mod check;
mod children;
mod followed;
mod follower;
mod lists;
mod map_contents;
mod nodes;
mod notification;

pub use change::Step;
pub use follower::Follower;
pub use lists::{Listed, ListsError, Source, Walk, Walked};
pub use notification::Engine;
