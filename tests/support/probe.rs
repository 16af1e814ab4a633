//! Which devices to ask about: every number a program mentions and its
//! neighbours, the corners of the domain, and a few at random.

use std::collections::BTreeSet;

use gpumap::model::{Device, DeviceType, MAX_MAJOR, MAX_MINOR};

use super::rng::Rng;
use super::source::Source;

/// The GPUs of the node that `law` asks about.
const GPU: u32 = 195;
const GPUS: u32 = 4;
/// Pairs of numbers for one program.
const PAIRS: usize = 90;

/// The devices to ask about, both types.
pub fn devices(sources: &[&Source], rng: &mut Rng) -> Vec<Device> {
    let numbers = interesting(sources);
    let majors: Vec<u32> = numbers.iter().copied().filter(|number| *number <= MAX_MAJOR).collect();
    let minors: Vec<u32> = numbers.into_iter().filter(|number| *number <= MAX_MINOR).collect();
    let mut pairs = BTreeSet::new();
    for (major, minor) in sources.iter().flat_map(|source| &source.hints) {
        pairs.insert((*major & MAX_MAJOR, *minor & MAX_MINOR));
        pairs.insert((*major & MAX_MAJOR, rng.pick(&minors)));
    }
    for _ in 0..PAIRS {
        let random = (rng.below(MAX_MAJOR + 1), rng.below(MAX_MINOR + 1));
        pairs.insert(match rng.below(8) {
            0 => (random.0, rng.pick(&minors)),
            1 => (rng.pick(&majors), random.1),
            2 => random,
            _ => (rng.pick(&majors), rng.pick(&minors)),
        });
    }
    pairs.extend((0..GPUS).map(|minor| (GPU, minor)));
    pairs.remove(&(0, 0));
    pairs
        .into_iter()
        .flat_map(|(major, minor)| {
            [DeviceType::Block, DeviceType::Char].map(|kind| Device { kind, major, minor })
        })
        .collect()
}

fn interesting(sources: &[&Source]) -> BTreeSet<u32> {
    let corners = [0, 1, 7, 195, 226, 254, 255, 256, MAX_MAJOR - 1, MAX_MAJOR, MAX_MINOR - 1, MAX_MINOR];
    let mentioned = sources.iter().flat_map(|source| source.numbers());
    mentioned
        .flat_map(|number| [number.wrapping_sub(1), number, number.wrapping_add(1), number.wrapping_neg()])
        .chain(corners)
        .filter(|number| *number <= MAX_MINOR)
        .collect()
}
