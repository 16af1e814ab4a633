//! Compares what is observed with the running kernel.

use crate::support::host;
use crate::support::meanwhile::{Going, meanwhile};
use crate::support::programs;
use crate::support::sysctl::Setting;
use crate::support::threads;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::Instant;

use gpumap::observation::{Answer, Cgroup, CgroupMode, Map, Observation};
use gpumap::observe::{self, CgroupTarget, ObserveError, Options};
use gpumap::sys::access;

use crate::support::bpf::{MULTI, OVERRIDE, PREORDER};
use crate::support::cgroup::Tree;
use crate::support::node::Sleeper;
use crate::support::programs::prog_id;
use gpumap::model::{MapType, ProblemCode};
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule,
};

fn target(path: &Path, recursive: bool) -> CgroupTarget {
    CgroupTarget::typed(path, recursive)
}

fn look(path: &Path, recursive: bool) -> Observation {
    observe::cgroups(&Options::default(), &[target(path, recursive)]).unwrap()
}

fn find<'a>(observation: &'a Observation, root: &Path, path: &Path) -> &'a Cgroup {
    let path = Path::new("/").join(path.strip_prefix(root).unwrap());
    let found =
        observation.cgroups.iter().find(|cgroup| cgroup.path.as_bytes() == path.as_os_str().as_bytes());
    found.unwrap_or_else(|| panic!("{path:?} is not in {:?}", observation.cgroups))
}

fn effective(cgroup: &Cgroup) -> &[u32] {
    cgroup.effective.known().unwrap()
}

/// Make sure that lists come in run order with the flags of each level, and
/// that every ancestor is there, parents first.
#[test]
fn effective_lists() {
    let Some(root) = host::shared() else { return };
    let top = Tree::new(&root);
    let (mid, leaf) = (top.child("mid"), top.child("mid/leaf"));
    let programs = ["a", "b", "c", "d"].map(|name| programs::constant(name, 1));
    let ids = programs.each_ref().map(prog_id);
    programs::attach(&top.handle(), &programs[0], MULTI);
    programs::attach(&File::open(&mid).unwrap(), &programs[1], OVERRIDE);
    programs::attach(&File::open(&leaf).unwrap(), &programs[2], 0);
    let seen = look(&leaf, false);
    let paths: Vec<_> = seen.cgroups.iter().map(|cgroup| cgroup.path.lossy().into_owned()).collect();
    assert_eq!(paths.len(), 4);
    assert!(paths[0] == "/" && paths.windows(2).all(|pair| pair[1].starts_with(&pair[0])));
    assert_eq!(effective(find(&seen, &root, top.path())), [ids[0]]);
    assert_eq!(effective(find(&seen, &root, &mid)), [ids[1], ids[0]]);
    let cgroup = find(&seen, &root, &leaf);
    assert_eq!(effective(cgroup), [ids[2], ids[0]]);
    assert_eq!(cgroup.id, std::os::unix::fs::MetadataExt::ino(&fs::metadata(&leaf).unwrap()));
    let own = |path: &Path| find(&seen, &root, path).own.known().unwrap().clone();
    assert_eq!((own(top.path()).programs, own(top.path()).flags), (vec![ids[0]], MULTI));
    assert_eq!((own(&mid).programs, own(&mid).flags), (vec![ids[1]], OVERRIDE));
    assert_eq!((own(&leaf).programs, own(&leaf).flags), (vec![ids[2]], 0));
    let known: Vec<_> = seen.programs.iter().map(|program| program.id).collect();
    assert!(ids[..3].iter().all(|id| known.contains(id)) && !known.contains(&ids[3]));
    assert_eq!(seen.errors, []);
}

/// Make sure that what was loaded is what is read.
#[test]
fn program_facts() {
    let Some(root) = host::shared() else { return };
    let top = Tree::new(&root);
    let program = programs::constant("facts", 0);
    programs::attach(&top.handle(), &program, 0);
    let seen = look(top.path(), false);
    let found = seen.programs.iter().find(|found| found.id == prog_id(&program)).unwrap();
    assert_eq!(found.name.as_bytes(), b"facts");
    assert!(found.gpl_compatible && found.uid == 0 && found.tag.len() == 16);
    let expected: Vec<u8> =
        [programs::mov(0, 0), programs::exit()].iter().flat_map(|insn| insn.bytes()).collect();
    assert_eq!(found.xlated.known().unwrap().0, expected);
    let age = jiff::Timestamp::now().as_second() - found.loaded_at.timestamp().unwrap().as_second();
    assert!((-1..60).contains(&age), "{}", found.loaded_at);
    let alone = observe::program(&Options::default(), found.id).unwrap();
    assert_eq!(&alone.programs[0], found);
    assert!(alone.cgroups.is_empty() && !alone.host.cgroup_root.is_empty());
}

/// Make sure that a program put first by `BPF_F_PREORDER` (Linux 6.15) is seen
/// first.
#[test]
fn preorder() {
    let Some(root) = host::shared() else { return };
    let top = Tree::new(&root);
    let leaf = top.child("leaf");
    let (first, second) = (programs::constant("first", 1), programs::constant("second", 1));
    if programs::try_attach(&top.handle(), &first, MULTI | PREORDER).is_err() {
        return host::skip("this kernel has no BPF_F_PREORDER");
    }
    programs::attach(&File::open(&leaf).unwrap(), &second, MULTI);
    let seen = look(&leaf, false);
    assert_eq!(effective(find(&seen, &root, &leaf)), [prog_id(&first), prog_id(&second)]);
}

/// Make sure that a program held by a link is told from one that is attached.
#[test]
fn links() {
    let Some(root) = host::shared() else { return };
    let top = Tree::new(&root);
    let (held, attached) = (programs::constant("held", 1), programs::constant("attached", 1));
    let link = programs::link(&top.handle(), &held);
    programs::attach(&top.handle(), &attached, MULTI);
    let seen = look(top.path(), false);
    let own = find(&seen, &root, top.path()).own.known().unwrap();
    assert_eq!(own.programs, [prog_id(&held), prog_id(&attached)]);
    assert_eq!(
        own.links.clone().into_iter().collect::<Vec<_>>(),
        [(prog_id(&held), programs::id(&link, "link_id"))]
    );
}

/// In a thread in which bpf(2) does not know these commands, as a kernel before them.
fn without_commands<R: Send>(commands: &[u64], run: impl FnOnce() -> R + Send) -> R {
    let is = |command: &u64| {
        let its = SeccompCondition::new(0, SeccompCmpArgLen::Dword, SeccompCmpOp::Eq, *command).unwrap();
        SeccompRule::new(vec![its]).unwrap()
    };
    let rules = [(libc::SYS_bpf, commands.iter().map(is).collect())].into();
    let refused = SeccompAction::Errno(libc::EINVAL.cast_unsigned());
    let arch = std::env::consts::ARCH.try_into().unwrap();
    let filter = SeccompFilter::new(rules, SeccompAction::Allow, refused, arch).unwrap();
    let filter = BpfProgram::try_from(filter).unwrap();
    let apart = || {
        seccompiler::apply_filter(&filter).unwrap();
        run()
    };
    std::thread::scope(|scope| scope.spawn(apart).join().unwrap())
}

/// Make sure that only a kernel that has no links has none to list: Linux 5.7 has links and
/// cannot list them.
#[test]
fn links_that_cannot_be_listed() {
    let Some(root) = host::shared() else { return };
    let top = Tree::new(&root);
    let program = programs::constant("held", 1);
    let _link = programs::link(&top.handle(), &program);
    let seen = |missing: &[u64]| without_commands(missing, || look(top.path(), false));
    let (create, update, by_id, next_id) = (28, 29, 30, 31);
    let links = |seen: &Observation| {
        let own = &find(seen, &root, top.path()).own;
        let own = own.known().unwrap_or_else(|| panic!("{own:?}"));
        (own.links.len(), own.links_unknown.is_some(), seen.errors.len())
    };
    assert_eq!(links(&seen(&[create, update, by_id, next_id])), (0, false, 0), "a kernel before 5.7");
    assert_eq!(links(&seen(&[by_id, next_id])), (0, true, 1), "a kernel of 5.7");
    assert_eq!(links(&seen(&[next_id])), (0, true, 1), "a call that fails");
    assert_eq!(links(&seen(&[by_id])), (0, true, 1), "another call that fails");
    assert_eq!(links(&look(top.path(), false)), (1, false, 0), "this kernel");
}

/// Make sure that the longest list that one cgroup can have is read whole.
#[test]
fn long_lists() {
    let Some(root) = host::shared() else { return };
    let top = Tree::new(&root);
    let leaf = top.child("leaf");
    let programs: Vec<_> = (0..100).map(|_| programs::constant("many", 1)).collect();
    for (at, program) in programs.iter().enumerate() {
        let cgroup = if at < 50 { top.path() } else { &leaf };
        programs::attach(&File::open(cgroup).unwrap(), program, MULTI);
    }
    let ids: Vec<_> = programs.iter().map(prog_id).collect();
    let seen = look(&leaf, false);
    assert_eq!(effective(find(&seen, &root, &leaf)), [&ids[50..], &ids[..50]].concat());
}

/// Make sure that names of any bytes stay what they are.
#[test]
fn hostile_names() {
    let Some(root) = host::shared() else { return };
    let top = Tree::new(&root);
    let long = [b'x'; 255];
    let names = [&b"\x1b[2J\x07"[..], b"\xff\xfe\x80", &long, b" (deleted)", b"a:b", b"-", b"..a"];
    let paths = names.map(|name| top.child(OsStr::from_bytes(name)));
    let seen = look(top.path(), true);
    assert_eq!(seen.errors, []);
    for path in &paths {
        let sleeper = Sleeper::new(&[path]);
        find(&seen, &root, path);
        let alone = look(path, false);
        let cgroup = find(&alone, &root, path);
        assert_eq!(cgroup.pids, [sleeper.pid()]);
        assert_eq!(alone.processes[0].cgroup, cgroup.path);
        assert_eq!(alone.scope[0].path, cgroup.path);
        let of_pid = observe::pid_cgroup(&Options::default(), sleeper.pid()).unwrap();
        assert_eq!(of_pid.as_ref(), cgroup.path.as_bytes());
        let json = serde_json::to_string(&alone).unwrap();
        assert_eq!(serde_json::from_str::<Observation>(&json).unwrap(), alone);
    }
}

/// Make sure that a process is named by pid and start time, with the names it
/// chose.
#[test]
fn processes() {
    let Some(root) = host::shared() else { return };
    let top = Tree::new(&root);
    let leaf = top.child("leaf");
    let sleeper = Sleeper::called(b"a) S\n1\xff(", &[&leaf]);
    let seen = look(top.path(), true);
    let [process] = seen.processes.as_slice() else { panic!("{:?}", seen.processes) };
    let expected = procfs::process::Process::new(sleeper.pid() as i32).unwrap();
    let stat = fs::read(format!("/proc/{}/stat", sleeper.pid())).unwrap();
    let after = stat.iter().rposition(|byte| *byte == b')').unwrap();
    let fields: Vec<_> = std::str::from_utf8(&stat[after + 2..]).unwrap().split(' ').collect();
    assert_eq!(process.start_time.to_string(), fields[19]);
    assert_eq!((process.pid, process.uid), (sleeper.pid(), expected.uid().unwrap()));
    assert_eq!(process.comm.as_bytes(), b"a) S\n1\xff(");
    assert_eq!(process.cgroup, find(&seen, &root, &leaf).path);
    assert!(look(top.path(), false).processes.is_empty());
}

/// Make sure that the v1 list beside cgroup2 is there for the groups in use.
#[test]
fn hybrid_v1_list() {
    let Some(root) = host::shared() else { return };
    let seen = look(&root, false);
    let Some(devices) = seen.devices_v1 else {
        return host::skip("no v1 devices controller is mounted");
    };
    assert_eq!(seen.host.cgroup_mode, CgroupMode::Hybrid);
    assert!(devices.groups.iter().any(|group| group.path.as_bytes() == b"/"));
    let (top, v1) = (Tree::new(&root), Tree::new(Path::new(&devices.mount)));
    fs::write(v1.path().join("devices.deny"), "a").unwrap();
    fs::write(v1.path().join("devices.allow"), "c 195:3 rw").unwrap();
    let sleeper = Sleeper::new(&[top.path(), v1.path()]);
    let seen = look(top.path(), false);
    let group = seen
        .processes
        .iter()
        .find(|process| process.pid == sleeper.pid())
        .unwrap()
        .devices_v1
        .clone()
        .unwrap();
    assert_eq!(group.as_bytes(), [b"/", v1.path().file_name().unwrap().as_bytes()].concat());
    let groups = seen.devices_v1.unwrap().groups;
    let list = groups.iter().find(|found| found.path == group).unwrap().list.clone();
    assert_eq!(list, Answer::Known(vec!["c 195:3 rw".to_owned()]));
    let wrong = observe::cgroups(&Options::default(), &[target(v1.path(), false)]).unwrap_err();
    assert!(
        matches!(&wrong, ObserveError::V1Directory { cgroup2: Some(at), .. } if **at == *root),
        "{wrong}"
    );
    let options = Options { cgroup_root: Some(v1.path().to_owned()), ..Options::default() };
    let wrong = observe::cgroups(&options, &[target(Path::new("/"), false)]).unwrap_err();
    assert!(wrong.to_string().contains(root.to_str().unwrap()), "{wrong}");
}

fn map_of<'a>(seen: &'a Observation, map: &std::os::fd::OwnedFd) -> &'a Map {
    let id = programs::id(map, "map_id");
    seen.maps.iter().find(|found| found.id == id).unwrap()
}

fn entries(map: &Map) -> Vec<(Vec<u8>, Vec<u8>)> {
    let entries = map.entries.known().unwrap();
    let mut entries: Vec<_> =
        entries.iter().map(|entry| (entry.key.0.clone(), entry.value.0.clone())).collect();
    entries.sort();
    entries
}

/// Make sure that maps of every kind come with all they hold.
#[test]
fn map_contents() {
    let Some(root) = host::shared() else { return };
    let top = Tree::new(&root);
    let hash = programs::map(programs::HASH, 8, 4, 10_000);
    let empty = programs::map(programs::HASH, 8, 4, 16);
    let array = programs::map(programs::ARRAY, 4, 12, 5);
    let percpu = programs::map(programs::PERCPU_ARRAY, 4, 4, 3);
    let trie = programs::map(programs::LPM_TRIE, 8, 4, 16);
    let key = |number: u64| number.to_le_bytes().to_vec();
    (0..9_000).for_each(|number| programs::update(&hash, &key(number), &[1, 2, 3, number as u8]));
    programs::update(&array, &2_u32.to_le_bytes(), b"twelve bytes");
    programs::update(&trie, &[16, 0, 0, 0, 195, 3, 0, 0], b"trie");
    programs::freeze(&array);
    let maps = [&hash, &empty, &array, &percpu, &trie];
    let mut insns: Vec<_> = maps.iter().flat_map(|map| programs::load_map(1, map)).collect();
    insns.extend([programs::mov(0, 1), programs::exit()]);
    programs::attach(&top.handle(), &programs::load("maps", &insns), 0);

    let seen = look(top.path(), false);
    assert_eq!(seen.errors, []);
    let whole = entries(map_of(&seen, &hash));
    let mut expected: Vec<_> = (0..9_000).map(|number| (key(number), vec![1, 2, 3, number as u8])).collect();
    expected.sort();
    assert_eq!(whole, expected);
    assert_eq!(entries(map_of(&seen, &empty)), []);
    let found = map_of(&seen, &array);
    assert_eq!(
        (found.kind.clone(), found.value_size, found.max_entries, found.frozen),
        (MapType::Array, 12, 5, true)
    );
    assert_eq!(entries(found).len(), 5);
    assert_eq!(entries(found)[2], (vec![2, 0, 0, 0], b"twelve bytes".to_vec()));
    let cpus = entries(map_of(&seen, &percpu));
    assert_eq!(cpus.len(), 3);
    assert!(cpus.iter().all(|(_, value)| !value.is_empty() && value.len().is_multiple_of(8)));
    assert_eq!(entries(map_of(&seen, &trie)), [(vec![16, 0, 0, 0, 195, 3, 0, 0], b"trie".to_vec())]);
}

/// Make sure that helper calls get the names that the kernel's symbols give.
#[test]
fn helper_names() {
    let Some(root) = host::shared() else { return };
    let top = Tree::new(&root);
    let hash = programs::map(programs::HASH, 8, 4, 4);
    let mut insns = vec![programs::store(-8, 0), programs::mov_reg(2, 10), programs::add(2, -8)];
    insns.extend(programs::load_map(1, &hash));
    insns.extend([programs::call(1), programs::call(80), programs::mov(0, 1), programs::exit()]);
    programs::attach(&top.handle(), &programs::load("helpers", &insns), 0);
    let seen = look(top.path(), false);
    let names: Vec<_> = seen.programs.iter().flat_map(|program| program.calls.values()).collect();
    if !seen.errors.is_empty() {
        assert!(
            seen.errors.iter().all(|problem| problem.needs.contains("kptr_restrict")),
            "{:?}",
            seen.errors
        );
        return;
    }
    assert!(names.iter().any(|name| *name == "bpf_get_current_cgroup_id"), "{names:?}");
    assert!(names.iter().any(|name| name.contains("lookup_elem")), "{names:?}");
}

/// Make sure that cgroups and programs that come and go are data, not errors.
#[test]
fn vanishing() {
    let Some(root) = host::shared() else { return };
    let top = Tree::new(&root);
    let program = programs::constant("here", 1);
    programs::attach(&top.handle(), &program, MULTI);
    meanwhile(
        |going| churn(&top, going),
        || {
            for _ in 0..150 {
                let seen = look(top.path(), true);
                let codes: Vec<_> = seen.errors.iter().map(|problem| problem.code.as_str()).collect();
                assert!(
                    codes.iter().all(|code| ["cgroup-gone", "changed-while-read"].contains(code)),
                    "{:?}",
                    seen.errors
                );
                for id in seen.cgroups.iter().filter_map(|cgroup| cgroup.effective.known()).flatten() {
                    assert!(seen.programs.iter().any(|program| program.id == *id));
                }
            }
        },
    );
}

fn churn(top: &Tree, going: &Going) {
    while going.is_on() {
        for name in ["a", "b", "a/c"] {
            let path = top.child(name);
            let program = programs::constant("short", 1);
            programs::attach(&File::open(&path).unwrap(), &program, MULTI);
        }
        ["a/c", "b", "a"].iter().for_each(|name| fs::remove_dir(top.path().join(name)).unwrap());
    }
}

/// Make sure that a target can be written in every form, and that each wrong
/// one gets its own answer.
#[test]
fn targets() {
    let Some(root) = host::shared() else { return };
    let top = Tree::new(&root);
    let leaf = top.child("leaf");
    let relative = leaf.strip_prefix(&*root).unwrap();
    for path in [leaf.clone(), relative.to_owned(), Path::new("/").join(relative), relative.join("../leaf/")]
    {
        let seen = look(&path, false);
        assert_eq!(seen.scope[0].path.as_bytes(), Path::new("/").join(relative).as_os_str().as_bytes());
        assert_eq!(seen.cgroups.len(), 3);
    }
    let both = [target(&leaf, false), target(top.path(), true), target(relative, false)];
    let seen = observe::cgroups(&Options::default(), &both).unwrap();
    assert_eq!((seen.scope.len(), seen.cgroups.len()), (3, 3));

    let fail = |path: PathBuf| observe::cgroups(&Options::default(), &[target(&path, false)]).unwrap_err();
    assert!(matches!(fail(top.path().join("none")), ObserveError::NoSuchCgroup { .. }));
    assert!(matches!(fail("../..".into()), ObserveError::NoSuchCgroup { .. }));
    assert!(matches!(fail("/proc".into()), ObserveError::NotACgroup { .. }));
    assert!(matches!(fail("/proc/version".into()), ObserveError::NotADirectory { .. }));
    assert!(matches!(fail(leaf.join("cgroup.procs")), ObserveError::NotADirectory { .. }));
    let options = Options { cgroup_root: Some("/proc".into()), ..Options::default() };
    assert!(matches!(observe::cgroups(&options, &[]).unwrap_err(), ObserveError::NotACgroup { .. }));
    let options = Options { cgroup_root: Some(top.path().to_owned()), ..Options::default() };
    let sleeper = Sleeper::new(&[&leaf]);
    let seen = observe::cgroups(&options, &[target(Path::new("leaf"), false)]).unwrap();
    assert_eq!(seen.processes[0].cgroup.as_bytes(), b"/leaf");
    assert_eq!(observe::pid_cgroup(&options, sleeper.pid()).unwrap().as_ref(), b"/leaf");
    let outside = observe::pid_cgroup(&options, std::process::id()).unwrap_err();
    assert!(matches!(outside, ObserveError::OutsideNamespace { .. }), "{outside}");
}

/// Make sure that a passed deadline gives what there is, and says so.
#[test]
fn deadline() {
    let Some(root) = host::shared() else { return };
    let options = Options { deadline: Some(Instant::now()), ..Options::default() };
    let seen = observe::cgroups(&options, &[target(&root, true)]).unwrap();
    assert_eq!(seen.errors.iter().filter(|problem| problem.code == ProblemCode::Timeout).count(), 1);
}

/// Make sure that ids that are no device program are refused in words.
#[test]
fn wrong_programs() {
    let Some(_host) = host::shared() else { return };
    let none = observe::program(&Options::default(), u32::MAX).unwrap_err();
    assert!(matches!(none, ObserveError::NoSuchProgram { .. }), "{none}");
    let none = observe::pid_cgroup(&Options::default(), u32::MAX).unwrap_err();
    assert!(matches!(none, ObserveError::NoSuchProcess { .. }), "{none}");
}

/// Make sure that without rights everything that cannot be known is missing,
/// never empty, and that the right is named once.
#[test]
fn no_rights() {
    let Some(root) = host::shared() else { return };
    let top = Tree::new(&root);
    let leaf = top.child("leaf");
    let program = programs::constant("secret", 0);
    programs::attach(&top.handle(), &program, MULTI);
    let sleeper = Sleeper::new(&[&leaf]);
    let (path, id) = (top.path().to_owned(), prog_id(&program));
    let (seen, alone) =
        threads::as_nobody(move || (look(&path, true), observe::program(&Options::default(), id)));
    assert!(
        seen.cgroups
            .iter()
            .all(|cgroup| cgroup.effective.missing().is_some_and(|why| why.contains("CAP_NET_ADMIN")))
    );
    assert!(seen.cgroups.iter().all(|cgroup| cgroup.own.missing().is_some()));
    let problems: Vec<_> =
        seen.errors.iter().filter(|problem| problem.code == ProblemCode::NoRight).collect();
    assert_eq!(problems.len(), 1, "{:?}", seen.errors);
    assert!(problems[0].needs.contains("CAP_NET_ADMIN"), "{}", problems[0].needs);
    assert_eq!(seen.processes[0].pid, sleeper.pid());
    assert!(matches!(alone, Err(ObserveError::NoRight { .. })), "{alone:?}");
}

/// Make sure that hidden helper names are told, with what would show them.
#[test]
fn no_kernel_addresses() {
    let Some(root) = host::shared() else { return };
    let top = Tree::new(&root);
    let program = programs::load("helper", &[programs::call(80), programs::mov(0, 1), programs::exit()]);
    programs::attach(&top.handle(), &program, 0);
    let path = top.path().to_owned();
    let seen = threads::without_capability(34, move || look(&path, false));
    if seen.errors.is_empty() {
        return host::skip("this kernel shows its addresses to everyone");
    }
    assert_eq!(seen.errors.len(), 1, "{:?}", seen.errors);
    assert!(seen.errors[0].needs.contains("CAP_SYSLOG"));
    assert!(seen.programs.iter().all(|program| program.xlated.known().is_some() && program.calls.is_empty()));
}

/// Make sure that a program swapped for another in the middle of the job ends
/// in a list that the kernel really gave.
#[test]
fn swapped_programs() {
    let Some(root) = host::shared() else { return };
    let top = Tree::new(&root);
    meanwhile(
        |going| {
            let cgroup = top.handle();
            while going.is_on() {
                let program = programs::constant("swap", 1);
                programs::attach(&cgroup, &program, MULTI);
                programs::detach(&cgroup, &program);
            }
        },
        || {
            for _ in 0..300 {
                let seen = look(top.path(), false);
                let cgroup = find(&seen, &root, top.path());
                match &cgroup.effective {
                    Answer::Known(ids) => {
                        assert!(ids.iter().all(|id| seen.programs.iter().any(|program| program.id == *id)))
                    }
                    Answer::Missing(_) => {
                        assert!(
                            seen.errors.iter().any(|problem| problem.code == ProblemCode::ChangedWhileRead)
                        )
                    }
                }
            }
        },
    );
}

/// Make sure that a host without cgroup2 is answered from its v1 controller.
#[test]
fn legacy_host() {
    let Some(root) = host::shared() else { return };
    let Some(mount) = look(&root, false).devices_v1.map(|devices| PathBuf::from(devices.mount)) else {
        return host::skip("no v1 devices controller is mounted");
    };
    let v1 = Tree::new(&mount);
    let sleeper = Sleeper::new(&[v1.path()]);
    let proc = std::env::temp_dir().join(format!("gpumap-observe-proc-{}", std::process::id()));
    fs::create_dir_all(proc.join("self")).unwrap();
    let line = format!("1 2 0:1 / {} rw - cgroup cgroup rw,devices\n", mount.display());
    fs::write(proc.join("self/mountinfo"), line).unwrap();
    let pid = sleeper.pid().to_string();
    std::os::unix::fs::symlink(Path::new("/proc").join(&pid), proc.join(&pid)).unwrap();
    let options = Options { proc: proc.clone(), ..Options::default() };
    let seen = observe::cgroups(&options, &[target(v1.path(), true)]);
    let path = observe::pid_cgroup(&options, sleeper.pid());
    fs::remove_dir_all(proc).unwrap();
    let seen = seen.unwrap();
    assert_eq!(seen.host.cgroup_mode, CgroupMode::Legacy);
    assert!(seen.cgroups.iter().all(|cgroup| cgroup.effective == Answer::Known(Vec::new())));
    let [process] = seen.processes.as_slice() else { panic!("{seen:?}") };
    assert_eq!(process.devices_v1.as_ref(), Some(&process.cgroup));
    assert_eq!(path.unwrap().as_ref(), process.cgroup.as_bytes());
    let devices = seen.devices_v1.unwrap();
    assert!(devices.groups.iter().any(|group| group.path == process.cgroup && group.list.known().is_some()));
}

/// Make sure that nesting cannot exhaust descriptors, and that the cut is told.
#[test]
fn deep_nesting() {
    let Some(root) = host::shared() else { return };
    let top = Tree::new(&root);
    top.child(vec!["d"; 300].join("/"));
    let seen = look(top.path(), true);
    let [problem] = seen.errors.as_slice() else { panic!("{:?}", seen.errors) };
    assert_eq!(problem.code, ProblemCode::TooDeep);
    assert!(seen.cgroups.len() > 250);
}

/// Make sure that a blinded program that may not be dumped is missing, not a
/// row of zeros.
#[test]
fn blinded_without_addresses() {
    let Some(root) = host::exclusive() else { return };
    let top = Tree::new(&root);
    let hardened = Setting::change("net/core/bpf_jit_harden", "2").unwrap();
    let program = programs::constant("blinded", 1);
    drop(hardened);
    programs::attach(&top.handle(), &program, 0);
    let path = top.path().to_owned();
    let seen = threads::without_capability(34, move || look(&path, false));
    let found = seen.programs.iter().find(|found| found.id == prog_id(&program)).unwrap();
    assert!(found.xlated.missing().is_some_and(|why| why.contains("bpf_jit_harden")), "{found:?}");
    assert_eq!(seen.errors.len(), 1, "{:?}", seen.errors);
}

/// The child of `access_probe`: joins the cgroup and asks the kernel.
#[test]
#[ignore = "run by access_probe"]
fn access_probe_child() {
    let Some(cgroup) = std::env::var_os("GPUMAP_PROBE_CGROUP") else { return };
    let ask = |access| access::probe(Path::new("/dev/null"), access);
    assert_eq!(ask(access::Access::ReadWrite), access::AccessAnswer::Allowed);
    fs::write(Path::new(&cgroup).join("cgroup.procs"), "0").unwrap();
    assert_eq!(ask(access::Access::Read), access::AccessAnswer::DevicePolicy);
    assert_eq!(ask(access::Access::Exists), access::AccessAnswer::DevicePolicy);
    // Permission bits are looked at before the device policy.
    let open = || access::probe(Path::new("/dev/mem"), access::Access::Read);
    assert!(
        !Path::new("/dev/mem").exists() || threads::as_nobody(open) == access::AccessAnswer::FilePermission
    );
}

/// Make sure that the kernel's refusal by a device program is told from one by
/// permission bits.
#[test]
fn access_probe() {
    let Some(root) = host::shared() else { return };
    let top = Tree::new(&root);
    programs::attach(&top.handle(), &programs::constant("deny", 0), 0);
    let mut child = std::process::Command::new(std::env::current_exe().unwrap());
    child
        .args(["--exact", "observation::access_probe_child", "--ignored"])
        .env("GPUMAP_PROBE_CGROUP", top.path());
    let output = child.output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && said.contains("1 passed"), "{said}");
}
