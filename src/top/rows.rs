//! Which rows of a matrix are shown, and in which order.

use std::collections::HashSet;

use super::filter::Filter;
use super::order::compare;
use crate::model::MatrixOrder;
use crate::report::{Matrix, MatrixRow, RowKey};

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
    groups.sort_by(|a, b| match (a.first(), b.first()) {
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
