//! Keeps the rules about GPU devices when other rules are left out.
//!
//! A policy may have no short form (a hash of the minor number, for example). Then
//! some of its rules are left out and counted, but never those about GPUs.

use super::decoder::Decoder;
use super::diagram::Bdd;
use super::inputs;
use super::types::Policy;
use crate::model::{Device, DeviceType, MAX_MINOR, Numbers, Request, Rule, Verdict};

/// Minors that GPU drivers use: NVIDIA's cards and `nvidiactl` are below 256,
/// DRM's cards and render nodes below 192 (`drivers/gpu/drm/drm_drv.c`).
const GPU_MINORS: u32 = 256;
/// `nvidia-frontend`, whose minors below 255 are GPUs, and DRM.
const FIXED_MAJORS: [u32; 2] = [195, 226];
/// How many of NVIDIA's minors are asked one by one if a policy has no diagram.
const ASKED: u32 = 16;

/// The devices whose rules are always shown.
#[derive(Clone, Debug)]
pub struct AlwaysListed {
    /// Majors of GPU drivers, character devices.
    majors: Vec<u32>,
    /// Devices that are there.
    devices: Vec<Device>,
}

impl AlwaysListed {
    /// No device: every rule may be left out.
    pub const NOTHING: Self = Self { majors: Vec::new(), devices: Vec::new() };

    /// The devices that GPU drivers have on every node, and on this one.
    pub fn new(majors: impl IntoIterator<Item = u32>, devices: impl IntoIterator<Item = Device>) -> Self {
        let mut devices: Vec<Device> = devices.into_iter().collect();
        let usual = |minor| Device { kind: DeviceType::Char, major: FIXED_MAJORS[0], minor };
        devices.extend((0..ASKED).map(usual));
        let mut majors: Vec<u32> = majors.into_iter().chain(FIXED_MAJORS).collect();
        majors.extend(devices.iter().filter(|device| device.kind == DeviceType::Char).map(|one| one.major));
        majors.sort_unstable();
        majors.dedup();
        devices.sort_unstable_by_key(|device| (device.kind as u32, device.major, device.minor));
        devices.dedup();
        Self { majors, devices }
    }
}

/// A policy with the answers about some devices.
#[derive(Debug)]
pub(super) struct Answered {
    /// What is known with them.
    pub(super) policy: Policy,
    /// What was asked and is unknown all the same, by reason.
    pub(super) open: Vec<(Bdd, String)>,
    /// What was neither drawn nor asked, and would be answered one by one.
    pub(super) not_drawn: Bdd,
}

/// The region of a reason.
fn open_for(open: &mut Vec<(Bdd, String)>, why: String) -> &mut Bdd {
    let place = open.iter().position(|(_, known)| *known == why).unwrap_or_else(|| {
        open.push((Bdd::FALSE, why));
        open.len() - 1
    });
    &mut open[place].0
}

impl Decoder {
    /// The rules of a part of `region` that has a short form: GPU drivers with
    /// all their minors if possible, else with those that GPUs have, and the
    /// devices of this node.
    pub(super) fn always_listed_rules(
        &mut self,
        region: Bdd,
        verdict: Verdict,
        always_listed: &AlwaysListed,
    ) -> Vec<Rule> {
        let mut rules = Vec::new();
        for major in &always_listed.majors {
            let all = self.part(region, *major, [0, MAX_MINOR]);
            rules.extend(self.region_rules(all, verdict).unwrap_or_else(|_| {
                let mut part = self.part(region, *major, [0, GPU_MINORS - 1]);
                for device in always_listed.devices.iter().filter(|device| device.major == *major) {
                    let one = self.part(region, *major, [device.minor, device.minor]);
                    part = self.diagram.or(part, one);
                }
                self.region_rules(part, verdict).unwrap_or_default()
            }));
        }
        rules
    }

    /// The part of `region` about some minors of one character driver.
    fn part(&mut self, region: Bdd, major: u32, [first, last]: [u32; 2]) -> Bdd {
        let rule = Rule {
            verdict: Verdict::Allow,
            kind: Some(DeviceType::Char),
            major: Numbers { first: major, last: major, mask: None },
            minor: Numbers { first, last, mask: None },
            requests: Request::ALL.into_iter().collect(),
        };
        let about = self.region_of(&rule);
        self.diagram.and(region, about)
    }

    /// The policy with the answers about these devices drawn in, where it leaves them
    /// open and its programs can be asked.
    pub(super) fn with_answers(&mut self, policy: Policy, always_listed: &AlwaysListed) -> Answered {
        if self.origins.answerer(policy.origin).is_none() {
            return Answered { policy, open: Vec::new(), not_drawn: Bdd::FALSE };
        }
        let (mut allow, mut deny, mut asked) = (policy.allow, policy.deny, Bdd::FALSE);
        let mut open: Vec<(Bdd, String)> = Vec::new();
        let requests = |device| Request::ALL.map(|request| inputs::assignment(device, request));
        for bits in always_listed.devices.iter().copied().flat_map(requests) {
            if self.drawn(policy, bits) != Verdict::Unknown {
                continue;
            }
            let verdict = self.verdict_of(policy, bits);
            let question = inputs::only(&mut self.diagram, bits);
            asked = self.diagram.or(asked, question);
            let region = match verdict {
                Verdict::Allow => &mut allow,
                Verdict::Deny => &mut deny,
                Verdict::Unknown => open_for(&mut open, self.why_unknown(policy, bits).join("; ")),
            };
            *region = self.diagram.or(*region, question);
        }
        let unknown = self.unknown(policy);
        let not_drawn = self.diagram.and(unknown, !asked);
        Answered {
            policy: Policy { origin: policy.origin, ..self.policy_where(allow, deny) },
            open,
            not_drawn,
        }
    }
}
