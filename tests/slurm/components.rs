//! Heterogeneous jobs of a real Slurm: components that have numbers of their own, on two
//! slurmd of one machine.
//!
//! Needs root, a cgroup2 mount, bpf(2), Slurm and what [`super::other_versions`] needs;
//! without them the tests say so and pass, unless `GPUMAP_REQUIRE_ROOT=1`.

use std::collections::BTreeSet;

use super::other_versions::with_each;
use crate::support::slurm::answer::array;
use crate::support::slurm::spec::Spec;
use crate::support::slurm::{Cluster, text, with_cluster};
use serde_json::Value;

/// A second node on the same machine: components of a heterogeneous job share none.
const SECOND_NODE: &str = "NodeName=second NodeHostname=@NODE@ NodeAddr=127.0.0.1 Port=16818 CPUs=16 Boards=1 \
                           SocketsPerBoard=1 CoresPerSocket=16 ThreadsPerCore=1 RealMemory=1000 Gres=gpu:4 \
                           State=UNKNOWN\n";

/// Starts its daemon, with files of its own.
const SECOND_DAEMON: &str = r#"
sed -e "s,$WORK/spool$,$WORK/spool/second," -e "s,$WORK/run/slurmd,$WORK/run/second," \
    -e "s,$WORK/log/slurmd,$WORK/log/second," "$SLURM_CONF" > "$WORK/etc/second.conf"
mkdir -p "$WORK/spool/second"
echo $$ > /sys/fs/cgroup/slurmd/cgroup.procs
LD_PRELOAD=$WORK/shim.so slurmd -f "$WORK/etc/second.conf" -N second"#;

/// A step on both components of a heterogeneous job.
const COMPONENTS: &str = "export actor
srun --het-group=0,1 -n1 bash -c 'exec $actor ready $OUT.pid$SLURM_PROCID' &
wait";

/// Make sure that the components of a heterogeneous job are found by the names that squeue
/// has for them.
#[test]
fn of_this_slurm() {
    with_cluster(&two_nodes(), |cluster| check(cluster, "this machine"));
}

/// The same with the Slurm of other releases.
#[test]
fn of_other_slurms() {
    with_each(&two_nodes(), check);
}

fn two_nodes() -> Spec {
    Spec { more: SECOND_NODE, ..Spec::nvidia() }
}

fn check(cluster: &Cluster, slurm: &str) {
    let started = cluster.command("sh").args(["-c", SECOND_DAEMON]).env("WORK", cluster.work()).output();
    let started = started.expect("a shell");
    assert!(started.status.success(), "{slurm}: {}", text(&started));
    let job = cluster.submit(&["-n1", "--gres=gpu:1", ":", "-n1", "--gres=gpu:1"], COMPONENTS);
    job.wait_all(&["pid0", "pid1"]);
    // The two daemons have files of their own, of which gpumap takes none by itself.
    let gres = cluster.work().join("etc/gres.conf");
    let ask = |name: &str| cluster.inside(&["--gres-conf", gres.to_str().expect("text"), "job", name]);
    let names = cluster.run("squeue", &["-h", "-o", "%i %A"]);
    let names: Vec<(&str, &str)> = names.lines().filter_map(|line| line.split_once(' ')).collect();
    assert_eq!(names.len(), 2, "{slurm}: {names:?}");
    for (name, number) in names {
        for asked in [name.to_owned(), format!("{name}.0")] {
            let (document, code) = ask(&asked);
            let rows = array(&document["owners"]).iter();
            let jobs: BTreeSet<String> = rows.map(|row| row["owner"]["job_id"].to_string()).collect();
            let expected = BTreeSet::from([number.to_owned()]);
            assert_eq!((code, jobs), (0, expected), "{slurm}: {asked}: {}", document["errors"]);
            let component = &document["owners"][0]["component"];
            assert_eq!(*component, if asked == name { name.into() } else { Value::Null });
        }
    }
    let (document, code) = ask(&format!("{}+2", job.id));
    assert_eq!((code, &document["errors"][0]["code"]), (2, &"no-job".into()), "{slurm}: {document}");
}
