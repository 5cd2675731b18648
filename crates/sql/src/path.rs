//! Paths into a disk group, `+DATA/dir/file`, and the URLs under which DataFusion sees them.

use std::path::Path as FilePath;

use object_store::path::Path;

use crate::error::Error;

/// The scheme of the URLs of group files.
pub const SCHEME: &str = "group";

/// A path into a disk group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupPath {
    /// The group, upper-case.
    pub group: String,
    /// The file inside it, without a slash at its start; empty for the group itself.
    pub file: String,
}

impl GroupPath {
    /// Parses `+DATA/dir/file`; `None` if the text does not start with `+`.
    ///
    /// # Errors
    /// 15124 if it starts with `+` and is not a valid path.
    pub fn read(text: &str) -> Result<Option<GroupPath>, Error> {
        let Some(path) = text.strip_prefix('+') else {
            return Ok(None);
        };
        let (group, file) = path.split_once('/').unwrap_or((path, ""));
        let letters = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '$' | '#');
        let legal = group.starts_with(|c: char| c.is_ascii_alphabetic())
            && group.chars().all(letters)
            && !file.starts_with('/')
            && !file.contains("//")
            && !file.split('/').any(|part| part == "." || part == "..")
            && !file.chars().any(char::is_control);
        if !legal {
            return Err(Error::new(15124, "22023", format!("\"{text}\" is not a path in a group"))
                .next("a path is +GROUP/dir/file: letters, digits, _, $ and # in the group"));
        }
        Ok(Some(GroupPath { group: group.to_uppercase(), file: file.to_string() }))
    }

    /// The group, upper-case, and the escaped path of a URL of ours.
    pub(crate) fn split_url(url: &str) -> Option<(String, &str)> {
        let (host, path) = url.strip_prefix(SCHEME)?.strip_prefix("://")?.split_once('/')?;
        Some((group_of_host(host), path))
    }

    /// The URL DataFusion sees: `group://data/dir/file`.
    pub fn url(&self) -> String {
        let mut url = format!("{SCHEME}://{}/", escape(&self.group.to_lowercase()));
        url.push_str(&escape(&self.file));
        url
    }
}

fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' | b'/' => {
                out.push(char::from(byte));
            }
            _ => out.push_str(&format!("%{byte:02X}")),
        }
    }
    out
}

/// The URL of a group path; any other text unchanged.
pub(crate) fn to_url(text: &str) -> Result<String, Error> {
    Ok(GroupPath::read(text)?.map_or_else(|| text.to_string(), |path| path.url()))
}

/// The group that a URL's host names, upper-case. `$` and `#` arrive escaped.
pub(crate) fn group_of_host(host: &str) -> String {
    host.replace("%24", "$").replace("%23", "#").to_uppercase()
}

/// The extension of a file, in lower case: that of the content, then that of the compression.
pub fn ending(path: &FilePath) -> String {
    let of = |path: &FilePath| {
        path.extension().unwrap_or_default().to_string_lossy().to_ascii_lowercase()
    };
    let last = of(path);
    match last.as_str() {
        "gz" | "zst" => {
            let inner = of(FilePath::new(path.file_stem().unwrap_or_default()));
            if inner.is_empty() { last } else { format!("{inner}.{last}") }
        }
        _ => last,
    }
}

/// The group, upper-case, and the path in it that a URL of ours names.
pub(crate) fn inside(url: &str) -> Option<(String, String)> {
    let (group, path) = GroupPath::split_url(url)?;
    let path = Path::from_url_path(path).ok()?;
    Some((group, path.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn group_paths_are_told_from_others() {
        let path = GroupPath::read("+data/Dir/f 1#.parquet").unwrap().unwrap();
        assert_eq!((path.group.as_str(), path.file.as_str()), ("DATA", "Dir/f 1#.parquet"));
        assert_eq!(path.url(), "group://data/Dir/f%201%23.parquet");
        assert_eq!(GroupPath::read("/tmp/+x").unwrap(), None);
        for bad in ["+", "+/x", "+1A/x", "+DATA/../x", "+DATA//x", "+DA TA/x", "+DATA/a\nb"] {
            assert_eq!(GroupPath::read(bad).unwrap_err().number, 15124, "{bad}");
        }
    }
}
