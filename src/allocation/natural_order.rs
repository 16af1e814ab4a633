//! Compares names in natural order, in which `nvidia10` follows `nvidia9`. Slurm
//! sorts device files in this order (`strnatcmp`).

use std::cmp::Ordering;

/// Compares as people do: runs of digits by their value.
pub(super) fn natural_order(one: &str, two: &str) -> Ordering {
    let (mut one, mut two) = (one.as_bytes(), two.as_bytes());
    loop {
        match (digits(one), digits(two)) {
            (0, _) | (_, 0) => match (one.split_first(), two.split_first()) {
                (Some((a, rest)), Some((b, other))) if a == b => (one, two) = (rest, other),
                (a, b) => return a.map(|(byte, _)| byte).cmp(&b.map(|(byte, _)| byte)),
            },
            (a, b) => {
                let ((left, rest), (right, other)) = (one.split_at(a), two.split_at(b));
                match number(left).cmp(&number(right)) {
                    Ordering::Equal => (one, two) = (rest, other),
                    unequal => return unequal,
                }
            }
        }
    }
}

fn digits(text: &[u8]) -> usize {
    text.iter().take_while(|byte| byte.is_ascii_digit()).count()
}

/// Orders runs of digits: without leading zeros the longer one is larger.
fn number(digits: &[u8]) -> (usize, &[u8]) {
    let zeros = digits.iter().take_while(|byte| **byte == b'0').count();
    let digits = &digits[zeros..];
    (digits.len(), digits)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_count_by_value() {
        let names =
            ["", "/dev/dri/renderD128", "/dev/nvidia0", "/dev/nvidia9", "/dev/nvidia10", "/dev/nvidia10,x"];
        assert!(names.is_sorted_by(|one, two| natural_order(one, two).is_lt()));
        assert_eq!(natural_order("a01", "a1"), Ordering::Equal);
        assert_eq!(natural_order("a1", "ab"), Ordering::Less);
    }
}
