//! Tests programs that end by an exception (`bpf_throw`, Linux 6.7; 6.8 does not yet let
//! device programs do so, 6.12 does) which a function of the program handles.

use super::{again, array, finish, map, never_wrong, return_flag, set_flag, types, unless_trigger};
use crate::support::asm::Asm;
use crate::support::kernel::{needs, survives_exceptions};
use crate::support::{bpf, host, skips};

/// The numbers of the types of both functions.
const POLICY: u32 = 4;
const HANDLER: u32 = 6;

/// Types: `u32 policy(void *argument)`, whose exceptions `u32 handler(u64 argument)`
/// handles.
fn function_types() -> Vec<u8> {
    let strings = b"\0u32\0u64\0argument\0policy\0handler\0exception_callback:handler\0";
    let at = |name: &[u8]| {
        strings.windows(name.len() + 1).position(|text| text[..name.len()] == *name && text[name.len()] == 0)
    };
    let at = |name: &[u8]| at(name).expect("a string") as u32;
    const GLOBAL: u32 = 1;
    let types: Vec<u32> = [
        [at(b"u32"), 1 << 24, 4, 32].as_slice(),
        &[at(b"u64"), 1 << 24, 8, 64],
        &[0, 13 << 24 | 1, 1, at(b"argument"), 7],
        &[at(b"policy"), 12 << 24 | GLOBAL, 3],
        &[0, 13 << 24 | 1, 1, at(b"argument"), 2],
        &[at(b"handler"), 12 << 24 | GLOBAL, 5],
        &[0, 2 << 24, 0],
        &[at(b"exception_callback:handler"), 17 << 24, POLICY, u32::MAX],
    ]
    .concat();
    types::binary(&types, strings)
}

/// Make sure that what the function writes which handles an exception is not
/// overlooked: it changes the policy.
#[test]
fn a_handler_writes() {
    let Some(_host) = host::shared() else { return };
    if !needs(6, 7, "a program that throws") {
        return;
    }
    if !survives_exceptions() {
        return skips::too_old("this kernel itself fails where a program throws");
    }
    let types = bpf::load_types(&function_types()).expect("types");
    let policy = map(&array(8));
    let mut asm = Asm::new();
    let other = asm.label();
    asm.movr(6, 1);
    unless_trigger(&mut asm, other);
    asm.mov(1, 1);
    asm.call_kernel(types::function("bpf_throw"));
    asm.verdict(0);
    asm.bind(other);
    return_flag(&mut asm, 0, 0);
    let handler = asm.len() as u32;
    set_flag(&mut asm, 0, 0);
    let source = finish(asm, "exception");
    let functions = [[0, POLICY], [handler, HANDLER]];
    let loaded = match bpf::load_typed(&source, vec![again(&policy)], &types, &functions) {
        Err(why) if why.contains("bpf_throw is not allowed") => {
            return skips::too_old("this kernel does not let device programs throw");
        }
        // x86 unwinds by ORC alone, and distributions may build with frame pointers instead.
        Err(why) if why.contains("JIT does not support calling kfunc bpf_throw") => {
            return skips::too_old("programs cannot throw without CONFIG_UNWINDER_ORC");
        }
        loaded => loaded.expect("a program"),
    };
    let unknown = never_wrong(&[&loaded]);
    assert!(unknown > 0, "the policy changes at a question");
}
