//! What the screen of `gpumap top` shows, and what keys do to it.
//!
//! All of it is pure: a [`State`] holds the answers of one [`Moment`] and where the
//! user is in them, a [`Key`] changes it, and an [`Effect`] says what is left to do for
//! whoever reads keys and draws. `render` draws it.

mod key;
mod moment;
mod rows;
mod state;

#[cfg(test)]
mod tests;

pub use key::{Key, Keys};
pub use moment::{Content, Detail, Moment, Origin, View};
pub use rows::{Choice, Filter, rows};
pub use state::{CellPosition, Effect, Extent, State};
