//! C to a loaded program: clang (or Debian's `bpf-gcc`) compiles it, bpftool (libbpf) makes its maps,
//! links it and hands it to the verifier.

use std::io;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

use crate::support::bpf::{Attr, bpf_fd};

const OBJ_GET: i32 = 7;

/// The newest clang that is installed, or what `GPUMAP_COMPILER` names, and its BPF
/// instruction sets.
#[derive(Debug)]
pub struct Clang {
    pub command: String,
    /// `v2` to `v4`, as far as it knows them.
    pub sets: Vec<&'static str>,
}

/// The compiler; `None`, with the reason told, where there is none. With
/// `GPUMAP_REQUIRE_ROOT=1` that is a failure.
pub fn clang() -> Option<&'static Clang> {
    static FOUND: OnceLock<Option<Clang>> = OnceLock::new();
    let found = FOUND.get_or_init(|| {
        let knows = |command: &str, set: &str| {
            let result = run(compiler(command, set).args(["-S", "-o", "-", "-xc", "-"]), b"int a;");
            result.is_ok_and(|log| !log.contains("is not a recognized processor"))
        };
        let asked = std::env::var("GPUMAP_COMPILER").ok();
        let commands = asked.map_or_else(|| vec!["clang-19".to_owned(), "clang".to_owned()], |it| vec![it]);
        commands.into_iter().find(|command| knows(command, "v3")).map(|command| Clang {
            sets: ["v2", "v3", "v4"].into_iter().filter(|set| knows(&command, set)).collect(),
            command,
        })
    });
    if found.is_none() {
        crate::support::host::skip("clang is not installed");
    }
    found.as_ref()
}

/// A compiler that makes programs of one instruction set.
fn compiler(command: &str, set: &str) -> Command {
    let mut compiler = Command::new(command);
    match command.contains("gcc") {
        true => compiler.args(["-w", "-gbtf"]),
        false => compiler.args(["-target", "bpf", "-g", "-Wno-everything", "-fno-stack-protector"]),
    };
    compiler.arg(format!("-mcpu={set}"));
    compiler
}

/// What `command` says on standard error; the error is the same.
fn run(command: &mut Command, input: &[u8]) -> Result<String, String> {
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|error| error.to_string())?;
    io::Write::write_all(&mut child.stdin.take().expect("a pipe"), input)
        .map_err(|error| error.to_string())?;
    let output = child.wait_with_output().map_err(|error| error.to_string())?;
    let log = String::from_utf8_lossy(&output.stderr).into_owned();
    if output.status.success() { Ok(log) } else { Err(log) }
}

impl Clang {
    /// Compiles `text` into the object file `to`.
    pub fn compile(&self, text: &str, level: &str, set: &str, to: &Path) -> Result<(), String> {
        let mut command = compiler(&self.command, set);
        run(command.args([level, "-c", "-xc", "-", "-o"]).arg(to), text.as_bytes()).map(drop)
    }
}

/// A BPF file system of its own, mounted nowhere: what is pinned there is gone
/// with this value.
#[derive(Debug)]
pub struct Pins(OwnedFd);

impl Pins {
    pub fn new() -> io::Result<Self> {
        super::support::oracle::detached(c"bpf").map(Self)
    }

    fn path(&self) -> PathBuf {
        format!("/proc/{}/fd/{}", std::process::id(), self.0.as_raw_fd()).into()
    }

    /// Loads all programs of an object file; the error is the verifier's.
    pub fn load(&self, object: &Path, name: &str) -> Result<Object, String> {
        let loaded =
            Object { programs: self.path().join(name), maps: self.path().join(format!("{name}-maps")) };
        std::fs::create_dir(&loaded.maps).map_err(|error| error.to_string())?;
        let mut command = Command::new("bpftool");
        command.args(["prog", "loadall"]).arg(object).arg(&loaded.programs).arg("pinmaps").arg(&loaded.maps);
        run(&mut command, b"")?;
        Ok(loaded)
    }
}

/// What was loaded from one object file, pinned until the value goes.
#[derive(Debug)]
pub struct Object {
    programs: PathBuf,
    maps: PathBuf,
}

impl Object {
    /// The program of this name.
    pub fn program(&self, name: &str) -> io::Result<OwnedFd> {
        pinned(&self.programs.join(name))
    }

    /// The map of this name.
    pub fn map(&self, name: &str) -> io::Result<OwnedFd> {
        pinned(&self.maps.join(name))
    }
}

impl Drop for Object {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.programs);
        let _ = std::fs::remove_dir_all(&self.maps);
    }
}

fn pinned(path: &Path) -> io::Result<OwnedFd> {
    let path = std::ffi::CString::new(path.as_os_str().as_encoded_bytes())?;
    bpf_fd(OBJ_GET, &mut Attr::new().pointer(0, path.as_ptr()))
}
