//! What `/proc/PID/status` and the namespaces of a process show.

use nix::errno::Errno;

use crate::observation::VgpuTraces;
use crate::sys::dir::Dir;
use crate::sys::namespace;
use crate::sys::stat::stat_at;

/// Fills in pids, umask and caught signals.
pub(super) fn fill(text: &[u8], traces: &mut VgpuTraces) {
    let field = |name: &str| {
        let mut lines = text.split(|byte| *byte == b'\n');
        let line = lines.find_map(|line| line.strip_prefix(name.as_bytes())?.strip_prefix(b":"))?;
        str::from_utf8(line).ok().map(str::trim)
    };
    let pids = field("NSpid").unwrap_or_default().split_ascii_whitespace();
    traces.pids = pids.map_while(|pid| pid.parse().ok()).collect();
    traces.umask = field("Umask").and_then(|umask| u32::from_str_radix(umask, 8).ok());
    traces.caught = field("SigCgt").and_then(|caught| u64::from_str_radix(caught, 16).ok());
}

/// Whether a process is in another user namespace than the one with this inode
/// number.
pub(super) fn is_elsewhere(dir: &Dir, own: Option<u64>) -> Option<bool> {
    let user = dir.child(c"ns").and_then(|ns| namespace::open(&ns, c"user"));
    let inode = user.and_then(|user| stat_at(&user, c"")).map(|stat| stat.inode);
    match inode {
        Ok(inode) => Some(inode != own?),
        Err(Errno::ENOENT) => Some(false),
        Err(_) => None,
    }
}
