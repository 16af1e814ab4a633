//! Limits that the kernel sets to BPF programs: locked memory, and lockdown.

use std::fs;
use std::sync::OnceLock;

use nix::sys::resource::{RLIM_INFINITY, Resource, getrlimit, setrlimit};

use super::kernel;

/// The first kernel that does not count BPF memory against the limit.
const UNCOUNTED: (u32, u32) = (5, 11);

/// Raises this process's limit as far as it may, once, where this kernel counts BPF
/// memory against it. Without `CAP_SYS_RESOURCE` that is up to the hard limit.
///
/// Returns the limit in bytes that is left then; `None` where there is none.
pub fn raised() -> Option<u64> {
    static LEFT: OnceLock<Option<u64>> = OnceLock::new();
    *LEFT.get_or_init(|| if is_counted() { raise() } else { None })
}

fn raise() -> Option<u64> {
    const MEMORY: Resource = Resource::RLIMIT_MEMLOCK;
    if setrlimit(MEMORY, RLIM_INFINITY, RLIM_INFINITY).is_ok() {
        return None;
    }
    let (soft, hard) = getrlimit(MEMORY).ok()?;
    let limit = if setrlimit(MEMORY, hard, hard).is_ok() { hard } else { soft };
    (limit != RLIM_INFINITY).then_some(limit)
}

/// Whether this kernel may count. A release that cannot be read may: raising the
/// limit does no harm.
fn is_counted() -> bool {
    kernel::release().is_none_or(|release| release < UNCOUNTED)
}

const FILE: &str = "/sys/kernel/security/lockdown";

/// Whether the kernel is known to be locked down for confidentiality: it refuses BPF
/// programs the helpers that read its memory, with `EINVAL` or `EPERM`. Since Linux 5.4;
/// false where securityfs is not mounted or not to be read.
pub fn is_confidential() -> bool {
    // It explains an error that is told in any case.
    fs::read_to_string(FILE).is_ok_and(|text| text.contains("[confidentiality]"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Make sure that the limit is left alone where the kernel does not count.
    #[test]
    fn untouched_where_it_does_not_count() {
        let before = getrlimit(Resource::RLIMIT_MEMLOCK).unwrap();
        let left = raised();
        if !is_counted() {
            assert_eq!((left, getrlimit(Resource::RLIMIT_MEMLOCK).unwrap()), (None, before));
        }
    }
}
