//! Which build of the library wrote a shared region.
//!
//! The size and the version in the file name a candidate. The candidate is
//! dropped where the bytes contradict it: a file that two builds have written
//! to is `mixed`, anything else is `unknown`. No layout is guessed.

use super::fit;
use super::offsets::{MAGIC, Offsets, SOFTMIG_2_0, SOFTMIG_2_0_AARCH64, V0A, V0B, V1_1, V1_1_POST, V1_2};
use crate::model::RegionLayout;

/// Fields of another layout's end inside the last slot of 1.1-post: a process of that
/// other build writes there, and one that has this very slot.
const OTHER_END: std::ops::Range<usize> = 2_008_896..2_008_928;

/// What is known of the layout of a file.
#[derive(Debug)]
pub(super) struct Decision {
    /// The layout.
    pub layout: RegionLayout,
    /// Why it is `mixed` or `unknown`.
    pub why: Option<String>,
    pub(super) offsets: Option<&'static Offsets>,
}

impl Decision {
    fn no(layout: RegionLayout, why: impl Into<String>) -> Self {
        Self { layout, why: Some(why.into()), offsets: None }
    }
}

/// Decides which layout the bytes of a whole file have.
pub(super) fn decide(file: &[u8]) -> Decision {
    let candidate = candidate(file);
    let Some(offsets) = candidate.offsets else { return candidate };
    if candidate.layout == RegionLayout::V1_1Post
        && (fit::has_uuids(file, V1_1.uuids)
            || fit::is_written(file, OTHER_END) && !fit::is_last_slot_taken(file, offsets))
    {
        let why = "two builds of libvgpu.so have written to it: it holds the fields of 1.1-post and of \
                   another layout";
        return Decision::no(RegionLayout::Mixed, why);
    }
    match fit::misfit(file, offsets) {
        None => candidate,
        Some(misfit) => {
            let why = format!("size and version are those of {}, but {misfit}", candidate.layout);
            Decision::no(RegionLayout::Unknown, why)
        }
    }
}

/// The layout that size and version name.
fn candidate(file: &[u8]) -> Decision {
    let unknown = |why: String| Decision::no(RegionLayout::Unknown, why);
    match fit::u32_at(file, 0) {
        Some(MAGIC) => {}
        Some(0) => return unknown("no process has initialized it".to_owned()),
        _ => return unknown("it does not begin as a shared region does".to_owned()),
    }
    let size = file.len();
    let version = (fit::u32_at(file, 4).unwrap_or(0), fit::u32_at(file, 8).unwrap_or(0));
    let (layout, offsets) = match (size, version) {
        (804_680 | 804_681, _) => (RegionLayout::V0a, &V0A),
        (1_197_896 | 1_197_897, _) => (RegionLayout::V0b, &V0B),
        (2_008_953, (1, 1)) => (RegionLayout::V1_1, &V1_1),
        (2_008_953, (1, 2)) => (RegionLayout::V1_2, &V1_2),
        (2_008_952, (1, 1)) => (RegionLayout::Softmig1_1, &V1_1),
        (2_008_985, (1, 1)) => (RegionLayout::V1_1Post, &V1_1_POST),
        (2_008_985, (1, 2)) => {
            let why = "it has the size of 1.1-post and the version of 1.2: two builds have written to it";
            return Decision::no(RegionLayout::Mixed, why);
        }
        (2_140_032 | 2_140_033, (2, 0)) => (RegionLayout::Softmig2_0, &SOFTMIG_2_0),
        (2_140_040 | 2_140_041, (2, 0)) => (RegionLayout::Softmig2_0, &SOFTMIG_2_0_AARCH64),
        (size, (major, minor)) => {
            return unknown(format!("no known build writes {size} bytes with version {major}.{minor}"));
        }
    };
    Decision { layout, why: None, offsets: Some(offsets) }
}
