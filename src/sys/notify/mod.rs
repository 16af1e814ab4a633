//! Reports directories that are made and removed: fanotify for a whole file system,
//! inotify for one directory at a time.

mod backends;
mod record;

pub use backends::{PerDir, WholeFs};
pub use record::Notice;
