//! Reads a unit's settings from all its files together.

use super::lines::{self, Setting};
use super::unit_names::UnitKind;
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observation::ConfigFile;

    fn unit(texts: &[&str]) -> Unit {
        let file = |text: &&str| ConfigFile { path: "x".into(), text: (*text).into() };
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
}
