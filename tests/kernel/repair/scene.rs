//! A cgroup that lost a device, with a `/run` and a bpf file system of its own for the
//! journals of the gpumap under test.

use std::ffi::{CString, OsStr};
use std::fs;
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

use gpumap::analyse;
use gpumap::model::{Device, DeviceType, Request};
use gpumap::policy::Decoder;
use serde_json::Value;

use crate::support::bpf;
use crate::support::cgroup::Cgroup;
use crate::support::node::{command, document};
use crate::support::oracle::Oracle;
use crate::support::programs::prog_id;

/// What the old programs of these tests allow: enough for a process, and device 195:1.
pub const NARROW: &str = "deny a *:* rwm\nallow c 1:3-9 rwm\nallow c 195:1 rwm";
/// The same and the device that is missing.
pub const WIDE: &str = "deny a *:* rwm\nallow c 1:3-9 rwm\nallow c 195:0-1 rwm";
/// How the device is asked for.
pub const MISSING: &str = "c 195:0 rwm";

/// Directories for journals and old programs, seen by one gpumap as `/run` and
/// `/sys/fs/bpf`.
pub struct Rooms(PathBuf);

impl Rooms {
    pub fn new() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("gpumap-repair-{}-{number}", std::process::id()));
        for dir in ["run", "bpf"] {
            fs::create_dir_all(path.join(dir)).unwrap();
        }
        let at = CString::new(path.join("bpf").to_str().unwrap()).unwrap();
        // SAFETY: terminated strings and no data.
        let done = unsafe {
            libc::mount(c"bpf".as_ptr(), at.as_ptr(), c"bpf".as_ptr(), 0, c"mode=0700".as_ptr().cast())
        };
        assert_eq!(done, 0, "{}", std::io::Error::last_os_error());
        Self(path)
    }

    pub fn run(&self) -> PathBuf {
        self.0.join("run")
    }

    pub fn journals(&self) -> PathBuf {
        self.0.join("run/gpumap")
    }

    pub fn pins(&self) -> PathBuf {
        self.0.join("bpf/gpumap")
    }

    /// The names of what is kept.
    pub fn kept(&self) -> (Vec<String>, Vec<String>) {
        let names = |dir: PathBuf| {
            let entries = fs::read_dir(dir).into_iter().flatten().flatten();
            let mut names: Vec<String> =
                entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
            names.retain(|name| name.starts_with("repair-"));
            names.sort();
            names
        };
        (names(self.journals()), names(self.pins()))
    }

    /// gpumap in these rooms.
    pub fn command<S: AsRef<OsStr>>(&self, args: &[S]) -> Command {
        let text = |path: PathBuf| CString::new(path.to_str().unwrap()).unwrap();
        let binds = [(text(self.run()), c"/run"), (text(self.0.join("bpf")), c"/sys/fs/bpf")];
        let mut command = command(args);
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let enter = move || {
            let null = std::ptr::null();
            // SAFETY: system calls on terminated strings that were made before the fork.
            unsafe {
                let mut done = libc::unshare(libc::CLONE_NEWNS);
                let private = libc::MS_REC | libc::MS_PRIVATE;
                done |= libc::mount(null, c"/".as_ptr(), null, private, null.cast());
                for (from, to) in &binds {
                    done |= libc::mount(from.as_ptr(), to.as_ptr(), null, libc::MS_BIND, null.cast());
                }
                if done == 0 { Ok(()) } else { Err(std::io::Error::last_os_error()) }
            }
        };
        // SAFETY: the closure makes system calls alone.
        unsafe { command.pre_exec(enter) };
        command
    }

    pub fn gpumap<S: AsRef<OsStr>>(&self, args: &[S]) -> Output {
        self.command(args).output().expect("the built program")
    }

    /// The document of a `repair`, and the exit code.
    pub fn repair(&self, args: &[&str]) -> (Value, i32) {
        let all: Vec<&str> = ["--json", "repair"].into_iter().chain(args.iter().copied()).collect();
        document(&self.gpumap(&all))
    }

    /// The one journal that is there.
    pub fn journal(&self) -> (PathBuf, Value) {
        let (journals, _) = self.kept();
        assert_eq!(journals.len(), 1, "{journals:?}");
        let path = self.journals().join(&journals[0]);
        let text = fs::read(&path).unwrap();
        (path, serde_json::from_slice(&text).unwrap())
    }

    /// The path of the one journal as gpumap sees it.
    pub fn journal_name(&self) -> String {
        format!("/run/gpumap/{}", self.journal().0.file_name().unwrap().to_str().unwrap())
    }
}

impl Drop for Rooms {
    fn drop(&mut self) {
        let at = CString::new(self.0.join("bpf").to_str().unwrap()).unwrap();
        // SAFETY: a terminated string.
        unsafe { libc::umount2(at.as_ptr(), libc::MNT_DETACH) };
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// A program that decides as these rules.
pub fn program(rules: &str) -> OwnedFd {
    named("", rules)
}

pub fn named(name: &str, rules: &str) -> OwnedFd {
    let decoder = &mut Decoder::new();
    let policy = decoder.policy_of_text(rules).unwrap();
    let compiled = analyse::compiled(decoder, policy).unwrap();
    bpf::load_bytes(name, &compiled.xlated.known().unwrap().0, true, true).unwrap()
}

/// The path of a cgroup from the cgroup root.
pub fn relative(cgroup: &Cgroup) -> String {
    let root = crate::support::cgroup::mount().unwrap();
    let path = cgroup.path().strip_prefix(root).unwrap();
    format!("/{}", path.to_str().unwrap())
}

pub fn effective(cgroup: &Cgroup) -> Vec<u32> {
    bpf::effective(cgroup.dir()).unwrap()
}

pub fn ids(programs: &[&OwnedFd]) -> Vec<u32> {
    programs.iter().map(|program| prog_id(program)).collect()
}

/// Whether the kernel lets a process of the oracle's cgroup open 195:minor.
pub fn may(oracle: &mut Oracle, minor: u32) -> bool {
    let device = Device { kind: DeviceType::Char, major: 195, minor };
    oracle.ask(&[device]).unwrap()[0].contains(Request::ReadWrite)
}

/// Owner and permission bits of a file.
pub fn mode(path: &Path) -> (u32, u32) {
    let facts = fs::symlink_metadata(path).unwrap();
    (facts.uid(), facts.mode() & 0o7777)
}
