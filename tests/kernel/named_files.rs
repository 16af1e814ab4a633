//! Tests the files that gpumap is asked to write and to read, where the name leads
//! to a device, a FIFO, a link or another user's file (root).

use std::fs;
use std::io::Read as _;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _, PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::Instant;

use crate::support::host;
use crate::support::wait::within;
use nix::sys::stat::{Mode, SFlag, makedev, mknod};
use nix::unistd::{Gid, Uid, fchownat, mkfifo};

/// Somebody else.
const STRANGER: u32 = 65534;

#[test]
fn root() {
    let root = nix::unistd::geteuid().is_root();
    assert!(root || std::env::var_os("GPUMAP_REQUIRE_ROOT").is_none(), "the tests of files need root");
}

fn is_root() -> bool {
    nix::unistd::geteuid().is_root()
}

/// An empty directory of a test's own.
fn dir(name: &str) -> PathBuf {
    let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("files-{name}"));
    let _absent = fs::remove_dir_all(&dir);
    fs::create_dir_all(&dir).unwrap();
    dir
}

fn node() -> String {
    format!("{}/fixtures/nodes/slurm-runc-in-job.json", env!("CARGO_MANIFEST_DIR"))
}

fn gpumap(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_gpumap")).args(args).stdin(Stdio::null()).output().unwrap()
}

fn shell(script: &str) -> Output {
    let script = script.replace("GPUMAP", env!("CARGO_BIN_EXE_gpumap"));
    Command::new("bash").args(["-c", &script]).stdin(Stdio::null()).output().unwrap()
}

/// Saves a node there.
fn save(to: &Path) -> Output {
    gpumap(&["--from", &node(), "snapshot", "-o", to.to_str().unwrap()])
}

/// Saves a node in each way that gpumap has.
fn save_all(to: &Path) -> [Output; 3] {
    let (from, to) = (node(), to.to_str().unwrap());
    [
        gpumap(&["--from", &from, "snapshot", "-o", to]),
        gpumap(&["--from", &from, "audit", "--fail-on", "never", "--report", to]),
        gpumap(&["watch", "--pid", &std::process::id().to_string(), "--for", "1ms", "--state", to]),
    ]
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn is_observation(bytes: &[u8]) -> bool {
    let value: serde_json::Value = serde_json::from_slice(bytes).unwrap_or_default();
    value["schema"] == "gpumap.observation/1"
}

fn give_away(path: &Path) {
    let flags = nix::fcntl::AtFlags::AT_SYMLINK_NOFOLLOW;
    let (uid, gid) = (Uid::from_raw(STRANGER), Gid::from_raw(STRANGER));
    fchownat(nix::fcntl::AT_FDCWD, path, Some(uid), Some(gid), flags).unwrap();
}

fn device(path: &Path, kind: SFlag, major: u64, minor: u64) {
    mknod(path, kind, Mode::from_bits_truncate(0o666), makedev(major, minor)).unwrap();
}

/// Make sure that a file is replaced as a whole, in the place that a link of
/// ours leads to, for its owner alone, and that nothing stays beside it.
#[test]
fn files_are_replaced() {
    let dir = dir("replaced");
    let (old, link, chain) = (dir.join("old"), dir.join("link"), dir.join("chain"));
    fs::write(&old, "old").unwrap();
    fs::create_dir(dir.join("sub")).unwrap();
    symlink("../old", dir.join("sub/link")).unwrap();
    symlink("sub", &link).unwrap();
    symlink("link/link", &chain).unwrap();
    for path in [&old, &chain, &dir.join("new"), &dir.join("link/../sub/fresh")] {
        let before = fs::metadata(path).map(|meta| meta.ino()).ok();
        let output = save(path);
        assert!(is_observation(&fs::read(path).unwrap()), "{path:?}: {}", said(&output));
        let meta = fs::metadata(path).unwrap();
        assert_eq!(meta.permissions().mode() & 0o7777, 0o600);
        assert_ne!(Some(meta.ino()), before);
    }
    assert!(fs::symlink_metadata(&chain).unwrap().is_symlink());
    assert_eq!((fs::read_dir(&dir).unwrap().count(), fs::read_dir(dir.join("sub")).unwrap().count()), (5, 2));
}

/// Make sure that a device stays one, whichever command writes to it.
#[test]
fn devices_stay() {
    let Some(_host) = host::shared() else { return };
    let dir = dir("devices");
    let (null, full, link) = (dir.join("null"), dir.join("full"), dir.join("link"));
    device(&null, SFlag::S_IFCHR, 1, 3);
    device(&full, SFlag::S_IFCHR, 1, 7);
    symlink("null", &link).unwrap();
    for path in [&null, &link] {
        for output in save_all(path) {
            assert!(!said(&output).contains("null") && output.status.code() != Some(2), "{}", said(&output));
        }
    }
    let output = save(&full);
    assert!(output.status.code() == Some(2) && said(&output).contains("no space"), "{}", said(&output));
    for (path, minor) in [(&null, 3), (&full, 7)] {
        let meta = fs::symlink_metadata(path).unwrap();
        assert!(meta.file_type().is_char_device() && meta.rdev() == makedev(1, minor));
    }
    assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
    assert_eq!(fs::read_dir(&dir).unwrap().count(), 3);
}

/// Make sure that what cannot be written to is refused and stays.
#[test]
fn others_are_refused() {
    let Some(_host) = host::shared() else { return };
    let dir = dir("others");
    let (block, socket) = (dir.join("block"), dir.join("socket"));
    device(&block, SFlag::S_IFBLK, 4095, 1);
    let _listener = std::os::unix::net::UnixListener::bind(&socket).unwrap();
    symlink("loop", dir.join("loop")).unwrap();
    for (path, why) in [
        (block.clone(), "a block device; name a file, a FIFO or a character device"),
        (socket.clone(), "a socket; name a file, a FIFO or a character device"),
        (dir.clone(), "is a directory; name a file in it"),
        (dir.join("new/"), "/new' does not exist; make it first"),
        (dir.join("loop"), "too many levels of symbolic links"),
        (dir.join("absent/new"), "/absent' does not exist; make it first"),
        (socket.join("x"), "not a directory"),
    ] {
        let output = save(&path);
        assert_eq!(output.status.code(), Some(2));
        assert!(said(&output).to_lowercase().contains(&why.to_lowercase()), "{path:?}: {}", said(&output));
    }
    assert!(fs::metadata(&block).unwrap().file_type().is_block_device());
    assert!(fs::metadata(&socket).unwrap().file_type().is_socket());
    assert_eq!(fs::read_dir(&dir).unwrap().count(), 3);
}

/// Make sure that a FIFO is written to where it has a reader, and that neither
/// the lack of one nor one that does not read stops gpumap.
#[test]
fn fifos() {
    let dir = dir("fifos");
    let fifo = dir.join("fifo");
    mkfifo(&fifo, Mode::from_bits_truncate(0o600)).unwrap();
    let start = Instant::now();
    let output = save(&fifo);
    assert!(said(&output).ends_with("nobody reads from it; start the reader first\n"), "{}", said(&output));

    let open = fifo.clone();
    let reader = std::thread::spawn(move || fs::read(open).unwrap());
    while save(&fifo).status.code() == Some(2) {
        assert!(start.elapsed() < within(60));
    }
    assert!(is_observation(&reader.join().unwrap()));

    let big = dir.join("big.json");
    let mut value: serde_json::Value = serde_json::from_slice(&fs::read(node()).unwrap()).unwrap();
    value["version"] = "x".repeat(1 << 20).into();
    fs::write(&big, value.to_string()).unwrap();
    let flags = nix::fcntl::OFlag::O_RDONLY | nix::fcntl::OFlag::O_NONBLOCK;
    let mut idle = fs::File::from(nix::fcntl::open(&fifo, flags, Mode::empty()).unwrap());
    let output = gpumap(&["--from", big.to_str().unwrap(), "snapshot", "-o", fifo.to_str().unwrap()]);
    assert!(said(&output).ends_with("its reader takes nothing\n"), "{}", said(&output));
    assert!(idle.read(&mut [0; 16]).unwrap() > 0);
    assert!(start.elapsed() < within(120));
    assert!(fs::metadata(&fifo).unwrap().file_type().is_fifo());
    assert_eq!(fs::read_dir(&dir).unwrap().count(), 2);
}

/// Make sure that names of open files mean what they mean in a shell.
#[test]
fn open_files() {
    let dir = dir("open");
    let (d, from) = (dir.display(), node());
    // As /dev/stdout, which a broken gpumap shall not destroy.
    symlink("/proc/self/fd/1", dir.join("link")).unwrap();
    let script = format!(
        "cd '{d}'; GPUMAP --from '{from}' snapshot -o link >stdout
         echo before >append; GPUMAP --from '{from}' snapshot -o link >>append
         GPUMAP --from '{from}' snapshot -o /dev/fd/1 | cat >pipe
         GPUMAP --from '{from}' snapshot -o >(cat >substituted; : >done)
         for i in $(seq 300); do [ -e done ] && break; sleep 0.1; done"
    );
    let output = shell(&script);
    for name in ["stdout", "pipe", "substituted"] {
        assert!(is_observation(&fs::read(dir.join(name)).unwrap()), "{name}: {}", said(&output));
    }
    let appended = fs::read(dir.join("append")).unwrap();
    assert!(is_observation(appended.strip_prefix(b"before\n").unwrap()));
    assert!(fs::symlink_metadata(dir.join("link")).unwrap().is_symlink());
    assert_eq!(fs::read_dir(&dir).unwrap().count(), 6);
}

/// Make sure that another user's link is followed nowhere, and that nothing of
/// theirs is taken where everybody may make files.
#[test]
fn other_users() {
    let Some(_host) = host::shared() else { return };
    let dir = dir("users");
    let (secret, shared, home) = (dir.join("secret"), dir.join("shared"), dir.join("home"));
    fs::create_dir(&secret).unwrap();
    fs::write(secret.join("file"), "precious").unwrap();
    fs::create_dir(&shared).unwrap();
    fs::set_permissions(&shared, fs::Permissions::from_mode(0o1777)).unwrap();
    fs::create_dir(&home).unwrap();
    give_away(&home);
    for place in [&shared, &home] {
        symlink("../secret/file", place.join("link")).unwrap();
        symlink("../secret", place.join("way")).unwrap();
        give_away(&place.join("link"));
        give_away(&place.join("way"));
    }
    fs::write(shared.join("file"), "theirs").unwrap();
    mkfifo(&shared.join("fifo"), Mode::from_bits_truncate(0o666)).unwrap();
    fs::write(home.join("file"), "theirs").unwrap();
    for name in ["shared/file", "shared/fifo", "home/file"] {
        give_away(&dir.join(name));
    }
    let names = ["shared/link", "shared/way/file", "home/link", "home/way/new", "shared/file", "shared/fifo"];
    for name in names {
        for output in save_all(&dir.join(name)) {
            assert_eq!(output.status.code(), Some(2), "{name}: {}", said(&output));
            assert!(said(&output).contains("of another user (uid 65534)"), "{name}: {}", said(&output));
        }
    }
    assert_eq!(fs::read_to_string(secret.join("file")).unwrap(), "precious");
    assert_eq!(fs::read_dir(&secret).unwrap().count(), 1);
    assert_eq!(fs::read_to_string(shared.join("file")).unwrap(), "theirs");
    // A file of theirs in a place of theirs is what root named.
    save(&home.join("file"));
    assert!(is_observation(&fs::read(home.join("file")).unwrap()));
    let meta = fs::metadata(home.join("file")).unwrap();
    assert_eq!((meta.uid(), meta.permissions().mode() & 0o7777), (0, 0o600));
    save(&shared.join("new"));
    assert!(is_observation(&fs::read(shared.join("new")).unwrap()));
}

/// Make sure that a writer who is killed in the middle leaves the old file and
/// nothing else.
#[test]
fn nothing_is_left_behind() {
    // The file system of /tmp has files without names. An overlay has them since Linux 6.3,
    // and what was killed leaves a file there.
    let dir = std::env::temp_dir().join(format!("gpumap-left-{}", std::process::id()));
    fs::create_dir(&dir).unwrap();
    let file = dir.join("file");
    fs::write(&file, "old").unwrap();
    let script = format!("ulimit -f 1; GPUMAP --from '{}' snapshot -o '{}'", node(), file.display());
    assert!(!shell(&script).status.success());
    let script = format!("trap '' XFSZ; {script}");
    assert_eq!(shell(&script).status.code(), Some(2));
    assert_eq!(fs::read_to_string(&file).unwrap(), "old");
    assert_eq!(fs::read_dir(&dir).unwrap().count(), 1);
    fs::remove_dir_all(&dir).unwrap();
}

/// Make sure that every file that is read may be a FIFO which takes its time,
/// and that one which nobody writes to costs no more than the time limit.
#[test]
fn reading_is_bounded() {
    let dir = dir("reading");
    let (fifo, zero) = (dir.join("fifo"), dir.join("zero"));
    mkfifo(&fifo, Mode::from_bits_truncate(0o600)).unwrap();
    let fifo = fifo.to_str().unwrap();
    let from = node();
    let ways = |path| {
        [
            vec!["--from", path, "node"],
            vec!["--from", path, "snapshot", "-o", "-"],
            vec!["check", "--prog", path, "c 1:3"],
            vec!["check", "--prog", "fixtures/programs/slurm/22.05.8-job_1.xlated", "--maps", path, "c 1:3"],
            vec!["--from", &from, "audit", "--baseline", path],
            vec!["--from", &from, "audit", "--config", path],
            vec!["--from", &from, "node", "--gres-conf", path],
            vec!["prog", path],
        ]
    };
    for args in ways(fifo) {
        let start = Instant::now();
        let output = gpumap(&[&["--json", "--timeout", "50ms"], &args[..]].concat());
        assert!(start.elapsed() < within(30), "{args:?}");
        let document: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(output.status.code(), Some(2), "{args:?}: {document}");
    }
    let script = format!("cat '{from}' >'{fifo}' & GPUMAP --from '{fifo}' snapshot -o -; wait");
    assert!(is_observation(&shell(&script).stdout));
    if is_root() {
        device(&zero, SFlag::S_IFCHR, 1, 5);
        for args in ways(zero.to_str().unwrap()) {
            let output = gpumap(&args);
            assert_eq!(output.status.code(), Some(2), "{args:?}");
            assert!(said(&output).contains("gpumap opens none"), "{args:?}: {}", said(&output));
        }
    }
}

/// A program that computes products of both numbers: no diagram is small.
fn heavy(seed: i32) -> Vec<u8> {
    let insn = |code: u8, regs: u8, off: i16, imm: i32| {
        let mut bytes = vec![code, regs];
        bytes.extend(off.to_le_bytes());
        bytes.extend(imm.to_le_bytes());
        bytes
    };
    [
        insn(0x61, 0x12, 4, 0),    // r2 = *(u32 *)(r1 + 4)
        insn(0x61, 0x13, 8, 0),    // r3 = *(u32 *)(r1 + 8)
        insn(0xbf, 0x24, 0, 0),    // r4 = r2
        insn(0x2f, 0x34, 0, 0),    // r4 *= r3
        insn(0xa7, 0x04, 0, seed), // r4 ^= seed
        insn(0x2f, 0x44, 0, 0),    // r4 *= r4
        insn(0x2f, 0x34, 0, 0),    // r4 *= r3
        insn(0x77, 0x04, 0, 21),   // r4 >>= 21
        insn(0x57, 0x04, 0, 1),    // r4 &= 1
        insn(0xbf, 0x40, 0, 0),    // r0 = r4
        insn(0x95, 0x00, 0, 0),    // exit
    ]
    .concat()
}

/// Make sure that the time limit holds while programs are decoded, that those
/// decoded before it stand, and that the answer says what is missing.
#[test]
fn the_time_limit_reaches_the_decoder() {
    use gpumap::observation::{Answer, HexBytes, Observation};
    let dir = dir("deadline");
    let mut node: Observation = serde_json::from_slice(&fs::read(node()).unwrap()).unwrap();
    let known = node.programs[0].clone();
    let cgroup = node.cgroups.last().unwrap().clone();
    let mut add = |id: u32, xlated: Vec<u8>| {
        let xlated = Answer::Known(HexBytes(xlated));
        node.programs.push(gpumap::observation::Program { id, xlated, ..known.clone() });
        let path = format!("/heavy-{id}").into();
        let effective = Answer::Known(vec![id]);
        node.cgroups.push(gpumap::observation::Cgroup { path, id: id.into(), effective, ..cgroup.clone() });
    };
    (0..40).for_each(|number| add(1_000_000 + number, heavy(number.cast_signed())));
    let file = dir.join("node.json");
    fs::write(&file, serde_json::to_vec(&node).unwrap()).unwrap();
    let start = Instant::now();
    let args = ["--json", "--timeout", "1s", "--from", file.to_str().unwrap(), "cgroup", "-r", "/"];
    let output = gpumap(&args);
    // Forty programs take a minute and more without a limit.
    assert!(start.elapsed() < within(15), "{:?}", start.elapsed());
    let answer: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((output.status.code(), &answer["complete"]), (Some(3), &false.into()));
    let errors = answer["errors"].as_array().unwrap();
    assert!(errors.iter().any(|error| error["code"] == "timeout"), "{errors:?}");
    let is_late = |policy: &serde_json::Value| {
        let mut unknown = policy["unknown"].as_array().unwrap().iter();
        unknown.any(|part| part["why"].as_str().is_some_and(|why| why.contains("--timeout")))
    };
    let policies: Vec<_> = answer["policies"].as_object().unwrap().values().collect();
    assert!(policies.iter().any(|policy| is_late(policy)), "{policies:?}");
    assert!(policies.iter().any(|policy| policy["exact"] == true), "{policies:?}");
}

/// Make sure that a `gres.conf` takes time and memory in proportion to its
/// size, and that the answer names the bound it broke.
#[test]
fn gres_conf_is_bounded() {
    let dir = dir("gres");
    let from = node();
    let many = |line: &str| line.repeat((1 << 20) / line.len());
    let cases = [
        ("ranges", many("Name=gpu File=/dev/nvidia[0-4095]\n"), "more than"),
        ("products", many("Name=gpu File=/dev/x[0-99][0-99][0-99]\n"), "more than"),
        ("lines", many("Name=gpu Count=1\n"), "more than"),
        ("length", format!("Name=gpu File=/dev/x[0-4000]{}\n", "y".repeat(1_000_000)), "bytes"),
        ("continued", many("a\\\n"), "Key=Value"),
        ("keys", "Name=gpu ".to_owned() + &many("k=1 x=2 "), "given twice"),
        (
            "hosts",
            many("NodeName=x[0-99999999][0-99999999] Name=gpu File=/dev/nvidia0\n"),
            "no NodeName line",
        ),
        ("count", "Name=gpu Count=18446744073709551615\n".to_owned(), "without File"),
    ];
    for (name, text, why) in cases {
        let path = dir.join(name);
        fs::write(&path, text).unwrap();
        let start = Instant::now();
        let script = format!(
            "ulimit -v 500000; GPUMAP --from '{from}' node -v --allocated 0 --gres-conf '{}'",
            path.display()
        );
        let output = shell(&script);
        assert!(start.elapsed() < within(30), "{name}: {:?}", start.elapsed());
        assert!(said(&output).contains(why) && said(&output).len() < 4096, "{name}: {}", said(&output));
    }
}

/// Make sure that a saved node which asks for far more work than its size is
/// refused before any of it is done.
#[test]
fn deep_paths_are_refused() {
    let dir = dir("deep");
    let mut node: serde_json::Value = serde_json::from_slice(&fs::read(node()).unwrap()).unwrap();
    let mut cgroup = node["cgroups"][0].clone();
    cgroup["path"] = "/a".repeat(500_000).into();
    node["cgroups"].as_array_mut().unwrap().push(cgroup);
    let file = dir.join("node.json");
    fs::write(&file, node.to_string()).unwrap();
    let start = Instant::now();
    let output = gpumap(&["--from", file.to_str().unwrap(), "node"]);
    assert!(start.elapsed() < within(30));
    assert!(said(&output).contains("nested too deeply"), "{}", said(&output));
}

/// Make sure that `check --json -` gives each answer before the next question,
/// keeps none of them, and ends in one document whatever the input was.
#[test]
fn check_streams_json() {
    use std::io::{BufRead as _, BufReader, Write as _};
    let args = ["--json", "--from", &node(), "check", "--cgroup", "/", "-"];
    let mut command = Command::new(env!("CARGO_BIN_EXE_gpumap"));
    let mut child = command.args(args).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let (mut input, mut output) = (child.stdin.take().unwrap(), BufReader::new(child.stdout.take().unwrap()));
    let mut document = Vec::new();
    for device in ["c 195:0 rw\n", "nonsense\n", "c 1:3 r\n"] {
        input.write_all(device.as_bytes()).unwrap();
        output.read_until(b'}', &mut document).unwrap();
        let text = String::from_utf8_lossy(&document).into_owned();
        if !text.contains(device.trim()) {
            // The first piece ends inside of the host's facts.
            output.read_until(b'}', &mut document).unwrap();
        }
        assert!(String::from_utf8_lossy(&document).contains(device.trim()), "{device}");
    }
    drop(input);
    output.read_to_end(&mut document).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(2));
    let document: serde_json::Value = serde_json::from_slice(&document).unwrap();
    assert_eq!(document["checks"].as_array().map(Vec::len), Some(3));
    assert_eq!(
        (&document["errors"][0]["code"], &document["complete"]),
        (&"bad-device".into(), &false.into())
    );

    let script = format!("yes 'c 195:0 rw' | head -500000 | (ulimit -v 300000; GPUMAP {})", args.join(" "));
    let whole: serde_json::Value = serde_json::from_slice(&shell(&script).stdout).unwrap();
    assert_eq!(whole["checks"].as_array().map(Vec::len), Some(500_000));
    // Standard input that cannot be read at all.
    let script = format!("GPUMAP {} <'{}'", args.join(" "), env!("CARGO_TARGET_TMPDIR"));
    let failed = shell(&script);
    let whole: serde_json::Value = serde_json::from_slice(&failed.stdout).unwrap();
    assert_eq!((failed.status.code(), &whole["complete"]), (Some(2), &false.into()));
}

/// Make sure that a program whose jumps leave it is unknown to every command,
/// with its reason and no panic.
#[test]
fn jumps_that_leave() {
    let instruction = |code: u8, offset: i16, immediate: i32| {
        [&[code, 0][..], &offset.to_le_bytes(), &immediate.to_le_bytes()].concat()
    };
    let dir = dir("jumps");
    let path = dir.join("program");
    let path = path.to_str().unwrap();
    for offset in [1, 100, i16::MAX, -3, -100, i16::MIN] {
        for jump in [0x05, 0x15] {
            // r0 = 1; if r0 == 1 goto OFFSET, or goto OFFSET; exit
            let code = [instruction(0xb7, 0, 1), instruction(jump, offset, 1), instruction(0x95, 0, 0)];
            fs::write(path, code.concat()).unwrap();
            for args in [
                &["prog", path][..],
                &["check", "--prog", path, "c 195:0 rw"],
                &["explain", "--prog", path, "c 195:0 rw"],
            ] {
                let plain = gpumap(args);
                assert_eq!(plain.status.code(), Some(3), "{args:?} {jump:#x} {offset}: {}", said(&plain));
                let output = gpumap(&[&["--json"], args].concat());
                let document: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
                assert_eq!(document["complete"], false, "{args:?} {jump:#x} {offset}");
            }
        }
    }
}

/// Make sure that a file which cannot be opened without /proc, as in a bare chroot,
/// is not called missing.
#[test]
fn without_proc() {
    if !is_root() {
        return;
    }
    let script =
        format!("unshare -m sh -c 'mount -t tmpfs none /proc && exec GPUMAP --from {} node'", node());
    let output = shell(&script);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("/proc is not mounted here") && !said.contains("no such file"), "{said}");
    assert_eq!(output.status.code(), Some(2));
    let given =
        shell(&format!("unshare -m sh -c 'mount -t tmpfs none /proc && GPUMAP --from - node' <{}", node()));
    let usual = gpumap(&["--from", &node(), "node"]);
    assert_eq!((given.stdout, given.status), (usual.stdout, usual.status));
}
