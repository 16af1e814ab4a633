//! The proof after a change: everything at and below the cgroup is looked at again,
//! and the kernel is asked from inside.

use std::collections::HashSet;
use std::io;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::path::Path;

use nix::libc;

use super::error::ApplyError;
use crate::analyse;
use crate::model::{CgroupPath, Device, DeviceType, InOrder as _, Request, Verdict};
use crate::observation::{Cgroup, Observation, Text};
use crate::observe::verify::{self, Node};
use crate::observe::{self, CgroupTarget, ObserveError, Options};
use crate::policy::{Combination, Context, Decoder, Policy};
use crate::report::ListedRule;
use crate::sys::absence::OrAbsent as _;
use crate::sys::dir::Dir;
use crate::sys::retry::again;

/// Entries of a directory of `/dev` that are looked at.
const ENTRY_LIMIT: usize = 4096;
/// Nodes that are asked about.
const NODE_LIMIT: usize = 64;
/// Cgroups from inside of which the kernel is asked.
const CGROUP_LIMIT: usize = 16;

/// Everything at and below a cgroup as it is now.
pub(super) fn look(options: &Options, level: &Text) -> Result<Observation, ApplyError> {
    Ok(observe::cgroups(options, &[CgroupTarget::observed(level, true)])?)
}

/// The cgroups of the first look at and below `level` that the second one lacks
/// although they are still there, or may be: nothing is proved of them.
pub(super) fn overlooked(
    options: &Options,
    first: &Observation,
    second: &Observation,
    level: &Text,
) -> Vec<String> {
    let seen: HashSet<(&Text, u64)> = second.cgroups.iter().map(|cgroup| (&cgroup.path, cgroup.id)).collect();
    let is_overlooked = |cgroup: &&Cgroup| {
        CgroupPath::new(&cgroup.path).is_at_or_below(CgroupPath::new(level))
            && !seen.contains(&(&cgroup.path, cgroup.id))
            && !matches!(
                observe::open_cgroup(options, &cgroup.path, cgroup.id),
                Err(ObserveError::NoSuchCgroup { .. })
            )
    };
    let overlooked = first.cgroups.iter().filter(is_overlooked);
    overlooked.map(|cgroup| format!("{} could not be looked at again", cgroup.path.lossy())).collect()
}

/// What the kernel answered from inside.
#[derive(Debug, Default)]
pub(super) struct AskedFromInside {
    /// Answers that agree with the decoded policy.
    pub(super) agreed: usize,
    /// What could not be asked, a sentence each.
    pub(super) not_asked: Vec<String>,
    /// Answers that contradict it, a sentence each.
    pub(super) contradictions: Vec<String>,
}

/// Asks the kernel in cgroups at and below `meant` about the devices of `rules` and
/// about those of GPUs, and compares its answers with the decoded policies.
pub(super) fn ask(
    options: &Options,
    now: &mut Observation,
    meant: &Text,
    rules: &[ListedRule],
) -> AskedFromInside {
    let (nodes, not_asked) = nodes(options, now, rules);
    let mut asked = AskedFromInside { not_asked, ..AskedFromInside::default() };
    if nodes.is_empty() && asked.not_asked.is_empty() {
        asked.not_asked.push("no node of these devices is in /dev".to_owned());
    }
    if nodes.is_empty() {
        return asked;
    }
    let cgroups = with_processes(now, meant);
    if cgroups.is_empty() {
        asked.not_asked.push("no process is there to ask beside".to_owned());
        return asked;
    }
    verify::verify(options, now, &cgroups, &nodes);
    let mut decoder = Decoder::new();
    let policies = analyse::policies_below(now, meant, &mut decoder);
    for answer in &now.verified {
        let policy = policies.iter().find(|(cgroup, _)| cgroup.path == answer.cgroup);
        let place = format!("{} in {}", answer.path, answer.cgroup.lossy());
        match (answer.allowed.known(), policy) {
            (Some(allowed), Some((_, policy))) => {
                let says = decided(&decoder, *policy, answer.major, answer.minor);
                if says == if *allowed { Verdict::Allow } else { Verdict::Deny } {
                    asked.agreed += 1;
                } else {
                    asked.contradictions.push(format!("the kernel does not decide as planned about {place}"));
                }
            }
            (None, _) => {
                let why = answer.allowed.missing().unwrap_or_default();
                asked.not_asked.push(format!("{place}: {why}"));
            }
            _ => {}
        }
    }
    asked
}

fn decided(decoder: &Decoder, policy: Policy, major: u32, minor: u32) -> Verdict {
    decoder.verdict(policy, Device { kind: DeviceType::Char, major, minor }, Request::ReadWrite)
}

/// The cgroups with processes; of those with the same programs in force one.
fn with_processes(now: &Observation, meant: &Text) -> Vec<Text> {
    let mut seen = HashSet::new();
    let is_one = |cgroup: &&Cgroup| {
        let is_there = CgroupPath::new(&cgroup.path).is_at_or_below(CgroupPath::new(meant));
        is_there && !cgroup.pids.is_empty() && seen.insert(cgroup.effective.known().cloned())
    };
    let cgroups = now.cgroups.iter().filter(is_one).map(|cgroup| cgroup.path.clone());
    cgroups.collect::<Vec<_>>().into_iter().take(CGROUP_LIMIT).collect()
}

/// Nodes of character devices of the rules, and of GPUs, so that what must stay denied
/// is asked about too; and what of `/dev` could not be looked at, a sentence each.
fn nodes(options: &Options, now: &Observation, rules: &[ListedRule]) -> (Vec<Node>, Vec<String>) {
    let characters =
        rules.iter().map(|listed| &listed.rule).filter(|rule| rule.kind == Some(DeviceType::Char));
    let wanted: HashSet<(u32, u32)> =
        characters.filter_map(|rule| rule.major.single().zip(rule.minor.single())).collect();
    let majors: HashSet<u32> = wanted.iter().map(|(major, _)| *major).collect();
    let known = now.gpu_facts.nodes.iter().filter(|node| node.kind == DeviceType::Char);
    let mut nodes: Vec<Node> =
        known.map(|node| Node { path: node.path.clone(), major: node.major, minor: node.minor }).collect();
    let dev = options.gpu_root.join("dev");
    let (mut found, mut unread) = (Vec::new(), Vec::new());
    character_devices(&dev, Path::new("/dev"), true, &mut found, &mut unread);
    // Neighbours of the same driver are asked about too: they must not have changed.
    nodes.extend(found.into_iter().filter(|node| majors.contains(&node.major)));
    nodes.order_by_key(|node| (!wanted.contains(&(node.major, node.minor)), node.major, node.minor));
    nodes.dedup_by_key(|node| (node.major, node.minor));
    nodes.truncate(NODE_LIMIT);
    (nodes, unread)
}

/// The character devices of a directory and of its directories.
fn character_devices(
    dir: &Path,
    named: &Path,
    deeper: bool,
    found: &mut Vec<Node>,
    unread: &mut Vec<String>,
) {
    let failed = |path: &Path, error: io::Error| format!("{}: {error}", path.display());
    let mut names = Vec::new();
    let listed = Dir::open(dir).and_then(|open| {
        open.names(|name| {
            names.push(name.to_owned());
            names.len() < ENTRY_LIMIT
        })
    });
    if let Err(errno) = listed.or_absent() {
        unread.push(failed(named, errno.into()));
    }
    for name in names {
        let (path, real) = (named.join(&name), dir.join(&name));
        let facts = match again(|| real.symlink_metadata()).or_absent() {
            Ok(Some(facts)) => facts,
            Ok(None) => continue,
            Err(error) => {
                unread.push(failed(&path, error));
                continue;
            }
        };
        if facts.file_type().is_char_device() {
            let number = facts.rdev();
            let (major, minor) = (libc::major(number), libc::minor(number));
            found.push(Node { path: path.to_string_lossy().into_owned(), major, minor });
        } else if facts.file_type().is_dir() && deeper {
            character_devices(&real, &path, false, found, unread);
        }
    }
}

/// What a program that was read decides, in a decoder of its own.
pub(super) fn decoded(seen: &Observation, id: u32) -> Result<(Decoder, Policy), ApplyError> {
    let mut decoder = Decoder::new();
    let context =
        Context { maps: &seen.maps, combination: Combination::of_host(&seen.host), ..Context::default() };
    let program = seen.programs.iter().find(|program| program.id == id);
    let policy = program.and_then(|program| decoder.policy_anywhere(program, &context));
    let policy = policy.ok_or_else(|| {
        ApplyError::refused(format!("what program {id} decides is not the same in every place"))
    })?;
    Ok((decoder, policy))
}

/// The cgroups at and below one.
pub(super) fn count(now: &Observation, level: &Text) -> usize {
    let is_there = |path: &Text| CgroupPath::new(path).is_at_or_below(CgroupPath::new(level));
    now.cgroups.iter().filter(|cgroup| is_there(&cgroup.path)).count()
}
