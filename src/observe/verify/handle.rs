//! Device nodes to ask about, held by handles that open no device.

use std::os::fd::OwnedFd;

use nix::errno::Errno;
use nix::fcntl::{OFlag, openat};
use nix::sys::stat::Mode;

use crate::observation::{Answer, Text, Verification};
use crate::observe::options::Options;
use crate::sys::access::{self, Access};
use crate::sys::dir::Dir;
use crate::sys::stat::{FileKind, stat_at};

/// The request that is asked about: opening a GPU for reading and writing.
pub(super) const REQUEST: &str = "rw";

/// A node to ask about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    /// Its path on the node, such as `/dev/nvidia0`.
    pub path: String,
    /// Its major number.
    pub major: u32,
    /// Its minor number.
    pub minor: u32,
}

/// A node, held open without opening its device.
pub(super) struct Handle<'a> {
    node: &'a Node,
    /// The handle, or the reason why there is none.
    pub(super) place: Result<OwnedFd, String>,
    immutable: bool,
}

/// With the v1 controller, the process stays in gpumap's own group of that, so
/// it can only tell of devices that this group allows.
pub(super) fn open<'a>(options: &Options, node: &'a Node, v1: bool) -> Handle<'a> {
    let path = options.gpu_root.join(node.path.trim_start_matches('/'));
    let flags = OFlag::O_PATH | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
    let opened = Dir::open(&options.gpu_root)
        .and_then(|root| openat(&root, &path, flags, Mode::empty()))
        .and_then(|place| stat_at(&place, c"").map(|stat| (place, stat)));
    match opened {
        Ok((place, stat)) if stat.kind == FileKind::Char && stat.rdev == (node.major, node.minor) => {
            if v1 && access::probe_handle(&place, Access::ReadWrite) != access::AccessAnswer::Allowed {
                return Handle::missing(
                    node,
                    "gpumap itself may not open it, and its v1 device group may be why".to_owned(),
                );
            }
            Handle { node, place: Ok(place), immutable: stat.immutable }
        }
        Ok(_) => Handle::missing(node, "the node has another number".to_owned()),
        Err(Errno::ENOENT) => Handle::missing(node, "there is no node".to_owned()),
        Err(errno) => Handle::missing(node, format!("the node: {}", errno.desc())),
    }
}

impl<'a> Handle<'a> {
    fn missing(node: &'a Node, why: String) -> Self {
        Self { node, place: Err(why), immutable: false }
    }

    /// The answers about it in a cgroup.
    pub(super) fn verification(&self, cgroup: &Text, allowed: Answer<bool>) -> Verification {
        let Node { path, major, minor } = self.node.clone();
        Verification { cgroup: cgroup.clone(), path, major, minor, request: REQUEST.to_owned(), allowed }
    }

    /// The verdict of the device policy that follows from the kernel's answer.
    pub(super) fn answer(&self, answer: access::AccessAnswer) -> Answer<bool> {
        let why = match answer {
            access::AccessAnswer::Allowed => return Answer::Known(true),
            access::AccessAnswer::DevicePolicy if self.immutable => "the node is marked immutable".to_owned(),
            access::AccessAnswer::DevicePolicy => return Answer::Known(false),
            access::AccessAnswer::FilePermission => {
                "permission bits or a security module refuse before the device policy is asked".to_owned()
            }
            access::AccessAnswer::Unsupported => "needs Linux 5.8".to_owned(),
            access::AccessAnswer::NoSuchFile | access::AccessAnswer::NoDevice => {
                "the node is gone".to_owned()
            }
            access::AccessAnswer::Other(errno) => errno.desc().to_owned(),
        };
        Answer::Missing(why)
    }
}
