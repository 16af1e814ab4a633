//! Sets of nodes, with links to the sections of those that have one.

use std::collections::HashMap;

use maud::{Markup, html};

use super::super::super::sanitize;
use super::super::text;
use crate::report::{FleetPage, NodeSet};

/// Characters of a host list that are shown before it is folded, and at most.
const LIST: usize = 80;
const WHOLE: usize = 20_000;

/// Where the sections of nodes are.
pub(super) struct Sections<'a>(HashMap<&'a str, usize>);

impl<'a> Sections<'a> {
    pub(super) fn of(page: &'a FleetPage) -> Self {
        Self(page.nodes.iter().enumerate().map(|(place, node)| (node.name.as_str(), place)).collect())
    }

    /// The name of a node, which leads to its section.
    pub(super) fn node(&self, name: &str) -> Markup {
        html! {
            @match self.0.get(name) {
                Some(place) => a href={ "#n" (place) } { (text::name(name)) },
                None => (text::name(name)),
            }
        }
    }

    /// Nodes: few of them one by one, others as a host list, a long one folded.
    pub(super) fn set(&self, set: &NodeSet) -> Markup {
        let is_short = set.nodes.chars().take(LIST + 1).count() <= LIST;
        let rest = set.count.saturating_sub(set.first.len());
        html! {
            @if rest == 0 { (self.names(&set.first)) @if set.count > 2 { span.muted { " (" (set.count) " nodes)" } } }
            @else {
                @if is_short { bdi { (sanitize::short(&set.nodes, LIST, "…")) } span.muted { " (" (set.count) " nodes)" } }
                @else { details.more { summary { (set.count) " nodes" } p { bdi { (sanitize::short(&set.nodes, WHOLE, "…")) } } } }
                " " span.muted { "such as " } (self.names(&set.first))
            }
        }
    }

    fn names(&self, names: &[String]) -> Markup {
        html! { @for (at, name) in names.iter().enumerate() { @if at > 0 { ", " } (self.node(name)) } }
    }
}
