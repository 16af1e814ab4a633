use std::fs::File;

use super::*;

fn open(path: &str) -> Windowed {
    let file = File::open(path).unwrap();
    let size = file.metadata().unwrap().len();
    Windowed::new(file, size)
}

/// Make sure that functions of a library are found and nothing else is.
#[test]
fn own_libc() {
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    let libc =
        maps.lines().find_map(|line| Some(&line[line.find('/')?..]).filter(|path| path.contains("/libc.so")));
    let Some(libc) = libc else { return };
    let found = functions(open(libc), &["setenv", "unsetenv", "no_such_function"], false).unwrap();
    assert_eq!(found.len(), 2, "{found:?}");
    assert!(found.iter().all(|(_, offset)| *offset > 0));
    assert!(functions(open("/proc/self/cmdline"), &["setenv"], false).is_err());
}
