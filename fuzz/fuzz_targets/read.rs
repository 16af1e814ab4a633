//! Reads any bytes as a program file. Reading must not panic, and printing what was
//! read and reading that print must give the same instructions.

#![no_main]

use gpumap::bytecode::{SavedProgram, disasm, read};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    for program in read(bytes).unwrap_or_default() {
        let listing = listing(&program);
        if listing.contains("BUG_") {
            continue;
        }
        let again = read(listing.as_bytes()).expect("a printed program reads back");
        assert_eq!(listing, self::listing(&again[0]));
    }
});

fn listing(program: &SavedProgram) -> String {
    let line = |pc| format!("{pc}: {}\n", disasm::text(&program.insns, pc, &program.calls));
    disasm::walk(&program.insns).map(|(pc, _)| line(pc)).collect()
}
