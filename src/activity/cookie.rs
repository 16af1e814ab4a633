//! Packs what the kernel side must know about a function into the 64 bits of a cookie.
//! `bpf/activity.h` takes them apart with the same numbers.

/// No such argument.
const NONE: u64 = 15;
/// Attachments that have a number of their own (`LINKS`).
pub(super) const LINKS: u64 = 4096;

/// What a function does: `enum activity_kind`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum CallKind {
    Launch = 1,
    LaunchConfig = 2,
    LaunchGraph = 3,
    HostFunction = 4,
    Copy = 5,
    CopyStruct2d = 6,
    CopyStruct3d = 7,
    CopyBatch = 8,
    Fill = 9,
    Allocate = 10,
    Free = 11,
    WaitStream = 12,
    WaitContext = 13,
    WaitEvent = 14,
    QueryStream = 15,
    QueryEvent = 16,
    RecordEvent = 17,
    StreamWaits = 18,
    CreateStream = 19,
    DestroyStream = 20,
    SetContext = 21,
    PushContext = 22,
    PopContext = 23,
    GetContext = 24,
    CreateContext = 25,
    DestroyContext = 26,
    RetainPrimary = 27,
    ReleasePrimary = 28,
    ResetPrimary = 29,
    NameDevice = 30,
    BeginCapture = 31,
    EndCapture = 32,
    Instantiate = 33,
    UpdateGraph = 34,
    SetDevice = 35,
    GetDevice = 36,
    DestroyEvent = 37,
    DestroyGraph = 38,
}

/// Where a copy goes: `enum direction`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Direction {
    ToDevice = 0,
    FromDevice = 1,
    OnDevice = 2,
    Unknown = 3,
    /// The argument that is `extra` says it.
    Argument = 4,
}

/// What is allocated: `enum memory`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum MemoryKind {
    Device = 0,
    Managed = 1,
    Host = 2,
    Physical = 3,
}

/// A cookie. Its arguments are counted from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Cookie(u64);

impl Cookie {
    /// A function of this kind, without arguments that matter.
    pub(super) const fn new(kind: CallKind) -> Self {
        let none = NONE << 8 | NONE << 12 | NONE << 16 | NONE << 20 | NONE << 24;
        Self(kind as u64 | none)
    }

    const fn field(self, shift: u32, mask: u64, value: u64) -> Self {
        Self(self.0 & !(mask << shift) | (value & mask) << shift)
    }

    /// The argument that is the stream.
    pub(super) const fn stream(self, argument: u64) -> Self {
        self.field(8, 15, argument)
    }

    /// The argument that is how many units it is about.
    pub(super) const fn size(self, argument: u64) -> Self {
        self.field(12, 15, argument)
    }

    /// The argument that the size is multiplied by.
    pub(super) const fn times(self, argument: u64) -> Self {
        self.field(16, 15, argument)
    }

    /// The argument that is where something is written, or the handle.
    pub(super) const fn pointer(self, argument: u64) -> Self {
        self.field(20, 15, argument)
    }

    /// A further argument: a context, a device, a graph.
    pub(super) const fn extra(self, argument: u64) -> Self {
        self.field(24, 15, argument)
    }

    /// Where a copy goes.
    pub(super) const fn direction(self, direction: Direction) -> Self {
        self.field(28, 7, direction as u64)
    }

    /// Whether the default stream is the thread's own here.
    pub(super) const fn per_thread(self) -> Self {
        self.field(31, 1, 1)
    }

    /// Bytes of a unit, as a power of two. Of [`CallKind::NameDevice`]: 2 if the
    /// answer may be a MIG instance's, else 1.
    pub(super) const fn unit(self, power: u64) -> Self {
        self.field(32, 3, power)
    }

    /// A function of HIP.
    pub(super) const fn hip(self) -> Self {
        self.field(34, 1, 1)
    }

    /// A copy that returns when it is done.
    pub(super) const fn waits(self) -> Self {
        self.field(35, 1, 1)
    }

    /// What is allocated or freed.
    pub(super) const fn memory(self, memory: MemoryKind) -> Self {
        self.field(36, 3, memory as u64)
    }

    /// With the number of its function.
    pub(super) const fn numbered(self, function: u64) -> Self {
        self.field(52, 0xfff, function)
    }

    /// With the number of an attachment.
    pub(super) const fn value(self, link: u64) -> u64 {
        self.field(40, LINKS - 1, link).0
    }

    /// Whether programs call it so often that its probe must be cheap: launches,
    /// copies, fills, events, questions.
    pub(super) const fn is_frequent(self) -> bool {
        let kind = self.0 & 255;
        kind <= CallKind::Fill as u64
            || (kind >= CallKind::QueryStream as u64 && kind <= CallKind::StreamWaits as u64)
            || kind >= CallKind::DestroyEvent as u64
    }

    /// Whether it is HIP's.
    pub(super) const fn is_hip(self) -> bool {
        is_hip(self.0)
    }
}

/// Whether a cookie is that of a function of HIP.
pub(super) const fn is_hip(cookie: u64) -> bool {
    cookie >> 34 & 1 == 1
}

/// The number of a cookie's function.
pub(super) const fn function(cookie: u64) -> u64 {
    cookie >> 52
}

/// Whether a thread in the function waits for the GPU.
pub(super) const fn waits(cookie: u64) -> bool {
    let kind = cookie & 255;
    kind == CallKind::WaitStream as u64
        || kind == CallKind::WaitContext as u64
        || kind == CallKind::WaitEvent as u64
        || cookie >> 35 & 1 == 1
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Make sure that each field is where the kernel side looks for it.
    #[test]
    fn fields() {
        let cookie =
            Cookie::new(CallKind::Copy).stream(3).size(2).direction(Direction::OnDevice).per_thread();
        let value = cookie.waits().unit(2).hip().memory(MemoryKind::Physical).value(5);
        assert_eq!(value & 255, 5);
        assert_eq!([8, 12, 16, 20, 24].map(|shift| value >> shift & 15), [3, 2, 15, 15, 15]);
        assert_eq!((value >> 28 & 7, value >> 31 & 1, value >> 32 & 3), (2, 1, 2));
        assert_eq!((value >> 34 & 1, value >> 35 & 1, value >> 36 & 3, value >> 40), (1, 1, 3, 5));
    }
}
