//! A GPU of a node.

use serde::Deserialize;

use super::super::text::Str;

/// A GPU, in a full or a compact document.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(in crate::fleet) struct Gpu<'a> {
    #[serde(borrow)]
    pub(in crate::fleet) key: Str<'a>,
    pub(in crate::fleet) vendor: Str<'a>,
    pub(in crate::fleet) model: Option<Str<'a>>,
    pub(in crate::fleet) minor: Option<u32>,
    #[serde(alias = "nvml_index")]
    pub(in crate::fleet) nvml: Option<u32>,
}
