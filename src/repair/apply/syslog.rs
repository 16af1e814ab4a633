//! A line to the system's log for each step of a change: a datagram to `/dev/log`,
//! which is dropped where nobody reads.

use std::os::unix::net::UnixDatagram;

/// `LOG_AUTHPRIV` and `LOG_NOTICE` of syslog(3): who may open what is a matter of
/// security.
const PRIORITY: u8 = 10 << 3 | 5;
/// Longest line, in bytes; daemons cut longer ones.
const LIMIT: usize = 900;

/// Sends a line; it never waits and never fails.
pub(super) fn tell(text: &str) {
    // Nobody is told then: the answer says what was done.
    let Ok(socket) = UnixDatagram::unbound() else { return };
    // The same.
    let Ok(()) = socket.set_nonblocking(true) else { return };
    let _nobody_reads = socket.send_to(line(text).as_bytes(), "/dev/log");
}

/// Names of cgroups are users': no control characters get into the log.
fn line(text: &str) -> String {
    let mut line = format!("<{PRIORITY}>gpumap[{}]: repair: ", std::process::id());
    for character in text.chars() {
        let is_plain = !character.is_control() && !matches!(character, '\u{2028}' | '\u{2029}');
        line.push(if is_plain { character } else { '?' });
        if line.len() > LIMIT {
            line.push('…');
            break;
        }
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Make sure that a name cannot begin a line of its own, nor fill the log.
    #[test]
    fn hostile_names() {
        let line = line(&format!("cgroup /a\nJan 1 root: \u{1b}[31m\0{}", "x".repeat(5000)));
        assert!(line.starts_with("<85>gpumap["), "{line}");
        assert!(!line.chars().any(char::is_control) && line.len() < 1000, "{line}");
    }
}
