//! Reduces findings to what they say of any job: their words without numbers and ids.

/// Letters and digits of a UUID between its dashes.
const UUID: [usize; 5] = [8, 4, 4, 4, 12];
/// Hexadecimal digits in a row that are an id.
const ID: usize = 12;
/// The most of them that are looked at together: text of a megabyte takes no longer than
/// its length asks for.
const LONGEST: usize = 128;

/// The text with `#` in the place of every number, UUID and hexadecimal id.
pub(super) fn alike(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let word = uuid(rest).or_else(|| id(rest)).or_else(|| number(rest));
        match word.filter(|_| !out.ends_with(|c: char| c.is_ascii_alphabetic()) || first.is_ascii_digit()) {
            Some(len) => {
                out.push('#');
                rest = rest.get(len..).unwrap_or_default();
            }
            None => {
                out.push(first);
                rest = rest.get(first.len_utf8()..).unwrap_or_default();
            }
        }
    }
    out
}

fn uuid(text: &str) -> Option<usize> {
    let bytes = text.as_bytes();
    let mut at = 0;
    for (index, len) in UUID.into_iter().enumerate() {
        if index > 0 {
            (bytes.get(at) == Some(&b'-')).then_some(())?;
            at += 1;
        }
        let digits = bytes.get(at..at + len)?;
        digits.iter().all(u8::is_ascii_hexdigit).then_some(())?;
        at += len;
    }
    Some(at)
}

fn id(text: &str) -> Option<usize> {
    let digits = text.bytes().take(LONGEST).take_while(u8::is_ascii_hexdigit).count();
    let has_number = text.bytes().take(digits).any(|byte| byte.is_ascii_digit());
    (digits >= ID && has_number).then_some(digits)
}

fn number(text: &str) -> Option<usize> {
    Some(text.bytes().take_while(u8::is_ascii_digit).count()).filter(|digits| *digits > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_ids_are_left_out() {
        for (text, expected) in [
            ("slurm job 4711 may open nvidia0-3", "slurm job # may open nvidia#-#"),
            ("GPU-33333333-2222-3333-4444-5555555555ab of pid 7", "GPU-# of pid #"),
            ("docker 3fa9c1d2e4b5a77f", "docker #"),
            ("a facade, a decade, cafe", "a facade, a decade, cafe"),
            ("/a.slice/job_12/step_0", "/a.slice/job_#/step_#"),
            ("größe 5", "größe #"),
            ("", ""),
        ] {
            assert_eq!(alike(text), expected);
        }
    }

    /// Make sure that a long text, which may look like an id from anywhere in it, takes no
    /// longer than its length asks for: this once took hours.
    #[test]
    fn long_text() {
        for word in ["a", "a1", "ab-", "1"] {
            assert!(alike(&word.repeat(1 << 20)).len() <= word.len() << 20);
        }
    }
}
