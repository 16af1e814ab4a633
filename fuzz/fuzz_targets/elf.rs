//! Reads any bytes as an executable or a library.

#![no_main]

use gpumap::fuzzing;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let file = fuzzing::file(bytes);
    let again = file.try_clone().expect("a descriptor");
    fuzzing::elf(file);
    fuzzing::symbols(again);
});
