//! Sizes on the command line.

/// Reads a size as people type it: 512, 64K, 4M, 2G, 1T.
///
/// # Errors
/// The problem, for the usage message.
pub fn parse_size(text: &str) -> Result<u64, String> {
    cellar_storage::size::parse(text)
        .filter(|bytes| *bytes > 0)
        .ok_or_else(|| format!("\"{text}\" is no size; write it as 512M, 2G or 4194304"))
}
