//! The two sources of verdicts for `check`: a decoded policy, or with `--self` the
//! kernel.

use std::fs::Metadata;
use std::os::unix::fs::FileTypeExt as _;

use super::own_access;
use crate::analyse::{Checker, Question};
use crate::cli::CheckArgs;
use crate::cli::device::{DeviceArgument, Pattern};
use crate::commands::invocation::{Failure, Invocation};
use crate::commands::subject;
use crate::commands::subject::devices::Devices;
use crate::gpu::NameError;
use crate::model::{Device, ProblemCode, Request, Span, Verdicts};
use crate::observation::Observation;

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
    },
}

/// A verdict with its reason, where one was asked for and there is one.
pub(super) type Reply = (Verdicts, Option<String>);

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
            return Ok(Self::Kernel { devices });
        }
        let source = subject::resolve(invocation, &args.target)?;
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
            Self::Policy { devices, .. } | Self::Kernel { devices } => devices,
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
            (Self::Kernel { devices }, _) => kernel(asked, devices).0,
            (Self::Policy { checker, .. }, DeviceArgument::Numbers(pattern)) => {
                checker.verdict(&question(*pattern))
            }
            _ => self.answer(asked, "").0,
        }
    }

    /// The verdict with its reason.
    pub(super) fn answer(&mut self, asked: &DeviceArgument<'_>, text: &str) -> Reply {
        let questions = match (&*self, asked) {
            (Self::Kernel { devices }, _) => return kernel(asked, devices),
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

fn kernel(asked: &DeviceArgument<'_>, devices: &Devices) -> Reply {
    let unknown = |why: &str| (UNKNOWN, Some(why.to_owned()));
    let (path, requests) = match asked {
        DeviceArgument::Name(name) => match devices.named(name).map(|device| devices.node_for(device)) {
            Ok(Some(path)) => (path, Request::ReadWrite.into()),
            Ok(None) => return unknown(&no_node(devices)),
            Err(why) => return unknown(&why.to_string()),
        },
        DeviceArgument::Node(path) => (devices.local_path(path), Request::ReadWrite.into()),
        DeviceArgument::Numbers(pattern) => {
            match question(*pattern).device().map(|one| devices.node_for(one)) {
                Some(Some(path)) => (path, pattern.requests),
                Some(None) => return unknown(&no_node(devices)),
                None => return unknown("access(2) asks about one device at a time"),
            }
        }
    };
    if path.metadata().is_ok_and(|metadata| !is_device(&metadata)) {
        return unknown("it is not a device node");
    }
    match requests.single() {
        Some(request) => {
            let (verdict, why) = own_access::ask(&path, request);
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
