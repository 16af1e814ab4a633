//! fnmatch(3) with `*` and `?`.

/// Bytes of a pattern or a name: the kernel's names are far shorter, and the
/// time of a comparison is the product of both.
const LIMIT: usize = 256;

/// Whether a name matches; `None` for patterns with classes or escapes, and
/// where one of the two is too long.
pub(super) fn matches(pattern: &str, name: &str) -> Option<bool> {
    if pattern.contains(['[', '\\']) || pattern.len() > LIMIT || name.len() > LIMIT {
        return None;
    }
    let (pattern, name) = (pattern.as_bytes(), name.as_bytes());
    let (mut at, mut to) = (0, 0);
    // The last star, and how many bytes it has matched so far.
    let mut star: Option<(usize, usize)> = None;
    while to < name.len() {
        match pattern.get(at) {
            Some(b'*') => {
                star = Some((at, to));
                at += 1;
            }
            Some(byte) if *byte == b'?' || Some(byte) == name.get(to) => {
                at += 1;
                to += 1;
            }
            _ => {
                let Some((place, eaten)) = star else { return Some(false) };
                star = Some((place, eaten + 1));
                (at, to) = (place + 1, eaten + 1);
            }
        }
    }
    Some(pattern[at..].iter().all(|byte| *byte == b'*'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns() {
        let yes =
            [("*", ""), ("nvidia*", "nvidia-uvm"), ("cpu/*", "cpu/msr"), ("?x", "ax"), ("*a*b", "xaayb")];
        assert!(yes.iter().all(|(pattern, name)| matches(pattern, name) == Some(true)));
        let no = [("nvidia", "nvidia-uvm"), ("?", ""), ("*a*b", "xaayc"), ("", "a")];
        assert!(no.iter().all(|(pattern, name)| matches(pattern, name) == Some(false)));
        assert_eq!(matches("nvidia[0-9]", "nvidia0"), None);
    }
}
