//! The four marks of a cell: a diamond for allocated, a tick for allowed, a ring for
//! asked for, a disc for held. Each state of a cell is one SVG symbol that the cells
//! refer to, so that a cell takes few bytes.

use std::collections::BTreeMap;

use maud::{Markup, html};

use super::text;
use super::view::View;
use crate::report::{Member, PageCell};

/// A state of a mark.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Mark {
    /// What the analysis says.
    Is(Member),
    /// It is in the set, by its own environment alone.
    Claimed,
}

/// The id of the symbol for a cell: a letter for each set.
pub(super) fn symbol(cell: &PageCell, is_claimed: bool) -> String {
    let letter = |mark: Mark| match mark {
        Mark::Is(Member::In) => 'i',
        Mark::Is(Member::Out) => 'o',
        Mark::Is(Member::Unknown) => 'u',
        Mark::Claimed => 'c',
    };
    ['m'].into_iter().chain(marks(cell, is_claimed).map(letter)).collect()
}

fn marks(cell: &PageCell, is_claimed: bool) -> [Mark; 4] {
    let allocated =
        if is_claimed && cell.allocated == Member::In { Mark::Claimed } else { Mark::Is(cell.allocated) };
    [allocated, Mark::Is(cell.allowed), Mark::Is(cell.asked), Mark::Is(cell.held)]
}

/// Every symbol that the page refers to.
pub(super) fn symbols(view: &View<'_>) -> Markup {
    let mut used: BTreeMap<String, [Mark; 4]> = BTreeMap::new();
    for row in &view.page.rows {
        let is_claimed = view.owners.get(row.owner).is_some_and(text::is_claimed);
        for cell in &row.cells {
            used.entry(symbol(cell, is_claimed)).or_insert_with(|| marks(cell, is_claimed));
        }
    }
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
pub(super) fn single(place: usize, one: Mark) -> Markup {
    let view = format!("{} 0 18 18", place * 18);
    html! { svg.mark viewBox=(view) aria-hidden="true" { (mark(place, one)) } }
}

fn mark(place: usize, one: Mark) -> Markup {
    let x = place * 18 + 9;
    let member = match one {
        Mark::Claimed => return html! { path.kc d="M9 3.5l5.5 5.5-5.5 5.5-5.5-5.5z" {} },
        Mark::Is(member) => member,
    };
    match (member, place) {
        (Member::Unknown, _) => html! { text.ku x=(x) y="13" text-anchor="middle" { "?" } },
        (Member::In, 0) => html! { path.ka d="M9 3.5l5.5 5.5-5.5 5.5-5.5-5.5z" {} },
        (Member::In, 1) => html! { path.kl d="M21.5 9.5l3.5 4 7-9" {} },
        (Member::In, 2) => html! { circle.kv cx=(x) cy="9" r="5" {} },
        (Member::In, _) => html! { circle.kh cx=(x) cy="9" r="6" {} },
        (Member::Out, 1) => html! { path.kd d="M24 6l6 6m0-6l-6 6" {} },
        (Member::Out, _) => html! { path.ko d={ "M" (x - 3) " 9h6" } {} },
    }
}
