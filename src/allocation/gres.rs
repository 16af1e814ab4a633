//! Reads what `gres.conf` says of the GPUs of one node.
//!
//! The rules are those of gres.conf(5) and of Slurm's `gres.c`. The first key of a
//! line is its kind (`NodeName`, `Name` or a global key). An `AutoDetect` of the
//! node overrides the global one, and one after `Name` alone has no effect. A file
//! must not have lines with `File` beside lines without. A line that Slurm would
//! refuse or that gpumap does not know is an error that names the line.

use std::collections::HashSet;

use crate::slurm_conf::{self, ConfLine, short};

/// How Slurm looks for GPUs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum AutoDetect {
    /// Not at all.
    #[default]
    Off,
    /// By NVML, in PCI order.
    Nvml,
    /// In `/proc/driver/nvidia` (24.11 and later), in the order of files.
    Nvidia,
    /// By ROCm SMI, in PCI order.
    Rsmi,
    /// By Level Zero, in PCI order.
    Oneapi,
}

/// One line that lists GPUs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Listed {
    /// Number of the line.
    pub(super) line: usize,
    /// `Type`, in lower case.
    pub(super) kind: Option<String>,
    /// The files of each GPU or MIG instance.
    pub(super) files: Vec<Vec<String>>,
    /// `Count`, where there are no files.
    pub(super) count: usize,
    /// Whether it has `Cores` or `Links`, which AutoDetect compares with what
    /// it finds.
    pub(super) compared: bool,
}

/// The settings that apply to one node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Gres {
    pub(super) detect: AutoDetect,
    pub(super) listed: Vec<Listed>,
}

/// Names of this node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Names {
    /// The names that the node may have.
    pub(super) any: Vec<String>,
    /// Whether Slurm itself named the node.
    pub(super) sure: bool,
}

impl Names {
    /// The name that a node has by itself, and its first label.
    pub(super) fn of_host(host: &str) -> Self {
        let short = host.split('.').next().unwrap_or_default();
        let mut any: Vec<String> =
            [host, short].into_iter().filter(|name| !name.is_empty()).map(str::to_owned).collect();
        any.dedup();
        Self { any, sure: false }
    }
}

/// Device files that all lines of one node may list together.
const FILE_LIMIT: usize = 16_384;
/// Lines for GPUs of one node.
const LINE_LIMIT: usize = 16_384;

/// The first key, which tells Slurm what kind of line this is.
fn kind(line: &ConfLine) -> Option<&str> {
    line.pairs.first().map(|pair| pair.key.as_str())
}

/// Why a line is not understood. A key that stands twice is one of these: Slurm takes one
/// of them, with an error in its log.
fn refusal(line: &ConfLine) -> Option<String> {
    if line.include.is_some() {
        return Some("it includes a file that cannot be read".to_owned());
    }
    let mut known = HashSet::new();
    let of_pair = line.pairs.iter().find_map(|pair| {
        let key = short(&pair.key);
        if pair.has_operator || pair.value.contains(['"', '\\']) {
            return Some(format!("the value of {key} is not understood"));
        }
        (!known.insert(&pair.key)).then(|| format!("{key} is given twice"))
    });
    let word = line.rest.as_ref().map(|rest| rest.split_whitespace().next().unwrap_or_default());
    word.map(|word| format!("`{}` is not Key=Value", short(word))).or(of_pair)
}

/// A reason with its line.
fn at(line: &ConfLine, why: &str) -> String {
    format!("line {}: {why}", line.first)
}

/// Reads the file for the node with one of these names.
///
/// # Errors
///
/// A line that is not understood, or no line for this node among those for
/// others.
pub(super) fn read(text: &str, names: &Names) -> Result<Gres, String> {
    let mut reader = GresReader::default();
    for line in slurm_conf::parse(text) {
        reader.line(&line, names)?;
    }
    if reader.others && !reader.ours && !names.sure {
        let any = names.any.join(" or ");
        return Err(format!("no NodeName line is for {any}, and Slurm's name of the node is not known"));
    }
    let gres = Gres { detect: reader.local.or(reader.global).unwrap_or_default(), listed: reader.listed };
    consistent(&gres)?;
    Ok(gres)
}

#[derive(Default)]
struct GresReader {
    local: Option<AutoDetect>,
    global: Option<AutoDetect>,
    listed: Vec<Listed>,
    /// Device files in `listed`.
    files: usize,
    ours: bool,
    others: bool,
}

impl GresReader {
    fn line(&mut self, line: &ConfLine, names: &Names) -> Result<(), String> {
        if let Some(why) = refusal(line) {
            return Err(at(line, &why));
        }
        let node = kind(line) == Some("nodename");
        if node && !self.is_ours(line, names)? {
            return Ok(());
        }
        if !node && line.get("nodename").is_some() {
            return Err(at(line, "NodeName is not the first key"));
        }
        self.detect(line, node)?;
        self.gpus(line)
    }

    fn is_ours(&mut self, line: &ConfLine, names: &Names) -> Result<bool, String> {
        let list = line.get("nodename").unwrap_or_default();
        let mut ours = false;
        for name in &names.any {
            ours |= slurm_conf::contains(list, name).map_err(|why| at(line, &why))?;
        }
        self.ours |= ours;
        self.others |= !ours;
        Ok(ours)
    }

    fn detect(&mut self, line: &ConfLine, node: bool) -> Result<(), String> {
        let Some(value) = line.get("autodetect") else { return Ok(()) };
        let detect = autodetect(value)
            .ok_or_else(|| at(line, &format!("AutoDetect={} is not known", short(value))))?;
        if kind(line) == Some("name") {
            return Err(at(line, "AutoDetect has no effect behind Name without NodeName"));
        }
        let place = if node { &mut self.local } else { &mut self.global };
        match place.replace(detect) {
            Some(other) if other != detect => Err(at(line, "a second AutoDetect differs from the first")),
            _ => Ok(()),
        }
    }

    fn gpus(&mut self, line: &ConfLine) -> Result<(), String> {
        match line.get("name") {
            Some(name) if name.eq_ignore_ascii_case("gpu") => self.list(line)?,
            Some(_) => {}
            None if line.get("autodetect").is_some() => {}
            None => return Err(at(line, "it has neither Name nor AutoDetect")),
        }
        Ok(())
    }
}

impl GresReader {
    fn list(&mut self, line: &ConfLine) -> Result<(), String> {
        let listed = listed(line)?;
        self.files += listed.files.iter().map(Vec::len).sum::<usize>();
        if self.files > FILE_LIMIT {
            return Err(at(line, &format!("more than {FILE_LIMIT} device files in all")));
        }
        if self.listed.len() == LINE_LIMIT {
            return Err(at(line, &format!("more than {LINE_LIMIT} lines for GPUs")));
        }
        self.listed.push(listed);
        Ok(())
    }
}

fn autodetect(value: &str) -> Option<AutoDetect> {
    Some(match value.to_ascii_lowercase().as_str() {
        "off" => AutoDetect::Off,
        "nvml" => AutoDetect::Nvml,
        "nvidia" => AutoDetect::Nvidia,
        "rsmi" => AutoDetect::Rsmi,
        "oneapi" => AutoDetect::Oneapi,
        _ => return None,
    })
}

/// Keys of a line for GPUs.
const KEYS: [&str; 14] = [
    "autodetect",
    "nodename",
    "name",
    "type",
    "file",
    "files",
    "multiplefiles",
    "count",
    "flags",
    "cores",
    "cpus",
    "link",
    "links",
    "uniqueid",
];

fn listed(line: &ConfLine) -> Result<Listed, String> {
    if let Some(key) = line.pairs.iter().map(|pair| &pair.key).find(|key| !KEYS.contains(&key.as_str())) {
        return Err(at(line, &format!("the key {} is not known", short(key))));
    }
    if line.get("flags").is_some_and(|flags| flags.to_ascii_lowercase().contains("countonly")) {
        return Err(at(line, "Flags=CountOnly: these GPUs have no device"));
    }
    let files = files(line).map_err(|why| at(line, &why))?;
    let count = count(line, files.len())?;
    let compared = ["cores", "cpus", "link", "links"].iter().any(|key| line.get(key).is_some());
    let kind = line.get("type").map(str::to_ascii_lowercase);
    Ok(Listed { line: line.first, kind, files, count, compared })
}

fn files(line: &ConfLine) -> Result<Vec<Vec<String>>, String> {
    let single = line.get("file").or_else(|| line.get("files"));
    match (single, line.get("multiplefiles")) {
        (Some(_), Some(_)) => Err("File and MultipleFiles exclude each other".to_owned()),
        (Some(list), None) => Ok(slurm_conf::expand(list)?.into_iter().map(|file| vec![file]).collect()),
        (None, Some(list)) => match slurm_conf::expand(list)? {
            files if files.len() < 2 => Err("MultipleFiles has one file".to_owned()),
            files => Ok(vec![files]),
        },
        (None, None) => Ok(Vec::new()),
    }
}

fn count(line: &ConfLine, files: usize) -> Result<usize, String> {
    let Some(text) = line.get("count") else { return Ok(files.max(1)) };
    match text.parse() {
        Ok(count) if files == 0 || count == files => Ok(count),
        Ok(_) => Err(at(line, "Count differs from the number of files")),
        Err(_) => Err(at(line, &format!("Count={} is not a number", short(text)))),
    }
}

/// Checks what slurmd requires of the file.
fn consistent(gres: &Gres) -> Result<(), String> {
    let mixed = |test: fn(&Listed) -> bool| {
        let first = gres.listed.first().map(test);
        gres.listed.iter().find(|listed| Some(test(listed)) != first).map(|listed| listed.line)
    };
    if let Some(line) = mixed(|listed| listed.files.is_empty()) {
        return Err(format!("line {line}: some lines have File and some have not"));
    }
    if let Some(line) = mixed(|listed| listed.kind.is_none()) {
        return Err(format!("line {line}: some lines have Type and some have not"));
    }
    if let Some(line) = mixed(|listed| listed.files.iter().any(|files| files.len() > 1)) {
        return Err(format!("line {line}: whole GPUs are mixed with MIG instances (SchedMD bug 21163)"));
    }
    let mut seen = HashSet::new();
    let entries =
        gres.listed.iter().flat_map(|listed| listed.files.iter().map(move |files| (listed.line, files)));
    match entries.into_iter().find(|(_, files)| !seen.insert(*files)) {
        Some((line, files)) => Err(format!("line {line}: {} is listed twice", short(&files.join(",")))),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Make sure that what Slurm refuses, or what gpumap does not read as it does, is an
    /// error, and that a line goes on behind `\` and blanks.
    #[test]
    fn refused_lines() {
        let refused = |text: &str| slurm_conf::parse(text).iter().find_map(refusal);
        for text in ["Name", "Include other.conf", "a b=c", "x=\"1", "x=\"1\"2", "x=1 x=2", "x+=1", "=1"] {
            assert!(refused(text).is_some(), "{text}");
        }
        assert_eq!(refused("Name=gpu File=/dev/nvidia0 \\ \n Cores=0-3\nAutoDetect=off\n"), None);
    }
}
