//! Variables of the environment by which tests change what gpumap does (docs/testing.md
//! lists them). They are read in development builds, and in those with the feature
//! `test-hooks`: root's gpumap, which packages bring, looks at none of them.

use std::ffi::OsString;
use std::time::Duration;

/// What a test wants, if this build listens to tests.
#[must_use]
pub fn read(variable: &str) -> Option<OsString> {
    if cfg!(any(debug_assertions, feature = "test-hooks")) { std::env::var_os(variable) } else { None }
}

/// A time limit; on an emulated machine, for tests, as many times that as the machine is slower
/// (`GPUMAP_TEST_SLOWER`).
#[must_use]
pub fn scaled(limit: Duration) -> Duration {
    let slower = read("GPUMAP_TEST_SLOWER").and_then(|slower| slower.to_str()?.parse().ok());
    limit.saturating_mul(slower.unwrap_or(1))
}
