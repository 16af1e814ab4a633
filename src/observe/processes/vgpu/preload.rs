//! The list of libraries that the loader of a process's root loads into every
//! program.

use std::ffi::CString;
use std::os::unix::fs::FileExt as _;

use nix::errno::Errno;

use super::candidates::is_library;
use super::files::why;
use crate::observation::{Answer, Preload, Text};
use crate::sys::dir::{Dir, PathHandle};

/// Bytes that are read of the file.
const LIMIT: usize = 4096;

/// `/etc/ld.so.preload` of a process, if it names libvgpu.so or libsoftmig.so. A list
/// that names neither is not kept.
pub(super) fn read(dir: &Dir) -> Answer<Option<Preload>> {
    let root = match dir.child(c"root/.") {
        Ok(root) => root,
        Err(errno) => return Answer::Missing(why(errno)),
    };
    let text = match root.find_inside(c"etc/ld.so.preload", true) {
        Ok((place, _)) => text(&place),
        Err(Errno::ENOENT | Errno::ENOTDIR) => return Answer::Known(None),
        Err(errno) => Err(why(errno)),
    };
    match text {
        Ok(text) => Answer::Known(names(&root, &text)),
        Err(why) => Answer::Missing(why),
    }
}

/// The beginning of a file that was found.
pub(super) fn text(place: &PathHandle) -> Result<Vec<u8>, String> {
    beginning(place, LIMIT)
}

/// At most `limit` bytes of a file that was found.
pub(super) fn beginning(place: &PathHandle, limit: usize) -> Result<Vec<u8>, String> {
    let file = place.open_regular().map_err(why)?;
    let mut bytes = vec![0; limit];
    let count = file.read_at(&mut bytes, 0).map_err(|error| format!("it cannot be read: {error}"))?;
    bytes.truncate(count);
    Ok(bytes)
}

fn names(root: &Dir, text: &[u8]) -> Option<Preload> {
    // A comment reaches to the end of its line (`do_preload` in glibc's elf/rtld.c).
    let lines = text.split(|byte| *byte == b'\n');
    let plain = lines.filter_map(|line| line.split(|byte| *byte == b'#').next());
    let names = plain.flat_map(|line| line.split(|byte| b" \t:".contains(byte)));
    let ours: Vec<&[u8]> =
        names.filter(|name| is_library(name.rsplit(|byte| *byte == b'/').next().unwrap_or(name))).collect();
    if ours.is_empty() {
        return None;
    }
    let is_missing = |name: &&&[u8]| {
        // No file has a name with a zero byte; only what is said to be missing is.
        let path = CString::new(**name).ok().filter(|path| path.as_bytes().starts_with(b"/"));
        path.is_some_and(|path| matches!(root.find_inside(&path, true), Err(Errno::ENOENT | Errno::ENOTDIR)))
    };
    let missing = ours.iter().filter(is_missing).map(|name| Text::from(*name)).collect();
    Some(Preload { text: text.into(), missing })
}
