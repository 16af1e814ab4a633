//! What the fuzz targets call of this room.

pub use super::source::fuzzing::{ring_record, symbols};
