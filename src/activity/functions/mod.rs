//! The functions that are counted: one table for each interface.

mod cuda;
mod hip;
mod row;

use std::sync::LazyLock;

pub(super) use row::Function;
use row::functions;

/// All of them.
static FUNCTIONS: LazyLock<Vec<Function>> =
    LazyLock::new(|| cuda::ROWS.iter().chain(hip::ROWS).flat_map(functions).collect());

/// The functions of all interfaces.
pub(super) fn all() -> &'static [Function] {
    &FUNCTIONS
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    /// Make sure that no function stands there twice.
    #[test]
    fn once() {
        let names: BTreeSet<&str> = all().iter().map(|function| function.name.as_str()).collect();
        assert_eq!(names.len(), all().len());
        for name in ["cuLaunchKernel", "cuLaunchKernel_ptsz", "cuMemcpyHtoD_v2_ptds", "hipLaunchKernel_spt"] {
            assert!(names.contains(name), "{name}");
        }
    }
}
