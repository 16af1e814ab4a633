//! Where the tail calls of a program lead.

use std::collections::BTreeMap;

/// Why a path is not followed that goes on in another program.
pub const ELSEWHERE: &str = "the program continues in another one (tail call)";

/// The most tail calls that the kernel makes one after the other
/// (`MAX_TAIL_CALL_CNT`, `linux/bpf.h`). The next one does nothing.
pub const MOST_TAIL_CALLS: usize = 33;

/// Where a tail call leads.
#[derive(Clone, Debug)]
pub enum Called {
    /// To this slot.
    At(usize),
    /// To a program that is not followed, for the reason with this number.
    Lost(usize),
}

/// The programs behind a program, and those that cannot be there.
#[derive(Clone, Debug, Default)]
pub struct Links {
    /// By their ids.
    pub(super) called: BTreeMap<u32, Called>,
    /// Where the programs behind the first begin, in order.
    pub(super) begins: Vec<(usize, u32)>,
    /// Why programs are not followed.
    pub(super) lost: Vec<String>,
}

impl Links {
    /// Where a call of the program with this id leads; `None` if it is not known.
    pub fn called(&self, id: u32) -> Option<&Called> {
        self.called.get(&id)
    }

    /// The reason with this number.
    pub fn why(&self, number: usize) -> Option<&str> {
        self.lost.get(number).map(String::as_str)
    }

    /// The slots that tail calls lead to.
    pub fn begins(&self) -> impl Iterator<Item = usize> {
        self.called.values().filter_map(|called| match called {
            Called::At(begin) => Some(*begin),
            Called::Lost(_) => None,
        })
    }

    /// The program whose instruction is at `pc`, if it is not the first, and its slot
    /// there.
    pub fn place(&self, pc: usize) -> (Option<u32>, usize) {
        let behind = self.begins.partition_point(|(begin, _)| *begin <= pc);
        let program = behind.checked_sub(1).and_then(|last| self.begins.get(last));
        program.map_or((None, pc), |(begin, id)| (Some(*id), pc - begin))
    }
}
