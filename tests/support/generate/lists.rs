//! Writers that put their rules into the instructions.

use super::rules::{
    Access, CHAR, Rule, access_test, hints, list, major, minor, number_tests, prologue, prologue_half,
    type_test,
};
use crate::support::asm::{Asm, alu, cond, size};
use crate::support::rng::Rng;
use crate::support::source::Source;

fn finish(asm: Asm, rules: &[Rule], gpl: bool) -> Source {
    Source { hints: hints(rules), gpl, ..asm.finish("") }
}

/// Slurm: no access test, a verdict per rule, allow at the end.
pub fn slurm(rng: &mut Rng) -> Source {
    let mut rules = list(rng, 12);
    rules.push(super::rules::rule(rng));
    let mut asm = Asm::new();
    prologue(&mut asm);
    for rule in &rules {
        let next = asm.label();
        type_test(&mut asm, rule, next);
        number_tests(&mut asm, rule, next);
        asm.verdict(i32::from(rule.allow));
        asm.bind(next);
    }
    asm.verdict(1);
    finish(asm, &rules, true)
}

/// systemd: access first, one shared tail.
pub fn systemd(rng: &mut Rng) -> Source {
    let mut rules = list(rng, 12);
    rules.push(super::rules::rule(rng));
    let mut asm = Asm::new();
    let pass = asm.label();
    prologue(&mut asm);
    for rule in &rules {
        let next = asm.label();
        access_test(&mut asm, Access::Subset, 1, rule.access, next);
        type_test(&mut asm, rule, next);
        number_tests(&mut asm, rule, next);
        asm.jump(pass);
        asm.bind(next);
    }
    let end = asm.label();
    asm.mov(0, 0);
    asm.jump(end);
    asm.bind(pass);
    asm.mov(0, 1);
    asm.bind(end);
    asm.exit();
    finish(asm, &rules, true)
}

/// systemd with no rule: a bare denial, with or without the prologue.
pub fn systemd_none(rng: &mut Rng) -> Source {
    let mut asm = Asm::new();
    if rng.chance(50) {
        prologue(&mut asm);
    }
    asm.verdict(0);
    finish(asm, &[], true)
}

/// The container runtimes, which share one shape in several dialects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Oci {
    Runc,
    RuncOverlap,
    RuncOld,
    Crun,
    CrunOld,
    Youki,
}

pub fn oci(rng: &mut Rng, writer: Oci) -> Source {
    let rules = list(rng, 14);
    let mut asm = Asm::new();
    let ended = oci_rules(&mut asm, rng, writer, &rules);
    if !ended {
        oci_verdict(&mut asm, writer, rng.chance(25));
    }
    finish(asm, &rules, matches!(writer, Oci::Crun | Oci::CrunOld))
}

fn oci_rules(asm: &mut Asm, rng: &mut Rng, writer: Oci, rules: &[Rule]) -> bool {
    if writer == Oci::RuncOld || writer == Oci::CrunOld && rng.chance(50) {
        prologue_half(asm)
    } else {
        prologue(asm)
    }
    let test = match writer {
        Oci::Runc | Oci::Crun | Oci::Youki => Access::Subset,
        Oci::RuncOverlap | Oci::RuncOld | Oci::CrunOld => Access::Overlap,
    };
    for rule in rules {
        // crun's wildcard ends the program without a default.
        if writer == Oci::Crun && rng.chance(3) {
            oci_verdict(asm, writer, true);
            return true;
        }
        let next = asm.label();
        let any_type = writer == Oci::Crun && rng.chance(10);
        type_test(asm, &Rule { kind: if any_type { None } else { rule.kind }, ..*rule }, next);
        access_test(asm, test, 1, rule.access, next);
        number_tests(asm, rule, next);
        oci_verdict(asm, writer, rule.allow);
        asm.bind(next);
    }
    false
}

fn oci_verdict(asm: &mut Asm, writer: Oci, allow: bool) {
    match writer {
        Oci::Crun | Oci::CrunOld => asm.verdict(i32::from(allow)),
        _ => asm.verdict32(i32::from(allow)),
    }
}

/// nvcgo: one old prologue and one rule per GPU node, before runc's program.
pub fn nvcgo(rng: &mut Rng) -> Source {
    let mut asm = Asm::new();
    let overlap = rng.chance(50);
    let mut rules = Vec::new();
    for _ in 0..rng.between(1, 5) {
        let rule =
            Rule { kind: Some(CHAR), major: Some(195), minor: Some(minor(rng)), access: 6, allow: true };
        nvcgo_rule(&mut asm, rule, overlap, rng);
        rules.push(rule);
    }
    let old = list(rng, 10);
    oci_rules(&mut asm, rng, Oci::Runc, &old);
    asm.verdict32(0);
    rules.extend(old);
    finish(asm, &rules, false)
}

fn nvcgo_rule(asm: &mut Asm, rule: Rule, overlap: bool, rng: &mut Rng) {
    prologue_half(asm);
    let next = asm.label();
    type_test(asm, &rule, next);
    if overlap {
        access_test(asm, Access::Overlap, 2, rule.access, next);
    } else {
        let scratch = rng.pick(&[2, 6]);
        asm.op32r(alu::MOV, scratch, 3);
        asm.op32(alu::AND, scratch, rule.access);
        asm.jump_if32r(cond::NE, scratch, 3, next);
    }
    number_tests(asm, &rule, next);
    asm.verdict32(1);
    asm.bind(next);
}

/// LXC: an allow list with default deny, or the reverse.
pub fn lxc(rng: &mut Rng) -> Source {
    let allow_list = rng.chance(60);
    let access_first = rng.chance(70);
    let rules = list(rng, 14);
    let mut asm = Asm::new();
    prologue(&mut asm);
    for rule in &rules {
        let next = asm.label();
        if access_first {
            access_test(&mut asm, Access::Subset, 1, rule.access, next);
            type_test(&mut asm, rule, next);
        } else {
            type_test(&mut asm, rule, next);
            access_test(&mut asm, Access::Subset, 1, rule.access, next);
        }
        number_tests(&mut asm, rule, next);
        asm.verdict(i32::from(allow_list));
        asm.bind(next);
    }
    asm.verdict(i32::from(!allow_list));
    finish(asm, &rules, true)
}

/// `HTCondor`: allow is set first, no type test, 32-bit compares.
pub fn htcondor(rng: &mut Rng) -> Source {
    let mut asm = Asm::new();
    asm.op32(alu::MOV, 0, 1);
    asm.ldx(size::W, 2, 1, 4);
    asm.ldx(size::W, 3, 1, 8);
    let mut hints = Vec::new();
    for _ in 0..rng.between(1, 12) {
        let (major, minor) = (major(rng), minor(rng));
        let next = asm.label();
        asm.jump_if32(cond::NE, 2, major as i32, next);
        asm.jump_if32(cond::NE, 3, minor as i32, next);
        asm.op32(alu::MOV, 0, 0);
        asm.exit();
        asm.bind(next);
        hints.push((major, minor));
    }
    asm.exit();
    Source { hints, ..asm.finish("") }
}

/// Mesos: a phase of allowances that lead to a phase of denials.
pub fn mesos(rng: &mut Rng) -> Source {
    let (allowed, denied) = (list(rng, 8), list(rng, 6));
    let mut asm = Asm::new();
    prologue(&mut asm);
    asm.mov(0, 0);
    if allowed.is_empty() {
        asm.exit();
        return finish(asm, &denied, false);
    }
    let deny = asm.label();
    for rule in &allowed {
        let next = asm.label();
        number_tests(&mut asm, rule, next);
        type_test(&mut asm, rule, next);
        access_test(&mut asm, Access::Subset, 1, rule.access, next);
        asm.jump(deny);
        asm.bind(next);
    }
    asm.exit();
    asm.bind(deny);
    for rule in &denied {
        let next = asm.label();
        number_tests(&mut asm, rule, next);
        type_test(&mut asm, rule, next);
        access_test(&mut asm, Access::Overlap, 1, rule.access, next);
        asm.exit();
        asm.bind(next);
    }
    asm.verdict(1);
    let rules: Vec<Rule> = allowed.into_iter().chain(denied).collect();
    finish(asm, &rules, false)
}
