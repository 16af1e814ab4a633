//! Each way in which a program can be attached: it is replaced with the same flags in
//! the same place, the kernel allows exactly what was missing, nobody else is touched,
//! and the undo gives the same program back.

use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use gpumap::bytecode::Insn;
use serde_json::json;

use super::scene::{MISSING, NARROW, Rooms, WIDE, effective, ids, may, mode, program, relative};
use crate::support::bpf::{self, MULTI, OVERRIDE, PREORDER};
use crate::support::cgroup::Cgroup;
use crate::support::host;
use crate::support::kernel::{counts_changes, needs};
use crate::support::oracle::Oracle;
use crate::support::programs::{attach, prog_id};
use crate::support::wait::within;

/// Repairs `cgroup` directly and makes sure that `old` was replaced everywhere in
/// `watched` and in no other place; then takes it back.
fn done_and_undone(cgroup: &Cgroup, old: &OwnedFd, watched: &[&Cgroup], mode_word: &str, more: &[&str]) {
    let rooms = Rooms::new();
    let path = relative(cgroup);
    let lists = |watched: &[&Cgroup]| watched.iter().map(|one| effective(one)).collect::<Vec<_>>();
    let before = lists(watched);
    let oracle = &mut Oracle::start(cgroup).unwrap();
    assert!(!may(oracle, 0) && may(oracle, 1) && !may(oracle, 2));

    let args = [&["--cgroup", &path, "--allow", MISSING, "--direct"], more].concat();
    let (plan, status) = rooms.repair(&args);
    let plan = &plan["repair"];
    assert_eq!((&plan["state"], status), (&json!("missing"), 1), "{plan:#}");
    assert_eq!(plan["replacement"]["program"], prog_id(old), "{plan:#}");
    assert_eq!(plan["replacement"]["mode"], mode_word, "{plan:#}");
    assert_eq!(plan["remaining"], json!([]), "{plan:#}");
    assert_eq!(lists(watched), before, "the plan changed something");
    assert_eq!(rooms.kept(), (vec![], vec![]));

    let (after, status) = rooms.repair(&[&args[..], &["--apply"]].concat());
    let after = &after["repair"];
    assert_eq!((&after["state"], status), (&json!("nothing-missing"), 0), "{after:#}");
    let new = u32::try_from(after["applied"]["program"].as_u64().unwrap()).unwrap();
    let swapped = |ids: &Vec<u32>| -> Vec<u32> {
        ids.iter().map(|id| if *id == prog_id(old) { new } else { *id }).collect()
    };
    assert_eq!(lists(watched), before.iter().map(swapped).collect::<Vec<_>>());
    assert!(may(oracle, 0) && may(oracle, 1) && !may(oracle, 2));
    let (journals, pins) = rooms.kept();
    assert_eq!((journals.len(), pins.len()), (1, 1));
    assert_eq!(mode(&rooms.journals()), (0, 0o700));
    assert_eq!(mode(&rooms.pins()), (0, 0o700));
    assert_eq!(mode(&rooms.journals().join(&journals[0])), (0, 0o600));

    let (list, status) = rooms.repair(&["--list"]);
    assert_eq!((&list["journals"][0]["state"], status), (&json!("in-force"), 0), "{list:#}");
    let (undone, status) = rooms.repair(&["--undo", &rooms.journal_name()]);
    assert_eq!((&undone["journals"][0]["state"], status), (&json!("not-in-force"), 0), "{undone:#}");
    assert_eq!(lists(watched), before, "the same program is back");
    assert!(!may(oracle, 0) && may(oracle, 1));
    assert_eq!(rooms.kept(), (vec![], vec![]));
}

/// Make sure that one of three in a list is replaced in its place, and that the
/// program of a parent, of a neighbour and of a child stay.
#[test]
fn one_of_three() {
    let Some(_host) = host::shared() else { return };
    let parent = Cgroup::new().unwrap();
    let (cgroup, neighbour) = (parent.child("a").unwrap(), parent.child("b").unwrap());
    let child = cgroup.child("c").unwrap();
    let all = "allow a *:* rwm";
    let programs = [all, WIDE, NARROW, "allow a *:* rwm\ndeny c 10:1 rwm", all, all];
    let [top, first, old, last, beside, below] = programs.map(program);
    attach(parent.dir(), &top, MULTI);
    for one in [&first, &old, &last] {
        attach(cgroup.dir(), one, MULTI);
    }
    attach(neighbour.dir(), &beside, MULTI);
    attach(child.dir(), &below, MULTI);
    assert_eq!(effective(&cgroup), ids(&[&first, &old, &last, &top]));
    done_and_undone(&cgroup, &old, &[&parent, &cgroup, &neighbour, &child], "listed", &[]);
}

/// Make sure that a cgroup's only program is replaced with the flag that it has, and
/// that those below, which override it or inherit it, see what they must.
#[test]
fn the_only_program() {
    let Some(_host) = host::shared() else { return };
    if !counts_changes() {
        return only_program_stays();
    }
    for flags in [0, OVERRIDE] {
        let cgroup = Cgroup::new().unwrap();
        let heir = cgroup.child("heir").unwrap();
        let old = program(NARROW);
        attach(cgroup.dir(), &old, flags);
        let own = (flags == OVERRIDE).then(|| cgroup.child("own").unwrap());
        let other = program("allow a *:* rwm");
        if let Some(own) = &own {
            attach(own.dir(), &other, 0);
        }
        let watched: Vec<&Cgroup> = [&cgroup, &heir].into_iter().chain(&own).collect();
        done_and_undone(&cgroup, &old, &watched, "sole", &[]);
        // The flag stays: the kernel refuses another one.
        let wrong = if flags == OVERRIDE { 0 } else { OVERRIDE };
        assert!(bpf::attach(cgroup.dir(), &other, wrong, None).is_err());
    }
}

/// Where the kernel cannot compare, a program that came meanwhile would be lost.
fn only_program_stays() {
    let cgroup = Cgroup::new().unwrap();
    let old = program(NARROW);
    attach(cgroup.dir(), &old, 0);
    let (rooms, path) = (Rooms::new(), relative(&cgroup));
    let (told, status) = rooms.repair(&["--cgroup", &path, "--allow", MISSING, "--direct", "--apply"]);
    assert_eq!(status, 2, "{told:#}");
    let why = told["errors"][0]["why"].as_str().unwrap();
    assert!(why.starts_with("nothing was changed") && why.contains("cannot compare"), "{told:#}");
    assert_eq!((effective(&cgroup), rooms.kept()), (ids(&[&old]), (vec![], vec![])));
}

/// Make sure that the program of a link is replaced through the link, and that the
/// link goes with its owner all the same.
#[test]
fn a_link() {
    let Some(_host) = host::shared() else { return };
    let cgroup = Cgroup::new().unwrap();
    let (old, beside) = (program(NARROW), program(WIDE));
    attach(cgroup.dir(), &beside, MULTI);
    let link = bpf::link(cgroup.dir(), &old, 0).unwrap();
    done_and_undone(&cgroup, &old, &[&cgroup], "link", &[]);
    drop(link);
    // Processes that other tests have just forked may hold it for a moment.
    let began = Instant::now();
    while effective(&cgroup) != ids(&[&beside]) {
        assert!(began.elapsed() < within(10), "somebody keeps the link alive");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Make sure that a program that runs before those of lower cgroups does so
/// afterwards: the order is compared in every list.
#[test]
fn preorder_is_kept() {
    let Some(_host) = host::shared() else { return };
    let parent = Cgroup::new().unwrap();
    let cgroup = parent.child("a").unwrap();
    let programs = [NARROW, WIDE, WIDE].map(program);
    let [old, late, below] = &programs;
    if !needs(6, 15, "a program before those of lower cgroups") {
        return;
    }
    bpf::attach(parent.dir(), old, MULTI | PREORDER, None).unwrap();
    attach(parent.dir(), late, MULTI);
    attach(cgroup.dir(), below, MULTI);
    assert_eq!(effective(&cgroup), ids(&[old, below, late]));
    let at = relative(&parent);
    done_and_undone(&cgroup, old, &[&parent, &cgroup], "listed", &["--at", &at]);
}

/// Make sure that of nested levels the one that denies is replaced, and only if all
/// below it are meant.
#[test]
fn nested_levels() {
    let Some(_host) = host::shared() else { return };
    let chain = Cgroup::chain(4).unwrap();
    let programs = [WIDE, NARROW, WIDE, WIDE].map(program);
    for (cgroup, program) in chain.iter().zip(&programs) {
        attach(cgroup.dir(), program, MULTI);
    }
    let neighbour = chain[1].child("neighbour").unwrap();
    let sleeper = crate::support::node::Sleeper::in_cgroup(&neighbour);
    let rooms = Rooms::new();
    let (low, level) = (relative(&chain[3]), relative(&chain[1]));
    let args = ["--cgroup", &low, "--allow", MISSING, "--direct", "--apply"];
    let (refused, status) = rooms.repair(&args);
    let refusals = refused["repair"]["refusals"].to_string();
    assert_eq!(status, 1, "{refused:#}");
    assert!(refusals.contains("who would gain") && refusals.contains("neighbour"), "{refusals}");
    assert_eq!(effective(&chain[1]), ids(&[&programs[1], &programs[0]]));
    drop(sleeper);
    let watched: Vec<&Cgroup> = chain.iter().chain([&neighbour]).collect();
    done_and_undone(&chain[3], &programs[1], &watched, "listed", &["--at", &level]);
    drop(watched);
    drop(neighbour);
    chain.into_iter().rev().for_each(drop);
}

/// Make sure that nothing is replaced where a program reads or sets what others
/// decided, reads a map, asks for its place, or is attached in two places.
#[test]
fn what_is_not_known_exactly() {
    use crate::support::programs::{self as bench, call, exit, mov};
    let Some(_host) = host::shared() else { return };
    let rooms = Rooms::new();
    // bpf_set_retval(0), then deny.
    let sets = || bench::load("sets", &[mov(1, 0), call(187), mov(0, 0), exit()]);
    let sets = needs(5, 18, "bpf_set_retval").then(sets);
    // bpf_get_current_cgroup_id() decides.
    let asks = bench::load("asks", &[call(80), Insn { code: 0x57, imm: 1, ..Insn::default() }, exit()]);
    for odd in sets.iter().chain([&asks]) {
        let cgroup = Cgroup::new().unwrap();
        let old = program(NARROW);
        attach(cgroup.dir(), &old, MULTI);
        attach(cgroup.dir(), odd, MULTI);
        let before = effective(&cgroup);
        let path = relative(&cgroup);
        let (told, status) = rooms.repair(&["--cgroup", &path, "--allow", MISSING, "--direct", "--apply"]);
        assert!(told["repair"]["replacement"].is_null() && status != 0, "{told:#}");
        assert_eq!((effective(&cgroup), rooms.kept()), (before, (vec![], vec![])));
    }
    let (one, two) = (Cgroup::new().unwrap(), Cgroup::new().unwrap());
    let old = program(NARROW);
    attach(one.dir(), &old, MULTI);
    attach(two.dir(), &old, MULTI);
    let path = relative(&one);
    let (told, _) = rooms.repair(&["--cgroup", &path, "--allow", MISSING, "--direct", "--apply"]);
    assert!(told["repair"]["refusals"].to_string().contains("is attached to"), "{told:#}");
    assert_eq!(effective(&one), ids(&[&old]));
}
