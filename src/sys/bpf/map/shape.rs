//! How the values of a map come back from a lookup.

use crate::model::MapType;

/// The form in which a map's values come back from a lookup.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Shape {
    /// One value of the stated size.
    Plain,
    /// One value for each possible CPU, each rounded up to 8 bytes.
    PerCpu,
    /// The id of another map or program, 4 bytes.
    Id,
}

/// The form of values of maps of the type with this number; `None` if user space
/// cannot list their entries.
pub(super) fn shape(number: u32) -> Option<Shape> {
    use MapType::{
        Array, ArrayOfMaps, CgroupStorage, Hash, HashOfMaps, LpmTrie, LruHash, LruPercpuHash, PercpuArray,
        PercpuCgroupStorage, PercpuHash, ProgArray,
    };
    match MapType::of_number(number) {
        Hash | Array | LruHash | LpmTrie | CgroupStorage => Some(Shape::Plain),
        PercpuHash | PercpuArray | LruPercpuHash | PercpuCgroupStorage => Some(Shape::PerCpu),
        ArrayOfMaps | HashOfMaps | ProgArray => Some(Shape::Id),
        _ => None,
    }
}
