//! Drivers' libraries, which read the variables once. Stand-ins have the
//! functions that those who watch look for; a mount namespace of the test's own
//! has them installed.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use gpumap::model::EventKind;
use gpumap::report::Event;
use nix::sys::signal::Signal;
use serde_json::json;

use super::containers::{mapped, signal};
use super::{CUDA, host_with, is_of, of};
use crate::support::container::{Bundle, Container};
use crate::support::watching::{Place, Watch};

const HIP: &str = "HIP_VISIBLE_DEVICES";
const ROCR: &str = "ROCR_VISIBLE_DEVICES";

/// Builds the program that loads drivers' libraries.
fn program(place: &Place) -> PathBuf {
    place.build("c/driver.c", "driver", "gcc -Wl,-rpath,/bin")
}

/// Builds a stand-in with this function.
fn library(place: &Place, name: &str, function: &str) -> PathBuf {
    place.build("libcuda.c", name, &format!("gcc -shared -fPIC -DcuInit={function}"))
}

/// Gives this thread, and what it starts, a mount namespace in which the
/// dynamic linker's configuration names this directory alone.
fn install(place: &Place) {
    let conf = place.directory.join("conf.d");
    fs::create_dir(&conf).unwrap();
    fs::write(conf.join("driver.conf"), place.directory.to_str().unwrap()).unwrap();
    // SAFETY: the call takes a number and concerns this thread alone.
    assert_eq!(unsafe { libc::unshare(libc::CLONE_NEWNS) }, 0);
    let script = r#"mount --make-rprivate / && mount --bind "$0" /etc/ld.so.conf.d"#;
    assert!(Command::new("sh").args(["-c", script]).arg(conf).status().unwrap().success());
}

/// The variable of each change with whether it has an effect.
fn effects(events: &[Event]) -> Vec<(&str, Option<bool>)> {
    let visible = events.iter().filter(|event| event.event == EventKind::Visible);
    visible.map(|event| (event.variable.as_deref().unwrap(), event.effective)).collect()
}

/// The change before is not said to be without effect, the one after is.
fn assert_initialised(events: &[Event]) {
    let drivers: Vec<_> = events.iter().filter(|event| event.event == EventKind::Driver).collect();
    assert_eq!(drivers.len(), 1, "{events:#?}");
    assert_eq!(drivers[0].how.map(<&str>::from), Some("cuInit"));
    let effects = effects(events);
    assert_eq!((effects.len(), effects[1]), (2, (CUDA, Some(false))), "{effects:?}");
    assert_ne!(effects[0].1, Some(false));
}

/// Make sure that a driver that the host has installed is seen although it is
/// initialised in the moment after it was loaded: nothing looks at the process
/// until it has ended.
#[test]
fn installed() {
    let Some(host) = host_with(&["gcc", "mount"]) else { return };
    let place = Place::new(&host);
    let (program, library) = (program(&place), library(&place, "libcuda.so.550.1", "cuInit"));
    std::os::unix::fs::symlink(&library, place.directory.join("libcuda.so.1")).unwrap();
    install(&place);
    let watch = Watch::start(&["--cgroup", place.cgroup.to_str().unwrap()]);
    signal(&watch, Signal::SIGSTOP);
    let words = [program.to_str().unwrap(), "set", CUDA, "1", "load", library.to_str().unwrap()];
    let words = [&words[..], &["init", "cuInit", "set", CUDA, "2"]].concat();
    let mut child = place.command(&words).spawn().unwrap();
    assert!(child.wait().unwrap().success());
    signal(&watch, Signal::SIGCONT);
    let runs = (child.id(), "driver");
    let events = watch.until(|event| is_of(event, runs) && event.event == EventKind::Exit);
    assert_initialised(&of(&events, runs));
}

/// Make sure that the same holds in a container into which the host's driver is
/// mounted.
#[test]
fn installed_in_container() {
    let Some(host) = host_with(&["gcc", "mount", "runc", "busybox", "nsenter"]) else { return };
    let place = Place::new(&host);
    let (linker, libc) = (mapped("ld-linux"), mapped("libc.so.6"));
    let name = linker.file_name().unwrap().to_str().unwrap();
    let program =
        place.build("c/driver.c", "driver", &format!("gcc -Wl,-rpath,/bin -Wl,--dynamic-linker=/bin/{name}"));
    let library = library(&place, "libcuda.so.1", "cuInit");
    install(&place);
    let rules = json!([{ "allow": true, "access": "rwm" }]);
    let (mounted, programs) = (vec![linker, libc, library], vec![program]);
    let container = Container::run("runc", &Bundle { mounted, programs, ..Bundle::sleeping(&rules) });
    let container = container.unwrap_or_else(|log| panic!("runc: {log}"));
    let watch = Watch::start(&["--cgroup", container.cgroup().to_str().unwrap()]);
    signal(&watch, Signal::SIGSTOP);
    let words =
        ["/bin/driver", "set", CUDA, "1", "load", "/bin/libcuda.so.1", "init", "cuInit", "set", CUDA, "2"];
    let pid = container.exec("runc", &[], &words);
    while Path::new("/proc").join(pid.to_string()).exists() {
        std::thread::yield_now();
    }
    signal(&watch, Signal::SIGCONT);
    let runs = (pid, "driver");
    let events = watch.until(|event| is_of(event, runs) && event.event == EventKind::Exit);
    assert_initialised(&of(&events, runs));
}

/// Runs a program that changes a variable of each vendor before and after one
/// driver is initialised; gives the effects after.
fn after(name: &str, function: &str) -> Option<Vec<(String, Option<bool>)>> {
    let host = host_with(&["gcc"])?;
    let place = Place::new(&host);
    let (program, library) = (program(&place), library(&place, name, function));
    let watch = Watch::start(&["--cgroup", place.cgroup.to_str().unwrap()]);
    let names = [CUDA, "CUDA_DEVICE_ORDER", HIP, ROCR];
    let set = |value: &'static str| names.into_iter().flat_map(move |name| ["set", name, value]);
    let load = ["load", library.to_str().unwrap(), "seen", "init", function];
    let words: Vec<&str> =
        [program.to_str().unwrap()].into_iter().chain(set("1")).chain(load).chain(set("2")).collect();
    let events = watch.run(&mut place.command(&words));
    let drivers: Vec<_> = events.iter().filter(|event| event.event == EventKind::Driver).collect();
    assert_eq!((drivers.len(), drivers[0].how.map(<&str>::from)), (1, Some(function)));
    let found = effects(&events);
    assert_eq!(found.iter().map(|(name, _)| *name).collect::<Vec<_>>(), [names, names].concat());
    assert!(found[..4].iter().all(|(_, effective)| *effective != Some(false)), "{found:?}");
    Some(found[4..].iter().map(|(name, effective)| ((*name).to_owned(), *effective)).collect())
}

/// Make sure that after each driver's initialisation its own variable is said to
/// be without effect.
#[test]
fn own_variable() {
    for (name, function, own) in [
        ("libcuda.so.1", "cuInit", &[CUDA, "CUDA_DEVICE_ORDER"][..]),
        ("libamdhip64.so.6", "hipInit", &[HIP]),
        ("libhsa-runtime64.so.1", "hsa_init", &[ROCR]),
    ] {
        let Some(found) = after(name, function) else { return };
        for (variable, effective) in found.iter().filter(|(variable, _)| own.contains(&variable.as_str())) {
            assert_eq!(*effective, Some(false), "{variable} after {function}");
        }
    }
}

/// Make sure that a variable that the initialised driver does not read is not
/// said to be without effect: another driver may come yet.
#[test]
fn strangers() {
    for (name, function, strangers) in [
        ("libcuda.so.1", "cuInit", &[HIP, ROCR][..]),
        ("libamdhip64.so.6", "hipInit", &["CUDA_DEVICE_ORDER"]),
        ("libhsa-runtime64.so.1", "hsa_init", &[CUDA, "CUDA_DEVICE_ORDER", HIP]),
    ] {
        let Some(found) = after(name, function) else { return };
        for (variable, effective) in found.iter().filter(|(one, _)| strangers.contains(&one.as_str())) {
            assert_ne!(*effective, Some(false), "{variable} after {function}");
        }
    }
}
