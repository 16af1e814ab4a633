//! What the node says of itself: settings, types and symbols of the kernel, its clock, and
//! which programs run that matter for GPUs.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{BufRead as _, BufReader, ErrorKind, Read as _};
use std::path::{Path, PathBuf};

use crate::observation::Answer;
use crate::observe::problems::errno_of;
use crate::sys::absence::{OrAbsent as _, is_absence};
use crate::sys::clock;
use crate::sys::dir::Dir;
use crate::sys::retry::again;

/// Settings below `/proc/sys` on which what gpumap can see depends.
const SYSCTLS: [&str; 6] = [
    "kernel/unprivileged_bpf_disabled",
    "kernel/kptr_restrict",
    "kernel/yama/ptrace_scope",
    "kernel/perf_event_paranoid",
    "net/core/bpf_jit_enable",
    "net/core/bpf_jit_harden",
];
/// Files of sysfs: the security modules, and the versions of drivers.
const FILES: [&str; 8] = [
    "/sys/kernel/security/lockdown",
    "/sys/kernel/security/lsm",
    "/sys/module/nvidia/version",
    "/sys/module/nvidia/initstate",
    "/sys/module/amdgpu/initstate",
    "/sys/module/amdgpu/version",
    "/sys/module/i915/initstate",
    "/sys/module/xe/initstate",
];
/// Where aya and libbpf look for the types of the kernel.
const BTF: &str = "/sys/kernel/btf/vmlinux";
/// Bytes of a setting, of the first lines of symbols.
const SETTING_LIMIT: u64 = 4096;
const SYMBOLS_LIMIT: u64 = 4096;

/// The settings by path, as on a node whose proc is at `/proc`.
pub(super) fn settings(proc: &Path) -> BTreeMap<String, Answer<String>> {
    let sysctls = SYSCTLS.iter().map(|name| (format!("/proc/sys/{name}"), proc.join("sys").join(name)));
    let files = FILES.iter().map(|path| ((*path).to_owned(), PathBuf::from(path)));
    sysctls.chain(files).filter_map(|(name, path)| Some((name, setting(&path)?))).collect()
}

/// The text of a small file; `None` where there is none.
fn setting(path: &Path) -> Option<Answer<String>> {
    let read = again(|| {
        let mut text = String::new();
        File::open(path)?.take(SETTING_LIMIT).read_to_string(&mut text).map(|_| text)
    });
    match read {
        Ok(text) => Some(Answer::Known(text.trim().to_owned())),
        Err(error) if is_absence(errno_of(&error)) => None,
        Err(error) => Some(Answer::Missing(error.to_string())),
    }
}

/// How large the description of the kernel's types is. It has to be readable, and to
/// begin as one does: container runtimes hide files under empty ones.
pub(super) fn btf() -> Answer<u64> {
    described(Path::new(BTF)).map_or_else(
        |error| Answer::Missing(format!("{BTF}: {error}")),
        |size| size.map_or_else(|| Answer::Missing(format!("{BTF} holds something else")), Answer::Known),
    )
}

/// The size of a file that begins with `BTF_MAGIC` (`linux/btf.h`); `None` for another.
fn described(path: &Path) -> std::io::Result<Option<u64>> {
    let mut file = again(|| File::open(path))?;
    let (mut magic, size) = ([0; 2], again(|| file.metadata())?.len());
    match file.read_exact(&mut magic) {
        Ok(()) => Ok((u16::from_ne_bytes(magic) == 0xEB9F).then_some(size)),
        Err(error) if error.kind() == ErrorKind::UnexpectedEof => Ok(None),
        Err(error) => Err(error),
    }
}

/// Whether the first symbols of the kernel have addresses other than 0.
pub(super) fn symbols(proc: &Path) -> Answer<bool> {
    let path = proc.join("kallsyms");
    let file = match again(|| File::open(&path)) {
        Ok(file) => file,
        Err(error) => return Answer::Missing(format!("{}: {error}", path.display())),
    };
    let lines = BufReader::new(file.take(SYMBOLS_LIMIT)).split(b'\n').take(16);
    let lines: Vec<Vec<u8>> = match lines.collect() {
        Ok(lines) => lines,
        Err(error) => return Answer::Missing(format!("{}: {error}", path.display())),
    };
    if lines.is_empty() {
        return Answer::Missing(format!("{} is empty", path.display()));
    }
    let is_address = |line: &Vec<u8>| line.split(|byte| *byte == b' ').next().is_some_and(is_not_zero);
    Answer::Known(lines.iter().any(is_address))
}

fn is_not_zero(word: &[u8]) -> bool {
    word.iter().any(|digit| *digit != b'0')
}

/// Whether the clock is synchronised.
pub(super) fn clock() -> Answer<bool> {
    clock::is_synchronized().map_or_else(|errno| Answer::Missing(errno.desc().to_owned()), Answer::Known)
}

/// Names as the kernel keeps them, cut to 15 bytes (`TASK_COMM_LEN` with its NUL).
const KNOWN: [&str; 7] = [
    "nvidia-persiste",
    "nv-fabricmanage",
    "nvidia-cuda-mps",
    "slurmd",
    "system-probe",
    "container-hotpl",
    "dcgm-exporter",
];
/// Bytes of `comm`.
const LIMIT: usize = 64;

/// Which of the known programs run. A user can give a process such a name: it is a
/// hint, and no verdict rests on it.
pub(super) fn running(proc: &Path) -> Answer<Vec<String>> {
    let listed = Dir::open(proc).and_then(|dir| {
        let mut found: BTreeSet<&str> = BTreeSet::new();
        let (mut text, mut unread) = (Vec::new(), None);
        dir.numbers(c".", |name, _| {
            let read = dir.child(name).and_then(|process| process.read_into(c"comm", &mut text, LIMIT));
            match read.or_ended() {
                Ok(Some(())) => {
                    let comm = text.trim_ascii_end();
                    found.extend(KNOWN.iter().filter(|known| known.as_bytes() == comm));
                }
                Ok(None) => {}
                Err(errno) => unread = Some(errno),
            }
            true
        })?;
        unread.map_or(Ok(found), Err)
    });
    match listed {
        Ok(found) => Answer::Known(found.into_iter().map(|name| (*name).to_owned()).collect()),
        Err(errno) => Answer::Missing(format!("{}: {}", proc.display(), errno.desc())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Make sure that a file which hides the kernel's description is not taken for it.
    #[test]
    fn hidden_types() {
        assert_eq!(described(Path::new("/dev/null")).unwrap(), None);
        assert_eq!(described(Path::new("/proc/self/exe")).unwrap(), None);
        assert!(described(Path::new("/proc")).is_err());
    }

    /// Make sure that hidden addresses are not taken for shown ones.
    #[test]
    fn addresses() {
        assert!(!is_not_zero(b"0000000000000000") && is_not_zero(b"ffffffff81000000") && !is_not_zero(b""));
    }
}
