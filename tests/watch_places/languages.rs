//! Languages whose runtimes change the environment in ways of their own.

use super::watching::{Place, Watch, changes};
use super::{CUDA, mount};

/// Make sure that JavaScript's ways are seen, and that a worker thread, whose
/// `process.env` is a copy, is not said to change anything.
#[test]
fn node() {
    let Some(mount) = mount(&["node"]) else { return };
    let place = Place::new(&mount);
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
