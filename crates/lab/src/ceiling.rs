//! The rate of the same disks according to fio: an independent, optional check.

use std::process::{Command, Stdio};

/// Bytes a second of concurrent sequential 1 MB reads of all these paths, over the given number of
/// bytes from the start of each, for a second; `None` if fio is not installed or fails.
pub(crate) fn fio(paths: &[(&str, u64)], depth: usize) -> Option<f64> {
    let mut command = Command::new("fio");
    command.args(["--rw=read", "--bs=1M", "--direct=1", "--ioengine=io_uring", "--readonly"]);
    command.args(["--time_based=1", "--runtime=1", "--output-format=json"]);
    command.arg(format!("--iodepth={depth}"));
    for (i, (path, bytes)) in paths.iter().enumerate() {
        // A colon separates file names in fio.
        let path = path.replace(':', "\\:");
        command.arg(format!("--name=disk{i}"));
        command.args([format!("--filename={path}"), format!("--size={bytes}")]);
    }
    let out = command.stdin(Stdio::null()).stderr(Stdio::null()).output().ok()?;
    if !out.status.success() {
        return None;
    }
    rate(&String::from_utf8_lossy(&out.stdout), paths.len())
}

/// The rate from fio's output: notes, then JSON.
fn rate(text: &str, jobs: usize) -> Option<f64> {
    let json: serde_json::Value = serde_json::from_str(&text[text.find('{')?..]).ok()?;
    let done = json["jobs"].as_array()?;
    let rates: Vec<f64> = done
        .iter()
        .filter_map(|job| job["read"]["bw_bytes"].as_f64())
        .filter(|r| *r > 0.0)
        .collect();
    (rates.len() == jobs).then(|| rates.iter().sum())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rates_of_all_jobs_are_added() {
        let text = "fio: a note\n{\"jobs\": [{\"read\": {\"bw_bytes\": 5}}, \
                    {\"read\": {\"bw_bytes\": 7}}]}";
        assert_eq!(rate(text, 2), Some(12.0));
        assert_eq!(rate(text, 3), None, "one is missing");
        assert_eq!(rate("fio: no such engine", 1), None);
    }
}
