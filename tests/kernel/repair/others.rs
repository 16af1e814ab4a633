//! Others at work at the same time: owners who write their programs again, agents that
//! replace, a second gpumap, the end of gpumap itself, and processes that open devices
//! all the while.

use std::num::NonZeroU64;
use std::os::fd::{AsFd as _, OwnedFd};
use std::process::Child;
use std::time::{Duration, Instant};

use gpumap::sys::bpf::{ListKind, Swap, query, swap_device};
use serde_json::{Value, json};

use super::scene::{MISSING, NARROW, Rooms, WIDE, effective, ids, may, program, relative};
use crate::support::bpf::{self, MULTI, OVERRIDE};
use crate::support::cgroup::Cgroup;
use crate::support::host;
use crate::support::kernel::counts_changes;
use crate::support::meanwhile::meanwhile;
use crate::support::oracle::Oracle;
use crate::support::programs::{attach, detach, prog_id};
use crate::support::rng::Rng;

fn lost() -> (Cgroup, OwnedFd) {
    let cgroup = Cgroup::new().unwrap();
    let old = program(NARROW);
    attach(cgroup.dir(), &old, MULTI);
    (cgroup, old)
}

fn words(cgroup: &Cgroup) -> Vec<String> {
    let path = relative(cgroup);
    let words = ["--json", "repair", "--cgroup", &path, "--allow", MISSING, "--direct", "--apply"];
    words.map(str::to_owned).to_vec()
}

fn undo(rooms: &Rooms) -> (Value, i32) {
    rooms.repair(&["--undo", &rooms.journal_name()])
}

/// Make sure that once the owner has made its program again, as systemd does beside
/// gpumap's, the old one is never put back; gpumap's own goes if no verdict depends on
/// it, and stays if one does.
#[test]
fn overtaken_by_the_owner() {
    let Some(_host) = host::shared() else { return };
    for (again, goes) in [(NARROW, true), (WIDE, true), ("allow a *:* rwm", false)] {
        let (cgroup, old) = lost();
        let rooms = Rooms::new();
        let output = rooms.gpumap(&words(&cgroup));
        assert_eq!(output.status.code(), Some(0), "{output:?}");
        let ours = effective(&cgroup)[0];
        let again = program(again);
        attach(cgroup.dir(), &again, MULTI);
        let (list, _) = rooms.repair(&["--list"]);
        assert_eq!(list["journals"][0]["state"], "overtaken", "{list:#}");
        let (told, status) = undo(&rooms);
        if goes {
            assert_eq!((status, effective(&cgroup)), (0, ids(&[&again])), "{told:#}");
            assert_eq!(rooms.kept(), (vec![], vec![]));
        } else {
            assert_eq!(status, 2, "{told:#}");
            assert!(told["errors"].to_string().contains("not put back"), "{told:#}");
            assert_eq!(effective(&cgroup), [ours, prog_id(&again)]);
        }
        assert!(!effective(&cgroup).contains(&prog_id(&old)));
    }
}

/// Make sure that a change that another undid is over, and lets go what it kept.
#[test]
fn undone_by_others() {
    let Some(_host) = host::shared() else { return };
    let (cgroup, old) = lost();
    let rooms = Rooms::new();
    assert_eq!(rooms.gpumap(&words(&cgroup)).status.code(), Some(0));
    let ours = gpumap::sys::bpf::program_by_id(effective(&cgroup)[0]).unwrap();
    let another = program(WIDE);
    bpf::attach(cgroup.dir(), &another, MULTI, Some(&ours)).unwrap();
    let (told, status) = undo(&rooms);
    assert_eq!((status, effective(&cgroup)), (0, ids(&[&another])), "{told:#}");
    assert!(told["journals"][0]["because"].as_str().unwrap().contains("nothing to undo"), "{told:#}");
    assert_eq!(rooms.kept(), (vec![], vec![]));
    drop(old);
}

/// Make sure that of several gpumaps at once one repairs, and the others say that
/// nothing is missing or that the list is another.
#[test]
fn several_at_once() {
    let Some(_host) = host::shared() else { return };
    let (cgroup, old) = lost();
    let rooms = Rooms::new();
    let children: Vec<Child> = (0..6).map(|_| rooms.command(&words(&cgroup)).spawn().unwrap()).collect();
    let outputs = children.into_iter().map(|child| child.wait_with_output().unwrap());
    let applied = outputs
        .filter(|output| {
            let document: Value = serde_json::from_slice(&output.stdout).unwrap();
            let (repair, errors) = (&document["repair"], document["errors"].to_string());
            let is_late =
                repair["state"] == json!("nothing-missing") || errors.contains("nothing was changed");
            assert!(is_late, "{document:#}");
            repair["applied"].is_object()
        })
        .count();
    assert_eq!(applied, 1);
    assert_eq!((effective(&cgroup).len(), rooms.kept().0.len()), (1, 1));
    let (told, status) = undo(&rooms);
    assert_eq!((status, effective(&cgroup)), (0, ids(&[&old])), "{told:#}");
}

/// Make sure that an agent that replaces its program all the time never loses one: what
/// gpumap replaces is what it planned with, or nothing. Without compare-and-swap, on a
/// cgroup's only program, the revision does it.
#[test]
fn an_agent_at_the_same_time() {
    // A cgroup whose programs change all the time leaves no answer about the node complete.
    let Some(_host) = host::exclusive() else { return };
    for flags in ways() {
        let cgroup = Cgroup::new().unwrap();
        let rooms = Rooms::new();
        let programs = [program(NARROW), program(NARROW)];
        attach(cgroup.dir(), &programs[0], flags);
        let (replaced, ()) = meanwhile(
            |going| {
                let (mut at, mut count) = (0, 0_u32);
                while going.is_on() {
                    let revision = query(cgroup.dir().as_fd(), ListKind::Own).unwrap();
                    let is_own = revision.ids == [prog_id(&programs[at])];
                    let (old, new) = (&programs[at], &programs[1 - at]);
                    let done = is_own && {
                        let how = if flags == MULTI {
                            Swap::Listed { preorder: false, revision: 0 }
                        } else {
                            let revision = NonZeroU64::new(revision.revision).unwrap();
                            Swap::Sole { may_override: true, revision }
                        };
                        swap_device(cgroup.dir().as_fd(), old.as_fd(), new.as_fd(), how).is_ok()
                    };
                    if done {
                        (at, count) = (1 - at, count + 1);
                    } else if !effective(&cgroup)
                        .iter()
                        .any(|id| ids(&[&programs[0], &programs[1]]).contains(id))
                    {
                        // gpumap was faster: the agent goes on when it has undone.
                        std::thread::sleep(Duration::from_millis(1));
                    }
                    std::thread::sleep(Duration::from_micros(200));
                    // The agent's own is there, or gpumap's: never both, never none.
                    assert_eq!(effective(&cgroup).len(), 1);
                }
                count
            },
            || {
                for _ in 0..20 {
                    let output = rooms.gpumap(&words(&cgroup));
                    let document: Value = serde_json::from_slice(&output.stdout).unwrap();
                    if document["repair"]["applied"].is_object() {
                        let new = document["repair"]["applied"]["program"].as_u64().unwrap();
                        let new = u32::try_from(new).unwrap();
                        assert_eq!(effective(&cgroup), [new]);
                        undone(&rooms, &cgroup, new);
                    } else {
                        let why = document["errors"].to_string();
                        assert!(why.contains("nothing was changed") || why.contains("chang"), "{document:#}");
                        assert_eq!(rooms.kept(), (vec![], vec![]), "{document:#}");
                    }
                }
            },
        );
        assert!(replaced > 100, "{replaced}");
        let left = effective(&cgroup);
        assert!(ids(&[&programs[0], &programs[1]]).contains(&left[0]), "{left:?}");
    }
}

/// How programs are attached that this kernel can be made to compare when it replaces them.
fn ways() -> Vec<u32> {
    [MULTI].into_iter().chain(counts_changes().then_some(OVERRIDE)).collect()
}

/// Undoes a repair. The agent, which goes on at once, may replace the old program and put it
/// back while gpumap proves the undo. Then gpumap says what is there now: its own program
/// again, or the agent's.
fn undone(rooms: &Rooms, cgroup: &Cgroup, new: u32) {
    for _ in 0..50 {
        let (told, status) = undo(rooms);
        if status == 0 {
            return;
        }
        let why = told["errors"].to_string();
        let is_back = effective(cgroup) == [new];
        let said = if is_back { "the undo was taken back, the change is in force" } else { "it is undone" };
        assert!(why.contains(said), "{told:#}");
    }
    panic!("the undo is taken back all the time");
}

/// Make sure that gpumap, killed at any moment, leaves the old program or the new one,
/// and that what it leaves is found, undone and cleaned.
#[test]
fn killed_at_any_moment() {
    let Some(_host) = host::shared() else { return };
    let (cgroup, old) = lost();
    let rooms = Rooms::new();
    let began = Instant::now();
    let output = rooms.gpumap(&words(&cgroup));
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let whole = began.elapsed();
    assert_eq!(undo(&rooms).1, 0);
    let mut rng = Rng::new(14);
    let (mut kept_old, mut took_new) = (0, 0);
    for round in 0..150_u32 {
        let mut child = rooms.command(&words(&cgroup)).spawn().unwrap();
        let moment = u64::from(rng.below(u32::try_from(whole.as_micros()).unwrap() * 5 / 4));
        std::thread::sleep(Duration::from_micros(moment));
        let _ = child.kill();
        child.wait_with_output().unwrap();
        let now = effective(&cgroup);
        assert_eq!(now.len(), 1, "round {round}");
        let (list, status) = rooms.repair(&["--list"]);
        assert_eq!(status, 0, "{list:#}");
        let (journals, pins) = rooms.kept();
        if now == ids(&[&old]) {
            kept_old += 1;
            assert_eq!((journals, pins), (vec![], vec![]), "round {round}: {list:#}");
        } else {
            took_new += 1;
            assert_eq!((journals.len(), pins.len()), (1, 1), "round {round}: {list:#}");
            let (told, status) = undo(&rooms);
            assert_eq!((status, effective(&cgroup)), (0, ids(&[&old])), "round {round}: {told:#}");
        }
    }
    println!("killed: {kept_old} times the old program was there, {took_new} times the new one");
    assert!(kept_old > 0 && took_new > 0, "{kept_old} {took_new}");
}

/// Make sure that a process that opens devices while programs are replaced is never
/// denied what both allow, and never allowed what both deny.
#[test]
fn an_opener_through_replacements() {
    const REPLACEMENTS: u32 = 1_000_000;
    let Some(_host) = host::shared() else { return };
    for flags in ways() {
        let parent = Cgroup::new().unwrap();
        let child = parent.child("inside").unwrap();
        let (old, new) = (program(NARROW), program(WIDE));
        attach(parent.dir(), &old, flags);
        let mut oracle = Oracle::start(&child).unwrap();
        let (asked, ()) = meanwhile(
            |going| {
                let mut asked = 0_u32;
                while going.is_on() {
                    assert!(may(&mut oracle, 1), "denied what both allow");
                    assert!(!may(&mut oracle, 2), "allowed what both deny");
                    asked += 2;
                }
                asked
            },
            || {
                let mut revision = query(parent.dir().as_fd(), ListKind::Own).unwrap().revision;
                for round in 0..REPLACEMENTS {
                    let (from, to) = if round % 2 == 0 { (&old, &new) } else { (&new, &old) };
                    let how = match NonZeroU64::new(revision) {
                        Some(revision) if flags == OVERRIDE => Swap::Sole { may_override: true, revision },
                        _ => Swap::Listed { preorder: false, revision },
                    };
                    swap_device(parent.dir().as_fd(), from.as_fd(), to.as_fd(), how).unwrap();
                    revision += u64::from(revision != 0);
                }
            },
        );
        println!("asked {asked} times through {REPLACEMENTS} replacements");
        assert!(asked > 1000, "{asked}");
    }
}

/// Make sure that the kernel compares: with a wrong old program, revision or link
/// nothing is replaced.
#[test]
fn the_kernel_compares() {
    let Some(_host) = host::shared() else { return };
    let (cgroup, old) = lost();
    let (new, stranger) = (program(WIDE), program(NARROW));
    let dir = cgroup.dir().as_fd();
    let revision = query(dir, ListKind::Own).unwrap().revision;
    let listed = |revision| Swap::Listed { preorder: false, revision };
    let error = swap_device(dir, stranger.as_fd(), new.as_fd(), listed(0)).unwrap_err();
    assert_eq!(error.errno, libc::ENOENT);
    if revision != 0 {
        let error = swap_device(dir, old.as_fd(), new.as_fd(), listed(revision + 1)).unwrap_err();
        assert_eq!(error.errno, libc::ESTALE);
        let sole = Swap::Sole { may_override: true, revision: NonZeroU64::new(revision).unwrap() };
        let error = swap_device(dir, old.as_fd(), new.as_fd(), sole).unwrap_err();
        assert_eq!(error.errno, libc::EPERM, "flags are the cgroup's");
    }
    detach(cgroup.dir(), &old);
    let link = bpf::link(cgroup.dir(), &old, 0).unwrap();
    let error = swap_device(dir, stranger.as_fd(), new.as_fd(), Swap::Link(link.as_fd())).unwrap_err();
    assert_eq!(error.errno, libc::EPERM);
    assert_eq!(effective(&cgroup), ids(&[&old]));
}
