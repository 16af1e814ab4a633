//! The page of `report`: one HTML file that needs nothing else.
//!
//! One file for each section. `maud` checks the markup when gpumap is compiled and
//! escapes text. Neither it nor a browser makes direction marks and control characters
//! visible, so all text of the system passes [`sanitize`](super::sanitize) first and
//! stands in a `<bdi>`, which keeps a name from reordering what is around it.
//!
//! The page carries a Content-Security-Policy that allows its own style and script by
//! their digests and nothing else: a name that became markup against all odds could
//! neither run nor ask the network. Text never stands in the script.
mod evidence;
mod findings;
mod fleet;
mod levels;
mod matrix;
mod processes;
mod rules;
mod text;

pub use fleet::fleet_page;

use std::io::{self, Write};

use maud::{Markup, html};

use crate::report::Page;
use text::View;

/// Writes the page.
///
/// # Errors
///
/// Those of `out`.
pub fn page(out: &mut dyn Write, page: &Page) -> io::Result<()> {
    let view = View::new(page);
    let title = format!("{} · gpumap", text::host(&page.document));
    out.write_all(text::page(&title, &body(&view)).into_string().as_bytes())
}

fn body(view: &View<'_>) -> Markup {
    html! {
        (findings::header(view))
        (findings::navigation(view))
        main #main {
            (findings::tiles(view))
            (findings::section(view))
            (matrix::section(view))
            (levels::section(view))
            (rules::section(view))
            (rules::proofs_section(view))
            (processes::section(view))
            (processes::gpus_section(view))
            (evidence::unknown_section(view))
            (evidence::section(view))
        }
        (findings::footer(view))
        (matrix::symbols(view))
        (levels::signs())
    }
}
