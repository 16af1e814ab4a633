//! What one policy says of every GPU, MIG instance and shared node.

use crate::gpu::SharedNode;
use crate::model::{Device, DeviceType, Request, RequestSet, Verdict};
use crate::policy::{Decoder, Policy};
use crate::report::{Gpu, GpuVerdict, InstanceVerdict, MigInstance};
use crate::visible::{GpuAccess, OpenableGpus, SharedAccess};

/// The verdicts of a policy on the node's GPUs.
#[derive(Clone, Debug, Default)]
pub(super) struct GpuVerdicts {
    /// For answers, in inventory order.
    pub(super) verdicts: Vec<GpuVerdict>,
    /// For the meaning of variables.
    pub(super) reach: OpenableGpus,
}

impl GpuVerdicts {
    pub(super) fn new(gpus: &[Gpu], shared: &[SharedNode], policy: Policy, decoder: &Decoder) -> Self {
        let verdicts = gpu_verdicts(gpus, policy, decoder);
        let access = |verdict: &GpuVerdict| GpuAccess {
            verdict: verdict.verdict,
            instances: verdict.instances.iter().map(|instance| instance.verdict).collect(),
        };
        let node = |node: &SharedNode| SharedAccess {
            role: node.role.clone(),
            needed: node.needed,
            verdict: decoder.verdict(policy, char(node.major, node.minor), Request::ReadWrite),
        };
        let reach = OpenableGpus {
            gpus: verdicts.iter().map(access).collect(),
            shared: shared.iter().map(node).collect(),
        };
        Self { verdicts, reach }
    }
}

/// Asks a policy about every GPU.
pub(super) fn gpu_verdicts(gpus: &[Gpu], policy: Policy, decoder: &Decoder) -> Vec<GpuVerdict> {
    gpus.iter().map(|gpu| gpu_verdict(gpu, policy, decoder)).collect()
}

fn gpu_verdict(gpu: &Gpu, policy: Policy, decoder: &Decoder) -> GpuVerdict {
    let mut verdict =
        GpuVerdict { gpu: gpu.key.clone(), major: gpu.major, minor: gpu.minor, ..GpuVerdict::default() };
    let (Some(major), Some(minor)) = (gpu.major, gpu.minor) else {
        verdict.instances = instances(gpu, Verdict::Deny, policy, decoder);
        let why = if gpu.excluded {
            "the driver excludes it: it has no device node"
        } else {
            "it has no device node"
        };
        verdict.verdict = Verdict::Deny;
        verdict.why = Some(why.to_owned());
        return verdict;
    };
    let device = char(major, minor);
    let answer = decoder.verdict(policy, device, Request::ReadWrite);
    let allowed = |request: &Request| decoder.verdict(policy, device, *request) == Verdict::Allow;
    let requests: RequestSet = Request::ALL.into_iter().filter(allowed).collect();
    verdict.verdict = answer;
    verdict.requests = requests.to_string();
    verdict.instances = instances(gpu, answer, policy, decoder);
    if answer == Verdict::Unknown {
        verdict.why = Some(decoder.why(policy, device, Request::ReadWrite).join("; "));
    }
    verdict
}

fn instances(gpu: &Gpu, answer: Verdict, policy: Policy, decoder: &Decoder) -> Vec<InstanceVerdict> {
    let verdict = |part: &MigInstance| InstanceVerdict {
        instance: part.key(gpu),
        verdict: of_instance(part, answer, policy, decoder),
    };
    gpu.mig.iter().map(verdict).collect()
}

/// An instance takes its GPU and the capabilities of both levels, which are
/// opened for reading.
fn of_instance(instance: &MigInstance, gpu: Verdict, policy: Policy, decoder: &Decoder) -> Verdict {
    let capability = |minor: Option<u32>| match (instance.major, minor) {
        (Some(major), Some(minor)) => decoder.verdict(policy, char(major, minor), Request::Read),
        _ => Verdict::Unknown,
    };
    let compute = if instance.ci.is_some() { capability(instance.ci_minor) } else { Verdict::Allow };
    let all = [gpu, capability(instance.gi_minor), compute];
    if all.contains(&Verdict::Deny) {
        Verdict::Deny
    } else if all.contains(&Verdict::Unknown) {
        Verdict::Unknown
    } else {
        Verdict::Allow
    }
}

fn char(major: u32, minor: u32) -> Device {
    Device { kind: DeviceType::Char, major, minor }
}
