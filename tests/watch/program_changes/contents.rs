//! Programs that stay while what they read changes: entries of maps, programs in
//! arrays.

use std::fs;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::os::unix::fs::MetadataExt;

use super::{deny, one, with_engines};
use crate::support::asm::{Asm, alu, cond, helper, size};
use crate::support::bpf::{self, MULTI, attach};
use crate::support::node;
use crate::support::source::{MapKind, MapSpec};
use gpumap::render;

/// A program that allows nvidia1 only in the cgroup whose id is in its map, and
/// that map.
fn keyed() -> (OwnedFd, OwnedFd) {
    let mut asm = Asm::new();
    let spec = MapSpec {
        kind: MapKind::Hash,
        key_size: 8,
        value_size: 4,
        max_entries: 8,
        flags: 0,
        freeze: false,
        entries: Vec::new(),
    };
    let (map, allow) = (asm.map(spec), asm.label());
    asm.ldx(size::W, 2, 1, 4);
    asm.jump_if(cond::NE, 2, 195, allow);
    asm.ldx(size::W, 2, 1, 8);
    asm.jump_if(cond::NE, 2, 1, allow);
    asm.call(helper::CGROUP_ID);
    asm.stx(size::DW, 10, -8, 0);
    asm.movr(2, 10);
    asm.op64(alu::ADD, 2, -8);
    asm.ld_map(1, map);
    asm.call(helper::MAP_LOOKUP);
    asm.jump_if(cond::NE, 0, 0, allow);
    asm.verdict(0);
    asm.bind(allow);
    asm.verdict(1);
    let mut loaded = bpf::load(&asm.finish("keyed by cgroup")).unwrap();
    (loaded.program, loaded.maps.remove(0))
}

/// Make sure that a change of what a program reads is a change of the cgroup
/// that it is about, and of no other.
#[test]
fn contents() {
    with_engines(|top, watcher| {
        let (program, map) = keyed();
        attach(top.dir(), &program, MULTI, None).unwrap();
        let (job, _other) = (top.child("job").unwrap(), top.child("other").unwrap());
        watcher.check();
        assert!(watcher.check().is_empty());
        let key = fs::metadata(job.path()).unwrap().ino().to_le_bytes();
        for (change, verdict) in [(true, "allow"), (false, "deny")] {
            if change { bpf::update(&map, &key, &[1; 4]) } else { bpf::delete(&map, &key) }.unwrap();
            let (event, policy) = one(watcher);
            assert_eq!(event.cgroup.as_deref(), Some(node::relative(job.path()).as_str()));
            assert!(policy.attached.is_empty() && policy.gone.is_empty() && !policy.equal);
            assert_eq!((policy.maps.len(), policy.also), (1, 0));
            let (lost, gained) = if change { (0, 1) } else { (1, 0) };
            assert_eq!((policy.lost.len(), policy.gained.len()), (lost, gained), "{policy:#?}");
            let changes: Vec<&str> = policy.changes.iter().map(|change| change.to.into()).collect();
            assert_eq!(changes, [verdict]);
            let line = render::policy_event(&event, watcher.gpus()).unwrap();
            assert!(line.contains("nvidia1: the contents of map"), "{line}");
        }
        // Another cgroup's entry, here not followed by anything.
        bpf::update(&map, &1_u64.to_le_bytes(), &[1; 4]).unwrap();
        assert!(watcher.check().is_empty());
    });
}

/// A program that jumps for nvidia1 to the first program of an array, and denies
/// it where there is none; and that array.
fn calling() -> (OwnedFd, OwnedFd) {
    let mut asm = Asm::new();
    let spec = MapSpec {
        kind: MapKind::ProgArray,
        key_size: 4,
        value_size: 4,
        max_entries: 1,
        flags: 0,
        freeze: false,
        entries: Vec::new(),
    };
    let (map, allow) = (asm.map(spec), asm.label());
    asm.ldx(size::W, 2, 1, 4);
    asm.jump_if(cond::NE, 2, 195, allow);
    asm.ldx(size::W, 2, 1, 8);
    asm.jump_if(cond::NE, 2, 1, allow);
    asm.ld_map(2, map);
    asm.mov(3, 0);
    asm.call(helper::TAIL_CALL);
    asm.verdict(0);
    asm.bind(allow);
    asm.verdict(1);
    let mut loaded = bpf::load(&asm.finish("calls a program")).unwrap();
    (loaded.program, loaded.maps.remove(0))
}

/// Make sure that a program that is put into an array of programs, and one that
/// is taken out again, is a change of the policy that jumps there.
#[test]
fn arrays_of_programs() {
    with_engines(|top, watcher| {
        let (program, array) = calling();
        attach(top.dir(), &program, MULTI, None).unwrap();
        watcher.check();
        assert!(watcher.check().is_empty());
        let target = deny(2);
        let entry = target.as_raw_fd().to_ne_bytes();
        for (change, verdict) in [(true, "allow"), (false, "deny")] {
            if change { bpf::update(&array, &[0; 4], &entry) } else { bpf::delete(&array, &[0; 4]) }.unwrap();
            let (event, policy) = one(watcher);
            assert_eq!(event.cgroup.as_deref(), Some(node::relative(top.path()).as_str()));
            assert!(policy.attached.is_empty() && policy.gone.is_empty() && !policy.equal);
            assert_eq!(policy.maps.len(), 1, "{policy:#?}");
            let changes: Vec<&str> = policy.changes.iter().map(|change| change.to.into()).collect();
            assert!(!changes.is_empty() && changes.iter().all(|to| *to == verdict), "{policy:#?}");
        }
    });
}
