//! Names of pods. kubelet makes a directory for the logs of each pod, and calls it
//! `NAMESPACE_NAME_UID` (`BuildPodLogsDirectory`, since Kubernetes 1.14); a name of
//! Kubernetes has no underscore.

use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use super::problems::Log;
use super::slurm_places::below;
use crate::observation::PodName;
use crate::sys::dir::Dir;

/// Where they are.
const LOGS: &str = "/var/log/pods";
/// Pods that are named; a node has some hundreds at most.
const PODS: usize = 4096;

/// The names below `root`. A directory that somebody else than root owns names none.
pub(super) fn collect(root: &Path, log: &mut Log) -> Vec<PodName> {
    let place = below(root, Path::new(LOGS));
    let listed = Dir::open(&place).and_then(|directory| {
        let mut found = Vec::new();
        if directory.stat()?.uid == 0 {
            directory.names(|name| {
                // Kubernetes gives no other names.
                found.extend(std::str::from_utf8(name.as_bytes()).ok().and_then(named));
                found.len() < PODS
            })?;
        }
        Ok(found)
    });
    // None is there on a node without Kubernetes.
    let mut found: Vec<PodName> = log.there(place.to_string_lossy(), listed).unwrap_or_default();
    found.sort();
    found
}

fn named(directory: &str) -> Option<PodName> {
    let mut parts = directory.splitn(3, '_').map(str::to_owned);
    let (namespace, name, uid) = (parts.next()?, parts.next()?, parts.next()?);
    let is_name = |text: &str| {
        !text.is_empty() && text.bytes().all(|c| c.is_ascii_alphanumeric() || b"-.".contains(&c))
    };
    let are_names = [&namespace, &name, &uid].into_iter().all(|text| is_name(text));
    are_names.then_some(PodName { namespace, name, uid })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Make sure that names are those of Kubernetes, and that anything else names no pod.
    #[test]
    fn names() {
        let pod = named("kube-system_etcd-n1_0d3c7a52-6a52-4c1e-9a3e-3f5f1f6f0b11").unwrap();
        assert_eq!((pod.namespace.as_str(), pod.name.as_str()), ("kube-system", "etcd-n1"));
        assert_eq!(pod.uid, "0d3c7a52-6a52-4c1e-9a3e-3f5f1f6f0b11");
        for other in ["a_b", "a_b_", "_b_c", "a_b_c_d", "a_b\u{1b}_c", "lost+found"] {
            assert_eq!(named(other), None, "{other}");
        }
    }
}
