//! Which rows of a matrix are shown, and in which order: the filter that the user types,
//! the order of whole owners, and the rows that are open.
//!
//! A row has to match every word. `user:`, `job:` and `gpu:` ask for a user, a job's
//! number and a GPU; any other word is looked for in all texts of a row.

use std::cmp::Ordering;
use std::collections::HashSet;

use crate::model::{CellState, GpuKey, InOrder as _, MatrixOrder, Membership, Owner};
use crate::report::{Gpu, Matrix, MatrixRow, RowKey};

/// What the user chose.
#[derive(Clone, Copy, Debug)]
pub struct Choice<'a> {
    /// Which rows.
    pub filter: &'a Filter,
    /// In which order.
    pub order: MatrixOrder,
    /// The rows whose insides are shown; `None` shows those of all.
    pub open: Option<&'a HashSet<RowKey>>,
}

/// The rows that are shown, by their places in the matrix. A row that matches the
/// filter is shown with the owners around it.
pub fn rows(matrix: &Matrix, choice: Choice<'_>) -> Vec<usize> {
    let numbered: Vec<(usize, &MatrixRow)> = matrix.rows.iter().enumerate().collect();
    let mut groups: Vec<&[(usize, &MatrixRow)]> = numbered.chunk_by(|_, (_, next)| next.depth > 0).collect();
    groups.order_by(|a, b| match (a.first(), b.first()) {
        (Some((_, a)), Some((_, b))) => compare(choice.order, a, b),
        _ => std::cmp::Ordering::Equal,
    });
    groups.into_iter().flat_map(|group| shown(group, choice)).collect()
}

/// A row that the rows after it may be inside of.
struct Around {
    depth: usize,
    /// Whether its inside is shown.
    is_open: bool,
    /// Whether it matches, so that all inside of it does.
    matches: bool,
}

/// The rows of a group that are shown.
fn shown(group: &[(usize, &MatrixRow)], choice: Choice<'_>) -> Vec<usize> {
    let matches: Vec<bool> = group.iter().map(|(_, row)| choice.filter.matches(row)).collect();
    let inside = with_inside(group, &matches);
    let mut around: Vec<Around> = Vec::new();
    let mut shown = Vec::new();
    for (place, (index, row)) in group.iter().enumerate() {
        around.retain(|outer| outer.depth < row.depth);
        let its = matches.get(place).copied().unwrap_or_default();
        let has_match = inside.get(place).copied().unwrap_or_default();
        let is_within = around.iter().any(|outer| outer.matches);
        // What matches is found even in a closed owner, unless that one matches itself.
        let is_asked_for = !choice.filter.is_empty() && has_match && !is_within;
        let is_open = around.iter().all(|outer| outer.is_open);
        if (is_open || is_asked_for) && (has_match || is_within) {
            shown.push(*index);
        }
        let opened = choice.open.is_none_or(|open| open.contains(&row.key()));
        around.push(Around { depth: row.depth, is_open: opened, matches: its });
    }
    shown
}

/// Whether each row matches, or one inside of it.
fn with_inside(group: &[(usize, &MatrixRow)], matches: &[bool]) -> Vec<bool> {
    let mut inside = matches.to_vec();
    let mut below: Vec<(usize, bool)> = Vec::new();
    for (place, (_, row)) in group.iter().enumerate().rev() {
        let mut has_match = inside.get(place).copied().unwrap_or_default();
        while let Some((_, its)) = below.pop_if(|(depth, _)| *depth > row.depth) {
            has_match |= its;
        }
        if let Some(slot) = inside.get_mut(place) {
            *slot = has_match;
        }
        below.push((row.depth, has_match));
    }
    inside
}

/// Compares two whole owners. Equal ones keep their place.
pub(super) fn compare(order: MatrixOrder, a: &MatrixRow, b: &MatrixRow) -> Ordering {
    let count = |row: &MatrixRow, of: fn(&crate::report::MatrixCell) -> Membership| {
        row.cells.iter().filter(|cell| of(cell) == Membership::Yes).count()
    };
    match order {
        MatrixOrder::Owner => Ordering::Equal,
        MatrixOrder::User => a.users.cmp(&b.users),
        MatrixOrder::Finding => b.finding.cmp(&a.finding),
        MatrixOrder::Held => count(b, |cell| cell.held).cmp(&count(a, |cell| cell.held)),
        MatrixOrder::Allowed => count(b, |cell| cell.allowed).cmp(&count(a, |cell| cell.allowed)),
        MatrixOrder::Launches => launches(b).total_cmp(&launches(a)),
        MatrixOrder::Memory => memory(b).cmp(&memory(a)),
        MatrixOrder::Processes => b.processes.cmp(&a.processes),
    }
}

/// In a second; of rows without a rate, none.
fn launches(row: &MatrixRow) -> f64 {
    row.activity.and_then(|activity| activity.launches_per_second).unwrap_or(0.0)
}

fn memory(row: &MatrixRow) -> u64 {
    row.activity.map_or(0, |activity| activity.memory_bytes)
}

/// The words, ready to be compared.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Filter {
    words: Vec<Word>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Word {
    User(String),
    Job(String),
    /// The columns of the GPU that is meant.
    Gpu(Vec<usize>),
    Text(String),
}

impl Filter {
    /// Reads words. Names of GPUs are looked up in the columns of this matrix.
    pub fn new(text: &str, matrix: &Matrix, gpus: &[Gpu]) -> Self {
        let word = |word: &str| match word.split_once(':') {
            Some(("user", name)) => Word::User(name.to_lowercase()),
            Some(("job", id)) => Word::Job(id.to_lowercase()),
            Some(("gpu", name)) => Word::Gpu(columns(name, matrix, gpus)),
            _ => Word::Text(word.to_lowercase()),
        };
        Self { words: text.split_whitespace().map(word).collect() }
    }

    /// Whether it has no word, so that every row matches.
    pub fn is_empty(&self) -> bool {
        self.words.is_empty()
    }

    /// Whether a row matches every word.
    pub fn matches(&self, row: &MatrixRow) -> bool {
        self.words.iter().all(|word| match word {
            Word::User(name) => row.users.iter().any(|user| user.to_lowercase() == *name),
            Word::Job(id) => row.owner.as_ref().is_some_and(|owner| is_job(owner, id)),
            Word::Gpu(columns) => columns.iter().any(|column| is_at(row, *column)),
            Word::Text(text) => texts(row).iter().any(|one| one.to_lowercase().contains(text)),
        })
    }
}

/// The columns that a name means: a key, a UUID, a PCI address, a node's name such as
/// `nvidia0`, or its number.
fn columns(name: &str, matrix: &Matrix, gpus: &[Gpu]) -> Vec<usize> {
    let is_it = |gpu: &Gpu| {
        let ids = [Some(&*gpu.key), gpu.uuid.as_deref(), gpu.pci.as_deref()];
        let gate = gpu.nodes.iter().find(|node| node.gate).and_then(|node| node.path.rsplit('/').next());
        let number = gate.map(|gate| gate.trim_start_matches(|c: char| !c.is_ascii_digit()));
        ids.into_iter().flatten().any(|id| id.eq_ignore_ascii_case(name))
            || gate == Some(name)
            || number == Some(name)
    };
    let keys: Vec<&GpuKey> = gpus.iter().filter(|gpu| is_it(gpu)).map(|gpu| &gpu.key).collect();
    let is_meant = |column: &GpuKey| **column == *name || keys.iter().any(|key| column.is_of(key));
    let all = matrix.columns.iter().enumerate();
    all.filter(|(_, column)| is_meant(column)).map(|(index, _)| index).collect()
}

/// Whether a row has anything to do with a column.
fn is_at(row: &MatrixRow, column: usize) -> bool {
    row.cells.get(column).is_some_and(|cell| cell.state != CellState::Nothing)
}

fn is_job(owner: &Owner, id: &str) -> bool {
    let number = owner.job_id.map(|number| number.to_string());
    [number.as_ref(), owner.job.as_ref(), owner.sluid.as_ref()]
        .into_iter()
        .flatten()
        .any(|name| name.eq_ignore_ascii_case(id))
}

/// Everything of a row that a word may be part of.
fn texts(row: &MatrixRow) -> Vec<String> {
    let mut texts = row.users.clone();
    texts.push(row.cgroup.clone());
    if let Some(process) = &row.process {
        texts.extend([process.comm.clone(), process.pid.to_string()]);
    }
    if let Some(owner) = &row.owner {
        texts.push(owner.kind.to_string());
        texts.extend(owner.job_id.map(|number| number.to_string()));
        let names =
            [&owner.job, &owner.sluid, &owner.step, &owner.task, &owner.container, &owner.pod, &owner.name];
        texts.extend(names.into_iter().flatten().cloned());
    }
    texts
}
