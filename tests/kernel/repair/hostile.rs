//! Rooms that others prepared, journals that somebody wrote or changed, cgroups that
//! were made anew: gpumap refuses and changes nothing.

use std::fs;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{PermissionsExt as _, symlink};

use nix::unistd::{Gid, Uid, chown};
use serde_json::{Value, json};

use super::scene::{MISSING, NARROW, Rooms, WIDE, effective, ids, program, relative};
use crate::support::bpf::{self, MULTI};
use crate::support::cgroup::Cgroup;
use crate::support::host;
use crate::support::node::document;
use crate::support::programs::{attach, prog_id};

/// Makes rooms what they should not be.
type Prepare<'a> = &'a dyn Fn(&Rooms);

fn lost() -> (Cgroup, OwnedFd) {
    let cgroup = Cgroup::new().unwrap();
    let old = program(NARROW);
    attach(cgroup.dir(), &old, MULTI);
    (cgroup, old)
}

fn apply(rooms: &Rooms, cgroup: &Cgroup) -> (Value, i32) {
    rooms.repair(&["--cgroup", &relative(cgroup), "--allow", MISSING, "--direct", "--apply"])
}

fn why(document: &Value) -> String {
    document["errors"].to_string()
}

/// Make sure that a room of another's is not used: what is there could be put back.
#[test]
fn prepared_rooms() {
    let Some(_host) = host::shared() else { return };
    let (cgroup, old) = lost();
    let nobody = (Some(Uid::from_raw(65534)), Some(Gid::from_raw(65534)));
    let prepare: [(&str, Prepare<'_>); 7] = [
        ("a link", &|rooms| {
            fs::create_dir(rooms.run().join("elsewhere")).unwrap();
            symlink("/run/elsewhere", rooms.journals()).unwrap();
        }),
        ("a file", &|rooms| fs::write(rooms.journals(), "").unwrap()),
        ("another's", &|rooms| {
            fs::create_dir(rooms.journals()).unwrap();
            chown(&rooms.journals(), nobody.0, nobody.1).unwrap();
        }),
        ("open to all", &|rooms| {
            fs::create_dir(rooms.journals()).unwrap();
            fs::set_permissions(rooms.journals(), fs::Permissions::from_mode(0o777)).unwrap();
        }),
        ("another's programs", &|rooms| {
            fs::create_dir(rooms.pins()).unwrap();
            chown(&rooms.pins(), nobody.0, nobody.1).unwrap();
        }),
        ("programs open to all", &|rooms| {
            fs::create_dir(rooms.pins()).unwrap();
            fs::set_permissions(rooms.pins(), fs::Permissions::from_mode(0o755)).unwrap();
        }),
        ("a linked lock", &|rooms| {
            fs::create_dir(rooms.journals()).unwrap();
            symlink("/dev/null", rooms.journals().join("repair.lock")).unwrap();
        }),
    ];
    for (what, prepare) in prepare {
        let rooms = Rooms::new();
        prepare(&rooms);
        let (told, status) = apply(&rooms, &cgroup);
        assert_eq!(status, 2, "{what}: {told:#}");
        assert!(why(&told).contains("nothing was changed"), "{what}: {told:#}");
        assert_eq!(effective(&cgroup), ids(&[&old]), "{what}");
    }
}

/// Make sure that a journal which is not as gpumap wrote it undoes nothing.
#[test]
fn forged_journals() {
    let Some(_host) = host::shared() else { return };
    let (cgroup, old) = lost();
    let wide = program("allow a *:* rwm");
    let rooms = Rooms::new();
    let (done, status) = apply(&rooms, &cgroup);
    assert_eq!(status, 0, "{done:#}");
    let now = effective(&cgroup);
    let (path, journal) = rooms.journal();
    let name = rooms.journal_name();
    let write = |journal: &Value| {
        fs::remove_file(&path).unwrap();
        fs::write(&path, journal.to_string()).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
    };
    let edit = |change: &dyn Fn(&mut Value)| {
        let mut journal = journal.clone();
        change(&mut journal);
        write(&journal);
    };
    let pin = rooms.pins().join(path.file_stem().unwrap());
    let swap_pin = |with: &OwnedFd| {
        fs::remove_file(&pin).unwrap();
        gpumap::sys::bpf::pin(
            std::os::fd::AsFd::as_fd(with),
            std::os::fd::AsFd::as_fd(&fs::File::open(rooms.pins()).unwrap()),
            &std::ffi::CString::new(pin.file_name().unwrap().to_str().unwrap()).unwrap(),
        )
        .unwrap();
    };
    let forge: [(&str, &dyn Fn()); 12] = [
        ("no JSON", &|| fs::write(&path, "{").unwrap()),
        ("another schema", &|| edit(&|journal| journal["schema"] = json!("gpumap/1"))),
        ("another boot", &|| edit(&|journal| journal["boot_id"] = json!("another"))),
        ("another program", &|| edit(&|journal| journal["program"] = json!(prog_id(&wide)))),
        ("another tag", &|| edit(&|journal| journal["tag"] = json!("0000000000000000"))),
        ("another pin", &|| edit(&|journal| journal["pin"] = json!("/sys/fs/bpf/x"))),
        ("another policy before", &|| edit(&|journal| journal["replacement"]["before"] = json!("x"))),
        ("another policy after", &|| edit(&|journal| journal["replacement"]["after"] = json!("x"))),
        ("an old program that allows all", &|| {
            edit(&|journal| {
                journal["replacement"]["program"] = json!(prog_id(&wide));
                journal["replacement"]["own"] = json!([prog_id(&wide)]);
            });
            swap_pin(&wide);
        }),
        ("readable by all", &|| {
            write(&journal);
            swap_pin(&old);
            fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
        }),
        ("another's", &|| {
            write(&journal);
            chown(&path, Some(Uid::from_raw(65534)), None).unwrap();
        }),
        ("a link", &|| {
            let there = rooms.run().join("there");
            fs::rename(&path, &there).unwrap();
            symlink("/run/there", &path).unwrap();
        }),
    ];
    for (what, forge) in forge {
        forge();
        let (told, status) = rooms.repair(&["--undo", &name]);
        assert_eq!(status, 2, "{what}: {told:#}");
        assert_eq!(effective(&cgroup), now, "{what}");
    }
    fs::remove_file(&path).unwrap();
    fs::write(&path, journal.to_string()).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
    let elsewhere = rooms.run().join("repair-1.json");
    fs::copy(&path, elsewhere).unwrap();
    for bad in ["/run/repair-1.json", "/run/gpumap/../repair-1.json", "nothing"] {
        let (told, status) = rooms.repair(&["--undo", bad]);
        assert!(status == 2 && why(&told).contains("no name of a journal"), "{told:#}");
    }
    let (undone, status) = rooms.repair(&["--undo", &name]);
    assert_eq!((status, effective(&cgroup)), (0, ids(&[&old])), "{undone:#}");
}

/// Make sure that a journal whose writer was killed before he had taken away its
/// first name can be undone.
#[test]
fn a_killed_writer() {
    let Some(_host) = host::shared() else { return };
    let (cgroup, old) = lost();
    let rooms = Rooms::new();
    let (done, status) = apply(&rooms, &cgroup);
    assert_eq!(status, 0, "{done:#}");
    let (path, _journal) = rooms.journal();
    fs::hard_link(path, rooms.journals().join(".repair.unfinished")).unwrap();
    let (undone, status) = rooms.repair(&["--undo", &rooms.journal_name()]);
    assert_eq!((status, effective(&cgroup)), (0, ids(&[&old])), "{undone:#}");
}

/// Make sure that a cgroup that was made anew under the same path is another one, and
/// that what was kept for the old one is let go.
#[test]
fn a_cgroup_made_anew() {
    let Some(_host) = host::shared() else { return };
    let parent = Cgroup::new().unwrap();
    let rooms = Rooms::new();
    let cgroup = parent.child("box").unwrap();
    let old = program(NARROW);
    attach(cgroup.dir(), &old, MULTI);
    let (done, status) = apply(&rooms, &cgroup);
    assert_eq!(status, 0, "{done:#}");
    let name = rooms.journal_name();
    drop(cgroup);
    let cgroup = parent.child("box").unwrap();
    let other = program(WIDE);
    attach(cgroup.dir(), &other, MULTI);
    let (list, _) = rooms.repair(&["--list"]);
    assert_eq!(list["journals"][0]["state"], "gone", "{list:#}");
    assert_eq!(rooms.kept(), (vec![], vec![]));
    let (undone, status) = rooms.repair(&["--undo", &name]);
    assert_eq!((status, effective(&cgroup)), (2, ids(&[&other])), "{undone:#}");
}

/// Make sure that without rights nothing is changed and no room is made.
#[test]
fn without_rights() {
    use std::os::unix::process::CommandExt as _;
    let Some(_host) = host::shared() else { return };
    let (cgroup, old) = lost();
    let rooms = Rooms::new();
    let path = relative(&cgroup);
    for args in [&["--cgroup", &path, "--allow", MISSING, "--direct", "--apply"][..], &["--list"]] {
        let all = [&["--json", "repair"], args].concat();
        // The user is changed after the rooms are there.
        let mut command = std::process::Command::new("unshare");
        command.args(["-m", "sh", "-c"]);
        command.arg(format!(
            "mount --make-rprivate / && mount --bind {} /run && exec setpriv --reuid 65534 --clear-groups {} {}",
            rooms.run().display(),
            env!("CARGO_BIN_EXE_gpumap"),
            all.iter().map(|word| format!("'{word}'")).collect::<Vec<_>>().join(" ")
        ));
        command.process_group(0);
        let output = command.output().unwrap();
        let (told, status) = document(&output);
        assert!(status >= 2, "{told:#}");
        assert_eq!((effective(&cgroup), rooms.kept()), (ids(&[&old]), (vec![], vec![])));
        assert!(!rooms.journals().exists());
    }
    let _ = bpf::probe();
}
