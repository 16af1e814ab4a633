//! Who answers `check`: a decoded policy, or the kernel itself.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::PathBuf;

use super::{Failure, Session, device_node, own_access, subject};
use crate::analyse::{CheckVerdict, Checker, Question};
use crate::cli::CheckArgs;
use crate::cli::device::{Access, Asked, Kind, Pattern};
use crate::observation::Observation;
use crate::policy::device::{Device, DeviceType, Request, RequestSet, Verdict};

/// Who answers.
pub(super) enum Oracle {
    /// A decoded policy.
    Policy {
        /// The policy.
        checker: Box<Checker>,
        /// Where the policy is from; device paths are looked up in it if it
        /// was saved.
        observation: Box<Observation>,
        /// Whether it was saved.
        is_saved: bool,
    },
    /// The kernel, about gpumap itself.
    Kernel,
}

/// A verdict with its reason, where one was asked for and there is one.
pub(super) type Answer = (CheckVerdict, Option<String>);

const UNKNOWN: CheckVerdict = CheckVerdict::Uniform(Verdict::Unknown);

impl Oracle {
    /// The oracle that the options ask for.
    pub(super) fn new(session: &mut Session<'_>, args: &CheckArgs) -> Result<Self, Failure> {
        if args.own {
            return Ok(Self::Kernel);
        }
        let source = subject::resolve(session, &args.target)?;
        let checker = Box::new(Checker::new(&source.observation, &source.subject)?);
        let is_saved = session.global.from.is_some();
        Ok(Self::Policy { checker, observation: Box::new(source.observation), is_saved })
    }

    /// The facts behind the answers; none where the kernel answers.
    pub(super) fn observation(&self) -> Option<&Observation> {
        match self {
            Self::Policy { observation, .. } => Some(observation),
            Self::Kernel => None,
        }
    }

    /// The verdict alone; does not allocate for a device given by number.
    pub(super) fn verdict(&self, asked: &Asked<'_>) -> CheckVerdict {
        match (self, asked) {
            (Self::Policy { checker, .. }, Asked::Numbers(pattern)) => checker.verdict(&question(*pattern)),
            (Self::Policy { checker, .. }, Asked::Node(path)) => {
                self.device(path).map_or(UNKNOWN, |device| checker.verdict(&of_device(device)))
            }
            (Self::Kernel, _) => kernel(asked).0,
        }
    }

    /// The verdict with its reason.
    pub(super) fn answer(&mut self, asked: &Asked<'_>, text: &str) -> Answer {
        let question = match asked {
            _ if matches!(self, Self::Kernel) => return kernel(asked),
            Asked::Numbers(pattern) => question(*pattern),
            Asked::Node(path) => match self.device(path) {
                Ok(device) => of_device(device),
                Err(why) => return (UNKNOWN, Some(why)),
            },
        };
        let Self::Policy { checker, .. } = self else { return (UNKNOWN, None) };
        (checker.verdict(&question), checker.check(&question, text).why)
    }

    fn device(&self, path: &[u8]) -> Result<Device, String> {
        let saved = match self {
            Self::Policy { observation, is_saved: true, .. } => Some(&**observation),
            _ => None,
        };
        device_node::device(path, saved)
    }
}

/// The question that a pattern asks.
pub(super) fn question(pattern: Pattern) -> Question {
    let Pattern { kind, major, minor, access } = pattern;
    Question { kind: kind.map(device_type), major, minor, requests: requests(access) }
}

/// The one request that an access means; `None` for all of them.
pub(super) fn request(access: Access) -> Option<Request> {
    match access {
        Access::Exists => Some(Request::Exists),
        Access::Mknod => Some(Request::Mknod),
        Access::Read => Some(Request::Read),
        Access::Write => Some(Request::Write),
        Access::ReadWrite => Some(Request::ReadWrite),
        Access::All => None,
    }
}

/// The type of a device in the decoder's terms.
pub(super) fn device_type(kind: Kind) -> DeviceType {
    match kind {
        Kind::Block => DeviceType::Block,
        Kind::Char => DeviceType::Char,
    }
}

fn requests(access: Access) -> RequestSet {
    request(access).map_or(RequestSet::ALL, RequestSet::from)
}

fn of_device(device: Device) -> Question {
    let Device { kind, major, minor } = device;
    Question { kind: Some(kind), major: Some(major), minor: Some(minor), requests: Request::ReadWrite.into() }
}

fn kernel(asked: &Asked<'_>) -> Answer {
    let unknown = |why: &str| (UNKNOWN, Some(why.to_owned()));
    let (path, access) = match asked {
        Asked::Node(path) => (PathBuf::from(OsStr::from_bytes(path)), Access::ReadWrite),
        Asked::Numbers(Pattern { kind: Some(kind), major: Some(major), minor: Some(minor), access }) => {
            let device = Device { kind: device_type(*kind), major: *major, minor: *minor };
            match device_node::path(device) {
                Some(path) => (path, *access),
                None => return unknown("there is no node for it under /dev"),
            }
        }
        Asked::Numbers(_) => return unknown("access(2) asks about one device at a time"),
    };
    match request(access) {
        Some(request) => {
            let (verdict, why) = own_access::ask(&path, request);
            (CheckVerdict::Uniform(verdict), why)
        }
        None => unknown("access(2) asks about one request at a time, and never about mknod"),
    }
}
