//! Compares `--verify` with this kernel: what a process in the cgroup may open,
//! what gpumap decoded, and that nothing is left behind.

use std::fs;
use std::os::fd::AsFd as _;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use crate::support::bpf::MULTI;
use crate::support::cgroup::Cgroup;
use crate::support::host;
use crate::support::node::{Sleeper, attach_deny, relative};
use crate::support::wait::within;
use gpumap::analyse::{self, CallerAllocation};
use gpumap::audit::{self, Config};
use gpumap::model::{ProblemCode, Severity};
use gpumap::observation::{Answer, Observation, Verification};
use gpumap::observe::verify::{Node, verify};
use gpumap::observe::{self, CgroupTarget, Options};
use gpumap::report::Finding;
use gpumap::sys::access::{self, Access};
use gpumap::sys::helper::left_behind;
use gpumap::sys::spawn::{AskError, ask_inside};
use nix::fcntl::OFlag;
use nix::sys::stat::{Mode, SFlag, makedev, mknod};

/// Devices of every Linux that nothing minds being asked about: full, random,
/// urandom.
const NODES: [(&str, u32, u32); 3] = [("/dev/hl0", 1, 7), ("/dev/hl1", 1, 8), ("/dev/hl2", 1, 9)];

/// An inventory of three accelerators with nodes that can be asked about.
struct Inventory(PathBuf);

impl Inventory {
    fn new(name: &str) -> Self {
        let root = std::env::temp_dir().join(format!("gpumap-verified-{}-{name}", std::process::id()));
        fs::create_dir_all(root.join("dev")).unwrap();
        fs::create_dir_all(root.join("proc")).unwrap();
        fs::write(root.join("proc/devices"), "Character devices:\n  1 mem\n  1 habanalabs\n").unwrap();
        for (path, major, minor) in NODES {
            let path = root.join(path.trim_start_matches('/'));
            let number = makedev(major.into(), minor.into());
            mknod(&path, SFlag::S_IFCHR, Mode::from_bits_truncate(0o600), number).unwrap();
        }
        Self(root)
    }

    fn options(&self) -> Options {
        Options { gpu_root: self.0.clone(), ..Options::default() }
    }

    fn observe(&self, cgroup: &Cgroup) -> Observation {
        let target = CgroupTarget::typed(cgroup.path(), false);
        observe::cgroups(&self.options(), &[target]).unwrap()
    }

    /// As `audit --verify` does it.
    fn verified(&self, cgroup: &Cgroup) -> Observation {
        let mut observation = self.observe(cgroup);
        let wanted = analyse::to_verify(&observation, &gpumap::analyse::TimeLimit::default()).unwrap();
        let node = |(path, major, minor)| Node { path, major, minor };
        let nodes: Vec<Node> = wanted.nodes.into_iter().map(node).collect();
        assert_eq!(nodes.len(), NODES.len());
        verify(&self.options(), &mut observation, &wanted.cgroups, &nodes);
        observation
    }
}

impl Drop for Inventory {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn answers(observation: &Observation) -> Vec<(&str, Answer<bool>)> {
    let answer = |one: &'_ Verification| one.allowed.clone();
    observation.verified.iter().map(|one| (one.path.as_str(), answer(one))).collect()
}

fn mismatches(observation: &Observation) -> Vec<Finding> {
    let payload = audit::audit(
        observation,
        &CallerAllocation::default(),
        &Config::default(),
        &gpumap::analyse::TimeLimit::default(),
    )
    .unwrap();
    payload.findings.into_iter().filter(|found| found.id == "verify-mismatch").collect()
}

fn procs(cgroup: &Cgroup) -> String {
    fs::read_to_string(cgroup.path().join("cgroup.procs")).unwrap()
}

/// Make sure that the kernel's answers are those that were decoded, that
/// another verdict is found out, and that nothing is left in the cgroup.
#[test]
fn agreement_and_disagreement() {
    let Some(_host) = host::shared() else { return };
    let inventory = Inventory::new("agree");
    let cgroup = Cgroup::new().unwrap();
    attach_deny(&cgroup, 1, 8, MULTI);
    let sleeper = Sleeper::in_cgroup(&cgroup);
    let mut observation = inventory.verified(&cgroup);
    let known = [true, false, true].map(Answer::Known);
    let expected: Vec<_> = NODES.iter().map(|(path, ..)| *path).zip(known).collect();
    assert_eq!(answers(&observation), expected);
    assert_eq!(observation.verified[0].cgroup.lossy(), relative(cgroup.path()));
    assert_eq!(mismatches(&observation), []);
    assert_eq!(procs(&cgroup), format!("{}\n", sleeper.pid()));

    // A gpumap that has missed the program.
    for observed in &mut observation.cgroups {
        (observed.effective, observed.own) = Default::default();
    }
    let [found] = mismatches(&observation).try_into().unwrap();
    assert_eq!((found.severity, found.devices[0].number.as_deref()), (Severity::Critical, Some("c 1:8")));

    let path = cgroup.path().to_owned();
    drop((sleeper, cgroup));
    assert!(!path.exists());
}

/// Make sure that what cannot be asked is said, with the reason.
#[test]
fn reasons() {
    let Some(_host) = host::shared() else { return };
    let inventory = Inventory::new("reasons");
    let cgroup = Cgroup::new().unwrap();
    let path = relative(cgroup.path());
    let ask = |nodes: &[Node]| {
        let mut observation = inventory.observe(&cgroup);
        verify(&inventory.options(), &mut observation, &[path.as_str().into()], nodes);
        let last = observation.verified.pop().unwrap();
        assert_eq!(
            observation.errors.iter().any(|error| error.code == ProblemCode::NotVerified),
            observation.verified.is_empty()
        );
        last.allowed.missing().unwrap().to_owned()
    };
    let node = |path: &str, minor| Node { path: path.to_owned(), major: 1, minor };
    let full = node("/dev/hl0", 7);
    assert_eq!(ask(std::slice::from_ref(&full)), "no process is in it");
    let _sleeper = Sleeper::in_cgroup(&cgroup);
    assert_eq!(ask(&[full.clone(), node("/dev/hl9", 7)]), "there is no node");
    assert_eq!(ask(&[full.clone(), node("/dev/hl1", 7)]), "the node has another number");
    assert_eq!(ask(&[full.clone(), node("/proc/devices", 7)]), "the node has another number");
    fs::write(cgroup.path().join("cgroup.freeze"), "1").unwrap();
    let frozen = Instant::now() + within(5);
    while !fs::read_to_string(cgroup.path().join("cgroup.events")).unwrap().contains("frozen 1") {
        assert!(Instant::now() < frozen, "not frozen");
    }
    assert_eq!(ask(&[full]), "the cgroup is frozen");
    fs::write(cgroup.path().join("cgroup.freeze"), "0").unwrap();
}

/// Make sure that a process that cannot answer is killed in time, and that
/// cgroups that take none say so.
#[test]
fn processes_that_cannot_answer() {
    let Some(_host) = host::shared() else { return };
    let null = fs::File::open("/dev/null").unwrap();
    let asked = [(null.as_fd(), Access::ReadWrite)];
    let cgroup = Cgroup::new().unwrap();
    fs::write(cgroup.path().join("cgroup.freeze"), "1").unwrap();
    let start = Instant::now();
    let limit = Duration::from_millis(100);
    assert_eq!(ask_inside(cgroup.dir().as_fd(), None, &asked, limit), Err(AskError::TimedOut));
    assert!(start.elapsed() < within(5), "{:?}", start.elapsed());
    assert_eq!(procs(&cgroup), "");
    fs::write(cgroup.path().join("cgroup.freeze"), "0").unwrap();
    let limit = within(5);
    let allowed = ask_inside(cgroup.dir().as_fd(), None, &asked, limit);
    assert_eq!(allowed, Ok(vec![access::AccessAnswer::Allowed]));

    let threaded = cgroup.child("threaded").unwrap();
    fs::write(threaded.path().join("cgroup.type"), "threaded").unwrap();
    // Beside it, a cgroup that is not threaded is of no use.
    let invalid = cgroup.child("invalid").unwrap();
    let refused = ask_inside(invalid.dir().as_fd(), None, &asked, limit);
    assert_eq!(refused, Err(AskError::Start(nix::errno::Errno::EOPNOTSUPP)));
}

/// Writes the first process that appears in a frozen cgroup to a file of another one, and
/// lets it go on.
fn move_first(from: &Cgroup, to: PathBuf) -> std::thread::JoinHandle<()> {
    let (procs, freeze) = (from.path().join("cgroup.procs"), from.path().join("cgroup.freeze"));
    std::thread::spawn(move || {
        let end = Instant::now() + within(20);
        while Instant::now() < end {
            if let Some(pid) = fs::read_to_string(&procs).unwrap_or_default().lines().next() {
                fs::write(&to, pid).unwrap();
                fs::write(&freeze, "0").unwrap();
                return;
            }
        }
    })
}

/// Make sure that a process that does not answer is taken out of the cgroup before it is
/// killed, and left to end when it can.
#[test]
fn processes_are_taken_home() {
    let Some(_host) = host::shared() else { return };
    let null = fs::File::open("/dev/null").unwrap();
    let asked = [(null.as_fd(), Access::ReadWrite)];
    let cgroup = Cgroup::new().unwrap();
    fs::write(cgroup.path().join("cgroup.freeze"), "1").unwrap();
    // What is written to the file of a cgroup that is none can be read again.
    let home = std::env::temp_dir().join(format!("gpumap-home-{}", std::process::id()));
    fs::create_dir(&home).unwrap();
    fs::write(home.join("cgroup.procs"), "").unwrap();
    let limit = Duration::from_millis(100);
    let directory = fs::File::open(&home).unwrap();
    let answer = ask_inside(cgroup.dir().as_fd(), Some(directory.as_fd()), &asked, limit);
    assert_eq!(answer, Err(AskError::TimedOut));
    let moved = fs::read_to_string(home.join("cgroup.procs")).unwrap();
    assert!(moved.parse::<u32>().is_ok_and(|pid| pid != std::process::id()), "{moved:?}");
    fs::remove_dir_all(&home).unwrap();
    let end = Instant::now() + within(20);
    while left_behind() > 0 || !procs(&cgroup).is_empty() {
        assert!(Instant::now() < end, "never waited for");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Make sure that answers do not count that were given in another cgroup.
#[test]
fn processes_that_are_moved() {
    let Some(_host) = host::shared() else { return };
    let inventory = Inventory::new("moved");
    let denied = inventory.0.join("dev/hl0");
    let node = nix::fcntl::open(&denied, OFlag::O_PATH | OFlag::O_NOFOLLOW, Mode::empty()).unwrap();
    let asked = [(node.as_fd(), Access::ReadWrite)];
    let (cgroup, other) = (Cgroup::new().unwrap(), Cgroup::new().unwrap());
    attach_deny(&other, 1, 7, MULTI);
    let ask = |cgroup: &Cgroup| ask_inside(cgroup.dir().as_fd(), None, &asked, within(20));
    assert_eq!(ask(&cgroup), Ok(vec![access::AccessAnswer::Allowed]));
    assert_eq!(ask(&other), Ok(vec![access::AccessAnswer::DevicePolicy]));
    // It waits in this cgroup until somebody has moved it.
    fs::write(cgroup.path().join("cgroup.freeze"), "1").unwrap();
    let mover = move_first(&cgroup, other.path().join("cgroup.procs"));
    assert_eq!(ask(&cgroup), Err(AskError::Elsewhere));
    mover.join().unwrap();
}

/// Make sure that cgroups that were not asked in time are a problem.
#[test]
fn time_is_over() {
    let Some(_host) = host::shared() else { return };
    let inventory = Inventory::new("time");
    let cgroup = Cgroup::new().unwrap();
    let _sleeper = Sleeper::in_cgroup(&cgroup);
    let mut observation = inventory.observe(&cgroup);
    let options = Options { deadline: Some(Instant::now()), ..inventory.options() };
    let node = Node { path: "/dev/hl0".to_owned(), major: 1, minor: 7 };
    let path = relative(cgroup.path());
    verify(&options, &mut observation, &[path.as_str().into()], &[node]);
    assert!(observation.verified.iter().all(|one| one.allowed.known().is_none()));
    let problem = observation.errors.iter().find(|error| error.code == ProblemCode::NotVerified);
    assert!(problem.is_some_and(|problem| problem.why.contains("no time left")), "{problem:?}");
}

/// Make sure that many processes in turn cost little and leave none behind.
#[test]
fn many_in_turn() {
    let Some(_host) = host::shared() else { return };
    let null = fs::File::open("/dev/null").unwrap();
    let asked = vec![(null.as_fd(), Access::ReadWrite); 1024];
    let cgroup = Cgroup::new().unwrap();
    for _ in 0..100 {
        let answers = ask_inside(cgroup.dir().as_fd(), None, &asked, within(5)).unwrap();
        assert_eq!(answers.len(), 1024);
        assert!(answers.iter().all(|answer| *answer == access::AccessAnswer::Allowed));
    }
    assert_eq!(procs(&cgroup), "");
}
