//! Writes commands as lines for a POSIX shell.

/// The command as one line that a shell takes apart into exactly these words.
pub(super) fn line(words: &[String]) -> String {
    words.iter().map(|word| quoted(word)).collect::<Vec<_>>().join(" ")
}

fn quoted(word: &str) -> String {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"_-./:=@%+,".contains(&byte);
    if !word.is_empty() && word.bytes().all(is_plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    /// Make sure that a real shell takes a line apart as it was.
    #[test]
    fn a_shell_reads_the_words() {
        let words =
            ["a.scope", "", "it's", r"dev-\x2d.slice", "DeviceAllow=/dev/char/195:0 rw", "$HOME `x` *"];
        let words: Vec<String> = words.map(str::to_owned).to_vec();
        let script = format!("printf '<%s>' {}", line(&words));
        let output = Command::new("sh").args(["-c", &script]).output().unwrap();
        let expected: String = words.iter().map(|word| format!("<{word}>")).collect();
        assert_eq!(String::from_utf8_lossy(&output.stdout), expected);
        assert_eq!(line(&words[..1]), "a.scope");
    }
}
