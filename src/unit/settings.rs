//! A unit's settings, from all its files together; which cgroups are units, and where a
//! unit's drop-ins are.

use strum::{Display, EnumString};

use super::lines::{self, Setting};
use crate::observation::Unit;

/// `DevicePolicy=`, systemd.resource-control(5).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Policy {
    /// Everything, unless there is a `DeviceAllow=`; then as `Closed`.
    #[default]
    Auto,
    /// The pseudo devices and what `DeviceAllow=` names.
    Closed,
    /// What `DeviceAllow=` names.
    Strict,
}

/// One `DeviceAllow=`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Allow {
    /// A path, `char-NAME` or `block-NAME`.
    pub device: String,
    /// The access bits of the kernel: mknod 1, read 2, write 4.
    pub access: u32,
}

/// What a unit's files say.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Settings {
    /// Its policy, `PrivateDevices=` included.
    pub policy: Policy,
    /// What it allows beside that.
    pub allow: Vec<Allow>,
    /// Paths of the device programs that systemd attaches besides its own, which
    /// somebody pinned (`BPFProgram=device:PATH`, since systemd 249).
    pub programs: Vec<String>,
    /// Why this may not be all, one clause each; empty if it is.
    pub doubts: Vec<String>,
    is_private: bool,
    is_clock_protected: bool,
}

/// Accesses of a `DeviceAllow=` that names none.
const ALL: u32 = 7;

impl Settings {
    /// The settings of a unit, file after file.
    pub fn of(unit: &Unit) -> Self {
        let name = unit.name.lossy();
        let Some(kind) = UnitKind::of(&name) else { return Self::default() };
        let mut settings = Self { doubts: unit.unread.clone(), ..Self::default() };
        for file in &unit.files {
            lines::settings(file.text.as_bytes(), kind.section())
                .iter()
                .for_each(|line| settings.apply(line));
        }
        // Slices need no file, and `init.scope` never has one.
        let may_lack_file = kind == UnitKind::Slice || name == "init.scope";
        if unit.fragment.is_none() && !may_lack_file {
            settings.doubts.push("its unit file was not found".to_owned());
        }
        settings.imply();
        settings
    }

    fn apply(&mut self, Setting { key, value }: &Setting) {
        match key.as_str() {
            "DevicePolicy" => self.set_policy(value),
            "DeviceAllow" if value.is_empty() => self.allow.clear(),
            "DeviceAllow" => self.add(value),
            "BPFProgram" if value.is_empty() => self.programs.clear(),
            "BPFProgram" => self.programs.extend(value.strip_prefix("device:").map(str::to_owned)),
            "PrivateDevices" => self.is_private = self.flag(key, value, self.is_private),
            "ProtectClock" => self.is_clock_protected = self.flag(key, value, self.is_clock_protected),
            _ => {}
        }
    }

    fn set_policy(&mut self, value: &str) {
        match value {
            "auto" => self.policy = Policy::Auto,
            "closed" => self.policy = Policy::Closed,
            "strict" => self.policy = Policy::Strict,
            // systemd ignores what it does not know, an older one more of it.
            other => self.doubts.push(format!("DevicePolicy={other} is not known")),
        }
    }

    /// systemd ignores a line with other letters, or with a path elsewhere.
    fn add(&mut self, value: &str) {
        if value.contains(['%', '"', '\'', '\\']) {
            self.doubts.push(format!("DeviceAllow={value} has specifiers or quotes"));
            return;
        }
        let (device, letters) = value.split_once(char::is_whitespace).unwrap_or((value, ""));
        let letters = letters.trim();
        let is_named = ["/dev/", "/run/systemd/inaccessible/", "char-", "block-"];
        let is_named = is_named.iter().any(|start| device.starts_with(start));
        if is_named && letters.chars().all(|letter| "rwm".contains(letter)) {
            self.allow.push(Allow { device: device.to_owned(), access: access(letters) });
        }
    }

    fn flag(&mut self, key: &str, value: &str, before: bool) -> bool {
        match value.to_ascii_lowercase().as_str() {
            "1" | "yes" | "y" | "true" | "t" | "on" => true,
            "0" | "no" | "n" | "false" | "f" | "off" => false,
            other => {
                self.doubts.push(format!("{key}={other} is not known"));
                before
            }
        }
    }

    /// What other settings imply, systemd.exec(5).
    fn imply(&mut self) {
        if self.is_private && self.policy == Policy::Auto {
            self.policy = Policy::Closed;
        }
        if self.is_clock_protected {
            self.allow.push(Allow { device: "char-rtc".to_owned(), access: 2 });
        }
    }
}

fn access(letters: &str) -> u32 {
    let bit = |letter| match letter {
        'r' => 2,
        'w' => 4,
        _ => 1,
    };
    if letters.is_empty() { ALL } else { letters.chars().map(bit).fold(0, |all, bit| all | bit) }
}

/// A kind of unit that has a cgroup. Its text is the ending of such a unit's name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, EnumString, Display)]
#[strum(serialize_all = "lowercase")]
pub enum UnitKind {
    /// A process that systemd starts.
    Service,
    /// Processes that others started and hand over to systemd.
    Scope,
    /// A group of units.
    Slice,
    /// A socket.
    Socket,
    /// A mount point.
    Mount,
    /// A swap device.
    Swap,
}

impl UnitKind {
    /// The kind of the unit with this name; `None` if such units have no cgroup.
    pub fn of(name: &str) -> Option<Self> {
        let (stem, ending) = name.rsplit_once('.')?;
        ending.parse().ok().filter(|_| !stem.is_empty())
    }

    /// The section of a unit's file that holds its device settings.
    pub fn section(self) -> &'static str {
        match self {
            Self::Service => "Service",
            Self::Scope => "Scope",
            Self::Slice => "Slice",
            Self::Socket => "Socket",
            Self::Mount => "Mount",
            Self::Swap => "Swap",
        }
    }
}

/// The unit of the system's manager whose own cgroup a path is. Units are in
/// slices alone; what a unit makes below itself, a user's manager included, is
/// no unit of the system's, whatever it is called.
pub fn of_cgroup(path: &[u8]) -> Option<&str> {
    let mut parts = path.strip_prefix(b"/")?.split(|byte| *byte == b'/').rev();
    let name = unescaped(parts.next()?)?;
    UnitKind::of(name)?;
    parts.all(|part| unescaped(part).is_some_and(is_slice)).then_some(name)
}

fn is_slice(name: &str) -> bool {
    UnitKind::of(name) == Some(UnitKind::Slice)
}

/// systemd puts `_` before names that the kernel could take for files of its
/// own.
fn unescaped(name: &[u8]) -> Option<&str> {
    let name = std::str::from_utf8(name).ok()?;
    Some(name.strip_prefix('_').unwrap_or(name))
}

/// The names whose `.d` directories hold drop-ins of a unit, the most specific
/// first: itself, its template, its prefixes up to each dash, its kind.
pub fn drop_in_names(name: &str) -> Vec<String> {
    let mut names = Vec::new();
    let Some((stem, kind)) = name.rsplit_once('.') else { return names };
    let (prefix, instance) = stem.split_once('@').map_or((stem, None), |(a, b)| (a, Some(b)));
    expand(prefix, instance, kind, &mut names);
    names.push(kind.to_owned());
    names
}

fn expand(prefix: &str, instance: Option<&str>, kind: &str, names: &mut Vec<String>) {
    let mut prefix = prefix;
    loop {
        match instance {
            Some("") => names.push(format!("{prefix}@.{kind}")),
            Some(instance) => {
                names.push(format!("{prefix}@{instance}.{kind}"));
                // The template's own prefixes come before those of the instance.
                expand(prefix, Some(""), kind, names);
            }
            None => names.push(format!("{prefix}.{kind}")),
        }
        let Some(shorter) = shorter(prefix) else { return };
        prefix = shorter;
    }
}

/// `a-b-c` → `a-b-`, `a-b-` → `a-`; one trailing dash is passed over.
fn shorter(prefix: &str) -> Option<&str> {
    let body = prefix.strip_suffix('-').unwrap_or(prefix);
    let dash = body.rfind('-').filter(|dash| *dash > 0)?;
    // A second trailing dash ends it after one more step, as in systemd.
    prefix.get(..=dash).filter(|shorter| shorter.len() < prefix.len())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observation::ConfigFile;

    fn unit(texts: &[&str]) -> Unit {
        let file =
            |text: &&str| ConfigFile { path: "x".into(), text: (*text).into(), ..ConfigFile::default() };
        let files = texts.iter().map(file).collect();
        Unit { name: "a.service".into(), fragment: Some("x".into()), files, ..Unit::default() }
    }

    /// Make sure that later files add, that an empty line starts anew, and that
    /// what systemd ignores is ignored.
    #[test]
    fn files_in_order() {
        let settings = Settings::of(&unit(&[
            "[Service]\nDevicePolicy=strict\nDeviceAllow=/dev/a rw\n",
            "[Service]\nDeviceAllow=\nDeviceAllow=/dev/b\nDeviceAllow=/dev/c rx\nDeviceAllow=nvidia0 rw\n",
            "[Service]\nDevicePolicy=closed\nDeviceAllow=char-nvidia r\n",
        ]));
        let allow = |device: &str, access| Allow { device: device.to_owned(), access };
        assert_eq!(settings.policy, Policy::Closed);
        assert_eq!(settings.allow, [allow("/dev/b", 7), allow("char-nvidia", 2)]);
        assert!(settings.doubts.is_empty());
    }

    /// Make sure that programs of other types are passed over, and that an empty line
    /// starts anew.
    #[test]
    fn pinned_programs() {
        let text = "BPFProgram=device:/sys/fs/bpf/a\nBPFProgram=\nBPFProgram=egress:/sys/fs/bpf/b\n\
                    BPFProgram=device:/sys/fs/bpf/c";
        let settings = Settings::of(&unit(&[&format!("[Service]\n{text}\n")]));
        assert_eq!((settings.programs, settings.policy), (vec!["/sys/fs/bpf/c".to_owned()], Policy::Auto));
    }

    #[test]
    fn implications() {
        let of = |text: &str| Settings::of(&unit(&[text]));
        assert_eq!(of("[Service]\nPrivateDevices=yes\n").policy, Policy::Closed);
        assert_eq!(of("[Service]\nPrivateDevices=yes\nDevicePolicy=strict\n").policy, Policy::Strict);
        assert_eq!(of("[Service]\nPrivateDevices=yes\nPrivateDevices=no\n").policy, Policy::Auto);
        assert_eq!(of("[Service]\nProtectClock=on\n").allow[0].device, "char-rtc");
    }

    /// Make sure that what is not understood is said.
    #[test]
    fn doubts() {
        for text in ["DeviceAllow=/dev/%i rw", "DevicePolicy=", "PrivateDevices=maybe"] {
            assert_eq!(Settings::of(&unit(&[&format!("[Service]\n{text}\n")])).doubts.len(), 1, "{text}");
        }
        let gone = Unit { fragment: None, ..unit(&[]) };
        assert_eq!(Settings::of(&gone).doubts, ["its unit file was not found"]);
        let slice = Unit { name: "gpu.slice".into(), ..gone };
        assert!(Settings::of(&slice).doubts.is_empty());
    }

    /// Make sure that prefixes, templates and kinds come in systemd's order.
    #[test]
    fn drop_ins() {
        assert_eq!(
            drop_in_names("a-b-c.service"),
            ["a-b-c.service", "a-b-.service", "a-.service", "service"]
        );
        assert_eq!(drop_in_names("-.slice"), ["-.slice", "slice"]);
        assert_eq!(drop_in_names("a@x.service"), ["a@x.service", "a@.service", "service"]);
        let names = drop_in_names("a-b@x.service");
        assert_eq!(names[..3], ["a-b@x.service", "a-b@.service", "a-@.service"]);
        assert_eq!(names[3], "a-@x.service");
    }

    /// Make sure that only the system manager's own cgroups are units.
    #[test]
    fn cgroups() {
        assert_eq!(of_cgroup(b"/system.slice/a.service"), Some("a.service"));
        assert_eq!(of_cgroup(b"/a.slice/a-b.slice"), Some("a-b.slice"));
        assert_eq!(of_cgroup(b"/init.scope"), Some("init.scope"));
        assert_eq!(of_cgroup(b"/system.slice/_cpu.service"), Some("cpu.service"));
        for path in ["/", "", "/x", "/system.slice/a.service/b.scope", "/.service", "/x/a.service"] {
            assert_eq!(of_cgroup(path.as_bytes()), None, "{path}");
        }
    }
}
