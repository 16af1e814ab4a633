//! The stage: a small node that never changes, with a pid namespace and mounts of its
//! own. Two Slurm-like jobs with steps and tasks, a container, a service, a session, a
//! program with a map, one that a link holds, GPUs of three vendors, held devices.
//!
//! The thread that makes it enters the namespaces and starts everything there.

use std::ffi::CStr;
use std::fs::{self, File};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use nix::sys::stat::{Mode, SFlag, makedev, mknod};

use crate::support::asm::{Asm, alu, cond, size};
use crate::support::cgroup::Tree;
use crate::support::source::{MapKind, MapSpec};
use crate::support::{bpf, inspect, node, wait};

pub const TASK: &str = "system.slice/slurmstepd.scope/job_7/step_0/user/task_0";
pub const OTHER_TASK: &str = "system.slice/slurmstepd.scope/job_8/step_batch/user/task_0";
const ID: &str = "4f0c3a1b2c3d4e5f60718293a4b5c6d7e8f90123456789abcdef0123456789ab";

/// A user that is in no file of the machine.
const USER: u32 = 61_007;

pub struct Scene {
    tree: Tree,
    /// A directory of its own, with the GPU tree in it.
    pub room: PathBuf,
    programs: Vec<OwnedFd>,
    children: Vec<Child>,
    /// The processes of the jobs and the others, as they are numbered on the stage.
    pub pids: Vec<u32>,
}

impl Scene {
    /// Makes the stage below the mount point of cgroup2, with the files in `room`; from
    /// now on this thread starts its children there.
    pub fn new(mount: &Path, room: &Path) -> Self {
        let tree = Tree::new(mount);
        fs::create_dir_all(room).unwrap();
        write_gpus(&room.join("gpus"));
        enter().expect("namespaces");
        let children = vec![init()];
        let mut scene =
            Self { tree, room: room.to_owned(), programs: Vec::new(), children, pids: Vec::new() };
        scene.attach_programs();
        scene.start_processes();
        scene
    }

    pub fn cgroup_root(&self) -> &Path {
        self.tree.path()
    }

    pub fn gpus(&self) -> PathBuf {
        self.room.join("gpus")
    }

    /// Where commands write that are told to.
    pub fn output(&self) -> PathBuf {
        self.room.join("output.prom")
    }

    pub fn container() -> String {
        format!("system.slice/docker-{ID}.scope")
    }

    fn attach_programs(&mut self) {
        let container = Self::container();
        let captured = [
            (TASK, "slurm/22.05.8-job_1_step_0_user_task_0"),
            ("system.slice/slurmstepd.scope/job_7", "slurm/22.05.8-job_1"),
            ("system.slice/slurmstepd.scope/job_8", "slurm/22.05.8-job_2"),
            (&container, "runc/1.1.5-docker-gpu"),
            (&container, "systemd/252-runc-nvidia1-after-daemon-reload-1"),
            ("system.slice/gpu.service", "systemd/252-closed-gpu"),
        ];
        for (path, name) in captured {
            let file = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("fixtures/programs/{name}.xlated"));
            let program = bpf::load_bytes("", &fs::read(file).unwrap(), true, true).expect(name);
            self.attach(path, program);
        }
        self.attach("user.slice/user-61007.slice/session-3.scope", with_map());
        let (linked, directory) = (node::deny(195, 1), self.cgroup("plain"));
        let link = bpf::link(&directory, &linked, 0).unwrap();
        self.programs.extend([linked, link]);
        drop(self.cgroup("other"));
        drop(self.cgroup(OTHER_TASK));
    }

    fn attach(&mut self, path: &str, program: OwnedFd) {
        bpf::attach(&self.cgroup(path), &program, bpf::MULTI, None).expect(path);
        self.programs.push(program);
    }

    fn cgroup(&self, path: &str) -> File {
        File::open(self.tree.child(path)).unwrap()
    }

    fn start_processes(&mut self) {
        let (full, kmsg, null) = ("/dev/full", "/dev/kmsg", "/dev/null");
        let job = |id: &str, gpus: &str| {
            [("SLURM_JOB_ID", id), ("CUDA_VISIBLE_DEVICES", gpus)]
                .map(|(name, value)| (name.to_owned(), value.to_owned()))
        };
        let container = Self::container();
        self.start(TASK, full, USER, &job("7", "0"));
        self.start("other", full, USER, &job("7", "0,1"));
        self.start(OTHER_TASK, kmsg, 0, &job("8", "1"));
        self.start(&container, null, 0, &[("NVIDIA_VISIBLE_DEVICES".to_owned(), "all".to_owned())]);
        self.start("user.slice/user-61007.slice/session-3.scope", full, USER, &[]);
        self.start("plain", null, USER, &[]);
    }

    fn start(&mut self, cgroup: &str, input: &str, user: u32, environment: &[(String, String)]) {
        let mut command = Command::new("sleep");
        let input = File::options().read(true).open(input).unwrap();
        command.arg("86400").env_clear().envs(environment.iter().cloned());
        command.stdin(input).stdout(Stdio::null()).stderr(Stdio::null()).uid(user).gid(user);
        let child = command.spawn().unwrap();
        let pid = newest();
        wait::eventually("sleep runs", || {
            fs::read_to_string(format!("/proc/{pid}/comm")).is_ok_and(|name| name == "sleep\n")
        });
        fs::write(self.tree.path().join(cgroup).join("cgroup.procs"), child.id().to_string()).unwrap();
        self.children.push(child);
        self.pids.push(pid);
    }

    pub fn program_id(&self, number: usize) -> u32 {
        inspect::program(&self.programs[number]).unwrap().id
    }
}

/// The first process goes last, and with it its namespace.
impl Drop for Scene {
    fn drop(&mut self) {
        for child in self.children.iter_mut().rev() {
            let _ = child.kill();
            let _ = child.wait();
        }
        let _ = fs::remove_dir_all(self.gpus());
    }
}

/// The process of the namespace that was started last.
fn newest() -> u32 {
    let entries = fs::read_dir("/proc").unwrap().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).max().expect("a process")
}

/// Gives this thread mounts and, for its children, a pid namespace.
fn enter() -> io::Result<()> {
    // SAFETY: two system calls about this thread.
    let done = unsafe { libc::unshare(libc::CLONE_NEWNS) | libc::unshare(libc::CLONE_NEWPID) };
    if done != 0 {
        return Err(io::Error::last_os_error());
    }
    mount_at(c"none", c"/", c"", libc::MS_REC | libc::MS_PRIVATE)?;
    for place in [c"/run", c"/var/lib"] {
        mount_at(c"tmpfs", place, c"mode=0755", 0)?;
    }
    mount_at(c"bpf", c"/sys/fs/bpf", c"mode=0700", 0)
}

fn mount_at(kind: &CStr, at: &CStr, data: &CStr, flags: libc::c_ulong) -> io::Result<()> {
    // SAFETY: terminated strings.
    let done = unsafe { libc::mount(kind.as_ptr(), at.as_ptr(), kind.as_ptr(), flags, data.as_ptr().cast()) };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// The first process of the namespace: mounts its `/proc`, and reaps whatever is left
/// behind, which the kernel does for those who ignore it.
fn init() -> Child {
    let mut command = Command::new("sleep");
    command.arg("86400").stdin(Stdio::null()).stdout(Stdio::null()).env_clear();
    let prepare = || {
        // SAFETY: system calls about this process, which ends with the test.
        unsafe {
            libc::signal(libc::SIGCHLD, libc::SIG_IGN);
            libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
        }
        mount_at(c"proc", c"/proc", c"", 0)
    };
    // SAFETY: the closure makes system calls alone.
    unsafe { command.pre_exec(prepare) };
    command.spawn().expect("sleep")
}

/// A program that asks a hash map which minors of 195 are allowed.
fn with_map() -> OwnedFd {
    let mut asm = Asm::new();
    let map = asm.map(MapSpec {
        kind: MapKind::Hash,
        key_size: 4,
        value_size: 4,
        max_entries: 8,
        entries: vec![(0_u32.to_ne_bytes().into(), 1_u32.to_ne_bytes().into())],
        flags: 0,
        freeze: false,
    });
    let (allowed, asked) = (asm.label(), asm.label());
    asm.ldx(size::W, 2, 1, 4);
    asm.jump_if(cond::EQ, 2, 195, asked);
    asm.verdict(1);
    asm.bind(asked);
    asm.ldx(size::W, 2, 1, 8);
    asm.stx(size::W, 10, -4, 2);
    asm.movr(2, 10);
    asm.op64(alu::ADD, 2, -4);
    asm.ld_map(1, map);
    asm.call(1);
    asm.jump_if(cond::NE, 0, 0, allowed);
    asm.verdict(0);
    asm.bind(allowed);
    asm.verdict(1);
    bpf::load(&asm.finish("map")).expect("a program").program
}

/// GPUs of NVIDIA, AMD and Intel, and two of Gaudi that can be held: devices that every
/// Linux has, under other names. Their nodes are real ones.
fn write_gpus(root: &Path) {
    let from = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/gpu/mixed");
    let done = Command::new("cp").arg("-a").arg(from).arg(root).status();
    assert!(done.expect("cp").success());
    let devices = fs::read_to_string(root.join("proc/devices")).unwrap();
    fs::write(root.join("proc/devices"), devices.replace("  1 mem\n", "  1 mem\n  1 habanalabs\n")).unwrap();
    fs::write(root.join("dev/hl0"), "c 1:7\n").unwrap();
    fs::write(root.join("dev/hl1"), "c 1:11\n").unwrap();
    for entry in walkdir::WalkDir::new(root.join("dev")).into_iter().map(Result::unwrap) {
        if entry.file_type().is_file() {
            make_node(entry.path());
        }
    }
}

/// Puts a node in the place of a file that describes it: `c 195:0 666 …`.
fn make_node(path: &Path) {
    let text = fs::read_to_string(path).unwrap();
    let number = text.split_whitespace().nth(1).and_then(|pair| pair.split_once(':')).expect("a number");
    let number = makedev(number.0.parse().unwrap(), number.1.parse().unwrap());
    fs::remove_file(path).unwrap();
    mknod(path, SFlag::S_IFCHR, Mode::from_bits_truncate(0o666), number).unwrap();
}
