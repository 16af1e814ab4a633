//! Whether limits are in force, told from what shows outside of processes that
//! ran under real builds of HAMi-core and SoftMig, with what came of them.

use std::collections::BTreeMap;
use std::fs;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use flate2::read::GzDecoder;
use gpumap::model::{InForce, LimitCode, MeantBy, Verdict};
use gpumap::observation::{
    Answer, Detail, Environment, FileFacts, JobFile, LibraryVariables, MappedFile, Observation, OverrideFile,
    Preload, Process, SharedRegion, SparseBytes, Text, Variable, VgpuTraces,
};
use gpumap::report::{LimitVerdict, Vgpu, VgpuDevice};
use gpumap::vgpu::{ProcessContext, Survey};
use serde_json::Value;

fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/vgpu")
}

fn json(path: &Path) -> Value {
    serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap()
}

/// A capture's truth, wherever it lies.
fn truth(name: &str) -> Value {
    let beside = fixtures().join(format!("{name}.json"));
    json(&if beside.exists() { beside } else { fixtures().join(format!("outside/{name}.json")) })
}

/// The region that a capture saved.
fn region(name: &str, inode: u64) -> Option<SharedRegion> {
    let packed = fs::File::open(fixtures().join(format!("{name}.bin.gz"))).ok()?;
    let mut bytes = Vec::new();
    GzDecoder::new(packed).read_to_end(&mut bytes).unwrap();
    let size = bytes.len() as u64;
    let contents = Answer::Known(SparseBytes::of(&bytes, size));
    Some(SharedRegion { dev: [0xfe, 0], inode, file: FileFacts { uid: 0, mode: 0o666, size }, contents })
}

/// A process as gpumap would have observed it.
fn observed(capture: &Value, process: &Value) -> Process {
    let outside = &process["proc"];
    let variables = outside["environ"].as_object().unwrap().iter().map(|(name, value)| Variable {
        name: name.clone(),
        value: value.as_str().unwrap().into(),
        cut: false,
    });
    let environment = Answer::Known(Environment { variables: variables.collect(), cut: None });
    let mut traces = VgpuTraces {
        pids: serde_json::from_value(outside["nspid"].clone()).unwrap(),
        other_user_namespace: Some(false),
        ..VgpuTraces::default()
    };
    if let Some(text) = outside["ld_so_preload"].as_str() {
        traces.preload = Answer::Known(Some(Preload { text: text.into(), missing: Vec::new() }));
    }
    for line in outside["maps"].as_array().unwrap() {
        add_mapping(&mut traces, line.as_str().unwrap());
    }
    traces.job_files = job_files(capture, &outside["environ"]);
    traces.variables = noted(capture, &outside["environ"]);
    let detail = Detail {
        title: Text::default(),
        exe: Answer::default(),
        stepd_sockets: Vec::new(),
        at_exec: environment.clone(),
        live: environment,
        devices: Answer::default(),
        devices_cut: None,
        vgpu: Some(Box::new(traces)),
    };
    Process {
        pid: process["pid"].as_u64().unwrap() as u32,
        start_time: 1,
        uid: outside["uid"].as_u64().unwrap() as u32,
        cgroup: "/c".into(),
        detail: Some(detail),
        ..Process::default()
    }
}

/// What the library's own variables would have said. The captures do not have them:
/// this is what the builds' source makes of the switch that each process met. Those
/// of April and May 2026 note it once, and the captures changed the file after that;
/// later ones note what the file says now.
fn noted(capture: &Value, environ: &Value) -> Answer<LibraryVariables> {
    let layout = capture["library"]["layout"].as_str().unwrap();
    if !["1.1-post", "1.2"].contains(&layout) {
        return Answer::default();
    }
    let policy = match environ["GPU_CORE_UTILIZATION_POLICY"].as_str() {
        Some("force" | "FORCE") => 1,
        Some("disable" | "DISABLE") => 2,
        _ => 0,
    };
    let is_once = capture["library"]["date"].as_str().unwrap() < "2026-05-18";
    let in_file = if is_once { 1 } else { capture["region"]["utilization_switch"].as_i64().unwrap_or(1) };
    let switch = [in_file as i32, 1, 0][policy as usize];
    let noted = LibraryVariables { util_switch: Some(switch), policy: Some(policy), ..Default::default() };
    Answer::Known(noted)
}

fn add_mapping(traces: &mut VgpuTraces, line: &str) {
    let mut words = line.split_ascii_whitespace();
    let (_, flags, inode) = (words.next(), words.next().unwrap(), words.nth(2).unwrap().parse().unwrap());
    let path = words.next().unwrap();
    let mapped = MappedFile {
        path: path.into(),
        dev: [0xfe, 0],
        inode,
        deleted: words.next() == Some("(deleted)"),
        executable: flags.contains('x'),
        file: Answer::Known(FileFacts { uid: 0, mode: 0o755, size: 0 }),
        contents: None,
    };
    let name = path.rsplit('/').next().unwrap();
    let list = match name {
        _ if name.starts_with("libvgpu.so") || name.starts_with("libsoftmig.so") => &mut traces.libraries,
        _ if flags == "rw-s" => &mut traces.regions,
        _ => return,
    };
    match list.iter_mut().find(|known| known.inode == inode) {
        Some(known) => known.executable |= mapped.executable,
        None => list.push(mapped),
    }
}

/// The files that the prolog wrote, in SoftMig's order.
fn job_files(capture: &Value, environ: &Value) -> Vec<JobFile> {
    let Some(job) = environ["SLURM_JOB_ID"].as_str() else { return Vec::new() };
    let task = environ["SLURM_ARRAY_TASK_ID"].as_str().map(|task| format!("{job}_{task}.conf"));
    let names = task.into_iter().chain([format!("{job}.conf")]);
    let file = |name: String| {
        let lines = capture["conf"][&name].as_array()?.iter().map(|line| line.as_str().unwrap());
        Some(JobFile {
            path: format!("/var/run/softmig/{name}").into(),
            outside: false,
            foreign: false,
            regular: capture["name"] != "softmig-job-conf-symlink",
            file: FileFacts { uid: 0, mode: 0o644, size: 0 },
            text: Answer::Known(lines.collect::<Vec<_>>().join("\n").into()),
        })
    };
    names.filter_map(file).collect()
}

/// The observation that a capture would have been.
fn observation(capture: &Value) -> Observation {
    let name = capture["name"].as_str().unwrap();
    let alive = capture["processes"].as_array().unwrap().iter().filter(|process| process["proc"].is_object());
    let processes: Vec<Process> = alive.map(|process| observed(capture, process)).collect();
    let mut regions: BTreeMap<u64, SharedRegion> = BTreeMap::new();
    for process in &processes {
        for mapped in &process.detail.as_ref().unwrap().vgpu.as_ref().unwrap().regions {
            // Who had the file before it was removed still has that one.
            let from =
                if mapped.deleted { name.replace("-new", "-old") } else { name.replace("-old", "-new") };
            if let Some(region) = region(&from, mapped.inode) {
                regions.insert(mapped.inode, region);
            }
        }
    }
    Observation { processes, regions: regions.into_values().collect(), ..Observation::default() }
}

fn judged(observation: &Observation, pid: u32, total: Option<u64>) -> Vgpu {
    let process = observation.processes.iter().find(|process| process.pid == pid).unwrap();
    let gpu_of = |uuid: &str| Some((uuid.into(), total));
    let place =
        ProcessContext { in_slurm_job: false, in_container: true, uses_gpu: Some(true), gpu_of: &gpu_of };
    Survey::new(observation).of(process, place).unwrap()
}

/// What cannot be seen from outside, and why. Everything else of the table must
/// be told.
const UNSEEN: &[(&str, &str, &str, LimitCode)] = &[
    // Both devices have use, and either order of initialization would give that.
    ("v1.1-cvd-reorder-nvml-first", "a", "memory", LimitCode::OrderUnknown),
    ("v1.1post-cvd-reorder-nvml-first", "a", "memory", LimitCode::OrderUnknown),
    ("v1.2-cvd-reorder-nvml-first", "a", "memory", LimitCode::OrderUnknown),
    ("v1.2-cvd-reorder", "a", "memory", LimitCode::OrderUnknown),
    // Two builds on one file: what holds depends on which two.
    ("v1.1post-then-1.1", "b", "memory", LimitCode::MixedRegion),
    ("v1.1post-then-1.1", "b", "sm", LimitCode::MixedRegion),
    ("v1.2-then-1.1", "b", "memory", LimitCode::MixedLibraries),
    ("v1.2-then-1.1", "b", "sm", LimitCode::MixedLibraries),
    // The file that was removed was not captured.
    ("v1.2-deleted-new", "a", "sm", LimitCode::RegionUnread),
];

/// Make sure that every process of the table is told right: what held is in
/// force, what did not is not, device by device, and where it cannot be seen the
/// reason is the one that is listed here.
#[test]
fn every_observed_process() {
    let table = fs::read_to_string(fixtures().join("outside/observed.tsv")).unwrap();
    let mut wrong = Vec::new();
    let (mut told, mut gone) = (0, 0);
    for line in table.lines().skip(1) {
        let cells: Vec<&str> = line.split('\t').collect();
        let (name, process, state, pid) = (cells[0], cells[2], cells[3], cells[4]);
        let capture = truth(name);
        let of_capture = capture["processes"].as_array().unwrap();
        let of_capture = of_capture.iter().find(|one| one["name"] == process).unwrap();
        if !["running", "suspended"].contains(&state) {
            // Nothing of it shows any more but its entry, which the region's own test compares.
            assert!(
                of_capture["proc"].is_null() && cells[6..10].iter().all(|cell| cell.is_empty()),
                "{line}"
            );
            gone += 1;
            continue;
        }
        let answer = judged(&observation(&capture), pid.parse().unwrap(), Some(80 << 30));
        assert_eq!(answer.suspended.unwrap_or(false), state == "suspended", "{line}");
        let mapped = answer.region.as_ref().map(|region| if region.deleted { "deleted" } else { "yes" });
        assert_eq!(
            (answer.library.is_some(), mapped.unwrap_or("no")),
            (cells[6] == "yes", cells[7]),
            "{line}"
        );
        assert!(cells[5].is_empty() || answer.inner_pid.unwrap().to_string() == cells[5], "{line}");
        let devices = of_capture["observed"]["memory"].as_object().into_iter().flatten();
        let of_devices = devices.map(|(device, truth)| {
            ("memory", &answer.devices[device.parse::<usize>().unwrap()].memory, truth.as_str().unwrap())
        });
        // What held of SM was seen on the first device: older builds limit no other.
        let sm = answer.devices.first().map_or(&answer.sm, |device| &device.sm);
        let of_all = [("memory", &answer.memory, cells[8]), ("sm", sm, cells[9])];
        for (what, verdict, truth) in of_all.into_iter().chain(of_devices) {
            let unseen = UNSEEN.iter().find(|one| (one.0, one.1, one.2) == (name, process, what));
            let is_right = match unseen {
                Some((.., code)) => (verdict.in_force, verdict.code) == (InForce::Unknown, *code),
                None => is_right(verdict, truth),
            };
            told += 1;
            if !is_right {
                wrong.push(format!("{name} {process} {what}: {truth:?} told as {verdict:?}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{} of {told}:\n{}", wrong.len(), wrong.join("\n"));
    assert_eq!((told, gone), (TOLD, GONE), "rows of the table");
}

/// Verdicts that the table and its captures have a truth for, and processes that were
/// gone before anybody looked.
const TOLD: usize = 370;
const GONE: usize = 24;

/// Make sure that limit and use are those that programs saw when they asked CUDA right
/// after the capture.
#[test]
fn what_programs_saw() {
    let mut compared = 0;
    let files = fs::read_dir(fixtures()).unwrap().map(|entry| entry.unwrap().path());
    for path in files.filter(|path| path.extension().is_some_and(|ending| ending == "json")) {
        let capture = json(&path);
        let layout = capture["library"]["layout"].as_str().unwrap();
        // SoftMig asks NVML.
        if layout.starts_with("softmig") {
            continue;
        }
        let observation = observation(&capture);
        for process in capture["processes"].as_array().unwrap() {
            let answers = process["saw_after"].as_array().into_iter().flatten();
            let infos: Vec<&Value> = answers.filter(|one| one["info"].is_u64() && one["rc"] == 0).collect();
            if process["proc"].is_null() || infos.is_empty() {
                continue;
            }
            let answer = judged(&observation, process["pid"].as_u64().unwrap() as u32, Some(80 << 30));
            for (device, told) in answer.devices.iter().enumerate() {
                let Some(info) = infos.iter().find(|info| info["info"] == device) else { continue };
                let (free, total) = (info["free"].as_u64().unwrap(), info["total"].as_u64().unwrap());
                if told.memory_limit != Some(total) || told.memory_counted.is_none() {
                    // No limit, a limit that is not below the GPU's memory, or not known.
                    let is_said = told.memory.in_force != InForce::Yes;
                    assert!(is_said && !layout.starts_with("v0"), "{path:?} {device}: {told:?}");
                    continue;
                }
                assert_eq!(told.memory_counted, Some(total - free), "{path:?} {device}");
                assert!(told.memory_used <= told.memory_counted, "{path:?} {device}");
                compared += 1;
            }
        }
    }
    assert!(compared > 30, "{compared}");
}

fn is_right(verdict: &LimitVerdict, truth: &str) -> bool {
    match truth {
        "held" => matches!(verdict.in_force, InForce::Yes | InForce::Partly),
        "not held" => verdict.in_force == InForce::No,
        // The library ended the process that went over the limit.
        "killed" => verdict.in_force == InForce::Yes,
        "no limit" => verdict.in_force == InForce::No,
        "limit above total" => (verdict.in_force, verdict.code) == (InForce::No, LimitCode::AboveTotal),
        "" => !verdict.why.is_empty(),
        // Some devices held and others not.
        _ => false,
    }
}

/// Make sure that each way to be hooked or not is told right. The rows say what
/// showed of a process, the limit was 2 GiB.
#[test]
fn every_way_to_be_hooked() {
    let rows = json(&fixtures().join("outside/in-force.json"));
    let capture = truth("v1.2-one-plain");
    for row in rows.as_array().unwrap() {
        let mut observation = observation(&capture);
        let pid = observation.processes[0].pid;
        let traces = observation.processes[0].detail.as_mut().unwrap().vgpu.as_mut().unwrap();
        let is = |field: &str| row[field] == true;
        if !is("lib_mapped") {
            traces.libraries.clear();
        }
        if !is("region_mapped") {
            traces.regions.clear();
        }
        let text =
            row["ld_so_preload"].as_str().map(|text| Preload { text: text.into(), missing: Vec::new() });
        traces.preload = Answer::Known(text);
        let answer = judged(&observation, pid, Some(80 << 30));
        let allocated = row["allocated_until_refused"].as_u64();
        let held = allocated.map_or(is("slot"), |bytes| bytes <= 2 << 30);
        let expected = if held { InForce::Yes } else { InForce::No };
        assert_eq!((answer.memory.in_force, answer.sm.in_force), (expected, expected), "{row}\n{answer:?}");
        let code = match (is("lib_mapped"), is("region_mapped")) {
            (false, _) => LimitCode::NotLoaded,
            (true, false) => LimitCode::NoRegion,
            (true, true) => LimitCode::Held,
        };
        assert_eq!((answer.memory.code, answer.sm.code), (code, code), "{row}");
    }
}

/// One process under 1.2 with 2 GiB and 30 %, changed.
fn changed(change: impl FnOnce(&mut Process, &mut Vec<u8>)) -> Vgpu {
    let mut observation = observation(&truth("v1.2-one-plain"));
    let mut bytes = observation.regions[0].contents.known().unwrap().whole().unwrap();
    let process = &mut observation.processes[0];
    let pid = process.pid;
    change(process, &mut bytes);
    observation.regions[0].contents = Answer::Known(SparseBytes::of(&bytes, bytes.len() as u64));
    judged(&observation, pid, Some(80 << 30))
}

fn traces(process: &mut Process) -> &mut VgpuTraces {
    process.detail.as_mut().unwrap().vgpu.as_mut().unwrap()
}

fn variables(process: &mut Process, change: impl Fn(&mut Vec<Variable>)) {
    let detail = process.detail.as_mut().unwrap();
    for environment in [&mut detail.at_exec, &mut detail.live] {
        if let Answer::Known(environment) = environment {
            change(&mut environment.variables);
        }
    }
}

fn set(process: &mut Process, name: &str, value: &str) {
    variables(process, |all| {
        all.retain(|one| one.name != name);
        all.push(Variable { name: name.to_owned(), value: value.into(), cut: false });
    });
}

/// Make sure that nobody gets a yes by a file of his own with the library's name,
/// by data of that name, or by an entry that is not his.
#[test]
fn forged_libraries() {
    let code = |answer: Vgpu| (answer.memory.in_force, answer.memory.code, answer.sm.in_force);
    let facts = |uid, mode| Answer::Known(FileFacts { uid, mode, size: 1 });
    let own = changed(|process, _| traces(process).libraries[0].file = facts(1000, 0o755));
    assert_eq!(code(own), (InForce::Unknown, LimitCode::LibraryOfUser, InForce::Unknown));
    let open = changed(|process, _| traces(process).libraries[0].file = facts(0, 0o777));
    assert_eq!(code(open), (InForce::Unknown, LimitCode::LibraryOfUser, InForce::Unknown));
    let data = changed(|process, _| traces(process).libraries[0].executable = false);
    assert_eq!(code(data), (InForce::No, LimitCode::NotLoaded, InForce::No));
    let other = changed(|process, _| traces(process).pids = vec![process.pid, 9999]);
    assert_eq!(code(other), (InForce::No, LimitCode::NoEntry, InForce::No));
    let hidden = changed(|process, _| traces(process).pids.clear());
    assert_eq!(code(hidden), (InForce::Unknown, LimitCode::Unread, InForce::Unknown));
    let twice = changed(|process, _| {
        let second = MappedFile { inode: 7, ..traces(process).libraries[0].clone() };
        traces(process).libraries.push(second);
    });
    assert_eq!(code(twice), (InForce::Unknown, LimitCode::MixedLibraries, InForce::Unknown));
}

/// Make sure that a limit which is higher than meant, or gone from the region, is
/// no yes, and that one which is lower is.
#[test]
fn limits_that_differ() {
    for (memory, sm, expected) in [
        ("1g", "20", (InForce::Partly, LimitCode::LimitHigher)),
        ("4g", "50", (InForce::Yes, LimitCode::Held)),
    ] {
        let answer = changed(|process, _| {
            set(process, "CUDA_DEVICE_MEMORY_LIMIT", memory);
            set(process, "CUDA_DEVICE_SM_LIMIT", sm);
        });
        assert_eq!((answer.memory.in_force, answer.memory.code), expected);
        assert_eq!((answer.sm.in_force, answer.sm.code), expected);
    }
    let gone = changed(|_, bytes| bytes[1600..1856].fill(0));
    assert_eq!((gone.memory.code, gone.sm.code), (LimitCode::LimitMissing, LimitCode::LimitMissing));
}

/// Make sure that nothing is told of an SM limit or of reordered devices where
/// the environment is not known or changed.
#[test]
fn unknown_environments() {
    let unread = changed(|process, _| {
        let detail = process.detail.as_mut().unwrap();
        detail.at_exec = Answer::Missing("no right".to_owned());
        detail.live = Answer::Missing("no right".to_owned());
        traces(process).variables = Answer::default();
    });
    let unknown = (InForce::Unknown, LimitCode::EnvironmentUnknown);
    assert_eq!((unread.memory.in_force, unread.memory.code), unknown);
    assert_eq!((unread.sm.in_force, unread.sm.code), unknown);
    let became = changed(|process, _| {
        set(process, "GPU_CORE_UTILIZATION_POLICY", "force");
        let Answer::Known(live) = &mut process.detail.as_mut().unwrap().live else { panic!() };
        live.variables.retain(|one| one.name != "GPU_CORE_UTILIZATION_POLICY");
        traces(process).variables = Answer::default();
    });
    assert_eq!((became.memory.in_force, became.sm.in_force), (InForce::Yes, InForce::Unknown));
}

/// Make sure that a limit at or above the GPU's memory is no yes, and that a
/// large one is not one where the memory is not known.
#[test]
fn memory_of_gpus() {
    let capture = truth("v1.2-over-total");
    let (observation, pid) = (observation(&capture), capture["processes"][0]["pid"].as_u64().unwrap() as u32);
    let code = |total| judged(&observation, pid, total).memory.code;
    assert_eq!(code(Some(80 << 30)), LimitCode::AboveTotal);
    assert_eq!(code(Some(210 << 30)), LimitCode::TotalUnknown);
    assert_eq!(code(None), LimitCode::TotalUnknown);
    assert_eq!(code(Some(400 << 30)), LimitCode::Held);
}

/// Make sure that SoftMig's exception for root is known, and unknown where the
/// process may be root in a namespace.
#[test]
fn softmig_and_root() {
    let capture = truth("softmig-job");
    let pid = capture["processes"][0]["pid"].as_u64().unwrap() as u32;
    let told = |uid, namespace| {
        let mut observation = observation(&capture);
        observation.processes[0].uid = uid;
        traces(&mut observation.processes[0]).other_user_namespace = namespace;
        let answer = judged(&observation, pid, Some(80 << 30));
        (answer.memory.in_force, answer.memory.code)
    };
    assert_eq!(told(65534, Some(false)), (InForce::Yes, LimitCode::Held));
    assert_eq!(told(0, Some(false)), (InForce::No, LimitCode::RootExempt));
    assert_eq!(told(65534, Some(true)), (InForce::Unknown, LimitCode::UserNamespace));
    assert_eq!(told(65534, None), (InForce::Unknown, LimitCode::UserNamespace));
}

/// Make sure that a process whose environment was wiped is measured by what its
/// container was meant to have.
#[test]
fn wiped_environments() {
    let mut all = observation(&truth("v1.2-env-wiped"));
    let pid = all.processes[0].pid;
    assert_eq!(judged(&all, pid, None).memory.code, LimitCode::NoLimit);
    all.processes.extend(observation(&truth("v1.2-one-plain")).processes);
    let answer = judged(&all, pid, None);
    assert_eq!((answer.memory.in_force, answer.memory.code), (InForce::No, LimitCode::LimitMissing));
    assert_eq!(answer.devices[0].memory_meant, Some(2 << 30));
}

/// A process under 1.2 with 30 %, with what its library has noted and what its region
/// says of the switch.
fn switched(noted: Answer<LibraryVariables>, in_region: u8) -> (InForce, LimitCode) {
    let answer = changed(|process, bytes| {
        traces(process).variables = noted;
        bytes[2_008_900] = in_region;
    });
    (answer.sm.in_force, answer.sm.code)
}

/// Make sure that an SM limit of a build that notes the region's switch is told by
/// what it has noted and by nothing else: not by the region, whatever that says.
#[test]
fn noted_switches() {
    let of = |util_switch| Answer::Known(LibraryVariables { util_switch, ..Default::default() });
    for in_region in [0, 1] {
        assert_eq!(switched(of(Some(1)), in_region), (InForce::Yes, LimitCode::Held));
        assert_eq!(switched(of(Some(0)), in_region), (InForce::No, LimitCode::SwitchedOff));
        let unknown = (InForce::Unknown, LimitCode::SwitchUnknown);
        assert_eq!(switched(of(None), in_region), unknown);
        assert_eq!(switched(Answer::Missing("stripped".to_owned()), in_region), unknown);
        // The environment decides for every build, before anything is noted.
        let forced = LibraryVariables { policy: Some(1), ..Default::default() };
        assert_eq!(switched(Answer::Known(forced), in_region), (InForce::Yes, LimitCode::Held));
        let disabled = LibraryVariables { policy: Some(2), ..Default::default() };
        assert_eq!(switched(Answer::Known(disabled), in_region), (InForce::No, LimitCode::PolicyDisabled));
    }
}

/// Make sure that a pid on the node which somebody has written into the region, and
/// limits that were changed there, count no more than what the library goes by.
#[test]
fn noted_pids_and_limits() {
    let of = |found, limit| {
        let (host_pid_found, sm_limits) = (Some(found), vec![limit; 16]);
        Answer::Known(LibraryVariables { util_switch: Some(1), policy: None, host_pid_found, sm_limits })
    };
    assert_eq!(switched(of(1, 30), 1), (InForce::Yes, LimitCode::Held));
    assert_eq!(switched(of(0, 30), 1), (InForce::No, LimitCode::NoHostPid));
    assert_eq!(switched(of(1, 60), 1), (InForce::Partly, LimitCode::LimitHigher));
    assert_eq!(switched(of(1, 100), 1), (InForce::No, LimitCode::LimitMissing));
}

/// Make sure that an entry which is not counted any more makes a no where the
/// process writes to it, an unknown where that does not show, and nothing where a
/// process of another time left it.
#[test]
fn moved_entries() {
    let told = |host_pid: fn(i32) -> i32, newer: i64| {
        let answer = changed(|process, bytes| {
            let first = 1856..1856 + 1960;
            let (entry, at) = (bytes[first.clone()].to_vec(), first.end + 1960);
            bytes[at..at + 1960].copy_from_slice(&entry);
            let pid = host_pid(process.pid as i32);
            bytes[at + 4..at + 8].copy_from_slice(&pid.to_le_bytes());
            let lock = i64::from_le_bytes(entry[1936..1944].try_into().unwrap()) + newer;
            bytes[at + 1936..at + 1944].copy_from_slice(&lock.to_le_bytes());
        });
        (answer.memory.in_force, answer.memory.code)
    };
    let held = (InForce::Yes, LimitCode::Held);
    assert_eq!(told(|own| own, 2), (InForce::No, LimitCode::MovedEntry));
    assert_eq!(told(|own| own, 0), (InForce::Unknown, LimitCode::MovedEntry));
    assert_eq!(told(|own| own, -2), held);
    assert_eq!(told(|own| own + 1, 2), held);
    assert_eq!(told(|_| 0, 2), (InForce::Unknown, LimitCode::MovedEntry));
}

/// Make sure that a lock that a dead writer holds for ever changes no verdict.
#[test]
fn locks_that_stay() {
    let answer = changed(|_, bytes| {
        bytes[1856 + 1936] |= 1;
        // The lock of the region, and its owner.
        bytes[24] = 0;
        bytes[16..24].copy_from_slice(&4_194_000_u64.to_le_bytes());
    });
    assert_eq!((answer.memory.code, answer.sm.code), (LimitCode::Held, LimitCode::Held));
}

/// Make sure that a process which a region has, without a file of the library's
/// name, is neither a yes nor a no, and that a library which a group can write is no
/// yes.
#[test]
fn unnamed_libraries() {
    let code = |answer: Vgpu| (answer.memory.in_force, answer.memory.code);
    let unnamed = changed(|process, _| traces(process).libraries.clear());
    assert_eq!(code(unnamed), (InForce::Unknown, LimitCode::LibraryUnnamed));
    let other = changed(|process, _| {
        traces(process).libraries.clear();
        traces(process).pids = vec![process.pid, 9999];
    });
    assert_eq!(code(other), (InForce::No, LimitCode::NotLoaded));
    let group = changed(|process, _| {
        traces(process).libraries[0].file = Answer::Known(FileFacts { uid: 0, mode: 0o775, size: 1 });
    });
    assert_eq!(code(group), (InForce::Unknown, LimitCode::LibraryOfUser));
    let unread = changed(|process, _| {
        traces(process).libraries.clear();
        traces(process).regions.clear();
        traces(process).cut = true;
    });
    assert_eq!(code(unread), (InForce::Unknown, LimitCode::Unread));
}

/// Make sure that a process of a container which starts with higher limits and a
/// region of its own is measured by what its container was given.
#[test]
fn environments_of_ones_own() {
    let capture = truth("v1.2-one-plain");
    let mut all = observation(&capture);
    let mut first = all.processes[0].clone();
    (first.pid, first.start_time) = (1, 0);
    set(&mut first, "CUDA_DEVICE_MEMORY_LIMIT", "1g");
    set(&mut first, "CUDA_DEVICE_SM_LIMIT", "10");
    let pid = all.processes[0].pid;
    all.processes.push(first);
    let answer = judged(&all, pid, Some(80 << 30));
    assert_eq!((answer.memory.in_force, answer.memory.code), (InForce::Partly, LimitCode::LimitHigher));
    assert_eq!((answer.sm.in_force, answer.sm.code), (InForce::Partly, LimitCode::LimitHigher));
    assert_eq!((answer.meant_by, answer.devices[0].memory_meant), (MeantBy::Container, Some(1 << 30)));
}

/// A process of a capture with two GPUs, `CUDA_VISIBLE_DEVICES` set to this value and
/// use on the first of these devices alone, if `one_used`.
fn ordered(value: &str, one_used: bool) -> Vgpu {
    let mut all = observation(&truth("v1.2-cvd-reorder"));
    let mut bytes = all.regions[0].contents.known().unwrap().whole().unwrap();
    if one_used {
        bytes[1856 + 8 + 64..1856 + 8 + 128].fill(0);
    }
    all.regions[0].contents = Answer::Known(SparseBytes::of(&bytes, bytes.len() as u64));
    let pid = all.processes[0].pid;
    set(&mut all.processes[0], "CUDA_VISIBLE_DEVICES", value);
    judged(&all, pid, Some(80 << 30))
}

/// Make sure that UUIDs in CUDA_VISIBLE_DEVICES are taken as the library takes them,
/// as 0: a process that initialized NVML first has all of its use booked there, and
/// the limits of its other devices hold nothing.
#[test]
fn orders_by_uuid() {
    let uuids = ["GPU-1d9a4c60-7b52-4e0f-a3c8-5f21c0de0000", "GPU-2e8b5d71-8c63-4f10-b4d9-6032c0de0001"];
    let codes = |answer: &Vgpu| [answer.devices[0].memory.code, answer.devices[1].memory.code];
    for value in [uuids.join(","), format!("{},{}", uuids[1], uuids[0])] {
        let both = ordered(&value, false);
        assert_eq!(codes(&both), [LimitCode::Held, LimitCode::Held], "{value}");
        let one = ordered(&value, true);
        assert_eq!(codes(&one), [LimitCode::Held, LimitCode::OrderUnknown], "{value}");
        assert_eq!(one.devices[1].memory_used, None);
    }
    // By numbers nothing is booked elsewhere.
    assert_eq!(codes(&ordered("0,1", true)), [LimitCode::Held, LimitCode::Held]);
    let named = ordered(&format!("{},{}", uuids[1], uuids[0]), false);
    assert_eq!(named.devices[0].uuid.as_deref(), Some(uuids[1]));
}

/// A process under v0b with 2 GiB and 30 % in its region, with these limits in its
/// environment and in `/overrideEnv`.
fn overridden(environment: Option<(&str, &str)>, file: Answer<Vec<Variable>>) -> Vgpu {
    let mut all = observation(&truth("v0b-one-plain"));
    let pid = all.processes[0].pid;
    match environment {
        Some((memory, sm)) => {
            set(&mut all.processes[0], "CUDA_DEVICE_MEMORY_LIMIT", memory);
            set(&mut all.processes[0], "CUDA_DEVICE_SM_LIMIT", sm);
        }
        None => variables(&mut all.processes[0], |all| all.clear()),
    }
    let file = OverrideFile { file: FileFacts::default(), variables: file };
    traces(&mut all.processes[0]).override_file = Some(file);
    judged(&all, pid, Some(80 << 30))
}

/// Make sure that `/overrideEnv` counts as what was meant where it names lower limits
/// than the environment or the environment names none, and that a higher one, which a
/// container can bring with it, is told and is no excuse.
#[test]
fn override_files() {
    let limits = |memory: &str, sm: &str| {
        let one =
            |name: &str, value: &str| Variable { name: name.to_owned(), value: value.into(), cut: false };
        Answer::Known(vec![one("CUDA_DEVICE_MEMORY_LIMIT", memory), one("CUDA_DEVICE_SM_LIMIT", sm)])
    };
    let told = |answer: &Vgpu| {
        let device = &answer.devices[0];
        (answer.meant_by, device.memory_meant, device.sm_meant, answer.memory.code, device.sm.code)
    };
    let (held, higher) = (LimitCode::Held, LimitCode::LimitHigher);
    let file = MeantBy::OverrideFile;
    // The region was made by the file's limits: nothing is stale.
    let answer = overridden(Some(("4g", "60")), limits("2g", "30"));
    assert_eq!(told(&answer), (file, Some(2 << 30), Some(30), held, held));
    assert_eq!(answer.meant_in.as_deref(), Some("/overrideEnv"));
    // A login without an environment.
    let answer = overridden(None, limits("2g", "30"));
    assert_eq!(told(&answer), (file, Some(2 << 30), Some(30), held, held));
    let answer = overridden(None, limits("1g", "20"));
    assert_eq!(told(&answer), (file, Some(1 << 30), Some(20), higher, higher));
    // The file raises the limits that the environment names.
    let answer = overridden(Some(("1g", "20")), limits("2g", "30"));
    assert_eq!(told(&answer), (MeantBy::Environment, Some(1 << 30), Some(20), higher, higher));
    assert!(answer.memory.why.contains("that /overrideEnv names"), "{}", answer.memory.why);
    for nothing in [limits("0", "0"), limits("abc", "100"), Answer::Missing("leased".to_owned())] {
        let answer = overridden(Some(("2g", "30")), nothing);
        assert_eq!(told(&answer), (MeantBy::Environment, Some(2 << 30), Some(30), held, held));
    }
}

/// Make sure that `/overrideEnv` changes nothing for a job under SoftMig.
#[test]
fn override_files_and_softmig() {
    let mut all = observation(&truth("softmig-job"));
    let before = judged(&all, all.processes[0].pid, Some(80 << 30));
    let low = Variable { name: "CUDA_DEVICE_MEMORY_LIMIT".to_owned(), value: "1k".into(), cut: false };
    traces(&mut all.processes[0]).override_file =
        Some(OverrideFile { file: FileFacts::default(), variables: Answer::Known(vec![low]) });
    assert_eq!(judged(&all, all.processes[0].pid, Some(80 << 30)), before);
}

/// Make sure that what was meant for a job under SoftMig is what stands in the node's
/// file of the job that it is in, whatever file it is shown and whatever job it names.
#[test]
fn forged_job_files() {
    let capture = truth("softmig-job");
    let told = |files: &[(&str, bool, bool, u32)]| {
        let mut all = observation(&capture);
        let file = |(text, outside, foreign, uid): &(&str, bool, bool, u32)| JobFile {
            path: "/var/run/softmig/4711.conf".into(),
            outside: *outside,
            foreign: *foreign,
            regular: true,
            file: FileFacts { uid: *uid, mode: 0o644, size: 1 },
            text: Answer::Known(format!("CUDA_DEVICE_MEMORY_LIMIT={text}\n").as_str().into()),
        };
        all.processes[0].uid = 65534;
        traces(&mut all.processes[0]).job_files = files.iter().map(file).collect();
        let answer = judged(&all, all.processes[0].pid, Some(80 << 30));
        (answer.devices[0].memory_meant.unwrap() >> 30, answer.memory.code)
    };
    let (held, higher) = (LimitCode::Held, LimitCode::LimitHigher);
    // Its region has 4 GiB.
    assert_eq!(told(&[("4g", false, false, 0)]), (4, held));
    assert_eq!(told(&[("64g", false, false, 1000), ("2g", true, false, 0)]), (2, higher));
    assert_eq!(told(&[("4g", false, true, 0), ("2g", false, false, 0)]), (2, higher));
    assert_eq!(told(&[("4g", false, true, 0)]), (4, held));
}

/// Make sure that a limit may have been meant, and is no "none was set", where the
/// environment is not known or was not kept to its end.
#[test]
fn limits_that_may_have_been_meant() {
    let unread = changed(|process, bytes| {
        process.detail.as_mut().unwrap().at_exec = Answer::Missing("no right".to_owned());
        bytes[1600..1856].fill(0);
    });
    let unknown = (InForce::Unknown, LimitCode::EnvironmentUnknown);
    assert_eq!((unread.memory.in_force, unread.memory.code), unknown);
    assert_eq!((unread.sm.in_force, unread.sm.code), unknown);
    // A hostile user pads the environment until the limits are left out.
    let padded = changed(|process, bytes| {
        let Answer::Known(environment) = &mut process.detail.as_mut().unwrap().at_exec else { panic!() };
        environment.variables.clear();
        environment.cut = Some("its values are longer than 128 KiB".to_owned());
        bytes[1600..1856].fill(0);
    });
    assert_eq!((padded.memory.in_force, padded.memory.code), unknown);
    assert_eq!(padded.devices[0].memory_meant, None);
    // What was kept of a limit may end before its unit.
    let long = changed(|process, bytes| {
        let Answer::Known(environment) = &mut process.detail.as_mut().unwrap().at_exec else { panic!() };
        environment.variables.iter_mut().for_each(|one| one.cut = one.name == "CUDA_DEVICE_MEMORY_LIMIT");
        bytes[1600..1856].fill(0);
    });
    assert_eq!((long.memory.in_force, long.memory.code), unknown);
    // Others that were left out do not make a limit unknown that was found.
    let found = changed(|process, bytes| {
        let Answer::Known(environment) = &mut process.detail.as_mut().unwrap().at_exec else { panic!() };
        environment.cut = Some("its values are longer than 128 KiB".to_owned());
        bytes[1600..1856].fill(0);
    });
    assert_eq!((found.memory.in_force, found.memory.code), (InForce::No, LimitCode::LimitMissing));
    // The first process of its container tells.
    let mut all = observation(&truth("v1.2-env-wiped"));
    all.processes[0].detail.as_mut().unwrap().at_exec = Answer::Missing("no right".to_owned());
    let pid = all.processes[0].pid;
    all.processes.extend(observation(&truth("v1.2-one-plain")).processes);
    let answer = judged(&all, pid, None);
    assert_eq!((answer.memory.code, answer.meant_by), (LimitCode::LimitMissing, MeantBy::Container));
}

/// Make sure that a process with more mappings than are looked at is neither a yes nor
/// a no.
#[test]
fn too_many_mappings() {
    let answer = changed(|process, _| traces(process).cut = true);
    let unknown = (InForce::Unknown, LimitCode::Unread);
    assert_eq!((answer.memory.in_force, answer.memory.code), unknown);
    assert_eq!((answer.sm.in_force, answer.sm.code), unknown);
}

/// Make sure that a user who maps the region of another beside a library of his own
/// makes nothing of the other's unknown, and that a second build of root's does.
#[test]
fn neighbours_with_libraries_of_their_own() {
    let told = |uid| {
        let mut all = observation(&truth("v1.2-one-plain"));
        let pid = all.processes[0].pid;
        let mut other = all.processes[0].clone();
        other.pid = pid + 1;
        let library = &mut traces(&mut other).libraries[0];
        library.inode += 1;
        library.file = Answer::Known(FileFacts { uid, mode: 0o755, size: 1 });
        all.processes.push(other);
        judged(&all, pid, Some(80 << 30)).memory.code
    };
    assert_eq!((told(1000), told(0)), (LimitCode::Held, LimitCode::MixedLibraries));
}

/// Make sure that a region which names a GPU that its process may not open says nothing
/// of that GPU: neither which it is nor how much memory it has.
#[test]
fn forged_uuids() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/nodes/hami-containers.json");
    let honest: Observation = serde_json::from_value(json(&path)).unwrap();
    let node =
        gpumap::analyse::node(&honest, &Default::default(), &gpumap::analyse::TimeLimit::default()).unwrap();
    let gpus = node.gpus;
    let mut denied = 0;
    for process in gpumap::analyse::limits(&honest, &gpumap::analyse::TimeLimit::default()).unwrap().processes
    {
        let limits = process.vgpu.unwrap();
        let [VgpuDevice { uuid: Some(_), .. }] = limits.devices.as_slice() else { continue };
        let region = limits.region.unwrap();
        let cgroup = node.cgroups.iter().find(|cgroup| cgroup.path == process.cgroup).unwrap();
        for gpu in &gpus {
            let mut forged = honest.clone();
            let is_its = |one: &&mut SharedRegion| (one.dev, one.inode) == (region.dev, region.inode);
            let shared = forged.regions.iter_mut().find(is_its).unwrap();
            let mut bytes = shared.contents.known().unwrap().whole().unwrap();
            bytes[64..104].copy_from_slice(gpu.uuid.as_ref().unwrap().as_bytes());
            shared.contents = Answer::Known(SparseBytes::of(&bytes, bytes.len() as u64));
            let told =
                gpumap::analyse::limits(&forged, &gpumap::analyse::TimeLimit::default()).unwrap().processes;
            let told = told.into_iter().find(|one| one.pid == process.pid).unwrap().vgpu.unwrap();
            let verdict = cgroup.gpus.iter().find(|verdict| verdict.gpu == gpu.key).unwrap().verdict;
            let is_denied = verdict == Verdict::Deny;
            let expected = (!is_denied).then(|| gpu.key.clone());
            assert_eq!(told.devices[0].gpu, expected, "{} {}", process.pid, gpu.key);
            assert_eq!(told.devices[0].uuid, gpu.uuid, "{}", process.pid);
            denied += usize::from(is_denied);
        }
    }
    assert!(denied > 0);
}

/// Make sure that no SM limit is told as in force on further devices of builds that look at
/// the first one alone, and that it may be on those of newer ones.
#[test]
fn further_devices() {
    let mut seen = [0; 3];
    let table = fs::read_to_string(fixtures().join("outside/observed.tsv")).unwrap();
    for line in table.lines().skip(1).filter(|line| line.contains("\trunning\t")) {
        let cells: Vec<&str> = line.split('\t').collect();
        let answer = judged(&observation(&truth(cells[0])), cells[4].parse().unwrap(), Some(80 << 30));
        for device in answer.devices.iter().skip(1) {
            let in_force = device.sm.in_force == InForce::Yes;
            let build =
                if cells[0].starts_with("v1.2") { 2 } else { usize::from(cells[0].starts_with("v1.1post")) };
            assert!(build == 2 || !in_force, "{line}: {device:?}");
            seen[build] += usize::from(in_force || device.sm.code == LimitCode::FirstDeviceAlone);
        }
    }
    assert!(seen.iter().all(|count| *count > 0), "{seen:?}");
}
