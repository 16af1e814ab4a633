//! Names of calls that the kernel hides (`kernel.kptr_restrict`, no
//! `CAP_SYSLOG`), proven by the program's tag.
//!
//! A dump without symbols does not say which helpers a program calls. Its tag
//! does: it is a hash of the instructions as they were loaded, helpers'
//! numbers included, and the kernel shows it to everyone. So gpumap guesses
//! the helpers, undoes what the verifier wrote into the program ([`as_loaded`]),
//! and hashes the result. The same tag: the guess is right. Another one: it
//! tries the next, and in the end calls stay unknown.
//!
//! Where `kernel.kptr_restrict` is 2 the names are hidden from everybody, root with all
//! capabilities among them. Without this and `as_loaded` every program that looks into a
//! map would be unknown there: libvirt's, and whatever a site wrote.
//!
//! A wrong guess may have the right tag by chance. gpumap makes at most 2^12 guesses
//! (two hashes each counted), so the chance is 2^12 in 2^64. Somebody could search for
//! a program whose tag misleads gpumap, but only one who may load device programs, and
//! such a person can allow what they like anyway.

use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap};
use std::rc::Rc;

use crate::bytecode::{Insn, helper, opcode, tag};
use crate::observation::Program;

use super::as_loaded::{self, CallSlots};
use super::helpers;

/// Most guesses for one program.
const MAX_GUESSES: usize = 2000;
/// Most bytes that are hashed for one program: some milliseconds.
const MAX_HASHED: usize = 1 << 20;
/// The longest program, in bytes, whose calls are searched.
const MAX_PROGRAM: usize = 64 << 10;
/// Most calls that are guessed one by one.
const MAX_ALONE: usize = 64;
/// The most programs whose calls are remembered.
const MAX_REMEMBERED: usize = 64;
/// Instructions before a call that are searched for its arguments.
const WINDOW: usize = 24;
/// A call of a function of the kernel or of the program.
const CALL: u8 = opcode::JMP | opcode::CALL;
/// Represents the function that the kernel calls for a lookup that it inlines;
/// helpers' numbers are positive.
const ELEMENT: i32 = -1;
/// `bpf_map_lookup_elem`.
const LOOKUP: i32 = 1;

/// A program with names for its calls.
#[derive(Debug)]
pub struct Named {
    /// The dump, each call by a number of [`Named::calls`].
    pub insns: Vec<Insn>,
    /// The functions of these numbers.
    pub calls: BTreeMap<i32, String>,
}

/// The likely helpers by their arguments, the likeliest first: number of arguments,
/// whether the first is a map, name.
const LIKELY: &[(usize, bool, &str)] = &[
    (0, false, "bpf_get_current_cgroup_id"),
    (0, false, "bpf_get_current_pid_tgid"),
    (0, false, "bpf_get_current_uid_gid"),
    (0, false, "bpf_ktime_get_ns"),
    (0, false, "bpf_get_current_task"),
    (0, false, "bpf_get_prandom_u32"),
    (0, false, "bpf_get_retval"),
    (0, false, "bpf_ktime_get_boot_ns"),
    (0, false, "bpf_get_smp_processor_id"),
    (0, false, "bpf_get_current_task_btf"),
    (1, false, "bpf_set_retval"),
    (1, false, "bpf_get_current_ancestor_cgroup_id"),
    (1, false, "bpf_spin_lock"),
    (1, false, "bpf_spin_unlock"),
    (2, false, "bpf_get_current_comm"),
    (2, true, "bpf_map_lookup_elem"),
    (2, true, "bpf_map_delete_elem"),
    (2, true, "bpf_get_local_storage"),
    (2, true, "bpf_map_pop_elem"),
    (2, true, "bpf_map_peek_elem"),
    (2, true, "bpf_current_task_under_cgroup"),
    (2, false, "bpf_ringbuf_submit"),
    (2, false, "bpf_ringbuf_discard"),
    (3, false, "bpf_probe_read_kernel"),
    (3, false, "bpf_trace_printk"),
    (3, false, "bpf_probe_read"),
    (3, false, "bpf_probe_read_kernel_str"),
    (3, false, "bpf_probe_read_user"),
    (3, true, "bpf_map_push_elem"),
    (3, true, "bpf_ringbuf_reserve"),
    (3, true, "bpf_map_lookup_percpu_elem"),
    (4, true, "bpf_map_update_elem"),
    (4, true, "bpf_ringbuf_output"),
    (5, false, "bpf_perf_event_output"),
];

/// A call without a name, and what it may be.
#[derive(Debug)]
struct Hidden {
    at: usize,
    /// Slots that it takes if it is a lookup that the kernel wrote out.
    written_out: Option<usize>,
    arguments: usize,
    takes_map: bool,
    /// Numbers of helpers, the likeliest first.
    readings: Vec<i32>,
}

thread_local! {
    /// The results by program, because one policy takes many runs.
    static REMEMBERED: RefCell<HashMap<Key, Option<Rc<Named>>>> = RefCell::default();
}

/// All that the answer depends on: the tag and the dump.
type Key = ([u8; tag::TAG_SIZE], Vec<Insn>);

/// The program with the names of its calls, if all were hidden and its tag
/// proves them.
pub fn named(program: &Program, insns: &[Insn]) -> Option<Rc<Named>> {
    let tag = tag_of(program)?;
    let is_call = |insn: &&Insn| insn.code == CALL && insn.src != opcode::PSEUDO_CALL;
    let calls = || insns.iter().filter(is_call);
    // A function of the kernel was named by a number of its types, which a
    // dump without symbols does not have.
    let is_known = |insn: &Insn| helpers::is_tail_call(insn.imm, None);
    if !program.calls.is_empty()
        || insns.len() * 8 > MAX_PROGRAM
        || calls().all(is_known)
        || calls().any(|insn| insn.src == opcode::PSEUDO_KFUNC)
    {
        return None;
    }
    let key = (tag, insns.to_vec());
    if let Some(known) = REMEMBERED.with_borrow(|remembered| remembered.get(&key).cloned()) {
        return known;
    }
    let found = search(tag, insns).map(Rc::new);
    REMEMBERED.with_borrow_mut(|remembered| {
        if remembered.len() >= MAX_REMEMBERED {
            remembered.clear();
        }
        remembered.insert(key, found.clone());
    });
    found
}

fn search(tag: [u8; tag::TAG_SIZE], insns: &[Insn]) -> Option<Named> {
    let hidden: Vec<Hidden> = (0..insns.len()).filter_map(|at| Hidden::at(insns, at)).collect();
    let parts = (0..insns.len()).map(|at| as_loaded::part_without_call(insns, at)).collect();
    let guesses = (MAX_HASHED / (insns.len() * 8)).min(MAX_GUESSES) / 2;
    let mut search = Search { insns, tag, hidden: &hidden, parts, chosen: vec![0; hidden.len()], left: 0 };
    let alone: Vec<Vec<usize>> = (0..hidden.len()).map(|call| vec![call]).collect();
    let is_found =
        search.run(&alike(&hidden), guesses) || hidden.len() <= MAX_ALONE && search.run(&alone, guesses);
    is_found.then(|| name(insns, &hidden, &search.chosen))
}

/// The tag that the kernel reported; all zeros means none.
fn tag_of(program: &Program) -> Option<[u8; tag::TAG_SIZE]> {
    let is_tag =
        program.tag.len() == 2 * tag::TAG_SIZE && program.tag.bytes().all(|digit| digit.is_ascii_hexdigit());
    let number = u64::from_str_radix(&program.tag, 16).ok().filter(|number| is_tag && *number != 0)?;
    Some(number.to_be_bytes())
}

impl Hidden {
    fn at(insns: &[Insn], at: usize) -> Option<Self> {
        let insn = insns.get(at)?;
        if insn.code != CALL || insn.src != 0 || helpers::is_tail_call(insn.imm, None) {
            return None;
        }
        let (arguments, takes_map) = arguments(insns.get(..at)?);
        let mut likely: Vec<_> = LIKELY.iter().collect();
        likely.sort_by_key(|(count, map, _)| (*map != takes_map, count.abs_diff(arguments)));
        let written_out = as_loaded::hash_lookup(insns, at);
        let element = written_out.map(|_| ELEMENT);
        let others = likely.iter().filter_map(|(.., name)| helper::number(name));
        Some(Self {
            at,
            written_out,
            arguments,
            takes_map,
            readings: element.into_iter().chain(others).collect(),
        })
    }

    fn part(&self, reading: i32) -> CallSlots {
        match reading {
            ELEMENT => CallSlots { slots: self.written_out.unwrap_or(1), helper: Some(LOOKUP) },
            number => CallSlots { slots: 1, helper: Some(number) },
        }
    }
}

/// How many arguments are set up at the end of `before`, and whether the first is a
/// map.
fn arguments(before: &[Insn]) -> (usize, bool) {
    let (mut set, mut takes_map) = ([false; 6], false);
    for insn in before.iter().rev().take(WINDOW) {
        let writes = match insn.class() {
            opcode::JMP | opcode::JMP32 => break,
            opcode::LDX | opcode::ALU | opcode::ALU64 => true,
            opcode::LD => insn.is_wide(),
            _ => false,
        };
        if let Some(register) = set.get_mut(usize::from(insn.dst)).filter(|_| writes) {
            let is_map = insn.is_wide() && insn.src == opcode::PSEUDO_MAP;
            takes_map |= insn.dst == 1 && !*register && is_map;
            *register = true;
        }
    }
    (set.iter().skip(1).take_while(|is_set| **is_set).count(), takes_map)
}

/// The calls in groups that look alike, which are often one helper.
fn alike(hidden: &[Hidden]) -> Vec<Vec<usize>> {
    let mut groups: BTreeMap<_, Vec<usize>> = BTreeMap::new();
    for (number, call) in hidden.iter().enumerate() {
        groups.entry((call.arguments, call.takes_map, call.written_out)).or_default().push(number);
    }
    groups.into_values().collect()
}

/// The search for what the calls are.
struct Search<'a> {
    insns: &'a [Insn],
    tag: [u8; tag::TAG_SIZE],
    hidden: &'a [Hidden],
    /// The part that begins at each slot, by the last guess.
    parts: Vec<CallSlots>,
    /// The last guess: what each call is.
    chosen: Vec<i32>,
    /// Guesses that may still be tried in this run.
    left: usize,
}

impl Search<'_> {
    /// Whether the calls can be found, where those of a group are the same
    /// helper; the likeliest guesses first.
    fn run(&mut self, groups: &[Vec<usize>], guesses: usize) -> bool {
        self.left = guesses;
        (0..=groups.len() * LIKELY.len()).any(|rank| self.descend(groups, rank))
    }

    /// Tries all guesses whose ranks add up to `rank`; returns whether one is right.
    fn descend(&mut self, groups: &[Vec<usize>], rank: usize) -> bool {
        if self.left == 0 {
            return false;
        }
        let Some((group, others)) = groups.split_first() else { return self.is_right() };
        let first = if others.is_empty() { rank } else { 0 };
        (first..=rank).any(|own| {
            let is_reading = group.iter().all(|call| self.choose(*call, own));
            is_reading && self.descend(others, rank - own)
        })
    }

    /// Takes the call for its reading of this rank, if it has as many.
    fn choose(&mut self, call: usize, rank: usize) -> bool {
        let Some(hidden) = self.hidden.get(call) else { return false };
        let Some(reading) = hidden.readings.get(rank) else { return false };
        let (Some(chosen), Some(part)) = (self.chosen.get_mut(call), self.parts.get_mut(hidden.at)) else {
            return false;
        };
        (*chosen, *part) = (*reading, hidden.part(*reading));
        true
    }

    fn is_right(&mut self) -> bool {
        self.left -= 1;
        let loaded = as_loaded::original(self.insns, &self.parts);
        loaded.is_some_and(|insns| tag::is_tag_of(&self.tag, &insns))
    }
}

fn name(insns: &[Insn], hidden: &[Hidden], chosen: &[i32]) -> Named {
    let mut named = Named { insns: insns.to_vec(), calls: BTreeMap::new() };
    for (call, reading) in hidden.iter().zip(chosen) {
        if let Some(insn) = named.insns.get_mut(call.at) {
            insn.imm = *reading;
        }
        let symbol = match *reading {
            ELEMENT => Some("__htab_map_lookup_elem".to_owned()),
            number => helper::name(number),
        };
        named.calls.extend(symbol.map(|symbol| (*reading, symbol)));
    }
    named
}
