//! Reads job numbers from slurmstepd: the title it gives itself and the name of the
//! socket it listens on. Both contain the number that a SLUID hides.

use super::path_name::number;

/// The job of `slurmstepd: [JOB.STEP]`, which may say `stepmgr` too (set in
/// src/slurmd/slurmstepd/slurmstepd.c).
pub(crate) fn job_of_title(title: &[u8]) -> Option<u64> {
    let title = title.split(|byte| *byte == 0).next()?;
    let inside = title.strip_prefix(b"slurmstepd: [")?;
    let mut parts = inside.splitn(2, |byte| *byte == b']');
    let (inside, rest) = (parts.next()?, parts.next()?);
    let known = |rest: &[u8]| matches!(rest.trim_ascii(), b"" | b"stepmgr");
    let inside = inside.strip_suffix(b" stepmgr").unwrap_or(inside);
    let dot = inside.iter().position(|byte| *byte == b'.')?;
    let (job, step) = (inside.get(..dot)?, inside.get(dot + 1..)?);
    let step = !step.is_empty() && step.iter().all(|byte| byte.is_ascii_alphanumeric() || *byte == b'+');
    (step && known(rest)).then(|| number(job)).flatten()
}

/// The job of a socket's file name, `NODE_JOB.STEP[.HET]`
/// (src/common/stepd_api.c). A node name may hold `_` and dots.
pub(crate) fn job_of_socket(name: &[u8]) -> Option<u64> {
    let underscore = name.iter().rposition(|byte| *byte == b'_').filter(|at| *at > 0)?;
    let mut numbers = name.get(underscore + 1..)?.split(|byte| *byte == b'.').map(number);
    let (job, _step) = (numbers.next()??, numbers.next()??);
    match numbers.next() {
        Some(None) => None,
        Some(Some(_)) if numbers.next().is_some() => None,
        _ => Some(job),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Make sure that every form of the title is read, and no other text.
    #[test]
    fn titles() {
        for good in [
            "slurmstepd: [3385.0]",
            "slurmstepd: [3385.extern]",
            "slurmstepd: [3385.batch] stepmgr",
            "slurmstepd: [3385.extern stepmgr]",
            "slurmstepd: [3385.0+1]  ",
            "slurmstepd: [3385.0]\0\0",
        ] {
            assert_eq!(job_of_title(good.as_bytes()), Some(3385), "{good}");
        }
        for bad in [
            "slurmstepd: [3385]",
            "slurmstepd: [.0]",
            "slurmstepd: [3385.]",
            "slurmstepd: [3385.0",
            "slurmstepd: [3385.0] more",
            "slurmstepd: [99999999999999999999.0]",
            "/usr/sbin/slurmstepd infinity",
            "x slurmstepd: [3385.0]",
            "slurmstepd: [1_2.0]",
            "",
        ] {
            assert_eq!(job_of_title(bad.as_bytes()), None, "{bad}");
        }
    }

    /// Make sure that node names with underscores and dots do not mislead.
    #[test]
    fn sockets() {
        for (name, job) in [
            ("n1_3385.0", Some(3385)),
            ("gpu_node_7_3385.4294967292", Some(3385)),
            ("n1.site_3385.0.1", Some(3385)),
            ("n1_3385", None),
            ("n1_3385.x", None),
            ("n1_3385.0.x", None),
            ("n1_3385.0.1.2", None),
            ("_3385.0", None),
            ("3385.0", None),
            ("", None),
        ] {
            assert_eq!(job_of_socket(name.as_bytes()), job, "{name}");
        }
    }
}
