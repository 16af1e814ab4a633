//! Names of the kernel's functions, from `/proc/kallsyms`, for the calls that programs make.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;

use super::cache::{self, ProgramCache, info, missing, why};
use crate::bytecode::Insn;
use crate::model::ProblemCode;
use crate::observation::{Map, Program};
use crate::observe::problems::Log;
use crate::sys::bpf::CGROUP_DEVICE_PROGRAM;
use crate::sys::retry::again;

/// `BPF_JMP | BPF_CALL`.
const CALL: u8 = 0x85;
/// `BPF_PSEUDO_CALL`: a call inside the program.
const LOCAL_CALL: u8 = 1;
/// `BPF_FUNC_tail_call`, which the dump keeps as a number.
const TAIL_CALL: i32 = 12;
/// Helpers that the kernel's compiler for a processor may write out in place of a call
/// (`bpf_jit_inlines_helper_call`, Linux 6.10: arm64, later others), so that the dump keeps
/// their numbers.
const WRITTEN_OUT: [(i32, &str); 3] =
    [(8, "bpf_get_smp_processor_id"), (35, "bpf_get_current_task"), (158, "bpf_get_current_task_btf")];
/// The symbol that distances start at.
const BASE: &str = "__bpf_call_base";
/// Bytes read at most, in all and of one line.
const LIMIT: u64 = 256 << 20;
const LINE_LIMIT: u64 = 4096;

const NEEDS: &str = "CAP_SYSLOG with kernel.kptr_restrict below 2";

/// Fills in [`Program::calls`].
pub(in crate::observe) fn resolve<'a>(
    proc: &Path,
    programs: impl Iterator<Item = &'a mut Program>,
    log: &mut Log,
) {
    let mut callers: Vec<(&mut Program, BTreeSet<i32>)> = programs
        .map(|program| (calls(program), program))
        .filter(|(calls, _)| !calls.is_empty())
        .map(|(calls, program)| (program, calls))
        .collect();
    let wanted: BTreeSet<i32> = callers.iter().flat_map(|(_, calls)| calls).copied().collect();
    if wanted.contains(&0) {
        log.no_right("helper calls", "the kernel hides which helpers programs call", NEEDS);
    }
    let wanted = wanted.into_iter().filter(|imm| *imm != 0).collect();
    let names = lookup(proc, &wanted, log);
    for (program, calls) in &mut callers {
        program.calls = calls.iter().filter_map(|imm| Some((*imm, names.get(imm)?.clone()))).collect();
    }
}

/// The distances a program calls by.
fn calls(program: &Program) -> BTreeSet<i32> {
    let Some(bytes) = program.xlated.known() else { return BTreeSet::new() };
    let slots = Insn::parse_all(&bytes.0).unwrap_or_default();
    let calls =
        slots.iter().filter(|insn| insn.code == CALL && insn.src != LOCAL_CALL && insn.imm != TAIL_CALL);
    calls.map(|insn| insn.imm).collect()
}

fn lookup(proc: &Path, wanted: &BTreeSet<i32>, log: &mut Log) -> BTreeMap<i32, String> {
    if wanted.is_empty() {
        return BTreeMap::new();
    }
    let path = proc.join("kallsyms");
    let scanned = again(|| File::open(&path)).and_then(|file| {
        let mut symbols = BufReader::with_capacity(1 << 16, file.take(LIMIT));
        scan(&mut symbols, wanted)
    });
    match scanned {
        Ok(Some(names)) => return names,
        Ok(None) => {
            let why = "/proc/kallsyms shows no addresses, so helper calls have no names";
            log.no_right("kernel symbols", why, NEEDS);
        }
        Err(error) => {
            let needs = "a kernel with CONFIG_KALLSYMS";
            log.add(ProblemCode::Unreadable, path.to_string_lossy(), error.to_string(), needs);
        }
    }
    BTreeMap::new()
}

/// Finds the symbols at the wanted distances in one pass. Until the base is
/// met, every function has to be remembered: one may be a helper before it. `None` if the
/// addresses are not shown, or the base is missing.
fn scan(symbols: &mut impl BufRead, wanted: &BTreeSet<i32>) -> io::Result<Option<BTreeMap<i32, String>>> {
    let mut names = BTreeMap::new();
    let mut earlier: Vec<(u64, Box<str>)> = Vec::new();
    let mut base = None;
    let mut line = Vec::new();
    while names.len() < wanted.len() {
        line.clear();
        if symbols.take(LINE_LIMIT).read_until(b'\n', &mut line)? == 0 {
            break;
        }
        let Some((address, name)) = function(&line) else { continue };
        match base {
            Some(base) => note(&mut names, wanted, base, address, name),
            None if name == BASE => {
                base = Some(address);
                earlier.iter().for_each(|(earlier, name)| note(&mut names, wanted, address, *earlier, name));
            }
            None => earlier.push((address, name.into())),
        }
    }
    // With no function at that distance it is a number.
    for (number, name) in WRITTEN_OUT.into_iter().filter(|(number, _)| wanted.contains(number)) {
        names.entry(number).or_insert_with(|| name.to_owned());
    }
    Ok(base.map(|_| names))
}

fn note(names: &mut BTreeMap<i32, String>, wanted: &BTreeSet<i32>, base: u64, address: u64, name: &str) {
    let distance = address.wrapping_sub(base).cast_signed();
    if let Ok(imm) = i32::try_from(distance)
        && wanted.contains(&imm)
    {
        names.entry(imm).or_insert_with(|| name.to_owned());
    }
}

/// Address and name of a function's line, `ffffffff81000000 T name [module]`;
/// a hidden address is 0.
fn function(line: &[u8]) -> Option<(u64, &str)> {
    let mut fields = std::str::from_utf8(line).ok()?.split_ascii_whitespace();
    let (address, kind, name) = (fields.next()?, fields.next()?, fields.next()?);
    let address = u64::from_str_radix(address, 16).ok()?;
    (address != 0 && matches!(kind, "t" | "T" | "w" | "W")).then_some((address, name))
}

/// The most programs of one map that are read: more than the kernel goes on in, one
/// after the other.
const MOST: usize = 64;

impl ProgramCache {
    /// Reads what programs reach through maps and is not known yet: the maps inside maps,
    /// the programs inside, and the maps of these.
    pub(in crate::observe) fn add_inner(&mut self, log: &mut Log) {
        loop {
            self.read_called(log);
            let inner: BTreeSet<u32> = self.maps.values().flat_map(Map::inner_ids).collect();
            let new: Vec<u32> = inner.into_iter().filter(|id| !self.maps.contains_key(id)).collect();
            if new.is_empty() {
                return;
            }
            self.maps.extend(new.into_iter().map(|id| (id, cache::read(id, log))));
        }
    }

    /// The programs inside maps whose calls have no names yet.
    pub(in crate::observe) fn unnamed_called(&mut self) -> impl Iterator<Item = &mut Program> {
        let called = self.maps.values_mut().flat_map(|map| &mut map.programs);
        called.filter(|program| program.calls.is_empty())
    }

    /// Reads the programs inside maps of which none was read yet.
    fn read_called(&mut self, log: &mut Log) {
        let is_unread = |map: &&Map| map.programs.is_empty() && !map.program_ids().is_empty();
        let unread = self.maps.values().filter(is_unread).map(|map| (map.id, map.program_ids()));
        for (map, programs) in unread.collect::<Vec<_>>() {
            let programs = programs.into_iter().take(MOST).map(|id| self.called(id, log)).collect();
            self.maps.entry(map).and_modify(|map| map.programs = programs);
        }
    }

    fn called(&mut self, id: u32, log: &mut Log) -> Program {
        if log.out_of_time("reading programs") {
            return missing(id, "the time limit was reached");
        }
        match info(id) {
            Ok(info) if info.kind != CGROUP_DEVICE_PROGRAM => {
                missing(id, &format!("it is of type {}, no device program", info.kind))
            }
            Ok(info) => self.describe(info, log),
            Err(error) => missing(id, &why(id, error, log)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "\
0000000000000000 A fixed_percpu_data
ffffffff81000100 t before
ffffffff81000800 T __pfx___bpf_call_base
rubbish
ffffffff81000810 T __bpf_call_base
ffffffff81000900 d data
ffffffff81000900 T after
ffffffff81000900 T alias\t[module]
";

    fn find(text: &str, wanted: &[i32]) -> Option<Vec<(i32, String)>> {
        let names = scan(&mut text.as_bytes(), &wanted.iter().copied().collect()).unwrap();
        names.map(|names| names.into_iter().collect())
    }

    /// Make sure that symbols on both sides of the base are found, and that no name
    /// is invented.
    #[test]
    fn distances() {
        let names = find(TEXT, &[0xf0, -0x710, 5]).unwrap();
        assert_eq!(names, [(-0x710, "before".to_owned()), (0xf0, "after".to_owned())]);
        assert_eq!(find(TEXT, &[5]).unwrap(), []);
    }

    /// Make sure that a helper which is written out has its name by its number, unless a
    /// function is at that distance; and that no other number is a name.
    #[test]
    fn written_out() {
        let names = find(TEXT, &[5, 8, 35]).unwrap();
        let written = [(8, "bpf_get_smp_processor_id"), (35, "bpf_get_current_task")];
        assert_eq!(names, written.map(|(number, name)| (number, name.to_owned())));
        let text = format!("{TEXT}ffffffff81000818 t other\n");
        assert_eq!(find(&text, &[8]).unwrap(), [(8, "other".to_owned())]);
    }

    /// Make sure that hidden addresses and absent symbols are different answers.
    #[test]
    fn hidden() {
        let hidden = "0000000000000000 T __bpf_call_base\n0000000000000000 T after\n";
        assert_eq!(find(hidden, &[0xf0]), None);
        assert_eq!(find("", &[0xf0]), None);
    }
}
