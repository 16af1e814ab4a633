//! The directories that the dynamic linker's configuration names: ldconfig(8).

use std::collections::VecDeque;
use std::ffi::OsStr;
use std::io::{self, Read as _};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use crate::model::InOrder as _;
use crate::sys::absence::OrAbsent as _;
use crate::sys::dir::Dir;
use crate::sys::regular_file::RegularFile;

const CONFIGURATION: &str = "/etc/ld.so.conf";
/// Bounds: files, bytes of one, directories, entries of one that is listed.
const FILES: usize = 64;
const BYTES: u64 = 64 << 10;
const DIRECTORIES: usize = 256;
const ENTRIES: usize = 1 << 16;

/// The directories below `root` that its configuration names, in the order of
/// the files; empty without one. Files and directories that cannot be read are `unread`.
pub(super) fn directories(root: &Path, unread: &mut Vec<(PathBuf, String)>) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut waiting = VecDeque::from([below(root, Path::new(CONFIGURATION))]);
    for _ in 0..FILES {
        let Some(path) = waiting.pop_front() else { break };
        let base = path.parent().unwrap_or(root);
        let text = read(&path).or_absent().unwrap_or_else(|error| {
            unread.push((path.clone(), error.to_string()));
            None
        });
        for line in text.unwrap_or_default().split(|byte| *byte == b'\n').filter_map(parse) {
            match line {
                Line::Directory(path) => found.push(below(root, path)),
                Line::Include(patterns) => waiting.extend(included(patterns, root, base, unread)),
            }
        }
        waiting.truncate(FILES);
    }
    found.truncate(DIRECTORIES);
    found
}

/// What a line says.
#[derive(Debug, PartialEq, Eq)]
enum Line<'a> {
    Directory(&'a Path),
    /// Patterns with white space between them.
    Include(&'a [u8]),
}

/// One line; `None` for comments, `hwcap` and what names no path.
fn parse(line: &[u8]) -> Option<Line<'_>> {
    let text = line.split(|byte| *byte == b'#').next()?.trim_ascii();
    let patterns =
        text.strip_prefix(b"include").filter(|rest| rest.first().is_some_and(u8::is_ascii_whitespace));
    if let Some(patterns) = patterns {
        return Some(Line::Include(patterns.trim_ascii()));
    }
    // A type of library may follow, of which there has been one for long.
    let path = Path::new(OsStr::from_bytes(text.split(|byte| *byte == b'=').next()?.trim_ascii()));
    path.is_absolute().then_some(Line::Directory(path))
}

/// The files of an `include`; patterns that are not absolute start where the
/// line stands.
fn included(patterns: &[u8], root: &Path, base: &Path, unread: &mut Vec<(PathBuf, String)>) -> Vec<PathBuf> {
    let patterns = patterns.split(u8::is_ascii_whitespace).filter(|pattern| !pattern.is_empty());
    let patterns = patterns.map(|pattern| Path::new(OsStr::from_bytes(pattern)));
    let place = |path: &Path| if path.is_absolute() { below(root, path) } else { base.join(path) };
    let files = |pattern: PathBuf| {
        files(&pattern).or_absent().unwrap_or_else(|error| {
            unread.push((pattern, error.to_string()));
            None
        })
    };
    patterns.map(place).filter_map(files).flatten().take(FILES).collect()
}

/// The files that a pattern means whose last part has at most one star; others
/// are not in use.
fn files(pattern: &Path) -> io::Result<Vec<PathBuf>> {
    let name = pattern.file_name().map(OsStr::as_bytes).unwrap_or_default();
    let mut parts = name.split(|byte| *byte == b'*');
    let (Some(start), Some(end)) = (parts.next(), parts.next()) else { return Ok(vec![pattern.to_owned()]) };
    let matches = |name: &OsStr| {
        let rest = name.as_bytes().strip_prefix(start);
        rest.is_some_and(|rest| rest.ends_with(end)) && !name.as_bytes().starts_with(b".")
    };
    let mut found = entries(pattern.parent().unwrap_or(pattern), matches)?;
    found.order();
    Ok(found)
}

/// The paths in a directory with these names, among its first thousands.
pub(super) fn entries(
    directory: &Path,
    mut is_wanted: impl FnMut(&OsStr) -> bool,
) -> io::Result<Vec<PathBuf>> {
    let (mut found, mut seen) = (Vec::new(), 0);
    Dir::open(directory)?.names(|name| {
        found.extend(is_wanted(name).then(|| directory.join(name)));
        seen += 1;
        seen < ENTRIES
    })?;
    Ok(found)
}

fn read(path: &Path) -> io::Result<Vec<u8>> {
    let mut text = Vec::new();
    RegularFile::find_path(path)?.open()?.take(BYTES).read_to_end(&mut text)?;
    Ok(text)
}

/// An absolute path below another root.
pub(super) fn below(root: &Path, path: &Path) -> PathBuf {
    root.join(path.strip_prefix("/").unwrap_or(path))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    /// Make sure that a line is read as ldconfig reads it, whatever is in it.
    #[test]
    fn lines() {
        let directory = |path| Some(Line::Directory(Path::new(path)));
        assert_eq!(parse(b"\t/usr/lib # /no"), directory("/usr/lib"));
        assert_eq!(parse(b"include\ta/*.conf "), Some(Line::Include(b"a/*.conf")));
        assert_eq!(parse(b"/include"), directory("/include"));
        for nothing in [&b""[..], b"#/usr/lib", b"includes /usr", b"hwcap 0 nosegneg", b"\xff"] {
            assert_eq!(parse(nothing), None, "{nothing:?}");
        }
    }

    /// Make sure that files are found wherever they are included from, and that
    /// one that includes itself ends.
    #[test]
    fn includes() {
        let root = std::env::temp_dir().join(format!("gpumap-linker-{}", std::process::id()));
        fs::create_dir_all(root.join("etc/more")).unwrap();
        let write = |path: &str, text: &str| fs::write(root.join("etc").join(path), text).unwrap();
        write(
            "ld.so.conf",
            "include odd nothing more/*.conf  /etc/more/z.off\ninclude /etc/ld.so.conf\n/srv/a b # there",
        );
        fs::create_dir_all(root.join("etc/odd")).unwrap();
        write("more/b.conf", "/srv/old=libc6\nrelative");
        write("more/a.conf", "/srv/first");
        write("more/.c.conf", "/srv/hidden");
        write("more/z.off", "/srv/named");
        write("more/y.off", "/srv/hidden");
        let mut unread = Vec::new();
        let found = directories(&root, &mut unread);
        // What is no file cannot be read.
        assert!(!unread.is_empty() && unread.iter().all(|(path, _)| *path == root.join("etc/odd")));
        let expected = ["srv/a b", "srv/first", "srv/old", "srv/named"].map(|path| root.join(path));
        assert_eq!(found[..4], expected);
        assert!(found[4..].iter().all(|path| expected.contains(path)));
        fs::remove_dir_all(root).unwrap();
    }
}
