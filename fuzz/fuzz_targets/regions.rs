//! Any bytes as patches of a shared region: the first byte chooses size and
//! version, each further patch is an offset of three bytes, a length of one, and
//! its bytes. The region is read, and a process is judged by it.

#![no_main]

use gpumap::observation::{
    Answer, Detail, Environment, FileFacts, MappedFile, Observation, Process, SharedRegion, SparseBytes, Text,
    Variable, VgpuTraces,
};
use gpumap::vgpu::{ProcessContext, Survey, read};
use libfuzzer_sys::fuzz_target;

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
    let variable = Variable { name: "CUDA_VISIBLE_DEVICES".to_owned(), value: rest.into(), cut: false };
    let environment = Answer::Known(Environment { variables: vec![variable], cut: None });
    let traces = VgpuTraces {
        libraries: vec![mapped("/libvgpu.so", 1, true)],
        regions: vec![mapped("/r.cache", 2, false)],
        pids: vec![4100, 25],
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
    let gpu_of = |_: &str| None;
    let place = ProcessContext { in_slurm_job: false, in_container: true, uses_gpu: None, gpu_of: &gpu_of };
    let limits = Survey::new(&observation).of(&observation.processes[0], place).unwrap();
    assert!(!limits.memory.why.is_empty() && limits.devices.len() <= 16);
});
