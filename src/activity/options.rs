//! What a caller chooses of a count.

use crate::probing::Mode;

/// How calls are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CountingOptions {
    /// One launch out of so many is timed and looked at when it returns; 1: every
    /// one.
    pub every: u32,
    /// The kind of probes; `None`: the cheapest that the kernel has.
    pub mode: Option<Mode>,
    /// Whether functions that programs call often are probed where that takes two
    /// traps a call.
    pub costly: bool,
    /// Whether launches are told apart by stream: the stream is an argument that takes
    /// longer to read than all the rest. Without it they are counted by context, but for
    /// those that are made while something of the process is captured.
    pub streams: bool,
    /// The tables of the kernel have room for 2^N times less: tests fill them up with it.
    pub smaller: u8,
}

impl Default for CountingOptions {
    fn default() -> Self {
        Self { every: 64, mode: None, costly: false, streams: true, smaller: 0 }
    }
}
