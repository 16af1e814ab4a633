//! Reads a path from the root to the leaf and asks every recogniser about every
//! name. A recognised name is the new innermost owner as long as root's daemons
//! gave the names; after that it is a claim.
//!
//! Jobs of a Slurm that runs inside a container are claims of the container's own root. The
//! container is the boundary. Its root rules all names inside it, as the node's
//! root rules those of the node: such a job is a job of that container, whatever
//! number it has, and never the node's job of the same number.

use super::path_name::{Match, PathName};
use super::trusted_names::{TrustedNames, split};
use super::{container, engine, pattern, schedulers, slurm, unit};
use crate::model::{Owner, OwnerKind};
use crate::observation::OwnerPattern;

/// Owners around each other that are kept, the innermost: only a hostile path
/// has more, and their nesting must stay shallow.
pub(super) const DEPTH: usize = 16;

/// Directories besides slices that root's daemons put owners into: podman's
/// and the kubelet's without systemd.
const PARENTS: [&[u8]; 2] = [b"libpod_parent", b"kubelet"];

type Recogniser = fn(PathName<'_, '_>) -> Option<Match>;

/// The first that matches wins: names with a meaning of their own come before
/// units.
const ALL: &[Recogniser] = &[
    slurm::v2,
    slurm::v1,
    schedulers::parastation,
    schedulers::crane,
    schedulers::oar,
    schedulers::oar_v1,
    schedulers::pbs,
    schedulers::lsf,
    schedulers::grid_engine,
    schedulers::nomad,
    schedulers::htcondor,
    container::ecs,
    container::recognise_pod,
    engine::recognise,
    container::recognise,
    unit::recognise_machine,
    schedulers::flux,
    unit::recognise,
];

/// One owner of a path.
#[derive(Debug)]
pub(super) struct FoundOwner<'a> {
    pub(super) owner: Owner,
    /// The path up to the job's directory, for an owner with a SLUID.
    pub(super) job: Option<&'a [u8]>,
}

/// The owners and claims in a path.
#[derive(Debug, Default)]
pub(super) struct Scan<'a> {
    /// Owners whose names root's daemons gave, outermost first.
    pub(super) owners: Vec<FoundOwner<'a>>,
    /// Owners that are named further in, where anybody may have named them.
    pub(super) claims: Vec<Owner>,
    /// The path up to where the names are no longer root's.
    end: Option<&'a [u8]>,
}

/// Reads a path.
pub(super) fn scan<'a>(path: &'a [u8], trusted: &TrustedNames) -> Scan<'a> {
    let (names, ends) = split(path);
    let mut reader = PathReader {
        path,
        ends: &ends,
        shared: trusted.shared(&names),
        given: trusted.given_by_root(path, &ends),
        trust: Trust::Everything,
        patterns: &trusted.patterns,
        scan: Scan::default(),
    };
    let mut place = PathName { names: &names, at: 0, users: false, top: true };
    while place.at < names.len() {
        place = reader.step(place, &names);
    }
    reader.scan
}

/// Which names are believed at a place.
#[derive(Clone, Copy)]
enum Trust {
    /// All: this is where root's daemons put their owners.
    Everything,
    /// Kinds of owners that are made inside the one before.
    These(&'static [OwnerKind]),
    /// None.
    Nothing,
}

impl Trust {
    fn takes(self, owner: &Owner) -> bool {
        match self {
            Self::Everything => true,
            Self::These(kinds) => kinds.contains(&owner.kind),
            Self::Nothing => false,
        }
    }
}

struct PathReader<'a, 'n> {
    path: &'a [u8],
    ends: &'n [usize],
    /// How many names lead to gpumap itself.
    shared: usize,
    /// How many names are in directories of root.
    given: usize,
    trust: Trust,
    patterns: &'n [OwnerPattern],
    scan: Scan<'a>,
}

impl<'a> PathReader<'a, '_> {
    /// Reads the names at a position, and returns the next position.
    fn step<'n>(&mut self, place: PathName<'a, 'n>, names: &'n [&'a [u8]]) -> PathName<'a, 'n> {
        if place.at >= self.given {
            self.distrust(place.at);
        } else if place.at > 0 && place.at <= self.shared && !self.is_private() {
            self.trust = Trust::Everything;
        }
        // Names that root gave are not read together with names that others gave.
        let visible = if place.at < self.given { names.get(..self.given).unwrap_or(names) } else { names };
        let here = PathName { names: visible, ..place };
        let users = place.users || unit::manager(place.name()).is_some();
        let known = || ALL.iter().find_map(|recogniser| recogniser(here));
        let sites = self.patterns.iter().find_map(|pattern| pattern::recognise(pattern, here));
        let Some(found) = sites.or_else(known) else {
            let is_slice = place.name().ends_with(b".slice");
            if !is_slice && !PARENTS.contains(&place.name()) {
                self.distrust(place.at + 1);
            }
            return PathName { at: place.at + 1, top: place.top && is_slice, users, ..place };
        };
        let next = PathName { at: place.at + found.taken, top: found.tree, users, ..place };
        self.take(found, place.at);
        next
    }

    /// Adds an owner or a claim.
    fn take(&mut self, found: Match, at: usize) {
        let Match { owner, taken, makes, .. } = found;
        if !self.trust.takes(&owner) {
            self.distrust(at);
            self.scan.claims.push(owner);
            self.scan.claims.drain(..self.scan.claims.len().saturating_sub(DEPTH));
            return;
        }
        let owners = &mut self.scan.owners;
        if owners.last().is_some_and(|last| is_implied(&last.owner, &owner)) {
            owners.pop();
        }
        // A SLUID is the name after that of Slurm's scope.
        let end = self.ends.get(at + 1).filter(|_| owner.sluid.is_some());
        owners.push(FoundOwner { owner, job: end.and_then(|end| self.path.get(..*end)) });
        owners.drain(..owners.len().saturating_sub(DEPTH));
        self.trust = if makes.is_empty() { Trust::Nothing } else { Trust::These(makes) };
        self.scan.end = self.upto(at + taken);
    }

    /// From this name on, nothing is believed.
    fn distrust(&mut self, at: usize) {
        if !matches!(self.trust, Trust::Nothing) {
            self.trust = Trust::Nothing;
            self.scan.end = self.upto(at);
        }
    }

    fn is_private(&self) -> bool {
        self.scan.owners.iter().any(|found| is_private(&found.owner.kind))
    }

    /// The path of so many names.
    fn upto(&self, names: usize) -> Option<&'a [u8]> {
        names.checked_sub(1).map_or(Some(b"/"), |last| self.path.get(..*self.ends.get(last)?))
    }
}

/// Nests owners, the last innermost, with the claims inside it. If one name
/// described two owners, the outer one is in place already. If the claims have no
/// known owner, the path around them is the owner.
pub(super) fn nested(owners: Vec<Owner>, claims: Vec<Owner>, end: &[u8]) -> Option<Owner> {
    let innermost = owners.into_iter().fold(None, |around: Option<Owner>, owner| {
        let outer = match owner.outer {
            Some(outer) => Some(Box::new(Owner { outer: around.map(Box::new), ..*outer })),
            None => around.map(Box::new),
        };
        Some(Owner { outer, ..owner })
    });
    let unknown = || Owner { name: Some(super::path_name::text(end)), ..PathName::owner(OwnerKind::Cgroup) };
    match innermost {
        None if claims.is_empty() => None,
        innermost => Some(Owner { claims, ..innermost.unwrap_or_else(unknown) }),
    }
}

impl<'a> Scan<'a> {
    /// The innermost owner, with those around it and the claims inside it.
    pub(super) fn owner(self) -> Option<Owner> {
        self.owner_with(|found| found.owner)
    }

    /// The same, after `more` has added facts to each owner.
    pub(super) fn owner_with(self, more: impl FnMut(FoundOwner<'a>) -> Owner) -> Option<Owner> {
        let end = self.end.unwrap_or(b"/");
        nested(self.owners.into_iter().map(more).collect(), self.claims, end)
    }
}

/// Owners inside which a user makes the names, and no slurmd of a container is
/// to be believed, though gpumap itself runs there.
fn is_private(kind: &OwnerKind) -> bool {
    kind.is_job() || matches!(kind, OwnerKind::User | OwnerKind::Session)
}

/// Whether the owner around adds nothing: a user's slice around the session or
/// manager of the same user.
fn is_implied(outer: &Owner, inner: &Owner) -> bool {
    outer.kind == OwnerKind::User
        && matches!(inner.kind, OwnerKind::User | OwnerKind::Session)
        && outer.uid == inner.uid
}

/// The job that the names inside a container say, with its step and task; `None` if
/// they say none, or if a user of the container could have given the names, as a
/// user's manager or another job inside it can.
#[must_use]
pub fn inner_job(owner: &Owner) -> Option<&Owner> {
    // A longer path lost its first names.
    if !is_boundary(owner) || owner.claims.len() >= DEPTH {
        return None;
    }
    let first = owner.claims.iter().find(|claim| !is_boundary(claim))?;
    let is_job = first.kind.is_slurm() && (first.job_id.is_some() || first.sluid.is_some());
    is_job.then_some(first)
}

/// Whether the names inside it say that a Slurm runs there.
#[must_use]
pub fn runs_slurm(owner: &Owner) -> bool {
    is_boundary(owner) && owner.claims.iter().any(|claim| claim.kind.is_slurm())
}

/// Whether it is a container, pod or machine with a root of its own, which may run a
/// scheduler. What a user starts without root (Apptainer, a user's own podman) is none.
fn is_boundary(owner: &Owner) -> bool {
    owner.part.is_none()
        && (owner.kind.is_container()
            || matches!(owner.kind, OwnerKind::Lxc | OwnerKind::Libvirt | OwnerKind::Nspawn))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::owner::of_path;

    /// Make sure that the job's directory is cut out of the path as it is
    /// written.
    #[test]
    fn job_directories() {
        let path = b"//system.slice/slurmstepd.scope/sEKNKTV3WPV500//step_0/user";
        let found = scan(path, &TrustedNames::default()).owners;
        assert_eq!(found[0].job, Some(&b"//system.slice/slurmstepd.scope/sEKNKTV3WPV500"[..]));
    }

    /// Make sure that no path makes a deep nest.
    #[test]
    fn bounded_nesting() {
        let path = "/system.slice/slurmstepd.scope/job_1".repeat(100_000);
        let scan = scan(path.as_bytes(), &TrustedNames::default());
        assert_eq!((scan.owners.len(), scan.claims.len()), (1, DEPTH));
    }

    const ID: &str = "b2cc9ba70977facdbc2e895700cff1879d82d58b99f58d33ae5fa28caf9c645e";

    const JOB: &str = "system.slice/slurmstepd.scope/job_12/step_0/user/task_0";

    fn found(path: &str) -> Option<(u64, Option<String>)> {
        let owner = of_path(path.as_bytes())?;
        let job = inner_job(&owner)?;
        Some((job.job_id?, job.step.clone()))
    }

    /// Make sure that a Slurm is found in each kind of container, and its job with
    /// its step.
    #[test]
    fn containers() {
        let pod = "kubepods.slice/kubepods-pod4f5a1b3c_0d2e_4f60_8a1b_2c3d4e5f6071.slice";
        for around in [
            format!("{pod}/cri-containerd-{ID}.scope"),
            format!("{pod}/crio-{ID}.scope"),
            format!("kubepods/pod4f5a1b3c-0d2e-4f60-8a1b-2c3d4e5f6071/{ID}"),
            format!("system.slice/docker-{ID}.scope"),
            format!("docker/{ID}"),
            format!("docker/{ID}/init"),
            format!("machine.slice/libpod-{ID}.scope/container"),
            "lxc.payload.node1".to_owned(),
            "lxc/101/ns".to_owned(),
            "machine.slice/systemd-nspawn@node1.service/payload".to_owned(),
            "machine.slice/machine-node1.scope/payload".to_owned(),
            // A node of kind: a container in a container.
            format!("docker/{ID}/kubelet.slice/kubelet-kubepods.slice/{pod}/cri-containerd-{ID}.scope"),
        ] {
            assert_eq!(found(&format!("/{around}/{JOB}")), Some((12, Some("0".to_owned()))), "{around}");
        }
    }

    /// Make sure that names that a user could have given are no job, on the node and
    /// in a container: those of users' managers, logins, jobs, services.
    #[test]
    fn names_of_users() {
        let user = "user.slice/user-1000.slice/user@1000.service";
        let job = "system.slice/slurmstepd.scope/job_4711/step_0/user/task_0";
        for around in [
            user.to_owned(),
            format!("{user}/user.slice/libpod-{ID}.scope/container"),
            "user.slice/user-1000.slice/session-2.scope".to_owned(),
            job.to_owned(),
            format!("{job}/docker-{ID}.scope"),
            "system.slice/apptainer-1234.scope".to_owned(),
            "system.slice/web.service".to_owned(),
            "a".to_owned(),
            format!("machine.slice/libpod-conmon-{ID}.scope"),
            format!("docker/{ID}/{user}"),
            format!("docker/{ID}/system.slice/web.service"),
        ] {
            assert_eq!(found(&format!("/{around}/{JOB}")), None, "{around}");
        }
        let path = format!("/docker/{ID}/{user}/{}/{JOB}", vec![format!("docker/{ID}"); 40].join("/"));
        assert_eq!(found(&path), None, "a path that is too long to keep its first names");
    }

    /// Make sure that a job inside a job inside a container is no job of the
    /// container's.
    #[test]
    fn nested() {
        let path = format!("/docker/{ID}/{JOB}/slurmstepd.scope/job_13");
        assert_eq!(found(&path), Some((12, Some("0".to_owned()))));
        let owner = of_path(format!("/docker/{ID}/system.slice/slurmstepd.scope").as_bytes()).unwrap();
        assert!(runs_slurm(&owner) && inner_job(&owner).is_none());
    }
}
