//! The source of verdicts: a decoded policy, or the kernel, which is asked what gpumap itself
//! may open.

use std::fs::Metadata;
use std::os::unix::fs::FileTypeExt as _;
use std::path::Path;

use crate::analyse::{Checker, Question, Subject};
use crate::cli::device::{DeviceArgument, Pattern};
use crate::cli::{CheckArgs, PolicyTarget};
use crate::commands::invocation::{Failure, Invocation};
use crate::commands::subject::devices::Devices;
use crate::commands::subject::{self, Resolved};
use crate::gpu::NameError;
use crate::model::{Device, ProblemCode, Request, RequestSet, Span, Verdict, Verdicts};
use crate::observation::Observation;
use crate::observe::own_access::{Access, AccessAnswer, probe};

/// The source of verdicts.
pub(super) enum Oracle {
    /// A decoded policy.
    Policy {
        /// The policy, and the facts it is from.
        checker: Box<Checker>,
        /// Where device paths and names are looked up.
        devices: Box<Devices>,
    },
    /// The kernel, about gpumap itself.
    Kernel {
        /// Where to look up names.
        devices: Box<Devices>,
        /// Whether it is asked because the programs of gpumap's own cgroup cannot be read.
        is_instead: bool,
    },
}

/// Said where the kernel answers instead of a decoded policy.
pub(super) const INSTEAD: &str = "the programs in force may not be read here, so the kernel itself was asked what this process may open (as with --self)";

/// Whether the programs in force on gpumap's own cgroup were refused to it.
fn is_refused(source: &Resolved) -> bool {
    let Subject::Cgroup(path) = &source.subject else { return false };
    let own = source.observation.cgroups.iter().find(|cgroup| cgroup.path == *path);
    let no_right = source.observation.errors.iter().any(|error| error.code == ProblemCode::NoRight);
    no_right && own.is_some_and(|cgroup| cgroup.effective.known().is_none())
}

/// A verdict with its reason, where one was asked for and there is one.
pub(in crate::commands) type Reply = (Verdicts, Option<String>);

const UNKNOWN: Verdicts = Verdicts::Unknown;

impl Oracle {
    /// The oracle that the options ask for.
    pub(super) fn new(invocation: &mut Invocation<'_>, args: &CheckArgs) -> Result<Self, Failure> {
        if args.own {
            if invocation.global.from.is_some() {
                let why = "it asks the kernel what gpumap itself may open now, and a saved observation cannot say that";
                return Err(Failure::new(
                    ProblemCode::Usage,
                    "--self",
                    why,
                    "leave out --from, or ask about a cgroup, job or pid",
                ));
            }
            let devices = Box::new(Devices::of(invocation, &Observation::default()));
            return Ok(Self::Kernel { devices, is_instead: false });
        }
        let source = subject::resolve(invocation, &args.target)?;
        let is_own = matches!(args.target.target(), PolicyTarget::Own) && invocation.global.from.is_none();
        if is_own && is_refused(&source) {
            let devices = Box::new(Devices::of(invocation, &source.observation));
            return Ok(Self::Kernel { devices, is_instead: true });
        }
        let devices = Box::new(Devices::of(invocation, &source.observation));
        let checker = Box::new(Checker::new(source.observation, source.subject, &invocation.decoding)?);
        Ok(Self::Policy { checker, devices })
    }

    /// Why a name belongs to no device; `None` if it belongs to one.
    pub(super) fn refuses(&self, asked: &DeviceArgument<'_>) -> Option<NameError> {
        let DeviceArgument::Name(name) = asked else { return None };
        self.devices().all_named(name).err()
    }

    fn devices(&self) -> &Devices {
        match self {
            Self::Policy { devices, .. } | Self::Kernel { devices, .. } => devices,
        }
    }

    /// The facts that the answers rest on; none where the kernel answers.
    pub(super) fn observation(&self) -> Option<&Observation> {
        match self {
            Self::Policy { checker, .. } => Some(checker.observation()),
            Self::Kernel { .. } => None,
        }
    }

    /// The verdict alone; does not allocate for a device given by number.
    pub(super) fn verdict(&mut self, asked: &DeviceArgument<'_>) -> Verdicts {
        match (&mut *self, asked) {
            (Self::Kernel { devices, .. }, _) => kernel(asked, devices).0,
            (Self::Policy { checker, .. }, DeviceArgument::Numbers(pattern)) => {
                checker.verdict(&question(*pattern))
            }
            _ => self.answer(asked, "").0,
        }
    }

    /// The verdict with its reason.
    pub(super) fn answer(&mut self, asked: &DeviceArgument<'_>, text: &str) -> Reply {
        let questions = match (&*self, asked) {
            (Self::Kernel { devices, is_instead }, _) => {
                let (verdict, why) = kernel(asked, devices);
                let instead = is_instead.then(|| INSTEAD.to_owned());
                return (verdict, why.or(instead));
            }
            (_, DeviceArgument::Numbers(pattern)) => vec![question(*pattern)],
            _ => match self.named(asked) {
                Ok(devices) => devices.into_iter().map(of_device).collect(),
                Err(why) => return (UNKNOWN, Some(why)),
            },
        };
        let Self::Policy { checker, .. } = self else { return (UNKNOWN, None) };
        let mut replies = questions.iter().map(|question| {
            let check = checker.check(question, text);
            (check.verdict, check.why)
        });
        let Some(first) = replies.next() else { return (UNKNOWN, None) };
        replies.fold(first, together)
    }

    /// The devices that are asked about by path or name.
    fn named(&self, asked: &DeviceArgument<'_>) -> Result<Vec<Device>, String> {
        match asked {
            DeviceArgument::Node(path) => Ok(vec![self.devices().node(path)?]),
            DeviceArgument::Name(name) => self.devices().all_named(name).map_err(|why| why.to_string()),
            DeviceArgument::Numbers(_) => Err("it is given by number".to_owned()),
        }
    }
}

/// One answer about two devices.
fn together(one: Reply, other: Reply) -> Reply {
    match (one.0, other.0) {
        (same, again) if same == again => (same, one.1.or(other.1)),
        (UNKNOWN, _) => one,
        (_, UNKNOWN) => other,
        _ => (Verdicts::Mixed, Some("differs by device".to_owned())),
    }
}

fn question(pattern: Pattern) -> Question {
    let Pattern { kind, major, minor, requests } = pattern;
    Question { kind, major, minor, requests }
}

fn of_device(device: Device) -> Question {
    let Device { kind, major, minor } = device;
    let (major, minor) = (Span::one(major), Span::one(minor));
    Question { kind: Some(kind), major, minor, requests: Request::ReadWrite.into() }
}

/// The most devices of one question that the kernel is asked about.
const MOST_ASKED: u32 = 256;

/// The kernel's answer about each of the devices, together.
fn kernel(asked: &DeviceArgument<'_>, devices: &Devices) -> Reply {
    let unknown = |why: &str| (UNKNOWN, Some(why.to_owned()));
    let (asked, requests) = match asked {
        DeviceArgument::Node(path) => return of_path(&devices.local_path(path), Request::ReadWrite.into()),
        DeviceArgument::Name(name) => match devices.all_named(name) {
            Ok(named) => (named, Request::ReadWrite.into()),
            Err(why) => return unknown(&why.to_string()),
        },
        DeviceArgument::Numbers(pattern) => match single_ones(pattern) {
            Some(numbers) => (numbers, pattern.requests),
            None => return unknown("access(2) asks about one device at a time, and these are too many"),
        },
    };
    let mut replies = asked.into_iter().map(|device| match devices.node_for(device) {
        Some(path) => of_path(&path, requests),
        None => unknown(&no_node(devices)),
    });
    let Some(first) = replies.next() else { return unknown("it is no device") };
    replies.fold(first, together)
}

/// The devices of a pattern, if they are of one kind and few.
fn single_ones(pattern: &Pattern) -> Option<Vec<Device>> {
    let kind = pattern.kind?;
    let (majors, minors) = (pattern.major, pattern.minor);
    let count = |span: Span| span.last.saturating_sub(span.first).saturating_add(1);
    if count(majors).saturating_mul(count(minors)) > MOST_ASKED {
        return None;
    }
    let of = |major| (minors.first..=minors.last).map(move |minor| Device { kind, major, minor });
    Some((majors.first..=majors.last).flat_map(of).collect())
}

/// The kernel's answer about one node: what gpumap itself may do with it.
pub(in crate::commands) fn of_path(path: &Path, requests: RequestSet) -> Reply {
    let unknown = |why: &str| (UNKNOWN, Some(why.to_owned()));
    if path.metadata().is_ok_and(|metadata| !is_device(&metadata)) {
        return unknown("it is not a device node");
    }
    match requests.single() {
        Some(request) => {
            let (verdict, why) = ask(path, request);
            (verdict.into(), why)
        }
        None => unknown("access(2) asks about one request at a time, and never about mknod"),
    }
}

fn no_node(devices: &Devices) -> String {
    format!("there is no node for it under {}", devices.dev().display())
}

fn is_device(metadata: &Metadata) -> bool {
    metadata.file_type().is_char_device() || metadata.file_type().is_block_device()
}

/// The kernel's answer and, unless it allows, the reason.
fn ask(path: &Path, request: Request) -> (Verdict, Option<String>) {
    let Some(access) = access(request) else {
        return (Verdict::Unknown, Some("access(2) cannot ask for mknod".to_owned()));
    };
    let (verdict, why) = match probe(path, access) {
        AccessAnswer::Allowed => return (Verdict::Allow, None),
        AccessAnswer::DevicePolicy => (Verdict::Deny, "refused by the device policy (EPERM)"),
        AccessAnswer::FilePermission => {
            (Verdict::Deny, "refused by file permissions, or by a program's own EACCES")
        }
        AccessAnswer::NoSuchFile => (Verdict::Unknown, "there is no such node"),
        AccessAnswer::NoDevice => (Verdict::Unknown, "there is no driver behind the node"),
        AccessAnswer::Unsupported => (Verdict::Unknown, "asking for an effective uid takes Linux 5.8"),
        AccessAnswer::Other(errno) => (Verdict::Unknown, errno.desc()),
    };
    (verdict, Some(why.to_owned()))
}

fn access(request: Request) -> Option<Access> {
    match request {
        Request::Exists => Some(Access::Exists),
        Request::Mknod => None,
        Request::Read => Some(Access::Read),
        Request::Write => Some(Access::Write),
        Request::ReadWrite => Some(Access::ReadWrite),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Make sure that "allowed" and "no such node" are different answers.
    #[test]
    fn null_and_nothing() {
        assert_eq!(ask(Path::new("/dev/null"), Request::ReadWrite), (Verdict::Allow, None));
        assert_eq!(ask(Path::new("/dev/null"), Request::Mknod).0, Verdict::Unknown);
        assert_eq!(ask(Path::new("/dev/no-such-node"), Request::Read).0, Verdict::Unknown);
    }
}
