//! Jobs of a Slurm that runs inside a container: claims of the container's own root.
//!
//! The container is the boundary. Its root rules all names inside it, as the node's
//! root rules those of the node: such a job is a job of that container, whatever
//! number it has, and never the node's job of the same number.

use super::scan::DEPTH;
use crate::model::{Owner, OwnerKind};

/// The job that the names inside a container say, with its step and task; `None` if
/// they say none, or if a user of the container could have given the names, as a
/// user's manager or another job inside it can.
#[must_use]
pub fn inner_job(owner: &Owner) -> Option<&Owner> {
    // A longer path lost its first names.
    if !is_boundary(owner) || owner.claims.len() >= DEPTH {
        return None;
    }
    let first = owner.claims.iter().find(|claim| !is_boundary(claim))?;
    let is_job = first.kind.is_slurm() && (first.job_id.is_some() || first.sluid.is_some());
    is_job.then_some(first)
}

/// Whether the names inside it say that a Slurm runs there.
#[must_use]
pub fn runs_slurm(owner: &Owner) -> bool {
    is_boundary(owner) && owner.claims.iter().any(|claim| claim.kind.is_slurm())
}

/// Whether it is a container, pod or machine with a root of its own, which may run a
/// scheduler. What a user starts without root (Apptainer, a user's own podman) is none.
fn is_boundary(owner: &Owner) -> bool {
    owner.part.is_none()
        && (owner.kind.is_container()
            || matches!(owner.kind, OwnerKind::Lxc | OwnerKind::Libvirt | OwnerKind::Nspawn))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::owner::of_path;

    const ID: &str = "b2cc9ba70977facdbc2e895700cff1879d82d58b99f58d33ae5fa28caf9c645e";
    const JOB: &str = "system.slice/slurmstepd.scope/job_12/step_0/user/task_0";

    fn found(path: &str) -> Option<(u64, Option<String>)> {
        let owner = of_path(path.as_bytes())?;
        let job = inner_job(&owner)?;
        Some((job.job_id?, job.step.clone()))
    }

    /// Make sure that a Slurm is found in each kind of container, and its job with
    /// its step.
    #[test]
    fn containers() {
        let pod = "kubepods.slice/kubepods-pod4f5a1b3c_0d2e_4f60_8a1b_2c3d4e5f6071.slice";
        for around in [
            format!("{pod}/cri-containerd-{ID}.scope"),
            format!("{pod}/crio-{ID}.scope"),
            format!("kubepods/pod4f5a1b3c-0d2e-4f60-8a1b-2c3d4e5f6071/{ID}"),
            format!("system.slice/docker-{ID}.scope"),
            format!("docker/{ID}"),
            format!("docker/{ID}/init"),
            format!("machine.slice/libpod-{ID}.scope/container"),
            "lxc.payload.node1".to_owned(),
            "lxc/101/ns".to_owned(),
            "machine.slice/systemd-nspawn@node1.service/payload".to_owned(),
            "machine.slice/machine-node1.scope/payload".to_owned(),
            // A node of kind: a container in a container.
            format!("docker/{ID}/kubelet.slice/kubelet-kubepods.slice/{pod}/cri-containerd-{ID}.scope"),
        ] {
            assert_eq!(found(&format!("/{around}/{JOB}")), Some((12, Some("0".to_owned()))), "{around}");
        }
    }

    /// Make sure that names that a user could have given are no job, on the node and
    /// in a container: those of users' managers, logins, jobs, services.
    #[test]
    fn names_of_users() {
        let user = "user.slice/user-1000.slice/user@1000.service";
        let job = "system.slice/slurmstepd.scope/job_4711/step_0/user/task_0";
        for around in [
            user.to_owned(),
            format!("{user}/user.slice/libpod-{ID}.scope/container"),
            "user.slice/user-1000.slice/session-2.scope".to_owned(),
            job.to_owned(),
            format!("{job}/docker-{ID}.scope"),
            "system.slice/apptainer-1234.scope".to_owned(),
            "system.slice/web.service".to_owned(),
            "a".to_owned(),
            format!("machine.slice/libpod-conmon-{ID}.scope"),
            format!("docker/{ID}/{user}"),
            format!("docker/{ID}/system.slice/web.service"),
        ] {
            assert_eq!(found(&format!("/{around}/{JOB}")), None, "{around}");
        }
        let path = format!("/docker/{ID}/{user}/{}/{JOB}", vec![format!("docker/{ID}"); 40].join("/"));
        assert_eq!(found(&path), None, "a path that is too long to keep its first names");
    }

    /// Make sure that a job inside a job inside a container is no job of the
    /// container's.
    #[test]
    fn nested() {
        let path = format!("/docker/{ID}/{JOB}/slurmstepd.scope/job_13");
        assert_eq!(found(&path), Some((12, Some("0".to_owned()))));
        let owner = of_path(format!("/docker/{ID}/system.slice/slurmstepd.scope").as_bytes()).unwrap();
        assert!(runs_slurm(&owner) && inner_job(&owner).is_none());
    }
}
