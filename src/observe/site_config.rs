//! Reads what the site's configuration, `/etc/gpumap.toml`, says of facts: whose cgroups
//! with other schedulers' names are, where Slurm's files are, and where a list of MIG
//! instances is or what prints one. What it says of findings is the audit's.

use std::os::unix::fs::MetadataExt as _;
use std::path::PathBuf;

use serde::Deserialize;

use super::options::Options;
use super::problems::{Log, errno_of};
use crate::model::ProblemCode;
use crate::observation::{OwnerPattern, SlurmFiles};
use crate::owner::pattern_mistake;
use crate::sys::absence::OrAbsent as _;
use crate::sys::dir::{open_readable, read_all};
use crate::sys::retry::again;

/// The path, below the root of unit files.
const PATH: &str = "etc/gpumap.toml";
/// Bytes of the file that are read.
const LIMIT: usize = 1 << 20;
/// Patterns that are kept: each is compared with every path.
const PATTERNS: usize = 64;

/// What the configuration says of facts.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct SiteConfig {
    /// Owners by patterns of paths.
    #[serde(rename = "owner")]
    pub(super) owners: Vec<OwnerPattern>,
    /// Where Slurm's files are.
    pub(super) slurm: SlurmFiles,
    /// MIG.
    pub(super) mig: MigConfig,
}

impl SiteConfig {
    /// Whether it says nothing of facts: then it does not matter who may write it.
    fn names_nothing(&self) -> bool {
        self.owners.is_empty() && self.slurm == SlurmFiles::default() && self.mig == MigConfig::default()
    }
}

/// What it says of MIG.
#[derive(Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub(super) struct MigConfig {
    /// A file with what `nvidia-smi -L` printed.
    pub(super) list: Option<PathBuf>,
    /// `nvidia-smi` itself, or what prints such a list too if it is run with `-L`.
    pub(super) program: Option<PathBuf>,
}

/// Reads it; nothing where there is no file. A file that cannot be read, that others than
/// root may write, or that is malformed is a problem, and says nothing.
pub(super) fn read(options: &Options, log: &mut Log) -> SiteConfig {
    let path = options.unit_root.join(PATH);
    let name = path.to_string_lossy().into_owned();
    let read = || {
        let Some(file) = open_readable(&path).or_absent()? else { return Ok(None) };
        let facts = again(|| file.metadata()).map_err(|error| errno_of(&error))?;
        let mut text = Vec::new();
        read_all(file, &mut text, LIMIT)?;
        Ok(Some((text, facts.uid() == 0 && facts.mode() & 0o022 == 0)))
    };
    // Told; nothing is known of owners then.
    let Some((text, is_roots)) = read().map_err(|errno| log.failed(&*name, errno)).ok().flatten() else {
        return SiteConfig::default();
    };
    let found = String::from_utf8(text).map_err(|_| "not UTF-8".to_owned());
    match found.and_then(|text| parsed(&text)) {
        Ok(found) if is_roots || found.names_nothing() => found,
        Ok(_) => {
            let needs = "a file that root alone may write";
            log.add(
                ProblemCode::BadConfig,
                name,
                "others than root may write it, so it names no owners, files and programs",
                needs,
            );
            SiteConfig::default()
        }
        Err(why) => {
            log.add(ProblemCode::BadConfig, name, why, "see CONFIGURATION in gpumap-audit(1)");
            SiteConfig::default()
        }
    }
}

fn parsed(text: &str) -> Result<SiteConfig, String> {
    let found: SiteConfig = toml::from_str(text).map_err(|error| error.message().replace('\n', ", "))?;
    match found.owners.iter().find_map(pattern_mistake) {
        Some(mistake) => Err(mistake),
        None if found.owners.len() > PATTERNS => Err(format!("it has more than {PATTERNS} [[owner]]")),
        None => Ok(found),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    /// Make sure that a file that others than root may write names no owners, no files of
    /// Slurm's, no list of MIG instances and no program, which is said, and that what it says of
    /// findings alone is no matter.
    #[test]
    fn writable_by_others() {
        let root = std::env::temp_dir().join(format!("gpumap-site-{}", std::process::id()));
        std::fs::create_dir_all(root.join("etc")).unwrap();
        let options = Options { unit_root: root.clone(), ..Options::default() };
        let file = root.join(PATH);
        let named = [
            "[mig]\nlist = '/x'\n",
            "[mig]\nprogram = '/x'\n",
            "[slurm]\ndirectory = '/x'\n",
            "[[owner]]\ncgroup = '/a/{job}'\nkind = 'a'\n",
        ];
        for text in named.into_iter().chain(["[sharing]\ngpus = ['*']\n"]) {
            std::fs::write(&file, text).unwrap();
            std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o666)).unwrap();
            let mut log = Log::new(None);
            assert!(read(&options, &mut log).names_nothing(), "{text}");
            let told: Vec<&ProblemCode> = log.problems.iter().map(|problem| &problem.code).collect();
            let expected: &[&ProblemCode] =
                if named.contains(&text) { &[&ProblemCode::BadConfig] } else { &[] };
            assert_eq!(told, expected, "{text}");
        }
        std::fs::remove_dir_all(root).unwrap();
    }

    /// Make sure that other tables are passed over, and that a mistake is not.
    #[test]
    fn tables() {
        let text = "[sharing]\ngpus = ['*']\n[[owner]]\ncgroup = '/a/{job}'\nkind = 'acme'\n";
        let found = parsed(text).unwrap().owners;
        assert_eq!((found.len(), found[0].kind.as_str()), (1, "acme"));
        assert!(parsed("").unwrap().owners.is_empty());
        let slurm = parsed("[slurm]\ndirectory = '/opt/site/etc'\n").unwrap().slurm;
        assert_eq!(slurm.directory.as_deref(), Some(std::path::Path::new("/opt/site/etc")));
        for bad in ["[slurm]\ndirectory = 'etc'\n", "[slurm]\nfile = '/x'\n"] {
            assert!(parsed(bad).is_err(), "{bad}");
        }
        for bad in
            ["[[owner]]\ncgroup = '/a/{job}'\n", "[[owner]]\ncgroup = 'a'\nkind = 'acme'\n", "[[owner]\n"]
        {
            assert!(parsed(bad).is_err(), "{bad}");
        }
    }
}
