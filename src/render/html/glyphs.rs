//! The four marks of a cell: a diamond for allocated, a tick for allowed, a ring for
//! asked for, a disc for held. Each state of a cell is one SVG symbol that the cells
//! refer to, so that a cell takes few bytes.

use std::collections::BTreeMap;

use maud::{Markup, html};

use super::view::View;
use crate::model::Membership;
use crate::report::MatrixCell;

/// The id of the symbol for a cell: a letter for each set.
pub(super) fn symbol(cell: &MatrixCell) -> String {
    let letter = |is_in: Membership| match is_in {
        Membership::Yes => 'i',
        Membership::No => 'o',
        Membership::Unknown => 'u',
        Membership::Claimed => 'c',
    };
    ['m'].into_iter().chain(marks(cell).map(letter)).collect()
}

fn marks(cell: &MatrixCell) -> [Membership; 4] {
    [cell.allocated, cell.allowed, cell.asked, cell.held]
}

/// Every symbol that the page refers to.
pub(super) fn symbols(view: &View<'_>) -> Markup {
    let cells = view.page.rows.iter().flat_map(|row| &row.cells).map(|cell| &cell.sets);
    let used: BTreeMap<String, [Membership; 4]> = cells.map(|cell| (symbol(cell), marks(cell))).collect();
    html! {
        svg.defs aria-hidden="true" width="0" height="0" {
            @for (id, marks) in &used {
                symbol id=(id) viewBox="0 0 72 18" {
                    @for (place, one) in marks.iter().enumerate() { (mark(place, *one)) }
                }
            }
        }
    }
}

/// One mark by itself, for the legend.
pub(super) fn single(place: usize, is_in: Membership) -> Markup {
    let view = format!("{} 0 18 18", place * 18);
    html! { svg.mark viewBox=(view) aria-hidden="true" { (mark(place, is_in)) } }
}

fn mark(place: usize, is_in: Membership) -> Markup {
    let x = place * 18 + 9;
    match (is_in, place) {
        (Membership::Claimed, _) => html! { path.kc d="M9 3.5l5.5 5.5-5.5 5.5-5.5-5.5z" {} },
        (Membership::Unknown, _) => html! { text.ku x=(x) y="13" text-anchor="middle" { "?" } },
        (Membership::Yes, 0) => html! { path.ka d="M9 3.5l5.5 5.5-5.5 5.5-5.5-5.5z" {} },
        (Membership::Yes, 1) => html! { path.kl d="M21.5 9.5l3.5 4 7-9" {} },
        (Membership::Yes, 2) => html! { circle.kv cx=(x) cy="9" r="5" {} },
        (Membership::Yes, _) => html! { circle.kh cx=(x) cy="9" r="6" {} },
        (Membership::No, 1) => html! { path.kd d="M24 6l6 6m0-6l-6 6" {} },
        (Membership::No, _) => html! { path.ko d={ "M" (x - 3) " 9h6" } {} },
    }
}
