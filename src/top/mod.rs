//! What the screen of `gpumap top` shows, and what keys do to it.
//!
//! All of it is pure: a [`State`] holds the answers of one [`Moment`] and where the
//! user is in them, a [`Key`] changes it, and an [`Effect`] says what is left to do for
//! whoever reads keys and draws. `render` draws it.

mod filter;
mod key;
mod moment;
mod order;
mod rows;
mod state;
mod view;

#[cfg(test)]
mod tests;

pub use filter::Filter;
pub use key::{Key, Keys};
pub use moment::{Moment, Origin};
pub use rows::{Choice, rows};
pub use state::{CellPosition, Effect, Extent, State};
pub use view::{Content, Detail, View};
