//! Tests that cannot run on this machine. Each says why where it stands; when its binary
//! ends, all are listed once more and counted.
//!
//! With `GPUMAP_REQUIRE_ROOT=1`, as in CI, a skip is a failure, except for the tests that
//! `.ci/skips` names.

use std::io::Write as _;
use std::sync::Mutex;

use super::wait::is_emulated;

/// The tests that may be skipped, a line each: binary, test, reason.
const ALLOWED: &str = include_str!("../../.ci/skips");

/// The tests that were skipped, and why.
static SKIPPED: Mutex<Vec<(String, String)>> = Mutex::new(Vec::new());

/// Says why a test does nothing, or not all that it could.
pub fn skip(why: &str) {
    let thread = std::thread::current();
    let test = thread.name().unwrap_or("a thread").to_owned();
    let is_required = std::env::var_os("GPUMAP_REQUIRE_ROOT").is_some_and(|value| value == "1");
    assert!(!is_required || is_allowed(&test), "GPUMAP_REQUIRE_ROOT=1, but {why}");
    note(test, why);
}

/// The same for what the running kernel is too old for, which its release tells.
pub fn too_old(why: &str) {
    let thread = std::thread::current();
    note(thread.name().unwrap_or("a thread").to_owned(), why);
}

/// The same for what is fetched from elsewhere: an emulated machine has no network.
pub fn unreachable(why: &str) {
    if !is_emulated() {
        return skip(why);
    }
    let thread = std::thread::current();
    note(thread.name().unwrap_or("a thread").to_owned(), why);
}

/// Whether a test is named, by itself or by its module.
fn is_allowed(test: &str) -> bool {
    let lines = ALLOWED.lines().filter(|line| !line.starts_with('#'));
    let mut named = lines.filter_map(|line| {
        let mut words = line.split_whitespace();
        (words.next()? == env!("CARGO_CRATE_NAME")).then(|| words.next()).flatten()
    });
    named.any(|name| test == name || name.ends_with("::") && test.starts_with(name))
}

fn note(test: String, why: &str) {
    eprintln!("skipped: {why}");
    let mut skipped = SKIPPED.lock().unwrap();
    if skipped.is_empty() {
        // SAFETY: the function takes nothing, and touches what lives as long as the process.
        assert_eq!(unsafe { libc::atexit(list) }, 0);
    }
    skipped.push((test, why.to_owned()));
}

/// Lists them behind the result, which libtest prints last.
extern "C" fn list() {
    let Ok(skipped) = SKIPPED.lock() else { return };
    let mut text = format!("\nnot tested in `{}`: {}\n", env!("CARGO_CRATE_NAME"), skipped.len());
    for (test, why) in skipped.iter() {
        text.push_str(&format!("    {test}: {why}\n"));
    }
    // Past libtest, which would keep it.
    let _nobody_reads_it = std::io::stderr().write_all(text.as_bytes());
}
