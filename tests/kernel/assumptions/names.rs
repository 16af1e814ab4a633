//! Tests that gpumap finds the names of the functions that a program calls, whatever stands in
//! the instruction: a distance, or a number where the processor's compiler writes the call out.

use std::collections::BTreeSet;

use gpumap::bytecode::Insn;
use gpumap::observe::{self, CgroupTarget, Options};

use super::{finish, load_alone, types};
use crate::support::asm::Asm;
use crate::support::bpf::{self, Loaded};
use crate::support::cgroup::Cgroup;
use crate::support::programs::prog_id;
use crate::support::{host, skips};

/// `BPF_JMP | BPF_CALL`.
const CALL: u8 = 0x85;
/// Helpers without arguments that device programs may call: `bpf_ktime_get_ns`,
/// `bpf_get_prandom_u32`, `bpf_get_smp_processor_id`, `bpf_get_current_uid_gid`,
/// `bpf_get_current_task`, `bpf_get_numa_node_id`, `bpf_get_current_cgroup_id`. The functions
/// behind some have other names.
const HELPERS: [i32; 7] = [5, 7, 8, 15, 35, 42, 80];

/// The names of all calls of a program in force, as gpumap reads them; a call without one is
/// shown as it is.
fn names(loaded: &Loaded) -> BTreeSet<String> {
    let cgroup = Cgroup::new().expect("a scratch cgroup");
    bpf::attach(cgroup.dir(), &loaded.program, bpf::MULTI, None).expect("a place");
    let target = CgroupTarget::typed(cgroup.path(), false);
    let seen = observe::cgroups(&Options::default(), &[target]).expect("a look");
    let id = prog_id(&loaded.program);
    let program = seen.programs.iter().find(|program| program.id == id).expect("the program");
    let bytes = program.xlated.known().expect("instructions");
    let calls = Insn::parse_all(&bytes.0).expect("instructions").into_iter().filter(|insn| insn.code == CALL);
    calls.map(|call| program.calls.get(&call.imm).cloned().unwrap_or_else(|| format!("{call:?}"))).collect()
}

/// Make sure that helpers have their names.
#[test]
fn helpers() {
    let Some(_host) = host::shared() else { return };
    let mut asm = Asm::new();
    for number in HELPERS {
        asm.call(number);
    }
    asm.verdict(1);
    // x86-64 writes some out as instructions, which are no calls.
    let found = names(&load_alone(&finish(asm, "helpers")));
    assert!(found.len() > 3 && found.iter().all(|name| name.starts_with("bpf_")), "{found:?}");
}

/// Make sure that functions of the kernel have their names beside helpers.
#[test]
fn functions_of_the_kernel() {
    let Some(_host) = host::shared() else { return };
    let functions = ["bpf_rcu_read_lock", "bpf_rcu_read_unlock"];
    if types::number(functions[0], 12).is_none() {
        return skips::too_old("bpf_rcu_read_lock needs Linux 6.2");
    }
    let mut asm = Asm::new();
    asm.call(80);
    functions.iter().for_each(|name| asm.call_kernel(types::function(name)));
    asm.verdict(1);
    let source = finish(asm, "functions");
    let loaded = match bpf::load(&source) {
        Err(error) if error.contains("is not allowed") => {
            return skips::too_old("this kernel does not let device programs call bpf_rcu_read_lock");
        }
        loaded => loaded.expect("the verifier's consent"),
    };
    let wanted = ["bpf_get_current_cgroup_id"].iter().chain(&functions).map(|name| (*name).to_owned());
    assert_eq!(names(&loaded), wanted.collect());
}
