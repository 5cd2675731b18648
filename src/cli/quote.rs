//! Paths as a shell takes them, for commands that are offered.

use std::path::Path;

/// A path that can be pasted: quoted where it holds anything that a shell would take apart.
pub fn quoted(path: &Path) -> String {
    let text = path.display().to_string();
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._-+,:@%=".contains(c);
    match !text.is_empty() && text.chars().all(plain) {
        true => text,
        false => format!("'{}'", text.replace('\'', "'\\''")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_a_shell_takes_apart_is_quoted() {
        let quoted = |text: &str| quoted(Path::new(text));
        assert_eq!(quoted("db/disks/disk-1.x"), "db/disks/disk-1.x");
        assert_eq!(quoted("my db"), "'my db'");
        assert_eq!(quoted("it's"), "'it'\\''s'");
        assert_eq!(quoted("$HOME"), "'$HOME'");
    }
}
