//! How the node is set up for gpumap: the facts that `gpumap doctor` judges.
//!
//! Nothing here is started, changed or waited for. BPF programs are loaded to see
//! which the kernel takes, and are gone again before the answer is given.

mod cgroup_mounts;
mod kernel;
mod own;
mod slurm_files;
mod slurm_plugins;
mod software;
mod trials;

use crate::observation::Setup;
use crate::observe::hidepid::hidepid;
use crate::observe::options::Options;

/// Collects the setup of the node. Slurm's files are read below `gpu_root`, like the
/// GPUs. What `watch` needs of the kernel is not asked here.
pub fn setup(options: &Options) -> Setup {
    let (settings, btf) = (kernel::settings(&options.proc), kernel::btf());
    let hidepid = hidepid(&options.proc);
    let mut setup = Setup {
        rights: own::rights(&options.proc),
        settings,
        btf,
        symbols: kernel::symbols(&options.proc),
        // Where it is not known, `hidepid` says so.
        hidepid_exempt: matches!(hidepid, Ok(Some((_, true)))),
        hidepid_unknown: hidepid.as_ref().err().map(|errno| errno.desc().to_owned()),
        // Why it is not known is told above.
        hidepid: hidepid.ok().flatten().map(|(value, _)| value),
        slurm: slurm_files::collect(&options.gpu_root, &options.proc),
        software: software::running(&options.proc),
        clock_synchronized: kernel::clock(),
        own_file: own::file(),
        ..Setup::default()
    };
    cgroup_mounts::collect(options, &mut setup);
    setup.trials = trials::try_all(options);
    setup
}
