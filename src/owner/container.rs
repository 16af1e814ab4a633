//! Containers and pods that a path names, but for those of `engine`.

use super::path_name::{Match, PathName, between, container_id, is_uuid, number, text, unescape};
use crate::model::{Owner, OwnerKind, OwnerPart, PodClass};

/// A container of LXC, Incus, systemd-nspawn or Apptainer.
pub(super) fn recognise(place: PathName<'_, '_>) -> Option<Match> {
    lxc(place).or_else(|| nspawn(place)).or_else(|| apptainer(place))
}

/// `lxc.payload.NAME`, `lxc.monitor.NAME`, `lxc.pivot` (LXC,
/// src/lxc/cgroups/cgroup.h), and the older `lxc/NAME`, `lxc.monitor/NAME`.
/// The `-N` that LXC appends when a name is taken stays: a container may be
/// called so.
fn lxc(place: PathName<'_, '_>) -> Option<Match> {
    let name = place.name();
    let monitor = || Some(OwnerPart::Monitor);
    if name == b"lxc.pivot" {
        return Match::plain(Owner { part: monitor(), ..PathName::owner(OwnerKind::Lxc) }, 1);
    }
    let (name, part, taken) = match (name, place.ahead(1)) {
        (b"lxc" | b"lxc.payload", Some(below)) => (below, None, 2),
        (b"lxc.monitor", Some(below)) => (below, monitor(), 2),
        _ => match name.strip_prefix(b"lxc.payload.") {
            Some(name) => (name, None, 1),
            None => (name.strip_prefix(b"lxc.monitor.")?, monitor(), 1),
        },
    };
    let tree = part.is_none();
    let owner = Owner { name: Some(text(name)), part, ..PathName::owner(OwnerKind::Lxc) };
    (!name.is_empty()).then_some(Match { owner, taken, tree, makes: &[] })
}

/// `systemd-nspawn@NAME.service`, and `machine-NAME.scope` of one that was started by
/// hand, each with `payload` and `supervisor` below (src/nspawn/nspawn-cgroup.c and
/// units/systemd-nspawn@.service of systemd). Others register scopes of machines too, so
/// that one alone is none.
fn nspawn(place: PathName<'_, '_>) -> Option<Match> {
    let below = place.ahead(1).filter(|below| matches!(*below, b"payload" | b"supervisor"));
    let name = match between(place.name(), "systemd-nspawn@", ".service") {
        Some(name) => name,
        None => between(place.name(), "machine-", ".scope").filter(|_| below.is_some())?,
    };
    let part = below.filter(|below| *below == b"supervisor").map(|_| OwnerPart::Monitor);
    let tree = part.is_none();
    let owner = Owner { name: Some(text(&unescape(name))), part, ..PathName::owner(OwnerKind::Nspawn) };
    place.top.then_some(Match { owner, taken: 1 + usize::from(below.is_some()), tree, makes: &[] })
}

/// Amazon ECS: `ecstasks.slice/ecstasks-TASK.slice/docker-ID.scope`, and `ecs/TASK/ID`
/// with cgroup v1 (`buildCgroupV2Root` and `buildCgroupV1Root` of amazon-ecs-agent,
/// agent/api/task/task_linux.go).
pub(super) fn ecs(place: PathName<'_, '_>) -> Option<Match> {
    let task = |name: &[u8]| {
        let is_id = name.len() == 32 && name.iter().all(u8::is_ascii_hexdigit) || is_uuid(name);
        is_id.then(|| Owner { name: Some(text(name)), ..PathName::owner(OwnerKind::Ecs) })
    };
    if let Some(id) = between(place.name(), "ecstasks-", ".slice").filter(|_| place.top) {
        return Some(Match::plain(task(id)?, 1)?.making(ENGINES));
    }
    let task = place.ahead(1).filter(|_| place.at == 0 && place.name() == b"ecs").and_then(task)?;
    match place.ahead(2).and_then(container_id) {
        Some(id) => {
            let docker = PathName::owner(OwnerKind::Docker);
            Match::tree(Owner { container: Some(id), outer: Some(Box::new(task)), ..docker }, 3)
        }
        None => Match::plain(task, 2),
    }
}

/// `apptainer-PID.scope`, `apptainer/PID` (Apptainer,
/// internal/pkg/cgroups/manager_linux.go). The pid is that of the process that made
/// the container, which has no other name.
fn apptainer(place: PathName<'_, '_>) -> Option<Match> {
    let (pid, taken) = match between(place.name(), "apptainer-", ".scope") {
        Some(pid) => (pid, 1),
        None => (place.ahead(1).filter(|_| place.name() == b"apptainer")?, 2),
    };
    number(pid)?;
    Match::tree(Owner { name: Some(text(pid)), ..PathName::owner(OwnerKind::Apptainer) }, taken)
}

/// Kubernetes' classes below `kubepods`; a pod of neither is guaranteed.
const CLASSES: [(&str, PodClass); 2] =
    [("burstable", PodClass::Burstable), ("besteffort", PodClass::Besteffort)];
/// Container engines that put containers right into a pod.
const ENGINES: &[OwnerKind] =
    &[OwnerKind::Docker, OwnerKind::Containerd, OwnerKind::Nerdctl, OwnerKind::CriO, OwnerKind::Podman];

/// A pod, or a container in it. The path does not name the container's runtime.
pub(super) fn recognise_pod(place: PathName<'_, '_>) -> Option<Match> {
    systemd(place).or_else(|| cgroupfs(place)).or_else(|| podman(place))
}

/// The pod of `[PREFIX-]kubepods[-CLASS]-podUID.slice`, in which `_` replaces each
/// `-` of the uid (kubelet's cgroup manager, systemd driver).
pub(super) fn of_slice(name: &[u8]) -> Option<Owner> {
    let name = std::str::from_utf8(name.strip_suffix(b".slice")?).ok()?;
    let (above, uid) = name.rsplit_once("-pod")?;
    let class = CLASSES.into_iter().find(|(class, _)| above.ends_with(&format!("kubepods-{class}")));
    let known = class.is_some() || above.ends_with("kubepods");
    pod(&uid.replace('_', "-"), class.map(|(_, class)| class)).filter(|_| known)
}

fn systemd(place: PathName<'_, '_>) -> Option<Match> {
    with_container(place, of_slice(place.name())?, 1)
}

/// `kubepods[/CLASS]/podUID[/CONTAINER]` (the cgroupfs driver).
fn cgroupfs(place: PathName<'_, '_>) -> Option<Match> {
    let name = place.ahead(1).filter(|_| place.name() == b"kubepods")?;
    let class = CLASSES.into_iter().find(|(class, _)| class.as_bytes() == name);
    let above = 1 + usize::from(class.is_some());
    let uid = std::str::from_utf8(place.ahead(above)?.strip_prefix(b"pod")?).ok()?;
    with_container(place, pod(uid, class.map(|(_, class)| class))?, above + 1)
}

/// Container runtimes with the cgroupfs driver all name a container's cgroup by its
/// bare id, so the runtime is unknown.
fn with_container(place: PathName<'_, '_>, pod: Owner, taken: usize) -> Option<Match> {
    match place.ahead(taken).and_then(container_id) {
        Some(id) => Match::tree(Owner { container: Some(id), ..pod }, taken + 1),
        None => Some(Match::plain(pod, taken)?.making(ENGINES)),
    }
}

/// A uid, or the hash that replaces it for pods from the kubelet's own files.
fn pod(uid: &str, class: Option<PodClass>) -> Option<Owner> {
    let digits = uid.bytes().all(|byte| byte.is_ascii_hexdigit() || byte == b'-');
    let good = digits && (32..=36).contains(&uid.len());
    let qos = Some(class.unwrap_or(PodClass::Guaranteed));
    good.then(|| Owner { pod: Some(uid.to_owned()), qos, ..PathName::owner(OwnerKind::Pod) })
}

/// `[PARENT-]libpod_pod_ID.slice` (podman, libpod/runtime_pod_linux.go).
fn podman(place: PathName<'_, '_>) -> Option<Match> {
    let name = place.name();
    let at = name.windows(11).position(|part| part == b"libpod_pod_")?;
    let id = container_id(between(name.get(at..)?, "libpod_pod_", ".slice")?)?;
    Some(Match::plain(Owner { pod: Some(id), ..PathName::owner(OwnerKind::Pod) }, 1)?.making(ENGINES))
}
