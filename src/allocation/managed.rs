//! Which GPUs of a node Slurm has in its list, whatever numbers they have there: the
//! devices that its programs deny to jobs without them.

use super::gres::{self, AutoDetect, Names};
use super::order::gate;
use crate::model::{GpuKey, Vendor};
use crate::report::Gpu;

/// What `gres.conf` makes of a node's GPUs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Managed {
    /// Keys of the GPUs in Slurm's list, or of which a part is.
    pub keys: Vec<GpuKey>,
    /// The value of AutoDetect that is in force for this node, unless it is off.
    pub detect: Option<&'static str>,
    /// Files of this node's lines that open no GPU of the inventory.
    pub strange: Vec<String>,
    /// The number of a line that has GPUs and no `File`, where nothing detects them.
    pub without_file: Option<usize>,
    /// Lines that list GPUs for this node.
    pub lines: usize,
}

/// Reads `gres.conf` for the node with this host name; `is_sure` says that Slurm calls it
/// so.
///
/// # Errors
///
/// A line that Slurm refuses or that is not understood; lines for other nodes alone.
pub fn managed(text: &str, host: &str, is_sure: bool, gpus: &[Gpu]) -> Result<Managed, String> {
    let gres = gres::read(text, &Names { sure: is_sure, ..Names::of_host(host) })?;
    let finds: Option<(&'static str, Vendor)> = match gres.detect {
        AutoDetect::Off => None,
        AutoDetect::Nvml => Some(("nvml", Vendor::Nvidia)),
        AutoDetect::Nvidia => Some(("nvidia", Vendor::Nvidia)),
        AutoDetect::Rsmi => Some(("rsmi", Vendor::Amd)),
        AutoDetect::Oneapi => Some(("oneapi", Vendor::Intel)),
    };
    let files: Vec<&String> = gres.listed.iter().flat_map(|listed| listed.files.iter().flatten()).collect();
    let is_listed = |gpu: &Gpu| match &finds {
        Some((_, vendor)) if gpu.vendor != *vendor || gpu.excluded => false,
        // Lines without files take what is found.
        Some(_) if files.is_empty() => true,
        _ => files.iter().any(|file| gate(gpu, file)),
    };
    // A MIG instance is a GPU's node with those of capabilities.
    let is_strange =
        |file: &&&String| !gpus.iter().any(|gpu| gpu.nodes.iter().any(|node| node.path == ***file));
    let without_file = gres.listed.iter().find(|listed| listed.files.is_empty()).map(|listed| listed.line);
    Ok(Managed {
        keys: gpus.iter().filter(|gpu| is_listed(gpu)).map(|gpu| gpu.key.clone()).collect(),
        strange: files
            .iter()
            .filter(|file| !file.starts_with("/dev/nvidia-caps/"))
            .filter(is_strange)
            .map(|file| (*file).clone())
            .collect(),
        without_file: without_file.filter(|_| finds.is_none()),
        lines: gres.listed.len(),
        detect: finds.map(|(word, _)| word),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::GpuNode;

    fn gpu(minor: u32, vendor: Vendor) -> Gpu {
        let node = GpuNode { path: format!("/dev/nvidia{minor}"), gate: true, ..GpuNode::default() };
        Gpu { key: format!("G{minor}").into(), vendor, nodes: vec![node], ..Gpu::default() }
    }

    /// Make sure that a GPU is in Slurm's list where its node, or a part of it, is named
    /// for this node, or where it is detected, and nowhere else.
    #[test]
    fn lists() {
        let gpus = [gpu(0, Vendor::Nvidia), gpu(1, Vendor::Nvidia), gpu(2, Vendor::Amd)];
        let of = |text: &str| managed(text, "n1.example.org", true, &gpus).unwrap();
        for (text, expected) in [
            ("Name=gpu File=/dev/nvidia[0-2]", "G0 G1 G2"),
            ("Name=gpu File=/dev/nvidia1", "G1"),
            ("NodeName=n[2-9] Name=gpu File=/dev/nvidia[0-2]", ""),
            ("NodeName=n[1-2] Name=gpu File=/dev/nvidia0\nNodeName=n2 Name=gpu File=/dev/nvidia1", "G0"),
            ("Name=gpu MultipleFiles=/dev/nvidia1,/dev/nvidia-caps/nvidia-cap21", "G1"),
            ("AutoDetect=nvml", "G0 G1"),
            ("AutoDetect=rsmi\nNodeName=n2 AutoDetect=nvml", "G2"),
            ("AutoDetect=nvml\nName=gpu File=/dev/nvidia1", "G1"),
            ("Name=gpu Count=3", ""),
            ("Name=shard Count=8", ""),
        ] {
            let keys: Vec<String> = of(text).keys.iter().map(ToString::to_string).collect();
            assert_eq!(keys.join(" "), expected, "{text}");
        }
        assert_eq!(of("Name=gpu Count=3").without_file, Some(1));
        assert_eq!(of("AutoDetect=nvml\nName=gpu Count=2").without_file, None);
        let strange = of("Name=gpu MultipleFiles=/dev/nvidia9,/dev/nvidia-caps/nvidia-cap21").strange;
        assert_eq!(strange, ["/dev/nvidia9"]);
        assert!(managed("NodeName=x Name=gpu File=/dev/nvidia0", "n1", false, &gpus).is_err());
    }
}
