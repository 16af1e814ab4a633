//! Any bytes as patches of a shared region: the first byte chooses size and
//! version, each further patch is an offset of three bytes, a length of one, and
//! its bytes. The region is read, and a process is judged by it. What is left of the
//! input is its devices, its limits, and the file of its job; a limit is compared with
//! what strtoul(3) makes of it.

#![no_main]

use std::ffi::{CString, c_char, c_int, c_ulong};

use gpumap::observation::{
    Answer, Detail, Environment, FileFacts, JobFile, MappedFile, Observation, OverrideFile, Process,
    SharedRegion, SparseBytes, Text, Variable, VgpuTraces,
};
use gpumap::vgpu::{Limits, ProcessContext, Survey, number, read};
use libfuzzer_sys::fuzz_target;

unsafe extern "C" {
    fn strtoul(text: *const c_char, end: *mut *mut c_char, base: c_int) -> c_ulong;
}

/// Sizes and versions of the layouts.
const LAYOUTS: [(usize, [u32; 2]); 9] = [
    (804_681, [0, 0]),
    (1_197_897, [0, 0]),
    (2_008_953, [1, 1]),
    (2_008_953, [1, 2]),
    (2_008_952, [1, 1]),
    (2_008_985, [1, 1]),
    (2_008_985, [1, 2]),
    (2_140_033, [2, 0]),
    (2_140_041, [2, 0]),
];

/// The region that the input describes, and its last bytes.
fn region(bytes: &[u8]) -> Option<(Vec<u8>, &[u8])> {
    let (choice, mut rest) = bytes.split_first()?;
    let (size, [major, minor]) = LAYOUTS[usize::from(*choice) % LAYOUTS.len()];
    let mut region = vec![0; size];
    region[..4].copy_from_slice(&19_920_718_u32.to_le_bytes());
    if major > 0 {
        region[4..8].copy_from_slice(&major.to_le_bytes());
        region[8..12].copy_from_slice(&minor.to_le_bytes());
    }
    while let [a, b, c, length, after @ ..] = rest {
        let at = (usize::from(*a) | usize::from(*b) << 8 | usize::from(*c) << 16) % size;
        let length = usize::from(*length).min(after.len()).min(size - at);
        region[at..at + length].copy_from_slice(&after[..length]);
        rest = &after[length..];
    }
    Some((region, rest))
}

/// Compares a limit with what the C library reads, and reads a job's file.
fn limits(text: &[u8]) {
    let file = Limits::from_job_file(text);
    assert!(file.sm.iter().all(|percent| *percent > 0));
    let Ok(given) = CString::new(text) else { return };
    // SAFETY: the text ends with a NUL, and no end is asked for.
    let read = unsafe { strtoul(given.as_ptr(), std::ptr::null_mut(), 0) };
    let unit = match text.last() {
        Some(b'g' | b'G') => 1 << 30,
        Some(b'm' | b'M') => 1 << 20,
        Some(b'k' | b'K') => 1 << 10,
        _ => 1,
    };
    assert_eq!(number(text), read.checked_mul(unit).unwrap_or(0));
}

fn variable(name: &str, value: &[u8]) -> Variable {
    Variable { name: name.to_owned(), value: value.into(), cut: false }
}

fn mapped(path: &str, inode: u64, executable: bool) -> MappedFile {
    let file = Answer::Known(FileFacts { uid: 0, mode: 0o755, size: 1 });
    MappedFile { path: path.into(), inode, executable, file, ..MappedFile::default() }
}

fuzz_target!(|bytes: &[u8]| {
    let _any = read(bytes);
    let Some((region, rest)) = region(bytes) else { return };
    let answer = read(&region);
    let counted = answer.procs.iter().flatten().filter(|entry| entry.in_range).count();
    assert!(counted <= 1024);
    let sparse = SparseBytes::of(&region, region.len() as u64);
    assert_eq!(sparse.whole().as_deref(), Some(region.as_slice()));
    let texts: Vec<&[u8]> = rest.split(|byte| *byte == 0).collect();
    texts.iter().for_each(|text| limits(text));
    let text = |index: usize| texts.get(index).copied().unwrap_or_default();
    let variables = vec![
        variable("CUDA_VISIBLE_DEVICES", text(0)),
        variable("CUDA_DEVICE_MEMORY_LIMIT", text(1)),
        variable("GPU_CORE_UTILIZATION_POLICY", text(2)),
    ];
    let cut = (texts.len() == 5).then(|| "too long".to_owned());
    let environment = Answer::Known(Environment { variables, cut });
    let file = FileFacts { uid: 0, mode: 0o644, size: 1 };
    let overrides = Answer::Known(vec![variable("CUDA_DEVICE_MEMORY_LIMIT_0", text(3))]);
    let job = JobFile { regular: true, file, text: Answer::Known(text(5).into()), ..JobFile::default() };
    let library = if texts.len() > 5 { "/libsoftmig.so" } else { "/libvgpu.so" };
    let traces = VgpuTraces {
        libraries: vec![mapped(library, 1, true)],
        regions: vec![mapped("/r.cache", 2, false)],
        pids: vec![4100, 25],
        override_file: (texts.len() > 3).then_some(OverrideFile { file, variables: overrides }),
        job_files: if texts.len() > 5 { vec![job] } else { Vec::new() },
        ..VgpuTraces::default()
    };
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
    let process = Process { pid: 4100, detail: Some(detail), ..Process::default() };
    let contents = Answer::Known(sparse);
    let shared = SharedRegion { inode: 2, contents, ..SharedRegion::default() };
    let observation =
        Observation { processes: vec![process], regions: vec![shared], ..Observation::default() };
    let gpu_of = |uuid: &str| Some((uuid.into(), uuid.ends_with('0').then_some(80 << 30)));
    let place =
        ProcessContext { in_slurm_job: texts.len() > 5, in_container: true, uses_gpu: None, gpu_of: &gpu_of };
    let limits = Survey::new(&observation).of(&observation.processes[0], place).unwrap();
    assert!(!limits.memory.why.is_empty() && limits.devices.len() <= 16);
});
