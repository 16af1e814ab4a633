//! Reads lists of programs by the iterator over cgroups and by `BPF_PROG_QUERY`:
//! both must give the same answer.

use std::collections::HashMap;
use std::fs::{self, File};
use std::os::fd::{AsFd as _, AsRawFd as _, OwnedFd};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use crate::support::bpf::{self, Attr, MULTI, OVERRIDE, PREORDER, attach, detach};
use crate::support::cgroup::{Cgroup, mount};
use crate::support::kernel::release;
use crate::support::{host, node, wait};
use gpumap::observe::monitor::cgroups::{Listed, ListsError, Walk, Walked};
use gpumap::sys::dir::Dir;

const PROG_QUERY: i32 = 16;
const ATTACH_CGROUP_DEVICE: u32 = 6;
/// Programs that one cgroup can have, and programs in force that the iterator
/// shows (`bpf/cgroups.h`).
const OWN: usize = 64;
const EFFECTIVE: usize = 128;

/// What the kernel says of one cgroup when it is asked.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Asked {
    own: Vec<u32>,
    attach_flags: u32,
    revision: u64,
    effective: Vec<u32>,
    links: u64,
}

/// `None` if it is gone.
fn ask(dir: &File) -> Option<Asked> {
    let mut own = vec![0_u32; 512];
    let mut attr = Attr::new()
        .fd(0, dir.as_raw_fd())
        .u32(4, ATTACH_CGROUP_DEVICE)
        .pointer(16, own.as_mut_ptr())
        .u32(24, u32::try_from(own.len()).unwrap());
    bpf::bpf(PROG_QUERY, &mut attr).ok()?;
    own.truncate(attr.get_u32(24) as usize);
    Some(Asked {
        own,
        attach_flags: attr.get_u32(12),
        revision: u64::from(attr.get_u32(60)) << 32 | u64::from(attr.get_u32(56)),
        effective: bpf::effective(dir).ok()?,
        links: dir.metadata().ok()?.nlink(),
    })
}

fn same(listed: &Listed<'_>, asked: &Asked) -> bool {
    let own = if asked.own.len() <= OWN { Some(asked.own.as_slice()) } else { None };
    let effective = if asked.effective.len() <= EFFECTIVE { Some(asked.effective.as_slice()) } else { None };
    (listed.own, listed.effective) == (own, effective)
        && (listed.attach_flags, listed.revision, listed.links)
            == (asked.attach_flags, asked.revision, asked.links)
}

/// Compares cgroups that nobody else knows of.
fn compare(walked: &Walked, cgroups: &[&Cgroup]) {
    for cgroup in cgroups {
        let (listed, asked) = (walked.get(cgroup.id()).unwrap(), ask(cgroup.dir()).unwrap());
        assert!(same(&listed, &asked), "{:?}: {listed:?}, {asked:?}", cgroup.path());
    }
}

/// The iterator over a cgroup; `None` where this kernel has none.
fn walk(top: &Path, room: usize) -> Option<Walk> {
    match Walk::load(&Dir::open(top).unwrap(), room) {
        Ok(walk) => Some(walk),
        Err(why) => {
            host::skip(&why.to_string());
            None
        }
    }
}

fn programs(count: usize) -> Vec<OwnedFd> {
    (0..count).map(|at| node::deny(195, i32::try_from(at).unwrap())).collect()
}

/// Make sure that every way of attaching is shown as it is told, whatever was
/// changed, made or removed between two walks.
#[test]
fn tree() {
    let Some(_host) = host::shared() else { return };
    let top = Cgroup::new().unwrap();
    let Some(mut walk) = walk(top.path(), 0) else { return };
    let programs = programs(8);
    let (a, b) = (top.child("a").unwrap(), top.child("b").unwrap());
    let (aa, ab) = (a.child("aa").unwrap(), a.child("ab").unwrap());
    let aaa = aa.child("aaa").unwrap();
    let all = [&top, &a, &b, &aa, &ab, &aaa];
    let mut same = |gone: Option<u64>, cgroups: &[&Cgroup]| {
        let walked = walk.read().unwrap();
        assert_eq!(walked.len(), cgroups.len());
        assert!(gone.is_none_or(|id| walked.get(id).is_none()));
        compare(&walked, cgroups);
    };
    same(None, &all);
    // Links, and programs that run before those of the cgroups below.
    let preorder = if release() >= (6, 15) { PREORDER } else { 0 };
    attach(top.dir(), &programs[0], MULTI, None).unwrap();
    attach(top.dir(), &programs[1], MULTI | preorder, None).unwrap();
    let link = bpf::link(top.dir(), &programs[2], 0).unwrap();
    attach(a.dir(), &programs[3], MULTI | preorder, None).unwrap();
    attach(a.dir(), &programs[4], MULTI, None).unwrap();
    attach(aa.dir(), &programs[5], OVERRIDE, None).unwrap();
    attach(aaa.dir(), &programs[6], MULTI, None).unwrap();
    attach(ab.dir(), &programs[7], 0, None).unwrap();
    same(None, &all);
    bpf::update_link(&link, &programs[7]).unwrap();
    attach(a.dir(), &programs[6], MULTI, Some(&programs[4])).unwrap();
    attach(aa.dir(), &programs[4], OVERRIDE, None).unwrap();
    detach(aaa.dir(), programs[6].as_fd()).unwrap();
    let late = b.child("late").unwrap();
    same(None, &[&top, &a, &b, &aa, &ab, &aaa, &late]);
    bpf::unlink(&link).unwrap();
    let id = late.id();
    drop(late);
    same(Some(id), &all);
    [aaa, aa, ab, a, b].into_iter().for_each(drop);
    same(None, &[&top]);
}

/// Make sure that full lists are shown, and that what is longer than a record
/// is said to be cut.
#[test]
fn long_lists() {
    let Some(_host) = host::shared() else { return };
    let chain = Cgroup::chain(3).unwrap();
    let Some(mut walk) = walk(chain[0].path(), 0) else { return };
    let programs = programs(OWN);
    for (cgroup, count) in chain.iter().zip([OWN, OWN, 1]) {
        programs[..count].iter().for_each(|one| attach(cgroup.dir(), one, MULTI, None).unwrap());
    }
    let walked = walk.read().unwrap();
    compare(&walked, &chain.iter().collect::<Vec<_>>());
    let lengths = |at: usize| {
        let listed = walked.get(chain[at].id()).unwrap();
        (listed.own.map(<[u32]>::len), listed.effective.map(<[u32]>::len))
    };
    assert_eq!([0, 1, 2].map(lengths), [(Some(64), Some(64)), (Some(64), Some(128)), (Some(1), None)]);
    chain.into_iter().rev().for_each(drop);
}

/// Make sure that a walk whose records do not fit is none, and the next one is
/// whole again when they do.
#[test]
fn full() {
    let Some(_host) = host::shared() else { return };
    let chain = Cgroup::chain(2).unwrap();
    let Some(mut walk) = walk(chain[0].path(), 0) else { return };
    let programs = programs(OWN);
    for cgroup in &chain {
        programs.iter().for_each(|one| attach(cgroup.dir(), one, MULTI, None).unwrap());
    }
    let children: Vec<Cgroup> = (0..500).map(|at| chain[1].child(&format!("c{at}")).unwrap()).collect();
    for _ in 0..3 {
        assert!(matches!(walk.read(), Err(ListsError::NotWhole)));
    }
    drop(children);
    let walked = walk.read().unwrap();
    assert_eq!(walked.len(), 2);
    compare(&walked, &chain.iter().collect::<Vec<_>>());
    chain.into_iter().rev().for_each(drop);
}

/// Every cgroup of the machine that can be opened, with what it says.
fn everything(top: &Path) -> HashMap<u64, (File, Asked)> {
    let mut ahead: Vec<PathBuf> = vec![top.to_owned()];
    let mut all = HashMap::new();
    while let Some(path) = ahead.pop() {
        let entries = fs::read_dir(&path).into_iter().flatten().filter_map(Result::ok);
        ahead.extend(entries.filter(|it| it.file_type().is_ok_and(|kind| kind.is_dir())).map(|it| it.path()));
        if let Ok(dir) = File::open(&path)
            && let Ok(stat) = dir.metadata()
            && let Some(asked) = ask(&dir)
        {
            all.insert(stat.ino(), (dir, asked));
        }
    }
    all
}

/// Make sure that both agree about every cgroup of the machine that was the
/// same before and after the walk.
#[test]
fn machine() {
    let Some(_host) = host::shared() else { return };
    let top = mount().unwrap();
    let Some(mut walk) = walk(&top, 16 << 20) else { return };
    // On a machine with few cgroups other tests may have changed all of them meanwhile.
    wait::eventually("a cgroup is the same before and after", || {
        let before = everything(&top);
        let walked = walk.read().unwrap();
        let unchanged = before.iter().filter(|(_, (dir, asked))| ask(dir).as_ref() == Some(asked));
        let mut compared = 0;
        for (id, (_, asked)) in unchanged {
            let listed = walked.get(*id).unwrap();
            assert!(same(&listed, asked), "{id}: {listed:?}, {asked:?}");
            compared += 1;
        }
        println!("{compared} of {} cgroups compared", walked.len());
        compared > 0
    });
}

/// Make sure that what is no cgroup2 directory is refused, with a reason.
#[test]
fn elsewhere() {
    let Some(_host) = host::shared() else { return };
    let why = Walk::load(&Dir::open(Path::new("/")).unwrap(), 0).unwrap_err();
    assert!(why.to_string().starts_with("the iterator over cgroups cannot be loaded ("), "{why}");
}
