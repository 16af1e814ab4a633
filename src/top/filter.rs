//! Which rows are shown: words that the user types.
//!
//! A row has to match every word. `user:`, `job:` and `gpu:` ask for a user, a job's
//! number and a GPU; any other word is looked for in all texts of a row.

use crate::model::{CellState, Owner};
use crate::report::{Gpu, Matrix, MatrixRow};

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
        let ids = [Some(&gpu.key), gpu.uuid.as_ref(), gpu.pci.as_ref()];
        let gate = gpu.nodes.iter().find(|node| node.gate).and_then(|node| node.path.rsplit('/').next());
        let number = gate.map(|gate| gate.trim_start_matches(|c: char| !c.is_ascii_digit()));
        ids.into_iter().flatten().any(|id| id.eq_ignore_ascii_case(name))
            || gate == Some(name)
            || number == Some(name)
    };
    let keys: Vec<&String> = gpus.iter().filter(|gpu| is_it(gpu)).map(|gpu| &gpu.key).collect();
    let is_meant = |column: &String| {
        let is_on = |key: &&String| {
            column.strip_prefix(key.as_str()).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        };
        column == name || keys.iter().any(is_on)
    };
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
