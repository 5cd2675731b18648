//! A secret of the server, from which it derives what clients are told about roles that do not exist:
//! always the same, so that nobody learns from it which roles exist.

use std::fs::OpenOptions;
use std::io::{Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// The name of its file in the directory.
const FILE: &str = "login.secret";

const LENGTH: usize = 32;

/// The secret of a directory; one that cannot be stored lasts as long as the server.
pub(crate) fn of(directory: &Path) -> Vec<u8> {
    let path = directory.join(FILE);
    kept(&path).unwrap_or_else(|| {
        let mut secret = vec![0; LENGTH];
        if getrandom::fill(&mut secret).is_err() {
            // Then no client is let in by a password either: its proof needs random bytes.
            return secret;
        }
        let mut options = OpenOptions::new();
        let opened = options.write(true).create(true).truncate(true).mode(0o600).open(&path);
        // If there is no room for it, it is another one after the next start: that reveals nobody's
        // password.
        let _ = opened.and_then(|mut file| file.write_all(&secret));
        secret
    })
}

fn kept(path: &Path) -> Option<Vec<u8>> {
    let mut secret = Vec::with_capacity(LENGTH);
    std::fs::File::open(path).ok()?.take(1024).read_to_end(&mut secret).ok()?;
    (secret.len() >= LENGTH).then_some(secret)
}

#[cfg(test)]
mod tests {
    #[test]
    fn it_stays_the_same() {
        let directory = std::env::temp_dir().join(format!("cellar-secret-{}", std::process::id()));
        std::fs::create_dir(&directory).unwrap();
        let first = super::of(&directory);
        assert_eq!(super::of(&directory), first);
        std::fs::remove_dir_all(&directory).unwrap();
        assert_ne!(super::of(std::path::Path::new("/nosuch")), first);
    }
}
