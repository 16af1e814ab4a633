//! What files of container runtimes say that a container was given, and what a plain
//! unit's files say.
//!
//! A list of a runtime is a lower bound: crun adds its defaults and NVIDIA's hook adds
//! GPUs after the file was written. What is on it was granted; of what is not on it
//! nothing follows.

use super::intention::{Target, unit_of};
use crate::model::{CgroupPath, IntentionSource, MAX_MAJOR, MAX_MINOR, Numbers, Request, Rule, Verdict};
use crate::observation::{ContainerDevice, Observation, Text};
use crate::policy::{Decoder, Policy};
use crate::report::Intention;
use crate::unit;

/// What the file of a runtime about the container that this cgroup is or is in
/// grants.
///
/// # Errors
///
/// There is no such file, or it says what cannot be taken as a list of grants.
pub(super) fn granted(
    observation: &Observation,
    path: &Text,
    decoder: &mut Decoder,
) -> Result<Target, String> {
    let is_around = |cgroup: &Text| {
        CgroupPath::new(path).is_at_or_below(CgroupPath::new(cgroup)) && cgroup.as_bytes().len() > 1
    };
    let found = observation.containers.iter().filter(|container| is_around(&container.cgroup));
    let found = found.max_by_key(|container| container.cgroup.as_bytes().len());
    let found = found.ok_or("no file of a container runtime in a usual place is about it")?;
    let file = &found.path;
    let devices = found
        .devices
        .known()
        .ok_or_else(|| format!("{file} says nothing: {}", found.devices.missing().unwrap_or_default()))?;
    let mut rules = Vec::new();
    for (at, device) in devices.iter().enumerate() {
        match (device.allow, is_everything(device)) {
            // Lists begin with a denial of everything.
            (false, true) if at == 0 => {}
            (true, false) => rules.push(rule(device).ok_or_else(|| {
                format!("{file} names a device in a way that gpumap does not know: {device:?}")
            })?),
            (true, true) => return Err(format!("{file} allows every device: it says nothing of a loss")),
            (false, _) => {
                return Err(format!(
                    "{file} denies devices after it allowed others: what it means is up to its runtime"
                ));
            }
        }
    }
    let policy = decoder.naming(&rules);
    let what = format!("{file}, the list of {}", found.runtime);
    let as_of = found.modified_at.clone();
    let intention = Intention { source: IntentionSource::RuntimeState, what, as_of };
    Ok(Target { policy, intention })
}

fn is_everything(device: &ContainerDevice) -> bool {
    device.kind.is_none() && device.major.is_none() && device.minor.is_none()
}

/// A grant: requests that ask for no more than its letters.
fn rule(device: &ContainerDevice) -> Option<Rule> {
    let bit = |letter| match letter {
        'm' => Some(1),
        'r' => Some(2),
        'w' => Some(4),
        _ => None,
    };
    let bits = device.access.chars().try_fold(0, |bits, letter| Some(bits | bit(letter)?))?;
    let numbers = |number: Option<u32>, max: u32| match number {
        Some(number) if number > max => None,
        Some(number) => Some(Numbers { first: number, last: number, mask: None }),
        None => Some(Numbers { first: 0, last: max, mask: None }),
    };
    Some(Rule {
        verdict: Verdict::Allow,
        kind: device.kind,
        major: numbers(device.major, MAX_MAJOR)?,
        minor: numbers(device.minor, MAX_MINOR)?,
        requests: Request::ALL.into_iter().filter(|request| request.bits() & !bits == 0).collect(),
    })
}

/// What the files of a service allow. Those of a scope say what somebody told systemd about a
/// container, which is not all that it was given; those of a slice say what others
/// get.
///
/// # Errors
///
/// It is no service, or its files restrict nothing.
pub(super) fn service(
    observation: &Observation,
    path: &Text,
    files: Option<Policy>,
) -> Result<Target, String> {
    let unit = unit_of(path)
        .filter(|unit| unit::of_cgroup(unit.as_bytes()).is_some_and(|name| name.ends_with(".service")));
    let unit = unit.ok_or("it is in no service of systemd's, whose files could say it")?;
    let policy = files.ok_or_else(|| format!("the files of {} restrict nothing", unit.lossy()))?;
    let found = observation.units.iter().find(|found| found.cgroup == unit);
    let names: Vec<&str> =
        found.iter().flat_map(|found| &found.files).map(|file| file.path.as_str()).collect();
    let what = format!("the files of {} ({})", unit.lossy(), names.join(", "));
    let as_of = Some(observation.taken_at.clone());
    Ok(Target { policy, intention: Intention { source: IntentionSource::UnitFiles, what, as_of } })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::DeviceType;
    use crate::observation::{Answer, Container};

    fn device(allow: bool, kind: Option<DeviceType>, major: Option<u32>, access: &str) -> ContainerDevice {
        ContainerDevice { allow, kind, major, minor: major.map(|_| 0), access: access.to_owned() }
    }

    fn granted(devices: Vec<ContainerDevice>, path: &str) -> Result<String, String> {
        let container = Container {
            runtime: "runc".to_owned(),
            path: "/run/runc/x/state.json".to_owned(),
            cgroup: "/a/x.scope".into(),
            modified_at: None,
            devices: Answer::Known(devices),
        };
        let observation = Observation { containers: vec![container], ..Observation::default() };
        let decoder = &mut Decoder::new();
        let target = super::granted(&observation, &path.into(), decoder)?;
        let rules = decoder.rules(target.policy).rules;
        Ok(rules.iter().map(ToString::to_string).collect::<Vec<_>>().join(", "))
    }

    /// Make sure that grants are read exactly, and that other lists say nothing.
    #[test]
    fn lists_of_runtimes() {
        let all = || device(false, None, None, "rwm");
        let gpu = || device(true, Some(DeviceType::Char), Some(195), "rw");
        assert_eq!(granted(vec![all(), gpu()], "/a/x.scope/below").unwrap(), "c 195:0 rwf");
        for (list, why) in [
            (vec![all(), gpu(), all()], "denies devices after"),
            (vec![all(), device(true, None, None, "rwm")], "every device"),
            (vec![all(), device(true, None, Some(1 << 12), "rw")], "does not know"),
            (vec![all(), device(true, None, Some(1), "x")], "does not know"),
        ] {
            let error = granted(list, "/a/x.scope").unwrap_err();
            assert!(error.contains(why), "{why}: {error}");
        }
        assert!(granted(vec![all(), gpu()], "/a/y.scope").unwrap_err().contains("no file"));
        assert!(granted(vec![all(), gpu()], "/a/x.scope2").is_err());
    }
}
