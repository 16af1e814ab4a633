//! Runs Slurm's hooks of the examples by a real Slurm, with the gpumap under test
//! and with ones that are broken in every way.
//!
//! Needs what `job_cgroups` needs.

use std::fs;
use std::mem::ManuallyDrop;
use std::os::unix::fs::PermissionsExt as _;

use crate::support::bpf;
use crate::support::cgroup::Cgroup;
use crate::support::node::allow_all;
use crate::support::slurm::Cluster;
use crate::support::slurm::answer::array;
use crate::support::slurm::hooks::script;
use crate::support::slurm::job::WAIT;
use crate::support::slurm::spec::Spec;
use crate::support::slurm::with_cluster;

/// What may be in gpumap's place, by name: an exit status without a word, a
/// crash, a finding that is none, one that hangs whatever it is told, nothing.
const BROKEN: [(&str, Option<&str>); 5] = [
    ("exit 2", Some("#!/bin/sh\nexit 2\n")),
    ("crash", Some("#!/bin/sh\nkill -SEGV $$\n")),
    ("exit 1", Some("#!/bin/sh\necho usage: gpumap; exit 1\n")),
    ("hang", Some("#!/bin/sh\ntrap '' TERM INT HUP\nexec sleep 1000\n")),
    ("nothing", None),
];

/// Runs something with each of the broken ones, then puts the right one back.
fn with_broken(cluster: &Cluster, test: impl Fn(&str)) {
    let gpumap = cluster.hooks_gpumap();
    let right = fs::read_to_string(&gpumap).expect("a script");
    for (name, text) in BROKEN {
        match text {
            Some(text) => script(&gpumap, text),
            None => fs::remove_file(&gpumap).expect("a file"),
        }
        test(name);
    }
    script(&gpumap, &right);
}

/// A process of nobody's that holds these devices; returns its pid inside.
fn stranger(cluster: &Cluster, name: &str, devices: &[&str]) -> u32 {
    let mut command = cluster.command("setsid");
    let ready = cluster.work().join("out").join(name);
    command.arg("-f").arg(cluster.work().join("actor"));
    command.args(devices.iter().flat_map(|device| ["open", device]));
    let status = command.arg("ready").arg(&ready).status().expect("setsid");
    assert!(status.success());
    cluster.wait_until(name, || ready.exists());
    fs::read_to_string(ready).expect("a file").trim().parse().expect("a pid")
}

/// The same of a user's, with an environment that names a job.
fn stranger_as(cluster: &Cluster, name: &str, uid: u32, job: &str, devices: &[&str]) -> u32 {
    let mut command = cluster.command("setpriv");
    let ready = cluster.work().join("out").join(name);
    command.args([&format!("--reuid={uid}"), "--clear-groups", "setsid", "-f"]);
    command.arg(cluster.work().join("actor")).env("SLURM_JOB_ID", job);
    command.args(devices.iter().flat_map(|device| ["open", device]));
    assert!(command.arg("ready").arg(&ready).status().expect("setpriv").success());
    cluster.wait_until(name, || ready.exists());
    fs::read_to_string(ready).expect("a file").trim().parse().expect("a pid")
}

/// Make sure that the Prolog says nothing on a clean node, names a stranger on
/// the GPU that a job is about to get and no other, and never is in the way.
#[test]
fn prolog() {
    let spec = Spec::openable().with_hooks("Prolog=@WORK@/hooks/prolog.sh\n");
    with_cluster(&spec, |cluster| {
        let job = cluster.submit(&["--gres=gpu:1"], WAIT);
        job.pid("pid");
        assert_eq!(cluster.logged(), "");
        let foreign = stranger(cluster, "stranger", &["/dev/hl1", "/dev/hl3"]);
        let second = cluster.submit(&["--gres=gpu:1"], WAIT);
        second.pid("pid");
        let logged = cluster.logged();
        assert!(logged.contains(&format!("pid {foreign}")), "{logged}");
        assert!(logged.contains("held-by-foreign") && logged.contains("hl1"), "{logged}");
        assert!(!logged.contains("hl3"), "{logged}");
        let id = second.id.to_string();
        let free = |devices: &[&str]| cluster.inside(&[&["free", "--job", &id], devices].concat());
        let (held, code) = free(&["/dev/hl1"]);
        let holders: Vec<_> = array(&held["free"]["holders"]).iter().map(|holder| &holder["pid"]).collect();
        assert_eq!((code, &holders[..]), (1, &[&foreign.into()][..]), "{held}");
        assert_eq!(free(&["/dev/hl2"]).1, 0);
        second.cancel();
        with_broken(cluster, |how| {
            let job = cluster.submit(&["--gres=gpu:1"], WAIT);
            job.pid("pid");
            job.cancel();
            cluster.assert_up();
            eprintln!("{how}: the job ran");
        });
        assert!(cluster.logged().contains("gpumap-prolog: usage: gpumap"), "{}", cluster.logged());
    });
}

/// Make sure that the Epilog ends what the job left on its GPU, nothing of the
/// same user's other job, and never drains the node.
#[test]
fn epilog() {
    let lines = "Prolog=@WORK@/hooks/prolog.sh\nEpilog=@WORK@/hooks/epilog.sh\n";
    let spec = Spec::openable().with_hooks(lines);
    with_cluster(&spec, |cluster| {
        cluster.run("mkdir", &["/sys/fs/cgroup/left"]);
        let out = cluster.work().join("out");
        fs::set_permissions(&out, fs::Permissions::from_mode(0o1777)).expect("a directory");
        let submit = |gpus: &str| {
            let job = cluster.submit(&["--uid=nobody", gpus], LEAVE);
            for name in ["holds", "idle"] {
                let line = format!("echo {} > /sys/fs/cgroup/left/cgroup.procs", job.pid(name));
                cluster.run("sh", &["-c", &line]);
            }
            job
        };
        let other = submit("--gres=gpu:2");
        // Names the next job and holds its GPU, but was there before.
        let next = (other.id + 1).to_string();
        let older = stranger_as(cluster, "older", 65534, &next, &["/dev/hl2"]);
        // So does a process of root, which no user's job can be.
        let roots = stranger_as(cluster, "roots", 0, &next, &["/dev/hl2"]);
        std::thread::sleep(std::time::Duration::from_secs(3));
        let job = submit("--gres=gpu:1");
        assert_eq!(job.id.to_string(), next);
        fs::write(out.join(format!("{}.go", job.id)), "").expect("a file");
        job.wait_for_end();
        let holds = job.pid("holds");
        cluster.wait_for_end(holds);
        let said = || cluster.logged().lines().filter(|line| line.starts_with("gpumap-epilog: ")).count();
        cluster.wait_until("the epilog's word", || said() == 2);
        let logged = cluster.logged();
        let left = |pid: u32, how: &str| {
            let who =
                format!("gpumap-epilog: job {} left process {pid} (uid 65534, by environment) on ", job.id);
            assert!(logged.lines().any(|line| line.starts_with(&who) && line.ends_with(how)), "{logged}");
        };
        left(holds, ": killed");
        left(older, ": spared: it is older than the job");
        for pid in [job.pid("idle"), other.pid("holds"), other.pid("idle"), older, roots] {
            assert!(cluster.outside_pid(pid).is_some(), "{pid} is not to be ended: {logged}");
        }
        cluster.assert_up();
        with_broken(cluster, |how| {
            let job = cluster.submit(&["--gres=gpu:1"], "say_env env");
            job.wait("env");
            job.wait_for_end();
            cluster.assert_up();
            eprintln!("{how}: the node stays");
        });
    });
}

/// Two processes that are taken out of the job's cgroup: one holds its GPUs, one
/// nothing. The job ends when it is told to.
const LEAVE: &str = r#"
arguments=()
for number in ${SLURM_JOB_GPUS//,/ }; do arguments+=(open /dev/hl$number); done
setsid $actor ${arguments[@]} ready $OUT.holds &
setsid $actor ready $OUT.idle &
while [ ! -e $OUT.go ]; do sleep 0.05; done
"#;

/// Make sure that the TaskProlog tells a task that asks for a GPU which it
/// cannot have, root's and a user's, and says nothing to one that does not.
#[test]
fn task_prolog() {
    // Slurm does not touch the variable then.
    let conf = "Name=gpu File=/dev/nvidia[0-3] Flags=no_gpu_env\n";
    let spec = Spec { conf, ..Spec::nvidia().with_hooks("TaskProlog=@WORK@/hooks/task-prolog.sh\n") };
    with_cluster(&spec, |cluster| {
        let output = |user: &str, script: &str| {
            let uid = format!("--uid={user}");
            let job = cluster.submit(&["--gres=gpu:2", &uid], script);
            job.wait_for_end();
            job.output()
        };
        let step = |list: &str| format!("export CUDA_VISIBLE_DEVICES={list}\nsrun echo it runs");
        for user in ["root", "nobody"] {
            assert_eq!(output(user, &step("1,0")), "it runs\n");
            assert_eq!(output(user, "unset CUDA_VISIBLE_DEVICES\nsrun echo it runs"), "it runs\n");
            let line =
                "gpumap: CUDA_VISIBLE_DEVICES=1,3: there is no GPU 3: this task may open 2, counted from 0";
            assert_eq!(output(user, &step("1,3")), format!("{line}\nit runs\n"));
        }
        with_broken(cluster, |how| assert_eq!(output("nobody", &step("3")), "it runs\n", "{how}"));
    });
}

/// Make sure that Slurm's Prolog and Epilog get the variables that gpumap reads
/// with `--from-env`, and its health check the node's name.
#[test]
fn environments() {
    let lines = ["Prolog", "Epilog", "HealthCheckProgram"].map(|hook| format!("{hook}=@WORK@/hooks/say\n"));
    let spec = Spec::nvidia().with_hooks(&format!("{}HealthCheckInterval=1\n", lines.concat()));
    with_cluster(&spec, |cluster| {
        let said = |name: &str| cluster.work().join(format!("out/said.{name}"));
        let to = cluster.work().join("out/said").display().to_string();
        let say =
            format!("#!/bin/sh\nto={to}.${{SLURM_SCRIPT_CONTEXT-health}}\nenv >$to.new\nmv $to.new $to\n");
        script(&cluster.work().join("hooks/say"), &say);
        let job = cluster.submit(&["--gres=gpu:2", "--uid=nobody"], "say_env env");
        job.wait("env");
        job.wait_for_end();
        for hook in ["prolog_slurmd", "epilog_slurmd"] {
            cluster.wait_until(hook, || said(hook).exists());
            let text = fs::read_to_string(said(hook)).expect("a file");
            let has =
                |line: &str| assert!(text.lines().any(|other| other == line), "{hook}: no {line} in {text}");
            has(&format!("SLURM_JOB_ID={}", job.id));
            has("SLURM_JOB_UID=65534");
            has("SLURM_JOB_GPUS=0,1");
            has("CUDA_VISIBLE_DEVICES=0,1");
            has(&format!("SLURM_SCRIPT_CONTEXT={hook}"));
            has(&format!("SLURM_CONF={}", cluster.work().join("etc/slurm.conf").display()));
            assert!(text.contains("SLURMD_NODENAME=") && !text.contains("\nPATH="), "{text}");
        }
        cluster.wait_until("a health check", || said("health").exists());
        let health = fs::read_to_string(said("health")).expect("a file");
        assert!(health.contains("SLURMD_NODENAME=") && !health.contains("\nPATH="), "{health}");
    });
}

/// Make sure that the health check drains a node where a container dropped
/// Slurm's denials, with the reason, and not a clean one; that it keeps the
/// reason of a node that is drained already, and that a gpumap that cannot tell
/// drains nothing.
#[test]
fn health_check() {
    let lines = "HealthCheckProgram=@WORK@/hooks/health-check.sh\nHealthCheckInterval=1\n";
    with_cluster(&Spec::nvidia().with_hooks(lines), |cluster| {
        let job = cluster.submit(&["--gres=gpu:1"], WAIT);
        job.pid("pid");
        let report = cluster.work().join("var/gpumap/audit.json");
        let again = || {
            let _gone = fs::remove_file(&report);
            cluster.wait_until("a health check", || report.exists());
        };
        again();
        again();
        cluster.assert_up();
        assert_eq!(cluster.logged(), "");
        let health = || {
            let mut command = cluster.command("env");
            let name = fs::read_to_string("/proc/sys/kernel/hostname").expect("a name");
            command.arg(format!("SLURMD_NODENAME={}", name.trim().split('.').next().expect("a part")));
            let output = command.arg(cluster.work().join("hooks/health-check.sh")).output().expect("a run");
            assert!(output.status.success(), "{output:?}");
        };
        let quick: [&str; 2] = ["#!/bin/sh\nexit 3\n", "#!/bin/sh\necho 'GPUMAP UNKNOWN - no'; exit 3\n"];
        let right = fs::read_to_string(cluster.hooks_gpumap()).expect("a script");
        for text in
            quick.into_iter().chain(BROKEN.iter().filter_map(|(name, text)| text.filter(|_| *name != "hang")))
        {
            script(&cluster.hooks_gpumap(), text);
            health();
            cluster.assert_up();
        }
        assert!(
            cluster.logged().contains("gpumap-health: gpumap could not tell (exit 3): GPUMAP UNKNOWN - no"),
            "{}",
            cluster.logged()
        );
        script(&cluster.hooks_gpumap(), &right);

        let program = allow_all();
        let user = Cgroup::open(job.cgroup("/step_batch/user/task_0")).expect("a cgroup");
        let user = ManuallyDrop::new(user);
        bpf::attach(user.dir(), &program, bpf::OVERRIDE, None).expect("attached");
        let node = cluster.wait_for_drain();
        assert!(node.contains("Reason=gpumap: ") && node.contains(&format!("job {}", job.id)), "{node}");
        cluster.run(
            "scontrol",
            &["update", &format!("NodeName={}", node_name(&node)), "State=DRAIN", "Reason=mine"],
        );
        health();
        assert!(cluster.node().contains("Reason=mine"), "{}", cluster.node());
    });
}

fn node_name(node: &str) -> &str {
    node.split_whitespace().find_map(|word| word.strip_prefix("NodeName=")).expect("a name")
}
