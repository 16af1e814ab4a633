//! At which instruction of a function a uprobe costs least.
//!
//! The kernel runs the instruction under a probe itself where it can ("emulates"
//! it): `nop`, `push` of a register, and relative jumps and calls
//! (`branch_setup_xol_ops` and `push_setup_xol_ops` of
//! `arch/x86/kernel/uprobes.c`). Any other instruction is run from a copy in a
//! single step, and that is a second trap for each call.
//!
//! Two ways to begin a function have an emulated instruction close behind one
//! that is not, with nothing between them that changes the stack pointer or an
//! argument. There the probe is put at the second instruction. The return
//! address is still where the stack pointer points, so probes at the return
//! and arguments on the stack are found as at the entry.
//!
//! What it pays: in a virtual machine the second trap takes some 14 microseconds where one
//! takes 0.4, and `activity` counts no function that would cost two. The launches of
//! NVIDIA's driver begin in the second way (`cuLaunchKernel` of driver 550), and glibc's
//! `setenv` on Ubuntu, as all that is compiled with `-fcf-protection`, in the first: they
//! would not be counted, and cost two traps a call.

/// What a call costs that passes the probe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cost {
    /// One trap: the kernel emulates the instruction.
    OneTrap,
    /// Two traps: the instruction is run in a single step.
    TwoTraps,
    /// Not known: this machine has no rule here.
    Unknown,
}

/// Where in a function a probe is put.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProbePlace {
    /// Bytes behind the function's first one.
    pub behind: u64,
    /// What a call costs with the probe there.
    pub cost: Cost,
}

/// `endbr64`, with which functions begin that are compiled for control-flow
/// protection (`-fcf-protection`).
#[cfg(target_arch = "x86_64")]
const ENDBR64: &[u8] = &[0xf3, 0x0f, 0x1e, 0xfa];

/// `cmpl $imm32, disp32(%rip)`: two bytes and eight of operands. The exported
/// functions of NVIDIA's driver begin with it, and go on with `je`.
#[cfg(target_arch = "x86_64")]
const COMPARE: (&[u8], usize) = (&[0x81, 0x3d], 10);

/// Where to put a probe, by the first bytes of a function (12 are enough).
#[cfg(target_arch = "x86_64")]
pub fn probe_place(beginning: &[u8]) -> ProbePlace {
    let at = |behind: usize| ProbePlace { behind: behind as u64, cost: Cost::OneTrap };
    let from = |behind: usize| beginning.get(behind..).unwrap_or_default();
    if is_emulated(beginning) {
        return at(0);
    }
    if beginning.starts_with(ENDBR64) && is_emulated(from(ENDBR64.len())) {
        return at(ENDBR64.len());
    }
    let (compare, length) = COMPARE;
    // Only the short `je` is known from there.
    if beginning.starts_with(compare) && matches!(from(length), [0x74, _, ..]) {
        return at(length);
    }
    ProbePlace { behind: 0, cost: Cost::TwoTraps }
}

/// Whether the kernel emulates the instruction with which these bytes begin, in
/// every release since Linux 5.8. One that is cut off is taken for another.
#[cfg(target_arch = "x86_64")]
fn is_emulated(bytes: &[u8]) -> bool {
    match bytes {
        // nop; push of a register, also of r8 to r15.
        [0x90 | 0x50..=0x57, ..] | [0x41, 0x50..=0x57, ..] => true,
        // Short jumps, with and without condition.
        [0x70..=0x7f | 0xeb, _, ..] => true,
        // call and jmp over a distance of 32 bits.
        [0xe8 | 0xe9, _, _, _, _, ..] => true,
        // Jumps with a condition over a distance of 32 bits.
        [0x0f, 0x80..=0x8f, _, _, _, _, ..] => true,
        _ => false,
    }
}

/// No rule for this machine: the probe is put at the function's beginning.
#[cfg(not(target_arch = "x86_64"))]
pub fn probe_place(_beginning: &[u8]) -> ProbePlace {
    ProbePlace { behind: 0, cost: Cost::Unknown }
}

#[cfg(all(test, target_arch = "x86_64"))]
mod tests {
    use iced_x86::{Decoder, DecoderOptions, Mnemonic, Register};
    use proptest::prelude::*;

    use super::*;

    fn place(bytes: &[u8]) -> (u64, Cost) {
        let place = probe_place(bytes);
        (place.behind, place.cost)
    }

    /// Make sure that beginnings of real functions get the place that is cheap.
    #[test]
    fn real_functions() {
        let one = |behind| (behind, Cost::OneTrap);
        let two = (0, Cost::TwoTraps);
        for (bytes, wanted, what) in [
            (&b"\x41\x57\x41\x56\x41\x55"[..], one(0), "push r15: setenv of Debian's glibc 2.36"),
            (b"\x55\x48\x89\xe5", one(0), "push rbp"),
            (b"\x66\x0f\x1f\x44\x00\x00", two, "a nop of six bytes"),
            (b"\x0f\x1f\x44\x00\x00\x55", two, "the nop that ftrace leaves, before Linux 6.18"),
            (b"\x90\x55", one(0), "nop"),
            (b"\xf3\x0f\x1e\xfa\x41\x57\x41\x56", one(4), "endbr64, push: setenv of Ubuntu's glibc"),
            (b"\xf3\x0f\x1e\xfa\x55", one(4), "endbr64, push rbp"),
            (b"\xf3\x0f\x1e\xfa\xe9\x01\x02\x03\x04", one(4), "endbr64, jmp"),
            (b"\xf3\x0f\x1e\xfa\xe8\x01\x02\x03\x04", one(4), "endbr64, call"),
            (b"\xf3\x0f\x1e\xfa\x48\x83\xec\x08", two, "endbr64, sub rsp: putenv"),
            (b"\xf3\x0f\x1e\xfa\x48\x85\xff\x74\x05", two, "endbr64, test"),
            (b"\xf3\x0f\x1e\xfb\x55", two, "endbr32"),
            (
                b"\x81\x3d\x46\xd5\x94\x04\x18\x78\xab\x5a\x74\x06\xff\x25\x12\x34\x56\x00",
                one(10),
                "cmpl, je, jmp: cuLaunchKernel of driver 550",
            ),
            (b"\x81\x3d\x46\xd5\x94\x04\x18\x78\xab\x5a\x75\x06", two, "cmpl, jne: not of a driver"),
            (b"\x81\x3d\x46\xd5\x94\x04\x18\x78\xab\x5a\x41\x89\xf0\x74\x06", two, "cmpl, mov: cuMemsetD8"),
            (b"\x83\x3d\x46\xd5\x94\x04\x00\x74\x06", two, "cmpl with one byte"),
            (b"\x48\x8b\x05\x01\x02\x03\x04", two, "mov"),
            (b"\x66\x90", two, "a nop of two bytes"),
            (b"", two, "nothing"),
            (b"\xf3\x0f\x1e\xfa", two, "endbr64 alone"),
            (b"\x41", two, "a cut push"),
        ] {
            assert_eq!(place(bytes), wanted, "{what}");
        }
    }

    proptest! {
        /// Make sure of any bytes that the place is that of an instruction, and
        /// that nothing before it changes the stack pointer or a general register.
        #[test]
        fn any_bytes(
            head in prop_oneof![Just(vec![]), Just(ENDBR64.to_vec()), Just(vec![0x81, 0x3d])],
            tail in prop::collection::vec(any::<u8>(), 0..24),
        ) {
            let bytes = [head, tail].concat();
            let place = probe_place(&bytes);
            prop_assert!(matches!(place.behind, 0 | 4 | 10));
            prop_assert!(place.behind == 0 || place.cost == Cost::OneTrap);
            let mut decoder = Decoder::new(64, &bytes, DecoderOptions::NONE);
            while decoder.ip() < place.behind {
                let instruction = decoder.decode();
                prop_assert!(matches!(instruction.mnemonic(), Mnemonic::Endbr64 | Mnemonic::Cmp));
                prop_assert!(instruction.op0_register() == Register::None);
            }
            prop_assert_eq!(decoder.ip(), place.behind);
            if place.cost == Cost::OneTrap {
                let mnemonic = decoder.decode().mnemonic();
                let is_jump = format!("{mnemonic:?}").starts_with('J');
                prop_assert!(
                    is_jump || matches!(mnemonic, Mnemonic::Nop | Mnemonic::Push | Mnemonic::Call | Mnemonic::Pause),
                    "{:?}", mnemonic
                );
            }
        }
    }
}
