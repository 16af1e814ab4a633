//! The release of the running kernel.

use nix::sys::utsname::uname;

/// The first two numbers of the running kernel's release: `(6, 18)`; `None` where it cannot be
/// read.
pub fn release() -> Option<(u32, u32)> {
    uname().ok().and_then(|names| numbers(names.release().to_str()?))
}

fn numbers(text: &str) -> Option<(u32, u32)> {
    let mut numbers = text.split(|byte: char| !byte.is_ascii_digit()).map(str::parse);
    Some((numbers.next()?.ok()?, numbers.next()?.ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn releases() {
        assert_eq!(numbers("6.18.0-rc1+deb13"), Some((6, 18)));
        assert_eq!(numbers("5.10.0-28-cloud-amd64"), Some((5, 10)));
        assert_eq!(numbers("6.18.44+"), Some((6, 18)));
        assert_eq!((numbers("7"), numbers("next-20260101"), numbers("")), (None, None, None));
    }
}
