use std::fs;
use std::os::unix::fs::symlink;
use std::path::PathBuf;

use super::*;
use crate::observation::Cgroup;

/// A tree of unit files that goes with the value.
struct Tree(PathBuf);

impl Tree {
    fn new(name: &str, files: &[(&str, &str)]) -> Self {
        let root = std::env::temp_dir().join(format!("gpumap-units-{}-{name}", std::process::id()));
        fs::create_dir_all(root.join("run/systemd/system")).unwrap();
        let tree = Self(root);
        files.iter().for_each(|(path, text)| tree.write(path, text));
        tree
    }

    fn write(&self, path: &str, text: &str) {
        let path = self.0.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn units(&self, cgroups: &[(&str, &[u32])]) -> Vec<Unit> {
        let seen = |(path, programs): &(&str, &[u32])| {
            let own = Attached { programs: programs.to_vec(), flags: 2, ..Attached::default() };
            let cgroup = Cgroup {
                path: (*path).into(),
                id: 1,
                effective: Answer::default(),
                own: Answer::Known(own),
                pids: Vec::new(),
                unseen: None,
                uid: None,
            };
            VisitedCgroup { cgroup, requested: true }
        };
        let seen: Vec<VisitedCgroup> = cgroups.iter().map(seen).collect();
        let options = Options { unit_root: self.0.clone(), ..Options::default() };
        let mut log = Log::new(None);
        let units = collect(&options, &seen, &mut ProgramCache::new(), &mut log);
        assert!(log.problems.is_empty(), "{:?}", log.problems);
        units
    }
}

impl Drop for Tree {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn paths(unit: &Unit) -> Vec<&str> {
    unit.files.iter().map(|file| file.path.as_str()).collect()
}

const ALLOW: &str = "[Service]\nDeviceAllow=/dev/x\n";

/// Make sure that files come from systemd's places in systemd's order.
#[test]
fn order_of_files() {
    let tree = Tree::new(
        "order",
        &[
            ("usr/lib/systemd/system/a-b@.service", "[Service]\nPrivateDevices=yes\nEnvironment=SECRET=1\n"),
            ("etc/systemd/system/service.d/10-kind.conf", ALLOW),
            ("etc/systemd/system/a-@.service.d/20-prefix.conf", ALLOW),
            ("run/systemd/system/a-b@.service.d/30-template.conf", ALLOW),
            ("etc/systemd/system/a-b@1.service.d/30-template.conf", ALLOW),
            ("run/systemd/transient/a-b@1.service.d/05-first.conf", ALLOW),
            ("etc/systemd/system/a-b@1.service.d/.hidden.conf", ALLOW),
            ("etc/systemd/system/a-b@1.service.d/note.txt", ALLOW),
            ("etc/systemd/system/a-b@2.service.d/x.conf", ALLOW),
        ],
    );
    let units = tree.units(&[("/system.slice/a-b@1.service", &[])]);
    assert_eq!(units[0].fragment.as_deref(), Some("/usr/lib/systemd/system/a-b@.service"));
    assert_eq!(
        paths(&units[0]),
        [
            "/usr/lib/systemd/system/a-b@.service",
            "/run/systemd/transient/a-b@1.service.d/05-first.conf",
            "/etc/systemd/system/service.d/10-kind.conf",
            "/etc/systemd/system/a-@.service.d/20-prefix.conf",
            "/etc/systemd/system/a-b@1.service.d/30-template.conf",
        ]
    );
    assert!(!format!("{units:?}").contains("SECRET"));
    let gone = NamedNode { path: "/dev/x".into(), device: Answer::Known(None) };
    assert_eq!(units[0].nodes, [gone]);
}

/// Make sure that the first unit file wins, and that masks are seen.
#[test]
fn overrides_and_masks() {
    let tree = Tree::new(
        "masks",
        &[
            ("etc/systemd/system/a.service", "[Service]\nDevicePolicy=closed\n"),
            ("usr/lib/systemd/system/a.service", "[Service]\nDevicePolicy=strict\n"),
            ("usr/lib/systemd/system/a.service.d/x.conf", ALLOW),
            ("etc/systemd/system/a.service.d/y.conf", ALLOW),
        ],
    );
    symlink("/dev/null", tree.0.join("etc/systemd/system/a.service.d/x.conf")).unwrap();
    symlink("/dev/null", tree.0.join("etc/systemd/system/b.service")).unwrap();
    let units = tree.units(&[("/system.slice/a.service", &[]), ("/system.slice/b.service", &[7])]);
    assert_eq!(paths(&units[0]), ["/etc/systemd/system/a.service", "/etc/systemd/system/a.service.d/y.conf"]);
    assert_eq!(units[1].unread, ["/etc/systemd/system/b.service is masked"]);
}

/// Make sure that units without settings and programs are left out, and those
/// with a program below are not.
#[test]
fn which_units() {
    let tree = Tree::new("which", &[("etc/systemd/system/a.service", "[Service]\nSlice=x.slice\n")]);
    let units = tree.units(&[
        ("/system.slice", &[]),
        ("/system.slice/a.service", &[]),
        ("/b.slice", &[]),
        ("/b.slice/c.scope", &[]),
        ("/b.slice/c.scope/inner", &[7]),
        ("/user.slice/user-1.slice/user@1.service/app.slice/d.service", &[7]),
    ]);
    let names: Vec<_> = units.iter().map(|unit| unit.name.lossy().into_owned()).collect();
    assert_eq!(names, ["b.slice", "c.scope"]);
    assert_eq!(units[1].fragment, None);
}

/// Make sure that many units cost milliseconds.
#[test]
fn five_hundred_units() {
    let tree = Tree::new("many", &[("etc/systemd/system/service.d/x.conf", ALLOW)]);
    let mut cgroups = Vec::new();
    for number in 0..500 {
        tree.write(&format!("usr/lib/systemd/system/u-{number}.service"), ALLOW);
        cgroups.push(format!("/system.slice/u-{number}.service"));
    }
    let cgroups: Vec<(&str, &[u32])> = cgroups.iter().map(|path| (path.as_str(), &[][..])).collect();
    let start = std::time::Instant::now();
    assert_eq!(tree.units(&cgroups).len(), 500);
    assert!(start.elapsed().as_millis() < 1000, "{:?}", start.elapsed());
}
