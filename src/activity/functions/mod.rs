//! The functions that are counted: one table for each interface.

mod cuda;
mod hip;

use std::sync::LazyLock;

use super::cookie::Cookie;

/// A function of a driver's library.
#[derive(Debug)]
pub(super) struct Function {
    /// Its exported name.
    pub(super) name: String,
    /// What the kernel side is told of it.
    pub(super) cookie: Cookie,
}

/// Functions that take the same arguments: names, a suffix with which each of
/// them exists once more for the threads' own default streams, what they do.
type Row = (&'static [&'static str], Option<&'static str>, Cookie);

/// All of them.
static FUNCTIONS: LazyLock<Vec<Function>> =
    LazyLock::new(|| cuda::ROWS.iter().chain(hip::ROWS).flat_map(functions).collect());

/// The functions of all interfaces.
pub(super) fn all() -> &'static [Function] {
    &FUNCTIONS
}

fn functions(row: &'static Row) -> impl Iterator<Item = Function> {
    let (names, suffix, cookie) = *row;
    names.iter().flat_map(move |name| {
        let plain = Function { name: (*name).to_owned(), cookie };
        let other =
            suffix.map(|suffix| Function { name: format!("{name}{suffix}"), cookie: cookie.per_thread() });
        std::iter::once(plain).chain(other)
    })
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
