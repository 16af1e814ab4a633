//! The stacks of gpumap's programs at uprobes, in the machine code that the kernel made of
//! them. Since Linux 6.13 the kernel keeps one stack for each processor for programs that it
//! takes to be never preempted there, and programs at uprobes are: two of them would write to
//! one stack.

use std::collections::BTreeMap;
use std::fs;

use gpumap::loader::interface::{ACTIVITY, ACTIVITY_SESSION, INTERCEPTION, SESSION, WATCH};
use gpumap::loader::{self, ObjectSpec};

use crate::support::{bpf, host, inspect, kernel};

/// `add r9, gs:[…]`, with which x86-64 finds the stack of a processor.
const STACK_OF_PROCESSOR: &[u8] = &[0x65, 0x4c, 0x03, 0x0c, 0x25];

fn has_stack_of_processor(code: &[u8]) -> bool {
    code.windows(STACK_OF_PROCESSOR.len()).any(|window| window == STACK_OF_PROCESSOR)
}

/// The machine code of this process's programs at probes, by their names.
fn at_probes() -> BTreeMap<String, Vec<u8>> {
    let mut programs = BTreeMap::new();
    for file in fs::read_dir("/proc/self/fdinfo").unwrap().flatten() {
        // Other tests open and close files meanwhile.
        let text = fs::read_to_string(file.path()).unwrap_or_default();
        let Some(id) = text.lines().find_map(|line| line.strip_prefix("prog_id:")) else { continue };
        let Ok(program) = inspect::program_by_id(id.trim().parse().unwrap()) else { continue };
        let found = inspect::machine_code(&program).unwrap();
        if found.kind == bpf::PROG_TYPE_KPROBE {
            programs.insert(found.name, found.code);
        }
    }
    programs
}

/// Make sure that no program at a uprobe has its stack in common with those that run on the
/// same processor, where the kernel would give it such a stack.
#[test]
#[cfg_attr(not(target_arch = "x86_64"), ignore = "the machine code of x86-64 alone is looked at")]
fn no_stack_of_a_processor() {
    let Some(_host) = host::shared() else { return };
    let control = inspect::machine_code(&bpf::probe_with_stack()).unwrap();
    if !has_stack_of_processor(&control.code) {
        if !kernel::needs(6, 13, "a stack for each processor") {
            return;
        }
        return host::skip("this kernel keeps no stacks for each processor");
    }
    let loader = loader::shared().unwrap();
    let whole = |object, session, multi| ObjectSpec { session, multi, ..ObjectSpec::whole(object) };
    let _loaded = [
        whole(&WATCH, Some(&SESSION), &[] as &[&str]),
        whole(&ACTIVITY, Some(&ACTIVITY_SESSION), &["enter_any", "leave_any"]),
        whole(&INTERCEPTION, None, &[]),
    ]
    .map(|object| loader.load(&object).unwrap());
    let programs = at_probes();
    for name in
        ["session_environ", "session_call", "enter_setenv", "leave_cu_init", "enter_any", "enter_driver"]
    {
        assert!(programs.contains_key(name), "{name}: {:?}", programs.keys());
    }
    let affected: Vec<&String> =
        programs.iter().filter(|(_, code)| has_stack_of_processor(code)).map(|(name, _)| name).collect();
    assert!(affected.is_empty(), "{affected:?}");
}
