//! Requests: what a process wants to do with a device.

use std::fmt;

/// The five accesses the kernel can ask a device program about, whole.
///
/// `rw` is a request of its own: a program may allow `r` and `w` and still
/// refuse `rw`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Request {
    /// No access bits: an existence test, `access(F_OK)`; letter `f`.
    Exists,
    /// Creating the node, `mknod(2)`; letter `m`.
    Mknod,
    /// `O_RDONLY`; letter `r`.
    Read,
    /// `O_WRONLY`; letter `w`.
    Write,
    /// `O_RDWR`; `rw`.
    ReadWrite,
}

/// A set of whole requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RequestSet(u8);

impl Request {
    /// All five, in the order of this type.
    pub const ALL: [Self; 5] = [Self::Exists, Self::Mknod, Self::Read, Self::Write, Self::ReadWrite];

    /// The access bits of the kernel: mknod 1, read 2, write 4.
    pub fn bits(self) -> u32 {
        match self {
            Self::Exists => 0,
            Self::Mknod => 1,
            Self::Read => 2,
            Self::Write => 4,
            Self::ReadWrite => 6,
        }
    }

    /// `f`, `m`, `r`, `w` or `rw`.
    pub fn letters(self) -> &'static str {
        match self {
            Self::Exists => "f",
            Self::Mknod => "m",
            Self::Read => "r",
            Self::Write => "w",
            Self::ReadWrite => "rw",
        }
    }
}

impl RequestSet {
    /// No request.
    pub const EMPTY: Self = Self(0);
    /// All five requests, written `rwm`.
    pub const ALL: Self = Self(0b1_1111);

    /// Whether `request` is in the set.
    pub fn contains(self, request: Request) -> bool {
        self.0 & (1 << request as u8) != 0
    }

    /// The set with `request` added.
    #[must_use]
    pub fn with(self, request: Request) -> Self {
        Self(self.0 | 1 << request as u8)
    }

    /// The requests of both sets.
    #[must_use]
    pub fn union(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Whether the set is empty.
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// The requests in the order of [`Request::ALL`].
    pub fn iter(self) -> impl Iterator<Item = Request> {
        Request::ALL.into_iter().filter(move |request| self.contains(*request))
    }
}

impl FromIterator<Request> for RequestSet {
    fn from_iter<I: IntoIterator<Item = Request>>(requests: I) -> Self {
        requests.into_iter().fold(Self::EMPTY, Self::with)
    }
}

impl From<Request> for RequestSet {
    fn from(request: Request) -> Self {
        Self::EMPTY.with(request)
    }
}

/// The shortest exact spelling: `rwm` is all five, `rw` is `r`, `w` and `rw`;
/// where whole requests do not follow from letters they are listed one by one,
/// separated by commas (`r,w` allows either but not `O_RDWR`).
impl fmt::Display for RequestSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        use Request::{Exists, Mknod, Read, ReadWrite, Write};
        if *self == Self::ALL {
            return f.write_str("rwm");
        }
        let access = [Read, Write, ReadWrite].map(|request| self.contains(request));
        let mut parts = match access {
            [true, true, true] => vec!["rw"],
            [true, false, false] => vec!["r"],
            [false, true, false] => vec!["w"],
            [false, false, false] => vec![],
            [read, write, both] => {
                let list = [(read, "r"), (write, "w"), (both, "rw")];
                let whole: Vec<&'static str> =
                    list.into_iter().filter(|(is_in, _)| *is_in).map(|(_, name)| name).collect();
                return self.write_list(f, whole);
            }
        };
        parts.extend(self.contains(Mknod).then_some("m"));
        // `rwm` already means all five, so the one set that lacks only `f` says so.
        match (self.contains(Exists), parts.concat().as_str()) {
            (false, "rwm") => f.write_str("rwm-f"),
            (true, letters) => write!(f, "{letters}f"),
            (false, letters) => f.write_str(letters),
        }
    }
}

impl RequestSet {
    /// Whole requests one by one; a lone `rw` gets a trailing comma, because
    /// without it `rw` would mean three requests.
    fn write_list(self, f: &mut fmt::Formatter<'_>, mut whole: Vec<&'static str>) -> fmt::Result {
        whole.extend(
            [Request::Mknod, Request::Exists].into_iter().filter(|r| self.contains(*r)).map(Request::letters),
        );
        f.write_str(&whole.join(","))?;
        if whole.len() == 1 { f.write_str(",") } else { Ok(()) }
    }
}
