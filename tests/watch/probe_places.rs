//! `gpumap watch` with functions whose first instruction makes a probe dear (x86-64: the
//! probe is put at the second one, and everything is seen as at the first), or is for
//! control-flow protection (aarch64: the probe is put there).

use std::fs::{self, File};
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::process::Child;

use gpumap::elf::{ElfFile, SymbolKind};

use super::environments::every_mode;
use crate::support::host;
use crate::support::wait::eventually;
use crate::support::watching::{PROTECTED, Place, Watch, is_probed, modes};

/// What a probe puts in the place of an instruction: `int3`, or `brk` with the number that
/// the kernel has for probes.
const BREAKPOINT: &[u8] =
    if cfg!(target_arch = "aarch64") { &0xd420_00a0_u32.to_le_bytes() } else { &[0xcc] };
/// How functions begin that are compiled for control-flow protection: `endbr64`, `push rbp`;
/// `paciasp`, with which the return address is signed, or `bti c`.
const BEGINNINGS: &[&[u8]] = if cfg!(target_arch = "aarch64") {
    &[&0xd503_233f_u32.to_le_bytes(), &0xd503_245f_u32.to_le_bytes()]
} else {
    &[b"\xf3\x0f\x1e\xfa\x55"]
};
/// Bytes of them before the probe.
const BEHIND: usize = if cfg!(target_arch = "aarch64") { 0 } else { 4 };

/// Where a function begins in a library, and with which bytes, by its file.
fn function(library: &Path, name: &str) -> (u64, Vec<u8>) {
    let file = File::open(library).unwrap();
    let mut elf = ElfFile::open(|buffer: &mut [u8], offset| file.read_exact_at(buffer, offset)).unwrap();
    let symbols = elf.exported(&[name], SymbolKind::Function).unwrap();
    let function = elf.function(&symbols[0].unwrap()).unwrap();
    (function.offset, function.beginning)
}

/// Bytes of a file as they are in the memory of a process that executes them.
fn in_memory(child: &Child, library: &Path, offset: u64, length: usize) -> Vec<u8> {
    let maps = fs::read_to_string(format!("/proc/{}/maps", child.id())).unwrap();
    let line = maps.lines().find(|line| line.contains("r-xp") && line.ends_with(library.to_str().unwrap()));
    let words: Vec<&str> = line.unwrap().split_whitespace().collect();
    let number = |text: &str| u64::from_str_radix(text, 16).unwrap();
    let start = number(words[0].split('-').next().unwrap());
    let mut bytes = vec![0; length];
    let memory = File::open(format!("/proc/{}/mem", child.id())).unwrap();
    memory.read_exact_at(&mut bytes, start + offset - number(words[2])).unwrap();
    bytes
}

/// Waits until each function is probed, and makes sure that the probe is `behind`
/// bytes behind its beginning, and no other byte is changed.
fn assert_place(child: &Child, library: &Path, functions: &[&str], behind: usize) {
    eventually("the library is mapped and probed", || {
        is_probed(child.id(), |file| file == library.to_str().unwrap())
    });
    for name in functions {
        let (offset, original) = function(library, name);
        let found = || in_memory(child, library, offset, original.len());
        eventually(name, || found() != original);
        let mut expected = original.clone();
        expected[behind..behind + BREAKPOINT.len()].copy_from_slice(BREAKPOINT);
        assert_eq!(found(), expected, "{name}");
    }
}

/// Make sure that calls of a C library that was compiled for control-flow
/// protection are seen whole, from the first one on, with each kind of probes,
/// and that the probes are where they should be: behind endbr64, at paciasp.
#[test]
fn control_flow_protection() {
    let Some(root) = host::shared() else { return };
    for (mode, _) in modes() {
        let place = Place::new(&root);
        let flags = format!("gcc -shared -fPIC -O0 {PROTECTED} -Wl,-soname,libc.so.7");
        let library = place.build("libc_environment.c", "libc.so.7", &flags);
        let functions = ["setenv", "putenv", "unsetenv", "clearenv"];
        for name in functions {
            let (_, beginning) = function(&library, name);
            assert!(BEGINNINGS.iter().any(|one| beginning.starts_with(one)), "{name}: {beginning:x?}");
        }
        let flags = format!("gcc {} -Wl,-rpath,{}", library.display(), place.directory.display());
        let program = place.build("watch.c", "protected", &flags);
        // Its library is found with the first process, as any but the node's own.
        let mut first = place.command(&[program.to_str().unwrap(), "wait"]).spawn().unwrap();
        let (watch, _) = Watch::start_with(Some(mode), &["--cgroup", place.cgroup.to_str().unwrap()]);
        assert_place(&first, &library, &functions, BEHIND);
        every_mode(&place, &watch, &program);
        first.kill().unwrap();
        first.wait().unwrap();
    }
}

/// Make sure that the initialisation of a driver is seen whose functions begin as
/// those of NVIDIA's do on x86-64, and that the probe is behind the comparison.
#[cfg(target_arch = "x86_64")]
#[test]
fn behind_a_comparison() {
    use crate::support::watching::{CUDA, ORDER, assert_changes};
    use gpumap::model::EventKind;

    let Some(root) = host::shared() else { return };
    for (mode, _) in modes() {
        let place = Place::new(&root);
        let program = place.build("watch.c", "dynamic", "gcc");
        let library = place.build("libcuda_stub.c", "libcuda.so.1", "gcc -shared -fPIC");
        let (watch, _) = Watch::start_with(Some(mode), &["--cgroup", place.cgroup.to_str().unwrap()]);
        let words = [program.to_str().unwrap(), "driver", library.to_str().unwrap(), "cuInit"];
        let child = place.command(&words).spawn().unwrap();
        assert_place(&child, &library, &["cuInit"], 10);
        let events = watch.ended(child);
        assert_changes(
            &events,
            &[ORDER, ("setenv", CUDA, "1"), ("setenv", CUDA, "2"), ("setenv", CUDA, "3")],
        );
        let drivers: Vec<_> = events.iter().filter(|event| event.event == EventKind::Driver).collect();
        assert_eq!(drivers.len(), 1, "{mode}: {events:#?}");
    }
}
