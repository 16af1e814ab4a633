//! UUIDs of MIG instances from the program that `/etc/gpumap.toml` names: stand-ins for
//! `nvidia-smi`, good ones and such as hang, flood, lie or are not root's alone.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, chown, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use gpumap::model::ProblemCode;
use gpumap::observation::Observation;
use gpumap::observe::{self, Options};

use crate::support::host;

const GPUS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/fixtures/gpu/mig");
/// What `nvidia-smi -L` would say of the fixture.
const LIST: &str = "GPU 0: NVIDIA H200 (UUID: GPU-11111111-2222-3333-4444-555555555555)\n  \
    MIG 1g.18gb     Device  0: (UUID: MIG-aaaaaaaa-2222-5333-8444-000000000000)\n  \
    MIG 1c.2g.35gb  Device  1: (UUID: MIG-aaaaaaaa-2222-5333-8444-000000000001)\n  \
    MIG 1c.2g.35gb  Device  2: (UUID: MIG-aaaaaaaa-2222-5333-8444-000000000002)\n\
    GPU 1: NVIDIA H200 (UUID: GPU-22222222-2222-3333-4444-555555555555)\n";
const SURE: &str =
    "MIG-GPU-11111111-2222-3333-4444-555555555555/2/1 MIG-aaaaaaaa-2222-5333-8444-00000000000f\n";
const STRANGER: u32 = 65534;

/// A root directory with a configuration, where root alone may write.
struct Site(PathBuf);

impl Site {
    fn new(name: &str) -> Self {
        let root = Path::new("/opt").join(format!("gpumap-mig-{name}-{}", std::process::id()));
        fs::create_dir_all(root.join("etc")).unwrap();
        fs::set_permissions(&root, fs::Permissions::from_mode(0o755)).unwrap();
        Self(root)
    }

    /// A program of C, which is told where it is.
    fn program(&self, body: &str) -> PathBuf {
        let (source, program) = (self.0.join("smi.c"), self.0.join("nvidia-smi"));
        let text = format!(
            "#include <fcntl.h>\n#include <signal.h>\n#include <stdio.h>\n#include <stdlib.h>\n#include <string.h>\n\
             #include <unistd.h>\nextern char **environ;\nstatic char list[] = {LIST:?}, sure[] = {SURE:?};\n\
             int main(int argc, char **argv) {{ (void)list; (void)sure;\n\
             if (argc != 2 || strcmp(argv[1], \"-L\")) return 99;\n{body}\nreturn 0; }}\n"
        );
        fs::write(&source, text).unwrap();
        let built = Command::new("gcc").args(["-w", "-o"]).arg(&program).arg(&source).output().unwrap();
        assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
        program
    }

    fn configure(&self, lines: &str) {
        fs::write(self.0.join("etc/gpumap.toml"), format!("[mig]\n{lines}")).unwrap();
    }

    fn observe(&self) -> Observation {
        let begun = Instant::now();
        let options = Options { gpu_root: GPUS.into(), unit_root: self.0.clone(), ..Options::default() };
        let observation = observe::gpus(&options);
        assert!(begun.elapsed() < Duration::from_secs(40));
        observation
    }

    /// The UUIDs that the instances have then.
    fn uuids(&self, program: &Path) -> (Vec<Option<String>>, Observation) {
        self.configure(&format!("program = {program:?}\n"));
        let observation = self.observe();
        let gpus = gpumap::gpu::inventory(&observation.gpu_facts);
        let of = |mig: &gpumap::report::MigInstance| mig.ci.map(|_| mig.uuid.clone());
        (gpus.iter().flat_map(|gpu| &gpu.mig).filter_map(of).collect(), observation)
    }

    /// The one problem of an observation that knows no UUID.
    fn problem(&self, program: &Path) -> (ProblemCode, String) {
        let (uuids, observation) = self.uuids(program);
        assert!(uuids.iter().all(Option::is_none) && uuids.len() == 3, "{uuids:?}");
        assert_eq!(observation.errors.len(), 1, "{:?}", observation.errors);
        (observation.errors[0].code.clone(), observation.errors[0].why.clone())
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        let _absent = fs::remove_dir_all(&self.0);
    }
}

fn last(uuids: &[Option<String>]) -> String {
    uuids.iter().map(|uuid| uuid.as_deref().map_or("?", |uuid| &uuid[uuid.len() - 1..])).collect()
}

/// Make sure that instances get their UUIDs, by order or for certain, and that the program is
/// told nothing of gpumap.
#[test]
fn named() {
    let Some(_host) = host::shared() else { return };
    let site = Site::new("named");
    let (uuids, observation) = site.uuids(&site.program("fputs(list, stdout);"));
    assert_eq!((last(&uuids).as_str(), observation.errors.len()), ("012", 0), "{:?}", observation.errors);
    let (uuids, _) = site.uuids(&site.program("fputs(list, stdout); fputs(sure, stdout);"));
    assert_eq!(last(&uuids), "01f");
    let alone = "if (getenv(\"HOME\") || getenv(\"LD_LIBRARY_PATH\") || fcntl(3, 1) != -1) return 7;
        if (getsid(0) != getpid()) return 8; fputs(list, stdout);";
    let (uuids, observation) = site.uuids(&site.program(alone));
    assert_eq!(last(&uuids), "012", "{:?}", observation.errors);
    // A link of root's, as alternatives are.
    symlink(site.0.join("nvidia-smi"), site.0.join("link")).unwrap();
    assert_eq!(last(&site.uuids(&site.0.join("link")).0), "012");
}

/// Make sure that what goes wrong is a problem, soon, and that no instance has a UUID then.
#[test]
fn failing() {
    let Some(_host) = host::shared() else { return };
    let site = Site::new("failing");
    let cases = [
        ("puts(\"Failed to initialize NVML: Driver/library version mismatch\"); return 18;", "status 18"),
        ("fputs(list, stdout); fflush(stdout); abort();", "SIGABRT"),
        ("fputs(list, stdout); fflush(stdout); *(volatile int *)0 = 1;", "SIGSEGV"),
        ("fputs(list, stdout); fflush(stdout); pause();", "10 seconds"),
        ("if (fork()) return 0; fputs(list, stdout); fflush(stdout); pause();", "10 seconds"),
        (
            "for (int i = 0; i < 1 << 20; i++) { char b[1024]; memset(b, 'G', 1024); write(1, b, 1024); }",
            "bytes",
        ),
        ("puts(\"No devices found.\");", "no line of a GPU"),
        ("", "no line of a GPU"),
    ];
    for (body, expected) in cases {
        let (_, why) = site.problem(&site.program(body));
        assert!(why.contains(expected), "{body}: {why}");
    }
}

/// Make sure that lists that lie name no instance by another's UUID.
#[test]
fn lying() {
    let Some(_host) = host::shared() else { return };
    let site = Site::new("lying");
    let twice = "for (char *at = list; (at = strstr(at, \"000000000002\")); )
        memcpy(at, \"000000000001\", 12); fputs(list, stdout);";
    let (uuids, _) = site.uuids(&site.program(twice));
    assert_eq!(last(&uuids), "0??");
    let control = "printf(\"GPU 0: \\033[2J (UUID: GPU-11111111-2222-3333-4444-555555555555)\\n\
        MIG x Device 0: (UUID: MIG-\\033]0;x)\\n%c\\377\\n\", 0);";
    let (uuids, observation) = site.uuids(&site.program(control));
    assert_eq!((last(&uuids).as_str(), observation.errors.len()), ("???", 0));
}

/// Make sure that a program is not run unless root alone says what it is.
#[test]
fn not_roots_alone() {
    let Some(_host) = host::shared() else { return };
    let site = Site::new("owner");
    let mark = site.0.join("mark");
    let program = site.program(&format!("fclose(fopen({:?}, \"w\")); fputs(list, stdout);", mark.display()));
    let refused = |path: &Path| {
        let (code, why) = site.problem(path);
        assert_eq!(code, ProblemCode::BadConfig, "{why}");
        assert!(why.contains("others than root may change"), "{why}");
        assert!(!mark.exists());
    };
    fs::set_permissions(&program, fs::Permissions::from_mode(0o775)).unwrap();
    refused(&program);
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    chown(&program, Some(STRANGER), None).unwrap();
    refused(&program);
    chown(&program, Some(0), None).unwrap();
    // A directory above that others may write, also where it has the sticky bit.
    for mode in [0o777, 0o1777] {
        fs::set_permissions(&site.0, fs::Permissions::from_mode(mode)).unwrap();
        refused(&program);
    }
    fs::set_permissions(&site.0, fs::Permissions::from_mode(0o755)).unwrap();
    // A link of a user's, or in a directory of his.
    let (theirs, link) = (site.0.join("theirs"), site.0.join("theirs/nvidia-smi"));
    fs::create_dir(&theirs).unwrap();
    symlink(&program, &link).unwrap();
    chown(&theirs, Some(STRANGER), None).unwrap();
    refused(&link);
    symlink(&link, site.0.join("chain")).unwrap();
    refused(&site.0.join("chain"));
    // Nothing of it stands in the way when it is in order again.
    assert_eq!(last(&site.uuids(&program).0), "012");
    assert!(mark.exists());
    // The configuration itself must be root's alone too.
    fs::remove_file(&mark).unwrap();
    let file = site.0.join("etc/gpumap.toml");
    fs::set_permissions(&file, fs::Permissions::from_mode(0o666)).unwrap();
    let observation = site.observe();
    assert!(observation.gpu_facts.mig_list.is_none() && !mark.exists());
    assert_eq!(observation.errors[0].code, ProblemCode::BadConfig);
}

/// Make sure that a command that runs on, and may start no program, takes the file, and says
/// what is missing where there is none.
#[test]
fn commands_that_run_on() {
    let Some(_host) = host::shared() else { return };
    let site = Site::new("resident");
    let program = site.program("fputs(list, stdout);");
    let list = site.0.join("list");
    fs::write(&list, LIST).unwrap();
    let observed = |lines: String| {
        site.configure(&lines);
        std::thread::scope(|scope| {
            let beside = scope.spawn(|| {
                gpumap::sys::seccomp::forbid().unwrap();
                site.observe()
            });
            beside.join().unwrap()
        })
    };
    let both = observed(format!("program = {program:?}\nlist = {list:?}\n"));
    assert_eq!((both.gpu_facts.mig_list.as_deref(), both.errors.len()), (Some(LIST), 0));
    let alone = observed(format!("program = {program:?}\n"));
    assert!(alone.gpu_facts.mig_list.is_none());
    assert!(alone.errors[0].why.contains("run on"), "{:?}", alone.errors);
}
