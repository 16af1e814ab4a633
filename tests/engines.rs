//! Loads the objects of `bpf/` with aya and with libbpf: the kernel must get the
//! same programs, and both must show the same node. What gpumap reads of programs
//! in force is compared with what libbpf's own queries say.
//!
//! These tests exist only in a build with the cargo feature `libbpf`. They need
//! root and a writable cgroup2; where they cannot run they say so and pass, unless
//! `GPUMAP_REQUIRE_ROOT=1` makes them fail.

#![cfg(feature = "libbpf")]
#![allow(
    unreachable_pub,
    dead_code,
    unsafe_code,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stderr,
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "this is test code, with support that is shared"
)]

/// The tests of `kernel` that read the node by programs: here libbpf loads them.
#[path = "kernel/program_lists.rs"]
mod kernel_program_lists;
#[path = "kernel/scanner.rs"]
mod kernel_scanner;
mod support;

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::os::fd::{AsFd as _, AsRawFd as _, OwnedFd};

use gpumap::loader::interface::{CGROUPS, Object, SCAN, SESSION, WATCH};
use gpumap::loader::{self, Engine, ObjectSpec};
use gpumap::observe::Options;
use gpumap::observe::monitor::cgroups::Walk;
use gpumap::observe::scanner::{self, ProcessSummary, ScanMethod};
use gpumap::sys::bpf::{ListKind, Xlated, program_by_id, program_info, query};
use gpumap::sys::dir::Dir;
use libbpf_rs::libbpf_sys::{BPF_CGROUP_DEVICE, BPF_F_QUERY_EFFECTIVE, bpf_prog_query_opts};
use libbpf_rs::query::{ProgInfoIter, ProgInfoQueryOptions, ProgramInfo};
use support::bpf::{self, MULTI, attach};
use support::cgroup::Cgroup;
use support::{host, node};

const BOTH: [Engine; 2] = [Engine::Aya, Engine::Libbpf];

/// The lists of a cgroup as libbpf asks for them.
fn listed(cgroup: &File, effective: bool) -> Vec<u32> {
    let mut ids = vec![0_u32; 256];
    let mut options = bpf_prog_query_opts {
        sz: size_of::<bpf_prog_query_opts>() as _,
        query_flags: if effective { BPF_F_QUERY_EFFECTIVE } else { 0 },
        prog_ids: ids.as_mut_ptr(),
        ..bpf_prog_query_opts::default()
    };
    options.__bindgen_anon_1.count = u32::try_from(ids.len()).unwrap();
    // SAFETY: the options have room for as many ids as they state.
    let result = unsafe {
        libbpf_rs::libbpf_sys::bpf_prog_query_opts(cgroup.as_raw_fd(), BPF_CGROUP_DEVICE, &raw mut options)
    };
    assert_eq!(result, 0);
    // SAFETY: libbpf has written the count.
    ids.truncate(unsafe { options.__bindgen_anon_1.count } as usize);
    ids
}

/// All programs as libbpf lists them, by id.
fn programs() -> BTreeMap<u32, ProgramInfo> {
    let options = ProgInfoQueryOptions::default().include_xlated_prog_insns(true).include_map_ids(true);
    ProgInfoIter::with_query_opts(options).map(|program| (program.id, program)).collect()
}

/// Cgroups of two levels with programs on each.
struct Tree {
    _programs: Vec<OwnedFd>,
    cgroups: Vec<Cgroup>,
}

fn tree() -> Tree {
    let top = Cgroup::new().unwrap();
    let below = top.child("below").unwrap();
    let programs: Vec<OwnedFd> = (0..4).map(|minor| node::deny(195, minor)).collect();
    for (program, cgroup) in programs.iter().zip([&top, &below, &below, &top]) {
        attach(cgroup.dir(), program, MULTI, None).unwrap();
    }
    Tree { _programs: programs, cgroups: vec![below, top] }
}

/// Make sure that gpumap and libbpf say the same of which programs are in force,
/// in which order, and that iterators which both have loaded say it, too.
#[test]
fn lists() {
    let Some(_host) = host::exclusive() else { return };
    let tree = tree();
    for cgroup in &tree.cgroups {
        let [own, effective] = [false, true].map(|effective| listed(cgroup.dir(), effective));
        assert!(!own.is_empty() && effective.len() >= own.len());
        assert_eq!(query(cgroup.dir().as_fd(), ListKind::Own).unwrap().ids, own);
        assert_eq!(query(cgroup.dir().as_fd(), ListKind::Effective).unwrap().ids, effective);
        assert_eq!(bpf::effective(cgroup.dir()).unwrap(), effective);
        for engine in BOTH {
            let _held = loader::share(engine).unwrap();
            let mut walk = Walk::load(&Dir::open(tree.cgroups[1].path()).unwrap(), 0).unwrap();
            let walked = walk.read().unwrap();
            let seen = walked.get(cgroup.id()).unwrap();
            assert_eq!((seen.own, seen.effective), (Some(&*own), Some(&*effective)), "{engine:?}");
        }
    }
}

/// Make sure that gpumap and libbpf read the same of every program: who it is,
/// its maps and its instructions.
#[test]
fn program_facts() {
    let Some(_host) = host::exclusive() else { return };
    let tree = tree();
    let _scan = loader::share(Engine::Aya).unwrap().load(&ObjectSpec::whole(&SCAN)).unwrap();
    let all = programs();
    let attached = listed(tree.cgroups[0].dir(), true);
    assert!(attached.iter().all(|id| all.contains_key(id)));
    let mut compared = BTreeSet::new();
    for (id, theirs) in &all {
        // Others' programs come and go.
        let Ok(ours) = program_by_id(*id).and_then(|program| program_info(program.as_fd())) else { continue };
        compared.insert(*id);
        assert_eq!((ours.id, ours.tag, ours.uid), (*id, theirs.tag.0, theirs.created_by_uid));
        assert_eq!(ours.name, theirs.name.as_encoded_bytes());
        assert_eq!(ours.map_ids, theirs.map_ids);
        assert_eq!(u128::from(ours.load_time), theirs.load_time.as_nanos());
        assert_eq!(ours.xlated, Xlated::Bytes(theirs.xlated_prog_insns.clone()), "program {id}");
    }
    assert!(attached.iter().all(|id| compared.contains(id)), "{attached:?}, {compared:?}");
}

/// Hashes of the programs that an engine makes of an object, by their names: the
/// instructions with all offsets filled in, without the numbers of maps.
fn loaded(
    engine: Engine,
    object: &'static Object,
    session: Option<&'static Object>,
) -> BTreeMap<String, String> {
    let before = programs();
    let loader = loader::share(engine).unwrap();
    let loaded = loader.load(&ObjectSpec { session, ..ObjectSpec::whole(object) }).unwrap();
    let new = programs().into_iter().filter(|(id, _)| !before.contains_key(id));
    let named = |(_, program): (u32, ProgramInfo)| {
        let tag = program.tag.0.iter().map(|byte| format!("{byte:02x}")).collect();
        (program.name.to_string_lossy().into_owned(), tag)
    };
    let found = new.map(named).collect();
    drop(loaded);
    found
}

/// Make sure that both fill in the same offsets of the kernel's fields.
#[test]
fn same_programs() {
    let Some(_host) = host::exclusive() else { return };
    let objects =
        [(&WATCH, Some(&SESSION), "session_environ"), (&SCAN, None, "tasks"), (&CGROUPS, None, "lists")];
    for (object, session, program) in objects {
        let [aya, libbpf] = BOTH.map(|engine| loaded(engine, object, session));
        assert!(aya.contains_key(program), "{aya:?}");
        assert_eq!(aya, libbpf);
    }
}

/// What an engine shows of some processes.
fn processes(engine: Engine, pids: &[u32]) -> Vec<ProcessSummary> {
    let _held = loader::share(engine).unwrap();
    let mut choice = scanner::start(&Options::default(), Some(ScanMethod::Iterators)).unwrap();
    let all = choice.scanner.scan().unwrap();
    all.into_iter().filter(|glimpse| pids.contains(&glimpse.pid)).collect()
}

/// Make sure that iterators over processes show the same with both.
#[test]
fn same_processes() {
    let Some(_host) = host::exclusive() else { return };
    let mut children: Vec<_> = (0..8)
        .map(|index: u32| {
            let mut command = std::process::Command::new("sleep");
            let null = File::open("/dev/null").unwrap();
            command.arg("60").env("CUDA_VISIBLE_DEVICES", index.to_string()).stdin(null).spawn().unwrap()
        })
        .collect();
    let pids: Vec<u32> = children.iter().map(std::process::Child::id).collect();
    let [aya, libbpf] = BOTH.map(|engine| processes(engine, &pids));
    for child in &mut children {
        let _ = child.kill();
        let _ = child.wait();
    }
    assert_eq!((aya.len(), &aya), (pids.len(), &libbpf));
}
