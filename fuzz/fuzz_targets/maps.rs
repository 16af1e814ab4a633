//! Reads any text as a file of maps.

#![no_main]

use gpumap::bytecode::maps;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    for map in maps(text).unwrap_or_default() {
        for entry in map.entries.known().into_iter().flatten() {
            assert_eq!(entry.key.0.len(), map.key_size as usize);
        }
    }
});
