//! Asks the kernel itself from inside the cgroups (`--verify`). This is the only
//! thing that gpumap does to a cgroup: for a moment it has one more process, which
//! opens no device.

mod handle;

use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};

use nix::errno::Errno;

use super::cgroups::hierarchy::{Hierarchy, relative};
use super::options::Options;
use super::problems::Log;
use crate::model::ProblemCode;
use crate::observation::{Answer, Cgroup, Observation, Text, Verification};
use crate::sys::absence::OrAbsent as _;
use crate::sys::access::{self, Access};
use crate::sys::bpf::{ListKind, query};
use crate::sys::dir::Dir;
use crate::sys::spawn::{AskError, QUESTION_LIMIT, ask_inside};
use handle::{Handle, open};

pub use handle::Node;

/// Cgroups that are asked.
pub const CGROUP_LIMIT: usize = 256;
/// How long one process may take; the usual time is well below a millisecond.
const PATIENCE: Duration = Duration::from_secs(1);

/// Asks the kernel in each cgroup about each character device, and adds the answers
/// to the observation. Only cgroups with processes are used, because a first process
/// in an empty cgroup would change its `populated` state, which others may watch.
///
/// Since Linux 5.8; the process has to be allowed into the cgroup (root). A question
/// that could not be asked has a missing answer, with the reason.
pub fn verify(options: &Options, observation: &mut Observation, cgroups: &[Text], nodes: &[Node]) {
    let mut log = Log::new(options.deadline);
    let v1 = observation.devices_v1.is_some();
    let handles: Vec<Handle<'_>> =
        nodes.iter().take(QUESTION_LIMIT).map(|node| open(options, node, v1)).collect();
    let hierarchy = Hierarchy::find(options);
    let mut verified = Vec::new();
    for path in cgroups.iter().take(CGROUP_LIMIT) {
        if log.out_of_time("asking the kernel in cgroups") {
            break;
        }
        let asked = match &hierarchy {
            Ok(hierarchy) => in_cgroup(hierarchy, observation, path, &handles, patience(options)),
            Err(error) => Err(error.to_string()),
        };
        match asked {
            Ok(answers) => verified.extend(answers),
            Err(why) => verified.push(whole(path, why)),
        }
    }
    if !verified.is_empty() && verified.iter().all(|one| one.allowed.known().is_none()) {
        let why = verified.iter().find_map(|one| one.allowed.missing()).unwrap_or_default().to_owned();
        log.add(ProblemCode::NotVerified, "the kernel's own answers", why, "Linux 5.8, root, device nodes");
    }
    observation.verified.extend(verified);
    observation.errors.append(&mut log.problems);
}

/// The answers for a cgroup that could not be used at all.
fn whole(cgroup: &Text, why: String) -> Verification {
    let (cgroup, request) = (cgroup.clone(), handle::REQUEST.to_owned());
    Verification { cgroup, path: String::new(), major: 0, minor: 0, request, allowed: Answer::Missing(why) }
}

fn in_cgroup(
    hierarchy: &Hierarchy,
    observation: &Observation,
    path: &Text,
    handles: &[Handle<'_>],
    patience: Duration,
) -> Result<Vec<Verification>, String> {
    let observed = observation.cgroups.iter().find(|cgroup| cgroup.path == *path).ok_or("not observed")?;
    let dir = directory(hierarchy, observed)?;
    ready(&dir, path)?;
    let questions: Vec<(BorrowedFd<'_>, Access)> = handles
        .iter()
        // Why others were not opened stands in their answers.
        .filter_map(|handle| handle.place.as_ref().ok())
        .map(|place| (place.as_fd(), Access::ReadWrite))
        .collect();
    if questions.is_empty() {
        return Err("none of the device nodes is there to be asked about".to_owned());
    }
    let answers = ask_inside(dir.as_fd(), &questions, patience).map_err(|error| reason(error).to_owned())?;
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
    let parts: Vec<Vec<u8>> = observed
        .path
        .as_bytes()
        .split(|byte| *byte == b'/')
        .filter(|part| !part.is_empty())
        .map(<[u8]>::to_vec)
        .collect();
    let dir = hierarchy.handle.child(relative(&parts).as_path());
    match dir.and_then(|dir| Ok((dir.stat()?, dir))).or_absent() {
        Ok(Some((stat, dir))) if stat.inode == observed.id => Ok(dir),
        Ok(_) => Err("the cgroup is gone".to_owned()),
        Err(errno) => Err(format!("the cgroup: {}", errno.desc())),
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

fn patience(options: &Options) -> Duration {
    let left = options.deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
    left.map_or(PATIENCE, |left| left.min(PATIENCE))
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
    }
}
