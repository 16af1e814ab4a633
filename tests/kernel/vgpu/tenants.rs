//! What a tenant can do to hide that his limits do not hold, to have gpumap read what
//! is not his, or to hold it up.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

use super::{Bench, codes, gpumap, limits};
use crate::support::host;
use crate::support::victim::Victim;

/// SoftMig's files.
const FILES: &str = "/run/softmig";
/// A job that no Slurm has.
const JOB: &str = "4123456789";

impl Bench {
    /// A sleeping process under SoftMig's library in the job, after a script in a mount
    /// namespace of its own. `{file}` is the job's file.
    fn in_job(&self, script: &str) -> Victim {
        self.in_job_with(script, "HOOKED_READY=1", &["sleep", "600"])
    }

    /// The same with a program and further variables. Without HOOKED_READY the program
    /// itself prints that it is ready.
    fn in_job_with(&self, script: &str, variables: &str, words: &[&str]) -> Victim {
        let library = self.path("libsoftmig.so");
        if !library.exists() {
            fs::copy(self.library(), &library).unwrap();
        }
        let script = format!(
            "{} && LD_PRELOAD={} {variables} SLURM_JOB_ID={JOB} exec \"$@\"",
            script.replace("{file}", &format!("{FILES}/{JOB}.conf")),
            library.display(),
        );
        let mut command = Command::new("unshare");
        command.args(["-m", "sh", "-c", &script, "sh"]).args(words);
        Victim::with_env(&mut command)
    }

    /// A process whose root directory is a copy of this one, changed by a script. `{root}`
    /// is that directory.
    fn in_root(&self, script: &str, variables: &str) -> Victim {
        let layers = self.path("layers");
        fs::create_dir_all(&layers).unwrap();
        let (place, bench) = (layers.display().to_string(), self.scratch.path().display());
        let script = format!(
            "mount -t tmpfs none {place} && mkdir {place}/up {place}/work {place}/all && \
             mount -t overlay -o lowerdir=/,upperdir={place}/up,workdir={place}/work none {place}/all && \
             if [ ! -e {place}/all{bench} ]; then \
             mkdir -p {place}/all{bench} && mount --bind {bench} {place}/all{bench}; fi && \
             {} && HOOKED_READY=1 HOOKED_ENTRY=0 HOOKED_REGION={} {variables} \
             exec chroot {place}/all {}",
            script.replace("{root}", &format!("{place}/all")),
            self.path("r.cache").display(),
            self.path("start").display(),
        );
        let start = format!("#!/bin/sh\nLD_PRELOAD={} exec sleep 600\n", self.library().display());
        fs::write(self.path("start"), start).unwrap();
        fs::set_permissions(self.path("start"), fs::Permissions::from_mode(0o755)).unwrap();
        let mut command = Command::new("unshare");
        command.args(["-m", "sh", "-c", &script]);
        Victim::with_env(&mut command)
    }

    /// A Python program under the library, with the region's path as its argument.
    fn python(&self, script: &str) -> Victim {
        let mut command = Command::new("python3");
        let region = self.write_region("python.cache");
        command.args(["-c", script]).arg(&region).env("LD_PRELOAD", self.library());
        command.env("HOOKED_REGION", &region).env("HOOKED_ENTRY", "0");
        command.env("CUDA_DEVICE_MEMORY_LIMIT", "2g").env("CUDA_DEVICE_SM_LIMIT", "30");
        Victim::with_env(&mut command)
    }
}

/// The memory limit that was meant, in GiB.
fn meant(told: &Value) -> Option<u64> {
    told["devices"][0]["memory_meant"].as_u64().map(|bytes| bytes >> 30)
}

/// Mounts a file system of a user's (FUSE) on this directory, which root may not look at.
fn private(directory: &str) -> String {
    let options = "fd=3,rootmode=40000,user_id=12345,group_id=12345";
    // The newer calls look at what they have mounted, and so fail.
    let mount = "LIBMOUNT_FORCE_MOUNT2=always mount -i -t fuse";
    format!("exec 3<>/dev/fuse && {mount} -o {options} none {directory}")
}

/// Make sure that whatever stands in the place of a job's file is neither waited for nor
/// taken for a file that SoftMig takes.
#[test]
fn odd_job_files() {
    let Some(_host) = host::shared() else { return };
    let bench = Bench::new();
    let own = "mount -t tmpfs none /run && mkdir /run/softmig";
    for (make, expected) in [
        ("mkfifo {file}", "job-file-refused"),
        ("mknod {file} c 1 5", "job-file-refused"),
        ("mkdir {file}", "job-file-refused"),
        ("ln -s {file} {file}", "job-file-refused"),
        ("ln -s /dev/zero {file}", "job-file-refused"),
        ("ln -s /proc/1/environ {file}", "job-file-refused"),
        ("echo CUDA_DEVICE_MEMORY_LIMIT=1g >{file} && chown 12345 {file}", "job-file-refused"),
        ("head -c 100000000 /dev/zero >{file}", "no-region"),
        ("true", "no-job-file"),
    ] {
        let process = bench.in_job(&format!("{own} && {make}"));
        let (_, told) = limits(process.pid());
        assert_eq!(codes(&told), (expected, expected), "{make}: {told}");
        assert_ne!(meant(&told), Some(64), "{make}");
    }
    // A file system that admits nobody but its user: what SoftMig finds there is not known.
    let process = bench.in_job(&format!("{own} && {}", private(FILES)));
    let (code, told) = limits(process.pid());
    assert_eq!((code, codes(&told), meant(&told)), (3, ("unread", "unread"), None), "{told}");
    assert!(told["memory"]["why"].as_str().is_some_and(|why| why.contains("Permission denied")), "{told}");
    // The process has a lease on its file, so that nobody else can open it. It is ready
    // when it has the lease: the kernel gives none on a file that gpumap has open.
    let lease = "import fcntl,os,signal,sys,time\nsignal.signal(signal.SIGIO,signal.SIG_IGN)\nfd=os.open(sys.argv[1],os.O_RDWR)\n\
                 fcntl.fcntl(fd,fcntl.F_SETLEASE,fcntl.F_WRLCK)\nprint('ready',flush=True)\ntime.sleep(600)";
    let path = format!("{FILES}/{JOB}.conf");
    let script = format!("{own} && echo CUDA_DEVICE_MEMORY_LIMIT=1g >{path}");
    let process = bench.in_job_with(&script, "", &["python3", "-c", lease, &path]);
    for _ in 0..3 {
        let (_, told) = limits(process.pid());
        assert_eq!(codes(&told).0, "no-region", "{told}");
        std::thread::sleep(std::time::Duration::from_millis(300));
    }
}

/// A directory of the node that is removed with the value.
struct OnNode;

impl Drop for OnNode {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(FILES);
    }
}

/// Make sure that a job which is shown a file of its user's, or none, in the place of the
/// node's is measured by the node's.
#[test]
fn job_files_that_are_covered() {
    let Some(_host) = host::exclusive() else { return };
    if Path::new(FILES).exists() {
        return host::skip("/run/softmig is in use");
    }
    let bench = Bench::new();
    fs::create_dir(FILES).unwrap();
    let _on_node = OnNode;
    fs::write(format!("{FILES}/{JOB}.conf"), "CUDA_DEVICE_MEMORY_LIMIT=1g\n").unwrap();
    let shown = bench.in_job("true");
    let (_, told) = limits(shown.pid());
    assert_eq!((codes(&told).0, meant(&told)), ("no-region", Some(1)), "{told}");
    let cover = format!("mount -t tmpfs none {FILES}");
    for make in [
        "true",
        "echo CUDA_DEVICE_MEMORY_LIMIT=64g >{file} && chown 12345 {file}",
        ": >{file} && chown 12345 {file}",
        "mkfifo {file}",
    ] {
        let covered = bench.in_job(&format!("{cover} && {make}"));
        let (code, told) = limits(covered.pid());
        assert_eq!((code, codes(&told).0), (1, "job-file-refused"), "{make}: {told}");
        assert_eq!(meant(&told), Some(1), "{make}: {told}");
    }
    let covered = bench.in_job(&private(FILES));
    let (code, told) = limits(covered.pid());
    assert_eq!((code, codes(&told).0, meant(&told)), (3, "unread", Some(1)), "{told}");
}

/// Make sure that `/overrideEnv` is read below the process's own root, that a limit in it
/// counts, and that nothing odd in its place holds anybody up.
#[test]
fn override_files() {
    let Some(_host) = host::shared() else { return };
    let bench = Bench::new();
    let variables = "CUDA_DEVICE_MEMORY_LIMIT=2g CUDA_DEVICE_SM_LIMIT=30";
    for (make, by, limit) in [
        ("printf 'CUDA_DEVICE_MEMORY_LIMIT=1g\\nSECRET=x\\n' >{root}/overrideEnv", "override-file", 1_u64),
        ("printf 'CUDA_DEVICE_MEMORY_LIMIT=64g\\n' >{root}/overrideEnv", "environment", 2),
        ("mkfifo {root}/overrideEnv", "environment", 2),
        ("mknod {root}/overrideEnv c 1 5", "environment", 2),
        ("ln -s overrideEnv {root}/overrideEnv", "environment", 2),
        ("head -c 100000000 /dev/zero >{root}/overrideEnv", "environment", 2),
        ("true", "environment", 2),
    ] {
        let process = bench.in_root(make, variables);
        let (_, told) = limits(process.pid());
        let expected = if limit == 1 { "limit-higher" } else { "held" };
        assert_eq!((codes(&told).0, &told["meant_by"]), (expected, &by.into()), "{make}: {told}");
        assert_eq!(meant(&told), Some(limit), "{make}: {told}");
        assert!(!told.to_string().contains("SECRET"), "{told}");
    }
    // A login without an environment.
    let process = bench.in_root("echo CUDA_DEVICE_MEMORY_LIMIT=2g >{root}/overrideEnv", "");
    let (_, told) = limits(process.pid());
    assert_eq!((&told["meant_by"], meant(&told)), (&"override-file".into(), Some(2)), "{told}");
}

/// Make sure that limits are found behind any number of others, and behind values that
/// are longer than what is kept; and that one which is too long is not taken for none.
#[test]
fn huge_environments() {
    let Some(_host) = host::shared() else { return };
    let bench = Bench::new();
    let region = bench.write_region("r.cache");
    let mut unlimited = fs::read(&region).unwrap();
    unlimited[1600..1856].fill(0);
    fs::write(&region, unlimited).unwrap();
    let script = "import os,resource,sys\n\
        resource.setrlimit(resource.RLIMIT_STACK,(64<<20,resource.RLIM_INFINITY))\n\
        e={}\n\
        if sys.argv[1]=='names':\n  e={'CUDA_DEVICE_MEMORY_LIMIT_%d'%(i+16):'1' for i in range(100000)}\n\
        else:\n  e={n:'0'*16000 for n in sys.argv[2].split(',')}\n\
        e['CUDA_DEVICE_MEMORY_LIMIT']='1'+' '*6000+'g' if sys.argv[1]=='long' else '1g'\n\
        e.update((n,os.environ['X_'+n]) for n in ('LD_PRELOAD','HOOKED_REGION','HOOKED_ENTRY','HOOKED_READY'))\n\
        os.execve('/bin/sleep',['sleep','600'],e)";
    let names = "CUDA_VISIBLE_DEVICES,CUDA_DEVICE_ORDER,NVIDIA_VISIBLE_DEVICES,HIP_VISIBLE_DEVICES,\
                 ROCR_VISIBLE_DEVICES,ZE_AFFINITY_MASK,GPU_DEVICE_ORDINAL,SLURM_JOB_GPUS,SLURM_STEP_GPUS,\
                 SLURM_JOB_ID,SLURM_JOBID,SLURM_STEP_ID,SLURM_PROCID,SLURM_LOCALID";
    for (how, code, limit) in [
        ("names", "limit-missing", Some(1)),
        ("values", "limit-missing", Some(1)),
        ("long", "environment-unknown", None),
    ] {
        let mut command = Command::new("python3");
        command.args(["-c", script, how, names]).env_clear();
        command.env("X_LD_PRELOAD", bench.library()).env("X_HOOKED_REGION", &region);
        command.env("X_HOOKED_ENTRY", "0").env("X_HOOKED_READY", "1");
        let process = Victim::with_env(&mut command);
        let (exit, told) = limits(process.pid());
        assert_eq!((codes(&told).0, meant(&told)), (code, limit), "{how}: {told}");
        assert_eq!(exit, if limit.is_none() { 3 } else { 1 }, "{how}: {told}");
    }
}

/// Make sure that a process which hides its library behind others of that name, its
/// region behind mappings without number, or takes pages of it away is not told wrong.
#[test]
fn mappings_that_hide() {
    let Some(_host) = host::shared() else { return };
    let bench = Bench::new();
    let done = "print('ready',flush=True)\ntime.sleep(600)";
    let map = "import ctypes,mmap,os,sys,time\n\
        c=ctypes.CDLL(None)\nc.mmap.restype=ctypes.c_void_p\n\
        c.mmap.argtypes=[ctypes.c_void_p,ctypes.c_size_t,ctypes.c_int,ctypes.c_int,ctypes.c_int,ctypes.c_long]\n\
        d=os.path.dirname(sys.argv[1])\n\
        def low(path,at,length,prot=1):\n\
        \x20 f=os.open(path,os.O_RDONLY)\n  r=c.mmap(at,length,prot,2,f,0)\n  os.close(f)\n  return r\n";
    // Eight data files with the library's name, before the library itself.
    let decoys = format!(
        "{map}for i in range(8):\n  p='%s/libvgpu.so.%d'%(d,i)\n  open(p,'w').write('x'*4096)\n  \
         low(p,0x10000000+i*0x10000,4096)\n{done}"
    );
    let (code, told) = limits(bench.python(&decoys).pid());
    assert_eq!((code, codes(&told)), (3, ("unread", "unread")), "{told}");
    // Lines of mappings that are together longer than anybody reads.
    let many = format!(
        "{map}p=d+'/'+'n'*200\nopen(p,'w').write('x'*4096)\n\
         for i in range(16000):\n  low(p,0x10000000+i*0x2000,4096)\n{done}"
    );
    let process = bench.python(&many);
    let (code, answer) = gpumap(&["vgpu", "--pid", &process.pid().to_string()]);
    let told = &answer["processes"][0]["vgpu"];
    // A build without optimisation may take longer for them than a process is given.
    let is_named = answer["errors"].to_string().contains(&process.pid().to_string());
    assert!(codes(told) == ("unread", "unread") || told.is_null() && is_named, "{answer}");
    assert_eq!(code, 3, "{answer}");
    // The region's first page, and one in the middle, are not mapped any more.
    let holes = format!(
        "{map}a=[int(l.split('-')[0],16) for l in open('/proc/self/maps') if 'python.cache' in l][0]\n\
         c.munmap.argtypes=[ctypes.c_void_p,ctypes.c_size_t]\n\
         assert c.munmap(a,4096)==0 and c.munmap(a+0x40000,4096)==0\n{done}"
    );
    let (code, told) = limits(bench.python(&holes).pid());
    assert_eq!((code, codes(&told)), (0, ("held", "held")), "{told}");
}
