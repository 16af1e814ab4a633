//! Combines the answers of all interfaces into that of one environment.

use std::collections::BTreeSet;

use crate::model::{ApiName, Certainty, GpuKey, Vendor, device_variables};
use crate::observation::{Answer, Environment};
use crate::report::{Api, Asked, Gpu, RawVariable};

use super::level_zero::Variables;
use super::outcome::{Chosen, CountedDevice};
use super::population::OpenableGpus;
use super::population::in_both_worlds;
use super::variable::VariableState;
use super::{cuda, level_zero, rocm};

/// CUDA's variable, which HIP reads too.
const CUDA: &str = "CUDA_VISIBLE_DEVICES";

/// Variables that say that a process is a client of an MPS server.
const MPS: [&str; 2] = ["CUDA_MPS_ACTIVE_THREAD_PERCENTAGE", "CUDA_MPS_PIPE_DIRECTORY"];

/// An environment, the GPUs of the node, and what the process may open of them.
struct Question<'a> {
    environment: &'a Answer<Environment>,
    gpus: &'a [Gpu],
    reach: &'a OpenableGpus,
}

/// See [`super::asked`].
pub(super) fn asked(environment: &Answer<Environment>, gpus: &[Gpu], reach: &OpenableGpus) -> Asked {
    let question = Question { environment, gpus, reach };
    let vendors: Vec<Vec<Api>> = [question.nvidia(), question.amd(), question.intel()]
        .into_iter()
        .filter(|apis| !apis.is_empty())
        .collect();
    let mains: Vec<&Api> = vendors.iter().filter_map(|apis| apis.first()).collect();
    let none = question.without_gpus();
    let mains = if mains.is_empty() { vec![&none] } else { mains };
    let first = mains.first().copied().unwrap_or(&none);
    let unsure = mains.iter().rev().max_by_key(|api| api.confidence).copied().unwrap_or(first);
    let gpus: Option<Vec<Vec<GpuKey>>> = mains.iter().map(|api| api.gpus.clone()).collect();
    Asked {
        raw: first.raw.clone(),
        raw_hex: first.raw_hex.clone(),
        raw_unknown: match question.state(&first.variable) {
            VariableState::Unknown(why) if first.gpus.is_some() => Some(why.to_owned()),
            _ => None,
        },
        state: first.state,
        gpus: gpus.map(|gpus| gpus.concat()),
        instances: mains.iter().flat_map(|api| api.instances.clone()).collect(),
        tiles: mains.iter().flat_map(|api| api.tiles.clone()).collect(),
        confidence: unsure.confidence,
        cut: first.cut.clone(),
        why: if unsure.gpus.is_none() { unsure.why.clone() } else { first.why.clone() },
        variables: question.variables(),
        apis: vendors.into_iter().flatten().collect(),
    }
}

impl<'a> Question<'a> {
    /// The state of a variable.
    fn state(&self, name: &str) -> VariableState<'a> {
        VariableState::of(self.environment, name)
    }

    /// Whether the node has a GPU of this vendor.
    fn has(&self, vendor: &Vendor) -> bool {
        self.gpus.iter().any(|gpu| gpu.vendor == *vendor)
    }

    /// The answer on a node without any GPU, where no interface has one: no value
    /// gives a GPU. A value that could not be read stays unknown.
    fn without_gpus(&self) -> Api {
        let outcome = match self.state(CUDA) {
            VariableState::Unknown(why) => Chosen::unknown(why),
            _ => Chosen::none(Certainty::Documented),
        };
        self.api(ApiName::Cuda, CUDA, outcome)
    }

    /// CUDA.
    fn nvidia(&self) -> Vec<Api> {
        if !self.has(&Vendor::Nvidia) {
            return Vec::new();
        }
        let (visible, order) = (self.state(CUDA), self.state("CUDA_DEVICE_ORDER"));
        let outcome = in_both_worlds(&Vendor::Nvidia, self.gpus, self.reach, |world| {
            let found = cuda::resolve(world, visible, order);
            if self.is_renumbered(visible) { cuda::renumbered(found, world) } else { found }
        });
        vec![self.api(ApiName::Cuda, CUDA, outcome)]
    }

    /// Whether an MPS server counts the devices that ordinals name (NVIDIA MPS
    /// documentation, device provisioning).
    fn is_renumbered(&self, visible: VariableState<'_>) -> bool {
        let is_client = MPS.iter().any(|name| self.state(name).is_set());
        is_client && visible.value().is_some_and(|value| cuda::is_ordinal(value.as_bytes()))
    }

    /// HIP, ROCR and OpenCL.
    fn amd(&self) -> Vec<Api> {
        if !self.has(&Vendor::Amd) {
            return Vec::new();
        }
        let rocr = self.state("ROCR_VISIBLE_DEVICES");
        let filtered = in_both_worlds(&Vendor::Amd, self.gpus, self.reach, |world| rocm::rocr(world, rocr));
        let hip = self.relative(ApiName::Hip, self.hip_variable());
        let mut apis = vec![hip, self.api(ApiName::Rocr, "ROCR_VISIBLE_DEVICES", filtered)];
        if self.state("GPU_DEVICE_ORDINAL").is_set() {
            apis.push(self.relative(ApiName::Opencl, "GPU_DEVICE_ORDINAL"));
        }
        apis
    }

    /// The variable that HIP reads: its own, or CUDA's where its own is empty or not set.
    fn hip_variable(&self) -> &'static str {
        let own = "HIP_VISIBLE_DEVICES";
        match (self.state(own), self.state(CUDA)) {
            (VariableState::Unset | VariableState::Empty, VariableState::Value(_))
            | (VariableState::Unset, VariableState::Empty) => CUDA,
            _ => own,
        }
    }

    /// An interface on top of ROCR.
    fn relative(&self, api: ApiName, variable: &str) -> Api {
        let (rocr, visible) = (self.state("ROCR_VISIBLE_DEVICES"), self.state(variable));
        let unseen = matches!((&api, self.state(CUDA)), (ApiName::Hip, VariableState::Unknown(_)));
        let visible = match (visible, self.state(CUDA)) {
            (VariableState::Unset | VariableState::Empty, unknown @ VariableState::Unknown(_)) if unseen => {
                unknown
            }
            _ => visible,
        };
        let outcome = in_both_worlds(&Vendor::Amd, self.gpus, self.reach, |world| {
            rocm::relative(world, &rocm::rocr(world, rocr), visible)
        });
        let outcome = match visible {
            VariableState::Empty if outcome.why.is_none() => {
                outcome.with_why("an empty value is none to this interface")
            }
            _ => outcome,
        };
        self.api(api, variable, outcome)
    }

    /// Level Zero.
    fn intel(&self) -> Vec<Api> {
        if !self.has(&Vendor::Intel) {
            return Vec::new();
        }
        let variables = Variables {
            mask: self.state("ZE_AFFINITY_MASK"),
            hierarchy: self.state("ZE_FLAT_DEVICE_HIERARCHY"),
            order: self.state("ZE_ENABLE_PCI_ID_DEVICE_ORDER"),
        };
        let outcome = in_both_worlds(&Vendor::Intel, self.gpus, self.reach, |world| {
            level_zero::resolve(world, variables)
        });
        vec![self.api(ApiName::LevelZero, "ZE_AFFINITY_MASK", outcome)]
    }

    /// What one interface chose, as the answer has it.
    fn api(&self, api: ApiName, variable: &str, outcome: Chosen) -> Api {
        let state = self.state(variable);
        let devices = outcome.devices();
        Api {
            api,
            variable: variable.to_owned(),
            raw: state.raw(),
            raw_hex: state.raw_hex(),
            state: state.kind(),
            gpus: devices.map(|devices| self.keys(devices)),
            order_unknown: outcome.is_unordered(),
            instances: devices
                .unwrap_or_default()
                .iter()
                .filter_map(|device| self.instance(*device))
                .collect(),
            tiles: devices.unwrap_or_default().iter().filter_map(|device| self.tile(*device)).collect(),
            confidence: outcome.confidence,
            cut: outcome.cut,
            why: outcome.why,
        }
    }

    /// The keys of the GPUs, each once.
    fn keys(&self, devices: &[CountedDevice]) -> Vec<GpuKey> {
        let mut seen = BTreeSet::new();
        let places = devices.iter().map(|device| device.gpu).filter(|gpu| seen.insert(*gpu));
        places.filter_map(|gpu| self.gpus.get(gpu)).map(|gpu| gpu.key.clone()).collect()
    }

    /// `KEY/GI/CI` of a MIG instance.
    fn instance(&self, device: CountedDevice) -> Option<GpuKey> {
        let gpu = self.gpus.get(device.gpu)?;
        let instance = gpu.mig.get(device.instance?)?;
        instance.compute_key(gpu)
    }

    /// `KEY/TILE` of a tile of an Intel GPU.
    fn tile(&self, device: CountedDevice) -> Option<GpuKey> {
        let gpu = self.gpus.get(device.gpu).filter(|gpu| gpu.vendor == Vendor::Intel)?;
        device.instance.map(|tile| format!("{}/{tile}", gpu.key).into())
    }

    /// Whether an interface reads a variable and the node has a GPU of its vendor. A
    /// variable of other vendors counts as read: gpumap does not know who reads it.
    fn is_read(&self, name: &str) -> bool {
        match name.split('_').next() {
            Some("CUDA") => self.has(&Vendor::Nvidia) || self.has(&Vendor::Amd),
            Some("NVIDIA") => self.has(&Vendor::Nvidia),
            Some("ROCR" | "HIP" | "GPU") => self.has(&Vendor::Amd),
            Some("ZE") => self.has(&Vendor::Intel),
            _ => true,
        }
    }

    /// The variables that are set; of several with one name the first.
    fn variables(&self) -> Vec<RawVariable> {
        let Some(environment) = self.environment.known() else { return Vec::new() };
        let set = device_variables().filter_map(|name| environment.get(name));
        let raw = set.map(|variable| RawVariable {
            name: variable.name.clone(),
            value: variable.value.lossy().into_owned(),
            value_hex: variable.value.hex(),
            idle: !self.gpus.is_empty() && !self.is_read(&variable.name),
        });
        raw.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Verdict;
    use crate::observation::{Text, Variable};
    use crate::visible::GpuAccess;

    fn of(variables: &[(&str, &str)]) -> Asked {
        let gpu = |minor: u32| Gpu {
            key: format!("GPU-{minor}").into(),
            vendor: Vendor::Nvidia,
            model: Some("H200".to_owned()),
            pci: Some(format!("0000:0{minor}:00.0")),
            minor: Some(minor),
            ..Gpu::default()
        };
        let variable = |(name, value): &(&str, &str)| {
            let value = Text::from(*value);
            Variable { name: (*name).to_owned(), value, cut: false }
        };
        let variables = variables.iter().map(variable).collect();
        let environment = Answer::Known(Environment { variables, cut: None });
        let access = || GpuAccess { verdict: Verdict::Allow, instances: Vec::new() };
        let reach = OpenableGpus { gpus: vec![access(), access()], shared: Vec::new() };
        asked(&environment, &[gpu(1), gpu(2)], &reach)
    }

    /// Make sure that ordinals that leave some GPUs out are unknown in a client
    /// of an MPS server, and nothing else is.
    #[test]
    fn renumbered_by_mps() {
        let share = ("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE", "50");
        let pipe = ("CUDA_MPS_PIPE_DIRECTORY", "/tmp/mps");
        assert!(of(&[(CUDA, "1")]).gpus.is_some());
        for mps in [share, pipe] {
            let asked = of(&[(CUDA, "1"), mps]);
            assert_eq!((asked.gpus, asked.confidence), (None, Certainty::Unknown));
            assert!(asked.why.is_some_and(|why| why.contains("MPS")));
            assert_eq!(of(&[(CUDA, "0,1"), mps]).gpus.map(|gpus| gpus.len()), Some(2));
            assert_eq!(of(&[mps]).gpus.map(|gpus| gpus.len()), Some(2));
        }
    }

    /// Make sure that without any GPU a value is documented to give none, and one
    /// that could not be read stays unknown.
    #[test]
    fn nodes_without_gpus() {
        let reach = OpenableGpus { gpus: Vec::new(), shared: Vec::new() };
        let read = asked(&Answer::Known(Environment::default()), &[], &reach);
        assert_eq!((read.gpus, read.confidence), (Some(Vec::new()), Certainty::Documented));
        let unread = asked(&Answer::Missing("not allowed".to_owned()), &[], &reach);
        assert_eq!((unread.gpus, unread.confidence), (None, Certainty::Unknown));
        assert_eq!(unread.why.as_deref(), Some("not allowed"));
    }

    /// Make sure that variables nobody reads here are marked.
    #[test]
    fn idle_variables() {
        let asked = of(&[(CUDA, "1"), ("ZE_AFFINITY_MASK", "0"), ("GPU_DEVICE_ORDINAL", "0")]);
        let idle: Vec<bool> = asked.variables.iter().map(|variable| variable.idle).collect();
        assert_eq!(idle, [false, true, true]);
    }
}
