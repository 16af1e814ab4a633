//! Kernel symbols by address, read once per test process.

use std::collections::HashMap;
use std::sync::OnceLock;

static SYMBOLS: OnceLock<Symbols> = OnceLock::new();

/// The kernel's text symbols.
pub struct Symbols {
    by_address: HashMap<u64, String>,
    call_base: u64,
}

/// The symbol behind the immediate of a helper call in a translated program. Those that
/// arm64 writes out since Linux 6.10 have their number there.
pub fn helper(imm: i32) -> Option<&'static str> {
    let symbols = SYMBOLS.get_or_init(Symbols::read);
    let address = symbols.call_base.wrapping_add(imm as u64);
    symbols.by_address.get(&address).map(String::as_str).or(match imm {
        8 => Some("bpf_get_smp_processor_id"),
        35 => Some("bpf_get_current_task"),
        158 => Some("bpf_get_current_task_btf"),
        _ => None,
    })
}

impl Symbols {
    fn read() -> Self {
        let text = std::fs::read_to_string("/proc/kallsyms").expect("/proc/kallsyms");
        let mut symbols = Self { by_address: HashMap::new(), call_base: 0 };
        for line in text.lines() {
            let mut words = line.split_whitespace();
            let (Some(address), Some(_), Some(name)) = (words.next(), words.next(), words.next()) else {
                continue;
            };
            let Ok(address) = u64::from_str_radix(address, 16) else { continue };
            if name == "__bpf_call_base" {
                symbols.call_base = address;
            }
            // Aliases share an address; the first `bpf_` or `htab` name wins.
            if name.contains("bpf_") || name.contains("map_") || name.starts_with("trie_") {
                symbols.by_address.entry(address).or_insert_with(|| name.to_owned());
            }
        }
        assert_ne!(symbols.call_base, 0, "/proc/kallsyms hides its addresses");
        symbols
    }
}
