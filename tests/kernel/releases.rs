//! Tests that gpumap goes by what a kernel can do where its release says something else, as
//! with kernels to which a distributor gave newer BPF.
//!
//! Needs setarch, which lets a program see the release as a 2.6.

use std::ffi::OsString;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::process::Command;

use gpumap::observe::{self, CgroupTarget, Options};
use serde_json::Value;

use crate::support::asm::{Asm, helper};
use crate::support::bpf::{self, MULTI};
use crate::support::cgroup::Tree;
use crate::support::source::Source;
use crate::support::{host, kernel, node, programs};

/// The first release with `bpf_set_retval`, and the rule for several programs that it belongs to.
const NEWER_RULE: (u32, u32) = (5, 18);

/// Make sure that a kernel which is older is asked for the helper, and has it not; and that a
/// newer one is not asked.
#[test]
fn by_their_number() {
    let Some(root) = host::shared() else { return };
    let top = Tree::new(&root);
    let seen = observe::cgroups(&Options::default(), &[CgroupTarget::typed(top.path(), false)]).unwrap();
    assert_eq!(seen.host.has_retval, (kernel::release() < NEWER_RULE).then_some(false));
}

/// A program that takes every refusal of those before it back.
fn forgives() -> OwnedFd {
    let mut asm = Asm::new();
    asm.mov(1, 0);
    asm.call(helper::SET_RETVAL);
    asm.verdict(1);
    // The kernel lends the helper to programs that say where they will be attached.
    let source = Source { attach_type: true, ..asm.finish("forgives") };
    bpf::load(&source).expect("the verifier's consent").program
}

/// What gpumap tells of a cgroup, run by another program or by itself.
fn told(by: &[&str], cgroup: &Path) -> Value {
    let gpumap = [env!("CARGO_BIN_EXE_gpumap"), "--json", "cgroup"].map(OsString::from);
    let mut words = by.iter().map(OsString::from).chain(gpumap).chain([cgroup.into()]);
    let output = Command::new(words.next().unwrap()).args(words).output().expect("it runs");
    node::document(&output).0
}

/// Make sure that the rule for several programs is that of the kernel whose release is
/// older by its number.
#[test]
fn newer_than_their_number() {
    let Some(root) = host::shared() else { return };
    if !kernel::needs(NEWER_RULE.0, NEWER_RULE.1, "bpf_set_retval") {
        return;
    }
    let top = Tree::new(&root);
    let denies = programs::constant("denies", 0);
    let forgives = forgives();
    programs::attach(&top.handle(), &denies, MULTI);
    programs::attach(&top.handle(), &forgives, MULTI);
    let [usual, old] = [[].as_slice(), &["setarch", "--uname-2.6"]].map(|by| told(by, top.path()));
    assert!(old["host"]["kernel"].as_str().unwrap().starts_with("2.6"), "{old:#}");
    for document in [usual, old] {
        let cgroup = &document["cgroups"][0];
        let policy = &document["policies"][cgroup["policy"].as_str().unwrap()];
        assert_eq!(policy["default"], "allow", "{document:#}");
    }
}
