//! Device programs: how they are attached, and which software writes them.

open_words! {
    /// How a program is attached to a cgroup.
    pub enum AttachFlag {
        /// A link holds it.
        Link,
        /// Programs of lower cgroups run as well as this one
        /// (`BPF_F_ALLOW_MULTI`).
        #[default]
        Multi,
        /// A program of a lower cgroup runs instead of this one
        /// (`BPF_F_ALLOW_OVERRIDE`).
        Override,
        /// It runs before those of lower cgroups (`BPF_F_PREORDER`).
        Preorder,
    }
}

open_words! {
    /// The software whose programs have this shape. It is a label for people, and no
    /// proof.
    pub enum Writer {
        /// containerd, or runc before it wrote programs as it does now.
        #[serde(rename = "containerd or an old runc")]
        #[strum(serialize = "containerd or an old runc")]
        Containerd,
        /// CraneSched.
        #[serde(rename = "CraneSched")]
        #[strum(serialize = "CraneSched")]
        Crane,
        /// crun.
        Crun,
        /// crun before 0.19.
        #[serde(rename = "crun before 0.19")]
        #[strum(serialize = "crun before 0.19")]
        OldCrun,
        /// `gpumap repair --apply`.
        #[serde(rename = "gpumap repair")]
        #[strum(serialize = "gpumap repair")]
        Gpumap,
        /// HTCondor.
        #[serde(rename = "HTCondor")]
        #[strum(serialize = "HTCondor")]
        Htcondor,
        /// libvirt.
        Libvirt,
        /// LXC.
        #[serde(rename = "LXC")]
        #[strum(serialize = "LXC")]
        Lxc,
        /// NVIDIA's container toolkit.
        #[serde(rename = "NVIDIA container toolkit")]
        #[strum(serialize = "NVIDIA container toolkit")]
        NvidiaToolkit,
        /// OAR.
        #[serde(rename = "OAR")]
        #[strum(serialize = "OAR")]
        Oar,
        /// runc or youki, which write the same.
        #[serde(rename = "runc or youki")]
        #[strum(serialize = "runc or youki")]
        Runc,
        /// runc before 1.0.0-rc94.
        #[serde(rename = "runc before 1.0.0-rc94")]
        #[strum(serialize = "runc before 1.0.0-rc94")]
        OldRunc,
        /// Slurm.
        #[serde(rename = "Slurm")]
        #[strum(serialize = "Slurm")]
        #[default]
        Slurm,
        /// systemd.
        Systemd,
    }
}
