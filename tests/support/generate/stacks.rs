//! Programs on a chain of cgroups, with every kind of attachment.

use super::random::{self, PLAIN};
use super::state::Features;
use super::writers::{self, CgroupIds};
use crate::support::bpf::{MULTI, OVERRIDE, PREORDER};
use crate::support::rng::Rng;
use crate::support::source::Source;

/// Levels of the chain; the last is the one asked about.
pub const LEVELS: usize = 5;

/// One program to attach somewhere.
#[derive(Clone, Debug)]
pub struct Placement {
    /// 0 is the topmost.
    pub level: usize,
    pub flags: u32,
    /// By a `bpf_link` instead of a plain attachment.
    pub link: bool,
    /// In place of the last program attached to this level (`BPF_F_REPLACE`).
    pub replace: bool,
    pub source: Source,
}

/// What to attach, in order.
#[derive(Clone, Debug, Default)]
pub struct Stack(pub Vec<Placement>);

impl Stack {
    /// One program, alone, on the cgroup asked about.
    pub fn alone(source: Source) -> Self {
        Self(vec![Placement { level: LEVELS - 1, flags: MULTI, link: false, replace: false, source }])
    }

    pub fn sources(&self) -> Vec<&Source> {
        self.0.iter().map(|placement| &placement.source).collect()
    }
}

/// Programs that change the error beside programs that do not.
const RETVAL: Features = Features { retval: true, calls: true, ..PLAIN };

/// A random stack. Each level has flags of its own; the kernel may refuse some
/// of the attachments, which is part of the test.
pub fn any(rng: &mut Rng, place: CgroupIds) -> Stack {
    let mut placements = Vec::new();
    for level in 0..LEVELS {
        if rng.chance(60) {
            continue;
        }
        let flags = rng.pick(&[MULTI, MULTI, MULTI, MULTI, OVERRIDE, 0]);
        let count = if rng.chance(if flags == MULTI { 50 } else { 20 }) { 2 } else { 1 };
        for _ in 0..count {
            let preorder = if flags == MULTI && rng.chance(25) { PREORDER } else { 0 };
            let link = flags == MULTI && rng.chance(25);
            let replace = flags == MULTI && !link && rng.chance(15);
            placements.push(Placement {
                level,
                flags: flags | preorder,
                link,
                replace,
                source: part(rng, place),
            });
        }
    }
    Stack(placements)
}

fn part(rng: &mut Rng, place: CgroupIds) -> Source {
    match rng.below(10) {
        0..3 => writers::any(rng, place),
        3 => random::program(rng, PLAIN, 6),
        _ => random::program(rng, RETVAL, 6),
    }
}
