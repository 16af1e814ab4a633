//! Which tests can run here.

/// Whether the kernel tests can run; says why not. With `GPUMAP_REQUIRE_ROOT=1`
/// not being able to is a failure.
pub fn available() -> bool {
    let reason = missing();
    if let Some(reason) = &reason {
        assert!(
            std::env::var_os("GPUMAP_REQUIRE_ROOT").is_none_or(|value| value != "1"),
            "GPUMAP_REQUIRE_ROOT=1, but {reason}"
        );
        eprintln!("skipped: {reason}");
    }
    reason.is_none()
}

fn missing() -> Option<String> {
    if !nix::unistd::geteuid().is_root() {
        return Some("not root".into());
    }
    if super::cgroup::mount().is_none() {
        return Some("no cgroup2 mount".into());
    }
    super::bpf::probe().err().map(|error| format!("bpf(2) cannot load a device program: {error}"))
}
