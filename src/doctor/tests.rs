//! Checks of nodes that lack one thing each.

use super::*;
use crate::model::{CheckState, EngineTask, ProblemCode};
use crate::observation::{
    Answer, CgroupMode, CgroupMount, Host, OwnFile, Problem, Rights, SlurmFile, SlurmPlugins, Trial,
};

/// A node on which nothing is missing.
fn whole() -> (Observation, Setup) {
    let all = ["CAP_SYS_ADMIN", "CAP_SYS_PTRACE", "CAP_DAC_READ_SEARCH"].map(str::to_owned).to_vec();
    let setup = Setup {
        rights: Rights { capabilities: Answer::Known(all), ..Rights::default() },
        btf: Answer::Known(5 << 20),
        symbols: Answer::Known(true),
        queries: Answer::Known(()),
        hierarchy: Answer::Known("/sys/fs/cgroup".to_owned()),
        cgroup2: vec![CgroupMount {
            point: "/sys/fs/cgroup".to_owned(),
            root: "/".to_owned(),
            hidden: false,
        }],
        trials: vec![Trial { what: EngineTask::Processes, engine: Some("x".to_owned()), refused: None }],
        clock_synchronized: Answer::Known(true),
        own_file: Answer::Known(OwnFile {
            path: "/usr/bin/gpumap".to_owned(),
            mode: 0o755,
            ..OwnFile::default()
        }),
        ..Setup::default()
    };
    let host = Host { cgroup_mode: CgroupMode::Unified, ..Host::default() };
    (Observation { host, ..Observation::default() }, setup)
}

/// The checks of an id after a change to the whole node.
fn after(id: &str, change: impl FnOnce(&mut Observation, &mut Setup)) -> Option<DoctorCheck> {
    let (mut observation, mut setup) = whole();
    change(&mut observation, &mut setup);
    examine(&observation, &setup).doctor.into_iter().find(|check| check.id == id)
}

fn state(id: &str, change: impl FnOnce(&mut Observation, &mut Setup)) -> Option<CheckState> {
    after(id, change).map(|check| check.state)
}

fn setting(setup: &mut Setup, path: &str, value: &str) {
    setup.settings.insert(path.to_owned(), Answer::Known(value.to_owned()));
}

fn conf(pairs: &[(&str, &str)]) -> Option<SlurmFile> {
    let pair = |(key, value): &(&str, &str)| ((*key).to_owned(), (*value).to_owned());
    let values = Answer::Known(pairs.iter().map(pair).collect());
    Some(SlurmFile { path: "/etc/slurm/x.conf".to_owned(), values })
}

fn no<T>() -> Answer<T> {
    Answer::Missing("why".to_owned())
}

/// Make sure that nothing is missing of a node that has everything, and that what
/// does not apply is left out.
#[test]
fn nothing_missing() {
    let (observation, setup) = whole();
    let checks = examine(&observation, &setup).doctor;
    assert!(
        checks.iter().all(|check| matches!(check.state, CheckState::Ok | CheckState::Note)),
        "{checks:#?}"
    );
    for id in ["driver.nvidia", "slurm.gres", "kernel.hidepid", "cgroup.hidden-mount", "engine.program-lists"]
    {
        assert!(checks.iter().all(|check| check.id != id), "{id}");
    }
}

/// Make sure that each lack is told by its own check, with a fix.
#[test]
fn one_lack_each() {
    type Change = fn(&mut Observation, &mut Setup);
    let cases: [(&str, Change); 25] = [
        ("rights.capabilities", |_, setup| setup.rights.capabilities = Answer::Known(Vec::new())),
        ("rights.namespaces", |_, setup| setup.rights.foreign_namespaces = vec!["user".to_owned()]),
        ("kernel.queries", |_, setup| setup.queries = no()),
        ("kernel.btf", |_, setup| setup.btf = no()),
        ("kernel.symbols", |_, setup| setup.symbols = Answer::Known(false)),
        ("kernel.ptrace", |_, setup| setting(setup, "/proc/sys/kernel/yama/ptrace_scope", "3")),
        ("kernel.hidepid", |_, setup| {
            setup.hidepid = Some("2".to_owned());
            setup.rights.capabilities = Answer::Known(Vec::new());
        }),
        ("engine.processes", |_, setup| {
            setup.trials[0] =
                Trial { what: EngineTask::Processes, engine: None, refused: Some("why".to_owned()) }
        }),
        ("cgroup.hierarchy", |_, setup| setup.hierarchy = no()),
        ("cgroup.hierarchy", |observation, _| observation.host.cgroup_mode = CgroupMode::Legacy),
        ("cgroup.hidden-mount", |_, setup| setup.cgroup2[0].hidden = true),
        ("cgroup.root", |_, setup| setup.cgroup2[0].root = "/docker/x".to_owned()),
        ("cgroup.root", |_, setup| setup.rights.foreign_namespaces = vec!["cgroup".to_owned()]),
        ("slurm.constrain-devices", |_, setup| setup.slurm.slurm_conf = conf(&[])),
        ("slurm.constrain-devices", |_, setup| setup.slurm.cgroup_conf = conf(&[("constraindevices", "no")])),
        ("slurm.task-plugin", |_, setup| setup.slurm.slurm_conf = conf(&[])),
        ("slurm.task-plugin", |_, setup| {
            setup.slurm.slurm_conf = conf(&[("taskplugin", "task/affinity,task/none")]);
        }),
        ("gpumap.file", |_, setup| {
            setup.own_file = Answer::Known(OwnFile { mode: 0o775, ..OwnFile::default() })
        }),
        ("gpumap.file", |_, setup| {
            setup.own_file = Answer::Known(OwnFile { mode: 0o755, replaced: true, ..OwnFile::default() });
        }),
        ("gpumap.file", |_, setup| {
            let open_directory = Some("/home/x".to_owned());
            setup.own_file = Answer::Known(OwnFile { mode: 0o755, open_directory, ..OwnFile::default() });
        }),
        ("cgroup.root", |_, setup| setup.whole_hierarchy = Some(false)),
        ("slurm.constrain-devices", |_, setup| {
            setup.slurm.cgroup_conf = conf(&[("constraindevices", "maybe")])
        }),
        ("slurm.constrain-devices", |_, setup| {
            setup.slurm.cgroup_conf = conf(&[("constraindevices", "yes"), ("cgroupplugin", "Disabled")]);
        }),
        ("slurm.syntax", |_, setup| setup.slurm.gres_conf = conf(&[("name", "gpu"), ("broken", "3")])),
        ("slurm.gres", |_, setup| {
            setup.slurm.gres_conf = conf(&[("autodetect", "amdgpu"), ("autodetect", "off")]);
        }),
    ];
    for (id, change) in cases {
        let check = after(id, change).unwrap_or_else(|| panic!("{id} is left out"));
        assert_eq!(check.state, CheckState::Missing, "{check:?}");
        assert!(check.fix.is_some_and(|fix| !fix.is_empty()), "{id}");
    }
}

/// Make sure that Slurm's version is told as its plugins say it, that two of them are
/// worth a note, and that none is unknown where Slurm is here.
#[test]
fn versions_of_slurm() {
    let plugins =
        |directory: &str, version: Answer<String>| SlurmPlugins { directory: directory.to_owned(), version };
    let known = |text: &str| Answer::Known(text.to_owned());
    let of = |found: Vec<SlurmPlugins>| {
        after("slurm.version", |_, setup| {
            setup.slurm.slurm_conf = conf(&[]);
            setup.slurm.plugins = found;
        })
        .unwrap()
    };
    let one = of(vec![plugins("/usr/lib64/slurm", known("25.11.0"))]);
    assert_eq!(
        (one.state, one.found.as_str()),
        (CheckState::Ok, "The version of Slurm's plugins: 25.11.0 in /usr/lib64/slurm.")
    );
    let two = of(vec![plugins("/a", known("25.11.0")), plugins("/b", known("22.05.8"))]);
    assert_eq!(two.state, CheckState::Note);
    assert!(two.found.contains("25.11.0 in /a, 22.05.8 in /b") && two.fix.is_some());
    let broken = of(vec![plugins("/a", Answer::Missing("cut off".to_owned()))]);
    assert!(broken.state == CheckState::Unknown && broken.found.contains("unknown in /a (cut off)"));
    assert_eq!(of(Vec::new()).state, CheckState::Unknown);
    assert_eq!(state("slurm.version", |_, _| {}), None);
}

/// Make sure that what could not be read is unknown, and never ok or missing.
#[test]
fn unread_is_unknown() {
    type Change = fn(&mut Observation, &mut Setup);
    let unread = || Some(SlurmFile { path: "/etc/slurm/x.conf".to_owned(), values: no() });
    let cases: [(&str, Change); 4] = [
        ("rights.capabilities", |_, setup| setup.rights.capabilities = no()),
        ("kernel.symbols", |_, setup| setup.symbols = no()),
        ("software.detaching-agents", |_, setup| setup.software = no()),
        ("gpumap.file", |_, setup| setup.own_file = no()),
    ];
    for (id, change) in cases {
        assert_eq!(state(id, change), Some(CheckState::Unknown), "{id}");
    }
    let files = |setup: &mut Setup| {
        setup.slurm.slurm_conf = unread();
        setup.slurm.cgroup_conf = unread();
        setup.slurm.gres_conf = unread();
    };
    for id in ["slurm.configuration", "slurm.constrain-devices", "slurm.task-plugin", "slurm.gres"] {
        assert_eq!(state(id, |_, setup| files(setup)), Some(CheckState::Unknown), "{id}");
    }
    // A file that is included may have what this one lacks.
    let included = |_: &mut Observation, setup: &mut Setup| {
        setup.slurm.slurm_conf = conf(&[("include", "more.conf")]);
    };
    assert_eq!(state("slurm.task-plugin", included), Some(CheckState::Unknown));
}

/// Make sure that Slurm's words are read as Slurm reads them.
#[test]
fn slurm_words() {
    let plugin = |plugins: &'static str| {
        state("slurm.task-plugin", move |_, setup| setup.slurm.slurm_conf = conf(&[("taskplugin", plugins)]))
    };
    for plugins in ["task/cgroup", "task/affinity,task/cgroup", "cgroup", "affinity,cgroup"] {
        assert_eq!(plugin(plugins), Some(CheckState::Ok), "{plugins}");
    }
    assert_eq!(plugin("task/cgroups"), Some(CheckState::Missing));
    let last = conf(&[("constraindevices", "yes"), ("constraindevices", "NO")]);
    assert_eq!(
        state("slurm.constrain-devices", |_, setup| setup.slurm.cgroup_conf = last),
        Some(CheckState::Missing)
    );
}

/// Make sure that what may be set again in a file that was not read is unknown, and that
/// what is set behind it is not.
#[test]
fn unread_files() {
    let plugin = |values: &[(&str, &str)]| {
        let values = conf(values);
        state("slurm.task-plugin", move |_, setup| setup.slurm.slurm_conf = values)
    };
    let (set, include) = (("taskplugin", "task/cgroup"), ("include", "x"));
    assert_eq!(plugin(&[set, include]), Some(CheckState::Unknown));
    assert_eq!(plugin(&[include, set]), Some(CheckState::Ok));
}

/// Make sure that Slurm's words for yes and no are known.
#[test]
fn yes_and_no() {
    let on = |word: &'static str| {
        state("slurm.constrain-devices", move |_, setup| {
            setup.slurm.cgroup_conf = conf(&[("constraindevices", word)]);
        })
    };
    for word in ["yes", "TRUE", "up", "1"] {
        assert_eq!(on(word), Some(CheckState::Ok), "{word}");
    }
    for word in ["no", "False", "down", "0", "2", ""] {
        assert_eq!(on(word), Some(CheckState::Missing), "{word}");
    }
}

/// Make sure that nothing is said of processes that gpumap cannot see, and that what it
/// sees all the same is said.
#[test]
fn hidden_processes() {
    type Change = fn(&mut Setup);
    let hidden: [Change; 3] = [
        |setup| setup.rights.foreign_namespaces = vec!["pid".to_owned()],
        |setup| {
            (setup.hidepid, setup.rights.capabilities) =
                (Some("invisible".to_owned()), Answer::Known(Vec::new()));
        },
        |setup| setup.software = no(),
    ];
    for change in hidden {
        let (id, check) =
            ("software.detaching-agents", after("software.detaching-agents", |_, setup| change(setup)));
        assert_eq!(check.map(|check| check.state), Some(CheckState::Unknown), "{id}");
    }
    let seen = |_: &mut Observation, setup: &mut Setup| {
        setup.rights.foreign_namespaces = vec!["pid".to_owned()];
        setup.software = Answer::Known(vec!["system-probe".to_owned()]);
    };
    assert_eq!(state("software.detaching-agents", seen), Some(CheckState::Note));
    let exempt = |_: &mut Observation, setup: &mut Setup| {
        setup.rights.capabilities = Answer::Known(Vec::new());
        (setup.hidepid, setup.hidepid_exempt) = (Some("2".to_owned()), true);
    };
    assert_eq!(state("kernel.hidepid", exempt), Some(CheckState::Note));
    assert_eq!(state("software.detaching-agents", exempt), Some(CheckState::Ok));
}

/// Make sure that a whole hierarchy in a cgroup namespace of one's own is whole: binding
/// it there is what the check advises.
#[test]
fn whole_hierarchy() {
    let bound = |_: &mut Observation, setup: &mut Setup| {
        setup.rights.foreign_namespaces = vec!["cgroup".to_owned()];
        setup.cgroup2[0].root = "/../..".to_owned();
        setup.whole_hierarchy = Some(true);
    };
    assert_eq!(state("cgroup.root", bound), Some(CheckState::Ok));
}

/// Make sure that a file which PATH finds in place of this one is named.
#[test]
fn another_file() {
    let other = |_: &mut Observation, setup: &mut Setup| {
        let path_finds = Some("/opt/gpumap".to_owned());
        setup.own_file = Answer::Known(OwnFile { mode: 0o755, path_finds, ..OwnFile::default() });
    };
    let check = after("gpumap.path", other).unwrap();
    assert!(check.state == CheckState::Note && check.found.contains("/opt/gpumap"), "{check:?}");
    assert_eq!(state("gpumap.path", |_, _| {}), None);
}

/// Make sure that advice fits: nobody is sent to root who is it, nor to a newer kernel for
/// want of rights.
#[test]
fn advice() {
    let slow = |setup: &mut Setup| {
        setup.trials[0].refused = Some("why".to_owned());
    };
    let fix = |change: fn(&mut Setup)| {
        let change = |_: &mut Observation, setup: &mut Setup| {
            slow(setup);
            change(setup);
        };
        after("engine.processes", change).unwrap().fix.unwrap()
    };
    assert!(fix(|setup| setup.rights.capabilities = Answer::Known(Vec::new())).contains("as root"));
    assert!(fix(|_| {}).contains("newer kernel"));
    assert!(fix(|setup| setup.btf = no()).contains("kernel.btf"));
    let symbols = after("kernel.symbols", |_, setup| {
        setup.symbols = Answer::Known(false);
        setup.rights.capabilities = Answer::Known(vec!["CAP_SYSLOG".to_owned()]);
    });
    assert!(symbols.unwrap().fix.unwrap().contains("user namespace"));
}

/// Make sure that nothing of a site is left in a redacted answer, whether a fact has it
/// or the reason why a fact is missing.
#[test]
fn redacted() {
    let secret = "s3cret";
    let place = format!("/srv/{secret}");
    let why = || format!("{place}/a b {secret}: no such file");
    let (mut observation, mut setup) = whole();
    observation.host.name = format!("{secret}.example.org");
    observation.host.boot_id = secret.to_owned();
    observation.host.slurm_cluster = Some(secret.to_owned());
    observation.host.cgroup_root = place.clone();
    observation.errors =
        vec![Problem { code: ProblemCode::Unreadable, what: place.clone(), why: why(), needs: why() }];
    setup.hierarchy = Answer::Known(place.clone());
    setup.cgroup2 = vec![CgroupMount { point: place.clone(), root: format!("/{secret}"), hidden: true }];
    setup.devices_v1 = Some(place.clone());
    setup.libraries =
        vec![format!("/usr/local/{secret}/libcuda.so.1"), format!("/lib-{secret}/libcuda.so.1")];
    setup.own_file = Answer::Known(OwnFile {
        path: format!("/home/{secret}/gpumap"),
        open_directory: Some(format!("/home/{secret}")),
        path_finds: Some(format!("/opt/{secret}/gpumap")),
        ..OwnFile::default()
    });
    setup.trials[0].refused = Some(why());
    setup.slurm.slurm_conf = conf(&[("include", secret), ("clustername", secret)]);
    setup.slurm.cgroup_conf = conf(&[("include", secret)])
        .map(|file| SlurmFile { path: format!("/etc/slurm-{secret}/cgroup.conf"), ..file });
    setup.slurm.gres_conf = Some(SlurmFile { path: place.clone(), values: Answer::Missing(why()) });
    let version = Answer::Missing(why());
    setup.slurm.plugins = vec![SlurmPlugins { directory: format!("/opt/slurm/{secret}"), version }];
    let without = |observation: &Observation, setup: &Setup| {
        let (mut observation, mut setup) = (observation.clone(), setup.clone());
        redact(&mut observation, &mut setup);
        let payload = examine(&observation, &setup);
        for text in [
            serde_json::to_string(&payload).unwrap(),
            serde_json::to_string(&observation).unwrap(),
            serde_json::to_string(&setup).unwrap(),
        ] {
            assert!(!text.contains(secret), "{text}");
        }
    };
    without(&observation, &setup);
    setup.rights.capabilities = Answer::Missing(why());
    setup.settings.insert("/proc/sys/kernel/x".to_owned(), Answer::Missing(why()));
    (setup.btf, setup.queries) = (Answer::Missing(why()), Answer::Missing(why()));
    (setup.symbols, setup.clock_synchronized) = (Answer::Missing(why()), Answer::Missing(why()));
    (setup.hierarchy, setup.software) = (Answer::Missing(why()), Answer::Missing(why()));
    setup.own_file = Answer::Missing(why());
    without(&observation, &setup);
}

/// Make sure that what is the same on every node stays in a redacted answer.
#[test]
fn not_redacted() {
    let (mut observation, mut setup) = whole();
    setup.hierarchy = Answer::Known("/sys/fs/cgroup/unified".to_owned());
    setup.libraries =
        ["/usr/lib/x86_64-linux-gnu/libcuda.so.1", "/opt/site/libcuda.so.1"].map(str::to_owned).into();
    setup.btf = Answer::Missing("/sys/kernel/btf/vmlinux: no such file or directory".to_owned());
    setup.trials[0].refused = Some("no fanotify/inotify here: EPERM".to_owned());
    redact(&mut observation, &mut setup);
    let text = serde_json::to_string(&setup).unwrap();
    for part in [
        "\"/sys/fs/cgroup/unified\"",
        "\"/usr/lib/x86_64-linux-gnu/libcuda.so.1\"",
        "\"(redacted)/libcuda.so.1\"",
        "/sys/kernel/btf/vmlinux: no such file or directory",
        "no fanotify/inotify here: EPERM",
        "\"/usr/bin/gpumap\"",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
}

/// Make sure that ids are unique, that each names its part, and that each has a page.
#[test]
fn ids() {
    let mut ids: Vec<&str> = kinds().map(|kind| kind.id).collect();
    ids.sort_unstable();
    let count = ids.len();
    ids.dedup();
    assert_eq!(ids.len(), count);
    assert!(kinds().all(|kind| kind.id.split('.').count() == 2 && kind.page.ends_with('.')));
}
