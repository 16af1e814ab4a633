//! Numbers with the word for what is counted.

/// `1 process`, `2 processes`.
pub(super) fn counted(number: usize, what: &str) -> String {
    let ending = match (number, what.ends_with('s')) {
        (1, _) => "",
        (_, true) => "es",
        (_, false) => "s",
    };
    format!("{number} {what}{ending}")
}
