//! The kernel's lockdown, which it may be put under at boot, also by secure boot.

use std::fs;

const FILE: &str = "/sys/kernel/security/lockdown";

/// Whether the kernel is known to be locked down for confidentiality: it refuses BPF
/// programs the helpers that read its memory, with `EINVAL` or `EPERM`. Since Linux 5.4;
/// false where securityfs is not mounted or not to be read.
pub fn is_confidential() -> bool {
    // It explains an error that is told in any case.
    fs::read_to_string(FILE).is_ok_and(|text| text.contains("[confidentiality]"))
}
