//! The files of the repository, for tests that read them.

use std::fs;
use std::path::{Path, PathBuf};

pub(crate) fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// A document, by its path in the repository.
pub(crate) fn document(name: &str) -> String {
    fs::read_to_string(root().join(name)).expect(name)
}

/// A Rust file of `src`.
pub(crate) struct Source {
    /// Its path below `src`.
    pub(crate) name: String,
    /// What it has before its tests.
    pub(crate) code: String,
}

impl Source {
    /// The room that it belongs to, or is: `policy` of `policy/mod.rs`, `main` of `main.rs`.
    pub(crate) fn room(&self) -> &str {
        self.name.split('/').next().expect("a name").trim_end_matches(".rs")
    }
}

/// Every file of `src` that has more than tests.
pub(crate) fn sources() -> Vec<Source> {
    let folder = root().join("src");
    let paths = walkdir::WalkDir::new(&folder).into_iter().map(|file| file.expect("a file").into_path());
    let is_read =
        |path: &PathBuf| path.extension().is_some_and(|is| is == "rs") && !path.ends_with("tests.rs");
    let source = |path: PathBuf| {
        let name = path.strip_prefix(&folder).expect("a file of src").to_str().expect("text").to_owned();
        let text = fs::read_to_string(&path).expect("a file");
        Source { name, code: text.split("\n#[cfg(test)]").next().unwrap_or_default().to_owned() }
    };
    paths.filter(is_read).map(source).collect()
}
