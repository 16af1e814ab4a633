//! Each way in which a program gets the library, or does not, as living processes. The
//! rows are those of `fixtures/vgpu/outside/in-force.json`; those that differ in the
//! program's way to find CUDA's functions look the same from outside.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::{Bench, codes, limits};
use crate::support::host;
use crate::support::victim::Victim;

/// A program that says that it is there, and waits.
const PROGRAM: &str = "#include <stdio.h>\n#include <unistd.h>\n\
                       int main(void) { puts(\"ready\"); fflush(stdout); for (;;) pause(); }\n";

/// How a program is told to load the library.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Preload {
    Not,
    /// `LD_PRELOAD`.
    Variable,
    /// `/etc/ld.so.preload`, written before the program starts.
    File,
    /// The same, written afterwards.
    FileLater,
}

impl Bench {
    fn compile(&self, name: &str, compiler: &[&str]) -> PathBuf {
        let (source, program) = (self.path("program.c"), self.path(name));
        fs::write(&source, PROGRAM).unwrap();
        let mut command = Command::new(compiler[0]);
        let built = command.args(&compiler[1..]).arg(&source).arg("-o").arg(&program).output().unwrap();
        assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
        program
    }

    /// A program in a mount namespace with an `/etc` of its own, run by this user.
    fn run(&self, program: &Path, preload: Preload, uid: u32, region: Option<&Path>) -> Victim {
        let (layers, library) = (self.path("layers"), self.library());
        fs::create_dir_all(&layers).unwrap();
        let (layers, library) = (layers.display(), library.display());
        let mount = format!(
            "mount -t tmpfs none {layers} && mkdir {layers}/up {layers}/work && \
             mount -t overlay -o lowerdir=/etc,upperdir={layers}/up,workdir={layers}/work none /etc"
        );
        let (write, user) = (format!("echo {library} >/etc/ld.so.preload"), "setpriv --clear-groups --reuid");
        let program = program.display();
        let script = match preload {
            Preload::Not => format!("{mount} && exec {user} {uid} {program}"),
            Preload::Variable => format!("{mount} && exec {user} {uid} env LD_PRELOAD={library} {program}"),
            Preload::File => format!("{mount} && {write} && exec {user} {uid} {program}"),
            // The program is there before the list.
            Preload::FileLater => format!("{mount} && (sleep 1; {write}) >/dev/null & exec {program}"),
        };
        let mut command = Command::new("unshare");
        command.args(["-m", "sh", "-c", &script]);
        command.env("CUDA_DEVICE_MEMORY_LIMIT", "2g").env("CUDA_DEVICE_SM_LIMIT", "30");
        if let Some(region) = region {
            command.env("HOOKED_REGION", region).env("HOOKED_ENTRY", "0");
        }
        Victim::with_env(&mut command)
    }
}

/// Make sure that every way is told right.
#[test]
fn ways_to_be_hooked() {
    let Some(_host) = host::shared() else { return };
    if let Some(program) = ["musl-gcc", "setpriv"].into_iter().find(|name| !host::is_installed(name)) {
        return host::skip(&format!("{program} is not installed"));
    }
    let bench = Bench::new();
    let plain = bench.compile("plain", &["gcc"]);
    let fixed = bench.compile("fixed", &["gcc", "-static"]);
    let musl = bench.compile("musl", &["musl-gcc"]);
    let setuid = bench.compile("setuid", &["gcc"]);
    fs::set_permissions(&setuid, fs::Permissions::from_mode(0o4755)).unwrap();
    let region = bench.path("r.cache");
    fs::set_permissions(&region, fs::Permissions::from_mode(0o666)).unwrap();
    let (nobody, mapped) = (65534, Some(region.as_path()));
    let (held, not_loaded, no_region) = ("held", "not-loaded", "no-region");
    for (program, preload, uid, region, expected) in [
        (&plain, Preload::File, 0, mapped, held),
        (&plain, Preload::Variable, 0, mapped, held),
        (&plain, Preload::Not, 0, None, not_loaded),
        // It reads the driver's table of symbols itself, or asks for no function of CUDA.
        (&plain, Preload::File, 0, None, no_region),
        (&fixed, Preload::File, 0, mapped, not_loaded),
        (&fixed, Preload::Variable, 0, mapped, not_loaded),
        (&musl, Preload::File, 0, mapped, not_loaded),
        (&setuid, Preload::Variable, nobody, mapped, not_loaded),
        (&setuid, Preload::File, nobody, mapped, held),
        (&plain, Preload::File, nobody, mapped, held),
        (&plain, Preload::FileLater, 0, mapped, not_loaded),
    ] {
        let process = bench.run(program, preload, uid, region);
        let what = format!("{} {preload:?} {uid}", program.display());
        let in_file = || {
            let list = fs::read_to_string(format!("/proc/{}/root/etc/ld.so.preload", process.pid()));
            list.is_ok_and(|text| text.contains("libvgpu"))
        };
        if preload == Preload::FileLater {
            assert!((0..200).any(|_| in_file() || {
                std::thread::sleep(std::time::Duration::from_millis(50));
                false
            }));
        }
        let (_, told) = limits(process.pid());
        assert_eq!(codes(&told), (expected, expected), "{what}: {told}");
        let blames_loader = told["memory"]["why"].as_str().unwrap().contains("although the loader");
        assert_eq!(blames_loader, expected == not_loaded && in_file(), "{what}: {told}");
    }
}
