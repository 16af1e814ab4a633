//! Turns a device as the user typed it into a question for the decoder.

use crate::analyse::Question;
use crate::cli::device::{Access, Pattern};
use crate::model::{Request, RequestSet};

/// The question that a pattern asks.
pub(crate) fn question(pattern: Pattern) -> Question {
    let Pattern { kind, major, minor, access } = pattern;
    Question { kind, major, minor, requests: requests(access) }
}

/// The one request that an access means; `None` for all of them.
pub(crate) fn request(access: Access) -> Option<Request> {
    match access {
        Access::Exists => Some(Request::Exists),
        Access::Mknod => Some(Request::Mknod),
        Access::Read => Some(Request::Read),
        Access::Write => Some(Request::Write),
        Access::ReadWrite => Some(Request::ReadWrite),
        Access::All => None,
    }
}

fn requests(access: Access) -> RequestSet {
    request(access).map_or(RequestSet::ALL, RequestSet::from)
}
