//! Lines that have no room are broken.

use super::canvas::columns;

/// A line in pieces of so many columns, broken at spaces where there are any.
pub(super) fn folded(line: &str, width: usize) -> Vec<String> {
    if columns(line) <= width {
        return vec![line.to_owned()];
    }
    let indent = " ".repeat((line.len() - line.trim_start().len() + 4).min(width / 2));
    let options = textwrap::Options::new(width)
        .subsequent_indent(&indent)
        .word_separator(textwrap::WordSeparator::AsciiSpace)
        .word_splitter(textwrap::WordSplitter::NoHyphenation)
        .wrap_algorithm(textwrap::WrapAlgorithm::FirstFit);
    textwrap::wrap(line, options).into_iter().map(std::borrow::Cow::into_owned).collect()
}
