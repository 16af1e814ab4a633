//! Lists device nodes that all GPUs of a vendor share. They are no GPUs, but a job
//! that may not open the needed ones cannot use any GPU.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::facts::{Majors, NVIDIA, NVIDIA_CTL, NVIDIA_MODESET, chars, under};
use crate::model::SharedRole;
use crate::observation::GpuFacts;

/// One shared node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SharedNode {
    /// Its path; the usual one if there is no node.
    pub path: String,
    /// Major number.
    pub major: u32,
    /// Minor number.
    pub minor: u32,
    /// `nvidiactl`, `nvidia-uvm`, `nvidia-uvm-tools`, `nvidia-modeset`, `kfd`
    /// or `dxg`.
    pub role: SharedRole,
    /// Whether CUDA or ROCm cannot start without it.
    pub needed: bool,
    /// Whether the node exists; if not, its number is the driver's
    /// registration.
    pub present: bool,
}

/// The known facts about one role.
struct Role {
    /// The role; its word is the name of the node in `/dev`.
    role: SharedRole,
    needed: bool,
    /// The name that registers the major.
    driver: &'static str,
    /// The major if it is fixed.
    fixed: Option<u32>,
    minor: u32,
}

/// The roles, in output order. Minors: `nv-chardev-numbers.h`, and 0 and 1 of
/// nvidia-uvm; kfd has one minor. `/dev/dxg` of WSL is a misc device (major
/// 10) with a dynamic minor, so only its node tells the number.
const ROLES: [Role; 5] = [
    Role {
        role: SharedRole::Nvidiactl,
        needed: true,
        driver: "nvidia",
        fixed: Some(NVIDIA),
        minor: NVIDIA_CTL,
    },
    Role { role: SharedRole::NvidiaUvm, needed: true, driver: "nvidia-uvm", fixed: None, minor: 0 },
    Role { role: SharedRole::NvidiaUvmTools, needed: false, driver: "nvidia-uvm", fixed: None, minor: 1 },
    Role {
        role: SharedRole::NvidiaModeset,
        needed: false,
        driver: "nvidia",
        fixed: Some(NVIDIA),
        minor: NVIDIA_MODESET,
    },
    Role { role: SharedRole::Kfd, needed: true, driver: "kfd", fixed: None, minor: 0 },
];

/// The shared nodes by role and path: those that exist, and for a driver that
/// is loaded those that could be created.
///
/// The driver's registered number decides: a node with the name of a role but
/// with another number, as a reboot can leave in a container image, opens
/// something else and is left out.
pub fn shared_nodes(facts: &GpuFacts) -> Vec<SharedNode> {
    let majors = Majors::new(facts);
    let mut found: Vec<SharedNode> = ROLES.iter().flat_map(|role| of_role(facts, &majors, role)).collect();
    let dxg = chars(facts).filter(|node| node.path == "/dev/dxg");
    found.extend(dxg.map(|node| shared(SharedRole::Dxg, true, &node.path, (node.major, node.minor), true)));
    found
}

/// The nodes of one role.
fn of_role(facts: &GpuFacts, majors: &Majors, role: &Role) -> Vec<SharedNode> {
    let path = format!("/dev/{}", role.role);
    let registered = role.fixed.or_else(|| majors.char_major(role.driver)).map(|major| (major, role.minor));
    let matches = chars(facts).filter(|node| match registered {
        Some(number) => (node.major, node.minor) == number,
        // Where `/proc/devices` was not there, the number is not known: the name decides.
        None => majors.is_empty() && node.path == path,
    });
    let node = |number, path: &str, present| shared(role.role.clone(), role.needed, path, number, present);
    let mut found: Vec<_> =
        matches.map(|found| node((found.major, found.minor), &found.path, true)).collect();
    if let (true, true, Some(number)) = (found.is_empty(), is_loaded(facts, role), registered) {
        found.push(node(number, &path, false));
    }
    found
}

/// Whether the driver of a role is loaded: a dynamic major is known only then.
fn is_loaded(facts: &GpuFacts, role: &Role) -> bool {
    role.fixed.is_none() || under(facts, "/proc/driver/nvidia/").next().is_some()
}

/// A node from its parts.
fn shared(
    role: SharedRole,
    needed: bool,
    path: &str,
    (major, minor): (u32, u32),
    present: bool,
) -> SharedNode {
    SharedNode { path: path.to_owned(), major, minor, role, needed, present }
}
