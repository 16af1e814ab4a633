//! Languages whose runtimes change the environment in ways of their own.

use gpumap::model::EventKind;
use gpumap::report::Event;

use super::{CUDA, host_with};
use crate::support::watching::{Place, Watch, changes};

/// Make sure that JavaScript's ways are seen, and that a worker thread, whose
/// `process.env` is a copy, is not said to change anything.
#[test]
fn node() {
    let Some(host) = host_with(&["node"]) else { return };
    let place = Place::new(&host);
    let watch = Watch::start(&["--cgroup", place.cgroup.to_str().unwrap()]);
    let script = "
        const { Worker } = require('worker_threads');
        process.env.OTHER = '1';
        process.env.CUDA_VISIBLE_DEVICES = '1';
        process.env['CUDA_VISIBLE_DEVICES'] = [2, 3];
        process.env.HIP_VISIBLE_DEVICES = '';
        const worker = new Worker(`process.env.CUDA_VISIBLE_DEVICES = '9'`, { eval: true });
        worker.on('exit', () => {
            delete process.env.CUDA_VISIBLE_DEVICES;
            delete process.env.NEVER_SET;
        });";
    let events = watch.run(&mut place.command(&["node", "-e", script]));
    let expected = [
        ("setenv", CUDA, "1"),
        ("setenv", CUDA, "2,3"),
        ("setenv", "HIP_VISIBLE_DEVICES", "empty"),
        ("unsetenv", CUDA, "unset"),
    ];
    let expected = expected.map(|(how, name, value)| (how.to_owned(), name.to_owned(), value.to_owned()));
    assert_eq!(changes(&events), expected);
    let old: Vec<_> = events.iter().filter_map(|event| event.old.as_ref()?.raw.clone()).collect();
    assert_eq!(old, ["0", "1", "2,3"]);
}

/// Make sure that the variables of a shell, which keeps a table of its own, are
/// seen in the programs that it starts; bash makes them its environment then,
/// which is found in memory, dash never does.
#[test]
fn shells() {
    let Some(host) = host_with(&["dash", "bash"]) else { return };
    let place = Place::new(&host);
    let watch = Watch::start(&["--cgroup", place.cgroup.to_str().unwrap()]);
    let found = ("memory".to_owned(), CUDA.to_owned(), "7".to_owned());
    for (shell, expected) in [("dash", vec![]), ("bash", vec![found])] {
        // Long enough to be read again.
        let script = "export CUDA_VISIBLE_DEVICES=7; sleep 2; true";
        let events = watch.run(&mut place.command(&[shell, "-c", script]));
        assert_eq!(changes(&events), expected);
        let own = |event: &Event| event.process.as_ref().unwrap().comm == shell;
        assert!(events.iter().filter(|event| event.event == EventKind::Visible).all(own));
        let executed = events.iter().filter(|event| event.event == EventKind::Process);
        let value = |event: &Event| event.asked.as_ref().unwrap().variables[0].value.clone();
        assert_eq!(
            executed.map(|event| (own(event), value(event))).collect::<Vec<_>>(),
            [(true, "0".to_owned()), (false, "7".to_owned())]
        );
    }
}
