//! `gpumap top` above a real Slurm: jobs appear with what the kernel allows them, and
//! vanish when they end.
//!
//! Needs what `job_cgroups` needs, and tmux.

use crate::support::slurm::job::WAIT;
use crate::support::slurm::spec::Spec;
use crate::support::slurm::with_cluster;
use crate::support::tmux::Tmux;

/// The line of a job on the screen.
fn line(screen: &str, job: u64) -> String {
    let name = format!("slurm job {job} ");
    // Events below the matrix name jobs, too.
    let is_row = |line: &&str| line.trim_start_matches([' ', 'C', 'W', 'n', '▸', '▾']).starts_with(&name);
    screen.lines().find(is_row).unwrap_or_default().to_owned()
}

/// Make sure that the matrix shows each job's GPUs as Slurm granted them while it runs,
/// its processes, and why; and nothing of it afterwards.
#[test]
fn jobs() {
    with_cluster(&Spec::nvidia(), |cluster| {
        let places = format!(
            "--cgroup-root {} --gpu-root {}",
            cluster.cgroup_root().display(),
            cluster.inventory().display()
        );
        let line_of_shell = format!("{} top --every 250ms --cpu 100 {places}", env!("CARGO_BIN_EXE_gpumap"));
        let Some(tmux) = Tmux::start(&line_of_shell, (110, 40)) else { return };
        tmux.wait("live");
        let one = cluster.submit(&["--gres=gpu:1"], WAIT);
        one.wait("pid");
        let two = cluster.submit(&["--gres=gpu:2"], WAIT);
        two.wait("pid");
        let may_open = |screen: &str, job: u64| line(screen, job).matches(['○', '◐', '●']).count();
        for (job, gpus) in [(&one, 1), (&two, 2)] {
            assert_eq!(job.granted().len(), gpus);
            tmux.wait_until("its GPUs", |screen| may_open(screen, job.id) == gpus);
        }
        tmux.press(&["*"]);
        tmux.wait("step batch");
        tmux.press(&["*", "Home", "Right", "Enter"]);
        let why = tmux.wait("What slurm job");
        assert!(why.contains("Slurm_Cgroup_v2"), "{why}");
        tmux.press(&["Escape"]);
        one.cancel();
        one.wait_for_end();
        tmux.wait_until("job ended", |screen| {
            line(screen, one.id).is_empty() && may_open(screen, two.id) == 2
        });
        two.cancel();
        two.wait_for_end();
        tmux.wait_until("no job", |screen| line(screen, two.id).is_empty());
        tmux.press(&["q"]);
        tmux.wait("ended 0");
    });
}
