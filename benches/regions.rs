//! Shared regions of libvgpu.so: reading one with as many processes as it has
//! room for, and taking it apart for a saved node.

use std::hint::black_box;

use criterion::{Criterion, criterion_group, criterion_main};
use gpumap::observation::SparseBytes;
use gpumap::vgpu::read;

/// Processes that a region has room for.
const PROCESSES: u32 = 1024;

/// A region of layout 1.2 in which every entry is that of a living process with
/// use on two devices.
fn region() -> Vec<u8> {
    let mut region = vec![0; 2_008_953];
    let mut put = |at: usize, bytes: &[u8]| region[at..at + bytes.len()].copy_from_slice(bytes);
    put(0, &19_920_718_u32.to_le_bytes());
    put(4, &1_u32.to_le_bytes());
    put(8, &2_u32.to_le_bytes());
    put(56, &2_u64.to_le_bytes());
    put(64, b"GPU-1d9a4c60-7b52-4e0f-a3c8-5f21c0de0000");
    put(160, b"GPU-1d9a4c60-7b52-4e0f-a3c8-5f21c0de0001");
    (0..16).for_each(|device| put(1600 + device * 8, &(2_u64 << 30).to_le_bytes()));
    for process in 0..PROCESSES {
        let entry = 1856 + process as usize * 1960;
        put(entry, &(process + 1).to_le_bytes());
        put(entry + 4, &(process + 4001).to_le_bytes());
        put(entry + 1928, &1_u32.to_le_bytes());
        for device in 0..2 {
            put(entry + 8 + device * 64 + 32, &(512_u64 << 20).to_le_bytes());
        }
    }
    put(2_008_896, &PROCESSES.to_le_bytes());
    region
}

fn regions(criterion: &mut Criterion) {
    let region = region();
    let entries = read(&region).procs.map_or(0, |entries| entries.len());
    assert_eq!(entries, PROCESSES as usize);
    criterion
        .bench_function("region of 1,024 processes", |bencher| bencher.iter(|| read(black_box(&region))));
    let empty = vec![0; region.len()];
    criterion.bench_function("pieces of 1,024 processes", |bencher| {
        bencher.iter(|| SparseBytes::of(black_box(&region), region.len() as u64));
    });
    criterion.bench_function("pieces of nothing", |bencher| {
        bencher.iter(|| SparseBytes::of(black_box(&empty), empty.len() as u64));
    });
}

criterion_group!(benches, regions);
criterion_main!(benches);
