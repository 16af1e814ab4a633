//! A row of a table: functions that take the same arguments.

use crate::activity::cookie::Cookie;
use crate::observation::GpuApi;

/// A function of a driver's library.
#[derive(Debug)]
pub(in crate::activity) struct Function {
    /// Its exported name.
    pub(in crate::activity) name: String,
    /// What the kernel side must know about it.
    pub(in crate::activity) cookie: Cookie,
}

impl Function {
    /// Whose it is.
    pub(in crate::activity) fn api(&self) -> GpuApi {
        if self.cookie.is_hip() { GpuApi::Hip } else { GpuApi::Cuda }
    }
}

/// Functions that take the same arguments: names, a suffix with which each of
/// them exists once more for the threads' own default streams, what they do.
pub(super) type Row = (&'static [&'static str], Option<&'static str>, Cookie);

/// The functions of a row.
pub(super) fn functions(row: &'static Row) -> impl Iterator<Item = Function> {
    let (names, suffix, cookie) = *row;
    names.iter().flat_map(move |name| {
        let plain = Function { name: (*name).to_owned(), cookie };
        let other =
            suffix.map(|suffix| Function { name: format!("{name}{suffix}"), cookie: cookie.per_thread() });
        std::iter::once(plain).chain(other)
    })
}
