//! Requests: what a process wants to do with a device; and verdicts: whether the kernel
//! allows it.

use std::fmt;
use std::str::FromStr;

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

    /// The one request in the set; `None` if there are none or several.
    pub fn single(self) -> Option<Request> {
        let mut requests = self.iter();
        requests.next().filter(|_| requests.next().is_none())
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

/// Text that is no set of requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no such requests (r, w, m, f together, such as rw or rwm, or one by one: r,w)")]
pub struct BadRequests;

/// Parses what `Display` writes. Letters may stand in any order: `r` and `w`
/// together mean `rw` too, and `r`, `w` and `m` together mean all five.
impl FromStr for RequestSet {
    type Err = BadRequests;

    fn from_str(text: &str) -> Result<Self, BadRequests> {
        if text == "rwm-f" {
            return Ok(Request::ALL.into_iter().filter(|request| *request != Request::Exists).collect());
        }
        let set = match text.split_once(',') {
            Some(_) => whole_requests(text.strip_suffix(',').unwrap_or(text))?,
            None => requests_of_letters(text)?,
        };
        if set.is_empty() { Err(BadRequests) } else { Ok(set) }
    }
}

/// Whole requests, each at most once, separated by commas.
fn whole_requests(text: &str) -> Result<RequestSet, BadRequests> {
    text.split(',').try_fold(RequestSet::EMPTY, |set, word| {
        let request = Request::ALL.into_iter().find(|request| request.letters() == word);
        request.filter(|request| !set.contains(*request)).map(|request| set.with(request)).ok_or(BadRequests)
    })
}

/// Letters, each at most once.
fn requests_of_letters(text: &str) -> Result<RequestSet, BadRequests> {
    let set = text.chars().try_fold(RequestSet::EMPTY, |set, letter| {
        let request = match letter {
            'r' => Request::Read,
            'w' => Request::Write,
            'm' => Request::Mknod,
            'f' => Request::Exists,
            _ => return Err(BadRequests),
        };
        if set.contains(request) { Err(BadRequests) } else { Ok(set.with(request)) }
    })?;
    let has = |request| set.contains(request);
    Ok(match (has(Request::Read) && has(Request::Write), has(Request::Mknod)) {
        (true, true) => RequestSet::ALL,
        (true, false) => set.with(Request::ReadWrite),
        _ => set,
    })
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

words! {
    /// The answer of the kernel to one request.
    pub enum Verdict {
        /// The request succeeds.
        Allow,
        /// The request fails.
        Deny,
        /// gpumap cannot know; a reason comes with it.
        #[default]
        Unknown,
    }
}

words! {
    /// The answers of the kernel to several requests or devices.
    pub enum Verdicts {
        /// All succeed.
        Allow,
        /// All fail.
        Deny,
        /// gpumap cannot know; a reason comes with it.
        #[default]
        Unknown,
        /// Some succeed and some fail.
        Mixed,
    }
}

/// The verdict of a device program that returned this; `None` is a program that
/// could not be followed.
impl From<Option<bool>> for Verdict {
    fn from(returned: Option<bool>) -> Self {
        match returned {
            Some(true) => Self::Allow,
            Some(false) => Self::Deny,
            None => Self::Unknown,
        }
    }
}

impl From<Verdict> for Verdicts {
    fn from(verdict: Verdict) -> Self {
        match verdict {
            Verdict::Allow => Self::Allow,
            Verdict::Deny => Self::Deny,
            Verdict::Unknown => Self::Unknown,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Make sure that each set is read as it is written.
    #[test]
    fn sets_are_read_as_they_are_written() {
        for bits in 1..=RequestSet::ALL.0 {
            let set = RequestSet(bits);
            assert_eq!(set.to_string().parse(), Ok(set), "{set}");
        }
    }

    #[test]
    fn other_spellings() {
        for (text, same) in [("wr", "rw"), ("mrw", "rwm"), ("rwmf", "rwm"), ("fr", "rf"), ("rw,w,r", "rw")] {
            assert_eq!(text.parse::<RequestSet>(), same.parse(), "{text}");
        }
        for text in ["", ",", "x", "rr", "r,r", "r,,w", "rwm-w", "r w", "r,w,,", "mr,w"] {
            assert_eq!(text.parse::<RequestSet>(), Err(BadRequests), "{text}");
        }
    }
}
