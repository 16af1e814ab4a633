//! The syntax of unit files, systemd.syntax(7), as far as device settings need
//! it.

/// The settings that decide on devices, and those that say whose processes a
/// unit's cgroup has. Environments and commands are never among them.
const KEYS: [&str; 7] =
    ["BPFProgram", "Delegate", "DeviceAllow", "DevicePolicy", "PrivateDevices", "ProtectClock", "Slice"];

/// One line `KEY=VALUE`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Setting {
    /// The name of the setting.
    pub key: String,
    /// The text after `=` without blanks around it.
    pub value: String,
}

/// The part of a unit file that is kept: the lines of one section that decide on
/// devices, below a line with the section's name; empty if there are none.
pub fn device_lines(text: &[u8], section: &str) -> String {
    let found = settings(text, section);
    if found.is_empty() {
        return String::new();
    }
    // Without the blank, a backslash at the end would continue the line.
    let end = |value: &str| if value.ends_with('\\') { " \n" } else { "\n" };
    let lines =
        found.iter().map(|setting| format!("{}={}{}", setting.key, setting.value, end(&setting.value)));
    format!("[{section}]\n{}", lines.collect::<String>())
}

/// The device settings of one section in order.
pub fn settings(text: &[u8], section: &str) -> Vec<Setting> {
    let text = String::from_utf8_lossy(text.strip_prefix(b"\xef\xbb\xbf").unwrap_or(text));
    let mut is_inside = false;
    let mut found = Vec::new();
    for line in logical(&text) {
        let line = line.trim_matches(BLANK);
        if let Some(name) = line.strip_prefix('[') {
            is_inside = name.strip_suffix(']') == Some(section);
        } else if is_inside {
            found.extend(setting(line));
        }
    }
    found
}

const BLANK: [char; 4] = [' ', '\t', '\r', '\n'];

fn setting(line: &str) -> Option<Setting> {
    let (key, value) = line.split_once('=')?;
    let (key, value) = (key.trim_matches(BLANK), value.trim_matches(BLANK));
    KEYS.contains(&key).then(|| Setting { key: key.to_owned(), value: value.to_owned() })
}

/// Lines with their continuations; comments are left out, those between
/// continued lines too.
fn logical(text: &str) -> Vec<String> {
    let mut lines = Vec::new();
    let mut open: Option<String> = None;
    for line in text.split('\n') {
        let line = line.strip_suffix('\r').unwrap_or(line);
        if line.trim_start_matches(BLANK).starts_with(['#', ';']) {
            continue;
        }
        let mut whole = open.take().unwrap_or_default();
        let backslashes = line.len() - line.trim_end_matches('\\').len();
        if backslashes % 2 == 1 {
            whole.push_str(&line[..line.len() - 1]);
            whole.push(' ');
            open = Some(whole);
        } else {
            whole.push_str(line);
            lines.push(whole);
        }
    }
    lines.extend(open);
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Make sure that secrets stay out, also where they are continued or look
    /// like device settings.
    #[test]
    fn only_device_settings_are_kept() {
        let text = b"[Unit]\nDeviceAllow=/dev/a\n[Service]\nEnvironment=TOKEN=1 \\\nDeviceAllow=secret\n\
            # DevicePolicy=strict\nDevicePolicy = closed \nDeviceAllow=/dev/nvidia0 \\\n; comment\n  rw\nExecStart=/bin/x\n";
        let kept = device_lines(text, "Service");
        assert_eq!(kept, "[Service]\nDevicePolicy=closed\nDeviceAllow=/dev/nvidia0    rw\n");
        assert_eq!(device_lines(kept.as_bytes(), "Service"), kept);
        assert_eq!(device_lines(text, "Scope"), "");
    }

    /// Make sure that a backslash at the end of a value is kept, and with it
    /// the doubt what systemd makes of it.
    #[test]
    fn backslashes_are_kept() {
        let text = b"[Service]\nDeviceAllow=/dev/nvidia0\\ \nDevicePolicy=closed\n";
        let kept = device_lines(text, "Service");
        assert_eq!(settings(kept.as_bytes(), "Service"), settings(text, "Service"));
        assert_eq!(settings(text, "Service").len(), 2);
    }

    #[test]
    fn hostile_text() {
        for text in [&b"\xff[Service]\n="[..], b"[Service", b"\\", b"[Service]\nDeviceAllow", b""] {
            assert_eq!(device_lines(text, "Service"), "", "{text:?}");
        }
        let bom = b"\xef\xbb\xbf[Service]\nSlice=a.slice\\\n";
        assert_eq!(device_lines(bom, "Service"), "[Service]\nSlice=a.slice\n");
    }
}
