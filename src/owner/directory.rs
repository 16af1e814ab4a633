//! The owners of all cgroups of one observation.
//!
//! Slurm's SLUIDs hide the job's number. It is taken from the most trusted source
//! that has it: the title of root's slurmstepd in the job, then the name of the
//! socket it listens on, then what the job's processes were started with, which the
//! user can fake. Where sources of one kind contradict each other the number stays
//! unknown, and less trusted sources are not asked.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::scan::{FoundOwner, scan};
use super::{TrustedNames, job_of_socket, job_of_title};
use crate::model::{CgroupPath, InOrder as _, JobIdSource, Owner, OwnerKind, OwnerPart};
use crate::observation::{Detail, Observation, PodName, Process, Text};

/// Characters of the shortest beginning of a container's id that is looked for.
const ID_LEAST: usize = 4;

/// Values of `job_id_source`, the most trusted first.
const SOURCES: [JobIdSource; 3] =
    [JobIdSource::StepdTitle, JobIdSource::StepdSocket, JobIdSource::Environment];

/// Job numbers of one job directory, by source.
type Claims = [BTreeSet<u64>; SOURCES.len()];

/// Owners by cgroup, with the job numbers of SLUIDs resolved.
#[derive(Debug, Default)]
pub struct Directory {
    owners: HashMap<Text, Owner>,
}

impl Directory {
    /// Reads the owners off the paths and finds job numbers from the processes.
    pub fn new(observation: &Observation) -> Self {
        let trusted = TrustedNames::of(observation);
        let mut claims = BTreeMap::new();
        observation.processes.iter().for_each(|process| collect(process, &trusted, &mut claims));
        let paths = observation.cgroups.iter().map(|cgroup| &cgroup.path);
        let paths = paths.chain(observation.processes.iter().map(|process| &process.cgroup));
        let counted = observation.activity.iter().flat_map(|reading| &reading.sums.processes);
        let paths = paths.chain(counted.filter_map(|process| process.cgroup.as_ref()));
        let mut owners = HashMap::new();
        for path in paths {
            if !owners.contains_key(path) {
                let owner = resolved(path, &trusted, &claims).map(|owner| with_pod_name(owner, observation));
                owners.extend(owner.map(|owner| (path.clone(), owner)));
            }
        }
        Self { owners }
    }

    /// The owner of a cgroup.
    pub fn of(&self, path: &Text) -> Option<&Owner> {
        self.owners.get(path)
    }

    /// The topmost cgroup of each container with this name, or with an id that begins so.
    pub fn containers(&self, word: &str) -> Vec<Text> {
        let has_id = |owner: &Owner| {
            let begins = |id: &String| word.len() >= ID_LEAST && id.starts_with(word);
            owner.container.as_ref().is_some_and(begins)
        };
        let is_meant = |owner: &Owner| {
            let is_container = !owner.kind.is_job() && !owner.kind.is_service() && owner.part.is_none();
            is_container && (has_id(owner) || owner.name.as_deref() == Some(word))
        };
        let mut paths: Vec<&Text> =
            self.owners.iter().filter(|(_, owner)| is_meant(owner)).map(|(path, _)| path).collect();
        paths.order();
        let mut tops: Vec<Text> = Vec::new();
        for path in paths {
            let is_inside = |top: &Text| CgroupPath::new(path).is_below(CgroupPath::new(top));
            if !tops.iter().any(is_inside) {
                tops.push(path.clone());
            }
        }
        tops
    }
}

/// What a process says of the job it is in.
fn collect<'a>(process: &'a Process, trusted: &TrustedNames, claims: &mut BTreeMap<&'a [u8], Claims>) {
    let Some(detail) = &process.detail else { return };
    let scan = scan(process.cgroup.as_bytes(), trusted);
    // In the step daemon's own directory only if nothing is nested further in.
    let in_daemons = scan.owners.last().is_some_and(|last| last.owner.part == Some(OwnerPart::Slurm));
    let daemon = process.uid == 0 && in_daemons && scan.claims.is_empty();
    let Some((job, owner)) = scan.owners.iter().rev().find_map(|found| Some((found.job?, &found.owner)))
    else {
        return;
    };
    let [title, socket, environment] = claims.entry(job).or_default();
    if daemon {
        title.extend(job_of_title(detail.title.as_bytes()));
        socket.extend(detail.stepd_sockets.iter().filter_map(|name| job_of_socket(name.as_bytes())));
    }
    environment.extend(job_of_environment(detail, owner));
}

/// The job that a process was started in, by its environment. Components of a
/// heterogeneous job all have the number of its first, and an environment that
/// names another SLUID was brought from elsewhere.
fn job_of_environment(detail: &Detail, owner: &Owner) -> Option<u64> {
    let environment = detail.at_exec.known()?;
    let text = |name| environment.get(name).filter(|variable| !variable.cut);
    let foreign = text("SLURM_JOB_SLUID")
        .is_some_and(|sluid| owner.sluid.as_ref().map(String::as_bytes) != Some(sluid.value.as_bytes()));
    if foreign || environment.get("SLURM_HET_SIZE").is_some() {
        return None;
    }
    super::path_name::number(text("SLURM_JOB_ID")?.value.as_bytes())
}

fn resolved(path: &Text, trusted: &TrustedNames, claims: &BTreeMap<&[u8], Claims>) -> Option<Owner> {
    scan(path.as_bytes(), trusted).owner_with(|FoundOwner { owner, job }| {
        match job.and_then(|job| decide(claims.get(job)?)) {
            Some((id, source)) => Owner { job_id: Some(id), job_id_source: Some(source), ..owner },
            None => owner,
        }
    })
}

/// The owner with the name of the pod that it is or is in.
fn with_pod_name(owner: Owner, observation: &Observation) -> Owner {
    let outer = owner.outer.map(|outer| Box::new(with_pod_name(*outer, observation)));
    let is_its = |pod: &&PodName| owner.kind == OwnerKind::Pod && owner.pod.as_ref() == Some(&pod.uid);
    let pod = observation.pods.iter().find(is_its);
    let name = pod.map(|pod| format!("{}/{}", pod.namespace, pod.name)).or(owner.name);
    Owner { name, outer, ..owner }
}

/// The number that the most trusted source says, if it says one alone.
fn decide(claims: &Claims) -> Option<(u64, JobIdSource)> {
    let (ids, source) = claims.iter().zip(SOURCES).find(|(ids, _)| !ids.is_empty())?;
    let id = ids.first().filter(|_| ids.len() == 1)?;
    Some((*id, source))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observation::{Answer, Cgroup, Environment, Variable};

    const JOB: &str = "/system.slice/slurmstepd.scope/sEKNKTV3WPV500";

    fn process(uid: u32, below: &str, title: &str, variables: &[(&str, &str)]) -> Process {
        let variable = |(name, value): &(&str, &str)| Variable {
            name: (*name).to_owned(),
            value: (*value).into(),
            cut: false,
        };
        let environment = Environment { variables: variables.iter().map(variable).collect(), cut: None };
        let detail = Detail {
            title: title.into(),
            exe: Answer::default(),
            stepd_sockets: Vec::new(),
            at_exec: Answer::Known(environment),
            live: Answer::default(),
            devices: Answer::default(),
            devices_cut: None,
            vgpu: None,
        };
        Process { uid, cgroup: format!("{JOB}{below}").into(), detail: Some(detail), ..Process::default() }
    }

    fn number(processes: Vec<Process>) -> Option<(u64, String)> {
        let processes = [processes, vec![process(0, "/step_0/user", "", &[])]].concat();
        let directory = Directory::new(&Observation { processes, ..Observation::default() });
        let owner = directory.of(&format!("{JOB}/step_0/user").into()).unwrap();
        Some((owner.job_id?, owner.job_id_source.as_ref()?.to_string()))
    }

    /// Make sure that each source is trusted as far as it can be.
    #[test]
    fn trust() {
        let said = |id, source: &str| Some((id, source.to_owned()));
        let title = |uid, below, title| process(uid, below, title, &[]);
        let stepd = || title(0, "/step_0/slurm", "slurmstepd: [7.0]");
        let env = |id| process(1000, "/step_0/user/task_0", "", &[("SLURM_JOB_ID", id)]);
        assert_eq!(number(vec![stepd(), env("9")]), said(7, "stepd-title"));
        assert_eq!(number(vec![stepd(), title(0, "/step_1/slurm", "slurmstepd: [8.1]"), env("7")]), None);
        assert_eq!(number(vec![title(1000, "/step_0/slurm", "slurmstepd: [7.0]")]), None);
        assert_eq!(number(vec![title(0, "/step_0/user", "slurmstepd: [7.0]")]), None);
        assert_eq!(number(vec![env("9"), env("9")]), said(9, "environment"));
        assert_eq!(number(vec![env("9"), env("8")]), None);
        assert_eq!(number(vec![env("9x")]), None);
        let mut socket = title(0, "/step_0/slurm", "slurmstepd");
        socket.detail.as_mut().unwrap().stepd_sockets = vec!["n_1_7.4294967292".into()];
        assert_eq!(number(vec![socket, env("9")]), said(7, "stepd-socket"));
    }

    /// Make sure that a pod's name is that of its uid, for its containers too.
    #[test]
    fn pods() {
        let uid = "4f5a1b3c-0d2e-4f60-8a1b-2c3d4e5f6071";
        let id = "b2cc9ba70977facdbc2e895700cff1879d82d58b99f58d33ae5fa28caf9c645e";
        let pod = format!("/kubepods.slice/kubepods-pod{}.slice", uid.replace('-', "_"));
        let inner = format!("{pod}/cri-containerd-{id}.scope");
        let pods = vec![
            PodName { uid: "x".into(), namespace: "a".into(), name: "b".into() },
            PodName { uid: uid.into(), namespace: "team".into(), name: "train-0".into() },
        ];
        let cgroups = [&pod, &inner].map(|path| Cgroup { path: path.as_str().into(), ..Cgroup::default() });
        let directory =
            Directory::new(&Observation { cgroups: cgroups.to_vec(), pods, ..Observation::default() });
        let owner = directory.of(&pod.into()).unwrap();
        assert_eq!((owner.name.as_deref(), owner.pod.as_deref()), (Some("team/train-0"), Some(uid)));
        let inner = directory.of(&inner.into()).unwrap();
        assert_eq!((inner.name.as_deref(), inner.outer.as_deref()), (None, Some(owner)));
    }

    /// Make sure that environments that name other jobs are not believed.
    #[test]
    fn foreign_environments() {
        let env = |variables: &[_]| vec![process(1000, "/step_0/user", "", variables)];
        assert_eq!(number(env(&[("SLURM_JOB_ID", "9"), ("SLURM_HET_SIZE", "2")])), None);
        assert_eq!(number(env(&[("SLURM_JOB_ID", "9"), ("SLURM_JOB_SLUID", "sEKNKTV3WPV501")])), None);
        let own = [("SLURM_JOB_ID", "9"), ("SLURM_JOB_SLUID", "sEKNKTV3WPV500")];
        assert_eq!(number(env(&own)), Some((9, "environment".to_owned())));
    }

    /// Make sure that a container in a job has the job's number too, and a
    /// directory of the same name elsewhere has not.
    #[test]
    fn propagation() {
        let id = "b2cc9ba70977facdbc2e895700cff1879d82d58b99f58d33ae5fa28caf9c645e";
        let inner = format!("{JOB}/step_0/user/libpod-{id}.scope/container");
        let elsewhere = format!("/docker/{id}{JOB}");
        let processes = vec![
            process(0, "/step_batch/slurm", "slurmstepd: [7.batch]", &[]),
            Process { cgroup: inner.as_str().into(), ..Process::default() },
            Process { cgroup: elsewhere.as_str().into(), ..Process::default() },
        ];
        let directory = Directory::new(&Observation { processes, ..Observation::default() });
        let inner = directory.of(&inner.into()).unwrap();
        assert_eq!((&inner.kind, inner.job_id), (&OwnerKind::Slurm, Some(7)));
        assert_eq!(inner.claims[0].kind, OwnerKind::Podman);
        let elsewhere = directory.of(&elsewhere.into()).unwrap();
        assert_eq!((&elsewhere.kind, elsewhere.claims[0].job_id), (&OwnerKind::Docker, None));
    }
}
