//! Recognises the software that wrote a program by the program's shape. This is a
//! label for people: nothing depends on it.

use crate::bytecode::{Arithmetic, Comparison, Insn, Operand, Operation};
use crate::model::Writer;
use crate::observation::Text;

/// Names that only one writer gives.
const NAMES: [(&str, Writer); 5] = [
    ("gpumap_repair", Writer::Gpumap),
    ("Slurm_Cgroup_v2", Writer::Slurm),
    ("sd_devices", Writer::Systemd),
    ("craned_device_a", Writer::Crane),
    ("oarcgdev", Writer::Oar),
];

/// The writer, if the shape is one that is known.
pub(super) fn of(insns: &[Insn], name: &Text) -> Option<Writer> {
    let named = NAMES.into_iter().find(|(known, _)| name.as_bytes() == known.as_bytes());
    named.map(|(_, writer)| writer).or_else(|| by_shape(&Operation::decode_all(insns)))
}

fn by_shape(operations: &[Operation]) -> Option<Writer> {
    let loads = |base: usize, dst: usize, offset: i16, size: usize| {
        move |operation: &Operation| {
            matches!(operation, Operation::Load { dst: d, base: b, offset: o, size: s, .. }
                if (*d, *b, *o, *s) == (dst, base, offset, size))
        }
    };
    let first = operations.first()?;
    if matches!(
        first,
        Operation::Arithmetic { kind: Arithmetic::Move, dst: 6, source: Operand::Register(1), .. }
    ) && operations.iter().any(|operation| matches!(operation, Operation::LoadMap { .. }))
    {
        return Some(Writer::Libvirt);
    }
    if operations.get(1).is_some_and(loads(1, 2, 4, 4)) && operations.get(2).is_some_and(loads(1, 3, 8, 4)) {
        return Some(Writer::Htcondor);
    }
    let half_word = loads(1, 2, 0, 2)(first);
    let starts = operations.iter().filter(|operation| loads(1, 2, 0, 2)(operation)).count();
    if half_word && starts > 1 || starts > 0 && !half_word {
        return Some(Writer::NvidiaToolkit);
    }
    let full_word = loads(1, 2, 0, 4)(first) && operations.get(4).is_some_and(loads(1, 4, 4, 4));
    match (full_word, half_word) {
        (true, _) => after_prologue(operations.get(6..)?),
        (_, true) => Some(Writer::Containerd),
        _ => None,
    }
}

/// Tells apart the writers that share the six-instruction prologue.
fn after_prologue(rules: &[Operation]) -> Option<Writer> {
    let verdict_width = rules.iter().find_map(|operation| match operation {
        Operation::Arithmetic {
            kind: Arithmetic::Move,
            width,
            dst: 0,
            source: Operand::Immediate(0..=1),
        } => Some(*width),
        _ => None,
    })?;
    let exits = rules.iter().filter(|operation| **operation == Operation::Exit).count();
    if exits == 1 && rules.iter().any(|operation| matches!(operation, Operation::Jump { .. })) {
        return Some(Writer::Systemd);
    }
    let tests_access = |operation: &Operation| {
        matches!(
            operation,
            Operation::Arithmetic { kind: Arithmetic::Move, width: 32, dst: 1, source: Operand::Register(3) }
        )
    };
    let overlap = rules.iter().any(|operation| {
        matches!(
            operation,
            Operation::Branch { comparison: Comparison::Equal, dst: 1, source: Operand::Immediate(0), .. }
        )
    });
    // LXC tests the access before the type, crun after it.
    let tests_type_last = rules.iter().zip(rules.iter().skip(3)).any(|(operation, later)| {
        tests_access(operation) && matches!(later, Operation::Branch { dst: 2, .. })
    });
    match (rules.iter().any(tests_access), overlap, verdict_width) {
        (true, true, 32) => Some(Writer::OldRunc),
        (true, true, _) => Some(Writer::OldCrun),
        (true, false, 32) => Some(Writer::Runc),
        (true, false, _) if tests_type_last => Some(Writer::Lxc),
        (true, false, _) => Some(Writer::Crun),
        (false, _, 32) => Some(Writer::Runc),
        (false, ..) => Some(Writer::Slurm),
    }
}
