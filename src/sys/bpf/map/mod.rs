//! Reads maps by id: what they are, and everything they hold.

mod contents;
mod info;

pub use contents::{ContentLimits, Contents, contents, possible_cpus};
pub(super) use info::has_plain_values;
pub use info::{MapInfo, map_by_id, map_frozen, map_info};
