//! Asks the kernel itself from inside the cgroups (`--verify`). This is the only
//! thing that gpumap does to a cgroup: for a moment it has one more process, which
//! opens no device.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::fcntl::{OFlag, openat};
use nix::sys::stat::Mode;

use super::cgroups::hierarchy::Hierarchy;
use super::options::Options;
use super::problems::Log;
use crate::model::{CgroupPath, ProblemCode};
use crate::observation::{Answer, Cgroup, Observation, Problem, Text, Verification};
use crate::sys::absence::OrAbsent as _;
use crate::sys::access::{self, Access};
use crate::sys::bpf::{ListKind, query};
use crate::sys::dir::Dir;
use crate::sys::spawn::{AskError, QUESTION_LIMIT, ask_inside};
use crate::sys::stat::{FileKind, stat_at};

/// Cgroups that are asked.
pub const CGROUP_LIMIT: usize = 256;
/// How long one process may take, and all of them together; the usual time of one is well
/// below a millisecond.
const PATIENCE: Duration = Duration::from_secs(1);
const PATIENCE_WITH_ALL: Duration = Duration::from_secs(5);

/// Asks the kernel in each cgroup about each character device, and adds the answers
/// to the observation. Only cgroups with processes are used, because a first process
/// in an empty cgroup would change its `populated` state, which others may watch.
///
/// Since Linux 5.8; the process has to be allowed into the cgroup (root). A question
/// that could not be asked has a missing answer, with the reason.
pub fn verify(options: &Options, observation: &mut Observation, cgroups: &[Text], nodes: &[Node]) {
    let (verified, mut problems) = ask(options, observation, cgroups, nodes);
    observation.verified.extend(verified);
    observation.errors.append(&mut problems);
}

/// The same, with the answers and problems apart. All processes together take no longer
/// than a few seconds, whatever their cgroups do to them; what was not asked in that time
/// is a problem.
pub fn ask(
    options: &Options,
    observation: &Observation,
    cgroups: &[Text],
    nodes: &[Node],
) -> (Vec<Verification>, Vec<Problem>) {
    let v1 = observation.devices_v1.is_some();
    let handles: Vec<Handle<'_>> =
        nodes.iter().take(QUESTION_LIMIT).map(|node| open(options, node, v1)).collect();
    let hierarchy = Hierarchy::find(options);
    // Without a hierarchy nothing is asked, and each cgroup says why.
    let home = hierarchy.as_ref().ok().and_then(own_directory);
    let mut round = Round { end: end(options), home, unanswered: Vec::new(), verified: Vec::new() };
    for path in cgroups.iter().take(CGROUP_LIMIT) {
        match &hierarchy {
            Ok(hierarchy) => round.ask(hierarchy, observation, path, &handles),
            Err(error) => round.verified.push(whole(path, error.to_string())),
        }
    }
    let over = cgroups.len().saturating_sub(CGROUP_LIMIT);
    let problems = round.problems(over);
    (round.verified, problems)
}

/// When the last process is given up.
fn end(options: &Options) -> Instant {
    let end = Instant::now() + PATIENCE_WITH_ALL;
    options.deadline.map_or(end, |deadline| deadline.min(end))
}

/// The directory of gpumap's own cgroup: where a process is taken that gets no time in the
/// cgroup that it asks in.
fn own_directory(hierarchy: &Hierarchy) -> Option<Dir> {
    let path = hierarchy.own_cgroup()?;
    // A late process stays where it is then, and is left behind there.
    hierarchy.open(CgroupPath::new(&path)).ok()
}

/// All questions of one `--verify`.
struct Round {
    end: Instant,
    home: Option<Dir>,
    /// Why cgroups have no answers that should have some.
    unanswered: Vec<&'static str>,
    verified: Vec<Verification>,
}

impl Round {
    fn ask(&mut self, hierarchy: &Hierarchy, observation: &Observation, path: &Text, handles: &[Handle<'_>]) {
        let left = self.end.saturating_duration_since(Instant::now());
        let asked = if left.is_zero() {
            Err(Unasked::Unanswered("there was no time left to ask in it"))
        } else {
            let home = self.home.as_ref().map(AsFd::as_fd);
            in_cgroup(hierarchy, observation, path, handles, (home, left.min(PATIENCE)))
        };
        match asked {
            Ok(answers) => self.verified.extend(answers),
            Err(Unasked::Unanswered(why)) => {
                self.unanswered.push(why);
                self.verified.push(whole(path, why.to_owned()));
            }
            Err(Unasked::Why(why)) => self.verified.push(whole(path, why)),
        }
    }

    fn problems(&self, over: usize) -> Vec<Problem> {
        let mut log = Log::new(None);
        let mut add = |why: String, needs: &str| {
            log.add(ProblemCode::NotVerified, "the kernel's own answers", why, needs);
        };
        if let Some(why) = self.unanswered.first() {
            let count = self.unanswered.len();
            let which = if count == 1 { "of one cgroup".to_owned() } else { format!("of {count} cgroups") };
            add(format!("missing {which}: {why}"), "try again when these cgroups are calmer");
        }
        if over > 0 {
            add(format!("{over} more cgroups were not asked"), "name the cgroups to audit");
        }
        if !self.verified.is_empty() && self.verified.iter().all(|one| one.allowed.known().is_none()) {
            let why = self.verified.iter().find_map(|one| one.allowed.missing()).unwrap_or_default();
            add(why.to_owned(), "Linux 5.8, root, device nodes");
        }
        log.problems
    }
}

/// Why a cgroup has no answers.
enum Unasked {
    /// Its process could not answer, because of those who use the cgroup.
    Unanswered(&'static str),
    Why(String),
}

impl From<String> for Unasked {
    fn from(why: String) -> Self {
        Self::Why(why)
    }
}

/// The answers for a cgroup that could not be used at all.
fn whole(cgroup: &Text, why: String) -> Verification {
    let (cgroup, request) = (cgroup.clone(), REQUEST.to_owned());
    Verification { cgroup, path: String::new(), major: 0, minor: 0, request, allowed: Answer::Missing(why) }
}

fn in_cgroup(
    hierarchy: &Hierarchy,
    observation: &Observation,
    path: &Text,
    handles: &[Handle<'_>],
    (home, patience): (Option<BorrowedFd<'_>>, Duration),
) -> Result<Vec<Verification>, Unasked> {
    let observed = observation.cgroups.iter().find(|cgroup| cgroup.path == *path);
    let observed = observed.ok_or_else(|| "not observed".to_owned())?;
    let dir = directory(hierarchy, observed)?;
    ready(&dir, path)?;
    let questions: Vec<(BorrowedFd<'_>, Access)> = handles
        .iter()
        // Why others were not opened stands in their answers.
        .filter_map(|handle| handle.place.as_ref().ok())
        .map(|place| (place.as_fd(), Access::ReadWrite))
        .collect();
    if questions.is_empty() {
        return Err("none of the device nodes is there to be asked about".to_owned().into());
    }
    let answers = ask_inside(dir.as_fd(), home, &questions, patience).map_err(|error| match error {
        AskError::TimedOut | AskError::Died | AskError::Elsewhere | AskError::TooMany => {
            Unasked::Unanswered(reason(error))
        }
        _ => Unasked::Why(reason(error).to_owned()),
    })?;
    let mut answers = answers.into_iter();
    unchanged(&dir, observed)?;
    let verification = |handle: &Handle<'_>| {
        let allowed = match &handle.place {
            Ok(_) => handle.answer(answers.next().unwrap_or(access::AccessAnswer::Unsupported)),
            Err(why) => Answer::Missing(why.clone()),
        };
        handle.verification(path, allowed)
    };
    Ok(handles.iter().map(verification).collect())
}

/// The cgroup's directory, if it is still the one that was observed.
fn directory(hierarchy: &Hierarchy, observed: &Cgroup) -> Result<Dir, String> {
    let opened = hierarchy.open(CgroupPath::new(&observed.path));
    let opened = opened.and_then(|dir| Ok((dir.stat()?.inode, dir)));
    match opened.or_removed().map_err(|errno| errno.desc().to_owned())? {
        Some((inode, dir)) if inode == observed.id => Ok(dir),
        _ => Err("the cgroup is gone".to_owned()),
    }
}

/// Whether the cgroup has processes already, so that one more makes no difference.
/// The root has no such file and always has processes.
fn ready(dir: &Dir, path: &Text) -> Result<(), String> {
    if path.as_bytes() == b"/" {
        return Ok(());
    }
    let mut events = Vec::new();
    dir.read_into(c"cgroup.events", &mut events, 4096).map_err(|errno| errno.desc().to_owned())?;
    let says = |line: &str| events.split(|byte| *byte == b'\n').any(|found| found == line.as_bytes());
    match (says("populated 1"), says("frozen 1")) {
        (false, _) => Err("no process is in it".to_owned()),
        (true, true) => Err("the cgroup is frozen".to_owned()),
        (true, false) => Ok(()),
    }
}

/// Answers about other programs than those observed say nothing.
fn unchanged(dir: &Dir, observed: &Cgroup) -> Result<(), String> {
    let now = query(dir.as_fd(), ListKind::Effective).map_err(|error| error.to_string())?;
    match observed.effective.known() {
        Some(before) if *before == now.ids => Ok(()),
        Some(_) => Err("its programs changed meanwhile".to_owned()),
        None => Err("its programs are not known".to_owned()),
    }
}

fn reason(error: AskError) -> &'static str {
    match error {
        AskError::Start(Errno::EBUSY) => "the cgroup may have no processes of its own",
        AskError::Start(Errno::EOPNOTSUPP) => {
            "the cgroup is beside threaded ones and takes no process (domain invalid)"
        }
        AskError::Start(Errno::EAGAIN) => "its pids.max leaves no room for a process",
        AskError::Start(Errno::ENOENT | Errno::ENODEV) => "the cgroup is gone",
        AskError::Start(Errno::ENOSYS | Errno::E2BIG) => "needs Linux 5.8",
        AskError::Start(Errno::EACCES | Errno::EPERM) => "no right to start a process in it",
        AskError::Start(errno) => errno.desc(),
        AskError::TimedOut => "a process in it did not answer in time",
        AskError::Died => "a process in it was killed before it answered",
        AskError::Elsewhere => "nothing says that its process stayed in it: it may have been moved",
        AskError::TooMany => "too many processes that asked before it have not ended yet",
    }
}

/// The request that is asked about: opening a GPU for reading and writing.
const REQUEST: &str = "rw";

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
struct Handle<'a> {
    node: &'a Node,
    /// The handle, or the reason why there is none.
    place: Result<OwnedFd, String>,
    immutable: bool,
}

/// With the v1 controller, the process stays in gpumap's own group of that, so
/// it can only tell of devices that this group allows.
fn open<'a>(options: &Options, node: &'a Node, v1: bool) -> Handle<'a> {
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
    fn verification(&self, cgroup: &Text, allowed: Answer<bool>) -> Verification {
        let Node { path, major, minor } = self.node.clone();
        Verification { cgroup: cgroup.clone(), path, major, minor, request: REQUEST.to_owned(), allowed }
    }

    /// The verdict of the device policy that follows from the kernel's answer.
    fn answer(&self, answer: access::AccessAnswer) -> Answer<bool> {
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
