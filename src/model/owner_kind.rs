//! Kinds of owners, and what is known of each.

open_words! {
    /// The kind of an owner of cgroups: a job of a scheduler, a container, a
    /// service; in the order of the words.
    pub enum OwnerKind {
        /// A container of Apptainer.
        Apptainer,
        /// A path without a known owner.
        #[default]
        Cgroup,
        /// A container of containerd.
        Containerd,
        /// A job of CraneSched.
        Crane,
        /// A container of CRI-O.
        CriO,
        /// A container of Docker.
        Docker,
        /// A job of Flux.
        Flux,
        /// A slot of HTCondor.
        Htcondor,
        /// A virtual machine or container of libvirt.
        Libvirt,
        /// A container of LXC.
        Lxc,
        /// A container of nerdctl.
        Nerdctl,
        /// A job of OAR.
        Oar,
        /// A job of ParaStation.
        Parastation,
        /// A job of PBS.
        Pbs,
        /// A pod of Kubernetes.
        Pod,
        /// A container of Podman.
        Podman,
        /// A login session.
        Session,
        /// A job of Slurm.
        Slurm,
        /// A unit of systemd.
        Unit,
        /// A user's own systemd.
        User,
    }
}

impl OwnerKind {
    /// Whether it is a job of a scheduler.
    pub fn is_job(&self) -> bool {
        use OwnerKind::{Crane, Flux, Htcondor, Oar, Parastation, Pbs, Slurm};
        matches!(self, Slurm | Parastation | Crane | Oar | Pbs | Flux | Htcondor)
    }

    /// Whether its jobs have Slurm's numbers, variables and cgroups: ParaStation
    /// takes the place of slurmd alone.
    pub fn is_slurm(&self) -> bool {
        matches!(self, Self::Slurm | Self::Parastation)
    }

    /// Whether its scheduler writes device programs by records of its own, and would not
    /// know of one that gpumap puts in their place.
    pub fn has_recorded_limits(&self) -> bool {
        matches!(self, Self::Htcondor | Self::Crane | Self::Oar | Self::Parastation)
    }

    /// Whether it is a container or pod whose engine decides about devices.
    pub fn is_container(&self) -> bool {
        use OwnerKind::{Containerd, CriO, Docker, Nerdctl, Pod, Podman};
        matches!(self, Docker | Containerd | Nerdctl | CriO | Podman | Pod)
    }

    /// Whether it is part of the machine itself, to which no GPUs are allocated.
    pub fn is_service(&self) -> bool {
        matches!(self, Self::Unit | Self::Session | Self::User | Self::Cgroup)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Make sure that words and kinds are one to one, for JSON too.
    #[test]
    fn words() {
        for word in ["slurm", "cri-o", "htcondor", "cgroup", "something-new"] {
            let kind = OwnerKind::of(word);
            assert_eq!(kind.to_string(), word);
            assert_eq!(serde_json::to_string(&kind).unwrap(), format!("\"{word}\""));
            assert_eq!(serde_json::from_str::<OwnerKind>(&format!("\"{word}\"")).unwrap(), kind);
        }
        assert_eq!(OwnerKind::of("cri-o"), OwnerKind::CriO);
        assert_eq!(OwnerKind::of("zorro"), OwnerKind::Other("zorro".to_owned()));
    }
}
