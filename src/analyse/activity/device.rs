//! Which GPU a process means by a device of its own count.
//!
//! Three witnesses are asked, the surest first: the driver, which told the process
//! the UUID of its device; the process's variables, read inside the set that its
//! rules allow; and the one GPU that it has open. What one of them told while the process
//! lived stays known. What none of them tells is not known.

use crate::model::{ApiName, GpuEvidence, GpuKey, Vendor};
use crate::observation::{GpuApi, ProcessActivity};
use crate::report::{Api, Asked, Gpu, Process};

/// A device of a process and what tells it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Meaning {
    /// Key of the GPU.
    pub(super) gpu: Option<GpuKey>,
    /// `KEY/GI/CI` of the MIG instance.
    pub(super) instance: Option<GpuKey>,
    /// The UUID that the driver told.
    pub(super) uuid: Option<String>,
    /// What tells the GPU.
    pub(super) by: GpuEvidence,
    /// Why it is not known.
    pub(super) why: Option<String>,
}

/// Who can tell.
#[derive(Clone, Copy, Debug)]
pub(super) struct Witnesses<'a> {
    /// What was counted of the process.
    pub(super) counted: &'a ProcessActivity,
    /// What was observed of it beside that.
    pub(super) observed: Option<&'a Process>,
    /// What its variables said when it made its first call.
    pub(super) at_call: Option<&'a Asked>,
    /// The GPUs of the node.
    pub(super) gpus: &'a [Gpu],
}

impl Witnesses<'_> {
    /// What the process means by this device of this interface.
    pub(super) fn meaning(&self, api: GpuApi, ordinal: Option<u32>) -> Meaning {
        let uuid = ordinal.and_then(|ordinal| self.uuid(api, ordinal));
        let resolved = ordinal.and_then(|ordinal| self.resolved(api, ordinal));
        let by_driver = ordinal.and_then(|ordinal| self.by_driver(api, ordinal)).map(|gpu| {
            let instance = resolved.clone().filter(|(key, _)| *key == gpu).and_then(|(_, instance)| instance);
            (gpu, instance, GpuEvidence::Driver)
        });
        let found = by_driver
            .or_else(|| resolved.map(|(gpu, instance)| (gpu, instance, GpuEvidence::Resolved)))
            .or_else(|| self.kept(api, ordinal))
            .or_else(|| self.held(api).map(|gpu| (gpu, None, GpuEvidence::Held)));
        match found {
            Some((gpu, instance, by)) => {
                let instance = instance.or_else(|| self.held_instance(&gpu));
                Meaning { gpu: Some(gpu), instance, uuid, by, why: None }
            }
            None => Meaning { uuid, why: Some(self.why(api, ordinal)), ..Meaning::default() },
        }
    }

    /// The UUID that the driver told; that of the instance where it told both.
    fn uuid(&self, api: GpuApi, ordinal: u32) -> Option<String> {
        let named =
            self.counted.devices.iter().filter(|device| (device.api, device.ordinal) == (api, ordinal));
        named.max_by_key(|device| device.names_instance).map(|device| device.uuid.clone())
    }

    /// The GPU that has one of the UUIDs which the driver told.
    fn by_driver(&self, api: GpuApi, ordinal: u32) -> Option<GpuKey> {
        let named =
            self.counted.devices.iter().filter(|device| (device.api, device.ordinal) == (api, ordinal));
        let has = |gpu: &&Gpu, told: &str| {
            let uuid = gpu.uuid.as_deref().map(|uuid| uuid.strip_prefix("GPU-").unwrap_or(uuid));
            uuid.is_some_and(|uuid| uuid.eq_ignore_ascii_case(told))
        };
        let mut gpus = named.filter_map(|device| self.gpus.iter().find(|gpu| has(gpu, &device.uuid)));
        gpus.next().map(|gpu| gpu.key.clone())
    }

    /// What was found while the process lived.
    fn kept(&self, api: GpuApi, ordinal: Option<u32>) -> Option<(GpuKey, Option<GpuKey>, GpuEvidence)> {
        let mut kept = self.counted.resolved.iter().filter(|one| (one.api, one.ordinal) == (api, ordinal));
        let kept = kept.find(|one| self.gpus.iter().any(|gpu| gpu.key == one.gpu))?;
        Some((kept.gpu.clone(), kept.instance.clone(), kept.by))
    }

    /// The GPU, and its MIG instance, that the process's variables make the device
    /// with this ordinal: as they were when it made its first call, where that was seen.
    /// Else they may have been changed since the driver read them, so both environments
    /// must say the same.
    fn resolved(&self, api: GpuApi, ordinal: u32) -> Option<(GpuKey, Option<GpuKey>)> {
        if let Some(asked) = self.at_call {
            return counted_as(asked, api, ordinal);
        }
        let visible = self.observed?.visible.as_ref()?;
        let [at_exec, live] = [&visible.at_exec, &visible.live].map(|asked| counted_as(asked, api, ordinal));
        at_exec.filter(|found| live.as_ref() == Some(found))
    }

    /// The one GPU of the interface's vendor that the process has open.
    fn held(&self, api: GpuApi) -> Option<GpuKey> {
        let process = self.observed?;
        if process.held_unknown.is_some() {
            return None;
        }
        match self.held_of(process, api).as_slice() {
            [one] => Some((*one).clone()),
            _ => None,
        }
    }

    fn held_of<'p>(&self, process: &'p Process, api: GpuApi) -> Vec<&'p GpuKey> {
        let vendor = vendor(api);
        let is_its = |key: &&GpuKey| self.gpus.iter().any(|gpu| gpu.key == **key && gpu.vendor == vendor);
        process.held.iter().flatten().filter(is_its).collect()
    }

    /// The one MIG instance of a GPU whose capabilities the process has open.
    fn held_instance(&self, gpu: &str) -> Option<GpuKey> {
        let all = &self.observed?.held_instances;
        let mut inside = all.iter().filter(|instance| instance.is_on(gpu));
        let first = inside.next()?;
        inside.next().is_none().then(|| first.clone())
    }

    /// Why no witness tells the GPU.
    fn why(&self, api: GpuApi, ordinal: Option<u32>) -> String {
        let Some(process) = self.observed else {
            return "the process ended before its GPUs were looked at".to_owned();
        };
        let Some(ordinal) = ordinal else {
            return "the context of its calls was made before they were counted, and it has not one GPU open \
                    alone"
                .to_owned();
        };
        let asked = process.visible.as_ref().map(|visible| &visible.live);
        let order = asked.and_then(|asked| entry(asked, api)).is_some_and(|api| api.order_unknown);
        let held = self.held_of(process, api).len();
        let variables = match order {
            true => "the order in which it counts its GPUs is not known",
            false => "its variables do not tell which GPU that is",
        };
        format!("the driver told no UUID of device {ordinal}, {variables}, and it has {held} GPUs open")
    }
}

/// The device that an environment makes the one with this ordinal.
fn counted_as(asked: &Asked, api: GpuApi, ordinal: u32) -> Option<(GpuKey, Option<GpuKey>)> {
    let api = entry(asked, api)?;
    let gpus = api.gpus.as_ref().filter(|_| !api.order_unknown)?;
    match (api.instances.as_slice(), gpus.as_slice()) {
        ([], gpus) => Some((gpus.get(usize::try_from(ordinal).ok()?)?.clone(), None)),
        // A process of CUDA gets one MIG instance and nothing beside it.
        ([instance], [gpu]) if ordinal == 0 => Some((gpu.clone(), Some(instance.clone()))),
        _ => None,
    }
}

fn entry(asked: &Asked, api: GpuApi) -> Option<&Api> {
    let name = match api {
        GpuApi::Cuda => ApiName::Cuda,
        GpuApi::Hip => ApiName::Hip,
        GpuApi::LevelZero => ApiName::LevelZero,
    };
    asked.apis.iter().find(|entry| entry.api == name)
}

/// Whose GPUs an interface counts.
fn vendor(api: GpuApi) -> Vendor {
    match api {
        GpuApi::Cuda => Vendor::Nvidia,
        GpuApi::Hip => Vendor::Amd,
        GpuApi::LevelZero => Vendor::Intel,
    }
}
