//! `cellar status --alert`: looks again and again, and runs a command when something has changed.
//!
//! Each look is a `cellar status` of its own, so that nobody is kept from the database meanwhile. What
//! was told last is kept in DIR/alerts.json: a change that comes while nobody looks is told by the next
//! one who does, and a command that fails is run again.

use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use cellar_instance::Error;
use cellar_io::EnvExt;
use serde_json::Value;

use super::database::Place;
use super::dir;
use super::fault::Fault;
use super::output;
use super::status::Args;

const FILE_NAME: &str = "alerts.json";
/// A command that takes longer is stopped, and run again at the next look.
const COMMAND_LIMIT: Duration = Duration::from_secs(60);
const COMMAND_LOOK: Duration = Duration::from_millis(50);
/// What of a status is a change: not how far work is, or how much room there is.
const TOLD: [&str; 5] = ["state", "disks_missing", "disks_slow", "critical", "files_lost"];

/// What was told of each group.
type Told = BTreeMap<String, Value>;

/// Reads the time between two looks: 10s, 0.5s, 2m.
///
/// # Errors
/// What is allowed.
pub fn every(text: &str) -> Result<Duration, String> {
    let wrong = || format!("'{text}' is no time such as 10s or 1m, from 0.1s to 1d");
    let at = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(at);
    let scale = match unit {
        "s" | "" => 1.0,
        "m" => 60.0,
        "h" => 3600.0,
        "d" => 86400.0,
        _ => return Err(wrong()),
    };
    let seconds = number.parse::<f64>().map_err(|_| wrong())? * scale;
    match (0.1..=86400.0).contains(&seconds) {
        true => Ok(Duration::from_secs_f64(seconds)),
        false => Err(wrong()),
    }
}

/// Looks until it is stopped, or once.
///
/// # Errors
/// There is no such database; with `--once` also that a group is not well, or that the command failed.
pub async fn watch(args: &Args, command: &str, place: &Place) -> Result<(), Fault> {
    let dir = dir::resolve(args.dir.clone())?;
    let mut told = read(&dir)?;
    loop {
        let (well, all) = look(&dir)?;
        let mut failed = None;
        for status in &all {
            let group = status["group"].as_str().unwrap_or("-").to_owned();
            let now = key(status);
            let before = told.get(&group);
            let is_new = before.is_none() && status["state"] == "WHOLE";
            if before == Some(&now) {
                continue;
            }
            if !is_new {
                let was = before.and_then(|b| b["state"].as_str()).unwrap_or("unknown").to_owned();
                if let Err(why) = alert(&dir, command, status, &was, place).await {
                    output::notice(&format!("Notice: the command of --alert {why}"));
                    failed = Some(why);
                    continue;
                }
            }
            told.insert(group, now);
            write(&dir, &told)?;
        }
        if args.once {
            return match (failed, well) {
                (Some(why), _) => Err(Error::new(70110, format!("the command of --alert {why}"))
                    .hint("run it by hand; it is told again by the next status --alert")
                    .into()),
                (None, false) => Err(Fault::NotWell),
                (None, true) => Ok(()),
            };
        }
        place.env.sleep(args.every).await;
    }
}

/// What of a status would be a change.
fn key(status: &Value) -> Value {
    TOLD.iter().map(|name| ((*name).to_owned(), status[*name].clone())).collect()
}

/// How the groups are, and whether they are well.
fn look(dir: &Path) -> Result<(bool, Vec<Value>), Fault> {
    let program = std::env::current_exe()?;
    let output = Command::new(program)
        .args(["status", "--format", "json", "--"])
        .arg(dir)
        .stdin(Stdio::null())
        .output()?;
    let text = String::from_utf8_lossy(&output.stdout);
    match serde_json::from_str(&text) {
        Ok(all) => Ok((output.status.success(), all)),
        Err(_) => {
            let why = String::from_utf8_lossy(&output.stderr).trim_end().to_owned();
            Err(match output.status.code() {
                Some(2) => Fault::usage(why),
                _ => Fault::failed(why),
            })
        }
    }
}

/// Runs the command; how it ended, if not well.
async fn alert(
    dir: &Path,
    command: &str,
    status: &Value,
    was: &str,
    place: &Place,
) -> Result<(), String> {
    let word = |name: &str| status[name].as_str().unwrap_or_default().to_owned();
    let absolute = std::path::absolute(dir).unwrap_or_else(|_| dir.to_owned());
    let mut child = Command::new("/bin/sh")
        .args(["-c", command])
        .env("CELLAR_DIR", absolute)
        .env("CELLAR_GROUP", word("group"))
        .env("CELLAR_STATE", word("state"))
        .env("CELLAR_WAS", was)
        .env("CELLAR_WORDS", word("words"))
        .env("CELLAR_ACTION", word("action"))
        .env("CELLAR_SAFE", word("safe"))
        .stdin(Stdio::piped())
        .spawn()
        .map_err(|error| format!("cannot be run: {error}"))?;
    if let Some(mut stdin) = child.stdin.take() {
        // Who does not read it may have ended already.
        let _ = writeln!(stdin, "{status}");
    }
    let began = place.env.now();
    loop {
        match child.try_wait() {
            Ok(Some(code)) if code.success() => return Ok(()),
            Ok(Some(code)) => return Err(format!("failed: {code}")),
            Ok(None) if place.env.now().since(began) > COMMAND_LIMIT => {
                // It ends now, or has ended.
                let _ = child.kill();
                let _ = child.wait();
                return Err(format!("did not end within {} s", COMMAND_LIMIT.as_secs()));
            }
            Ok(None) => place.env.sleep(COMMAND_LOOK).await,
            Err(error) => return Err(format!("cannot be waited for: {error}")),
        }
    }
}

fn path_of(dir: &Path) -> PathBuf {
    dir.join(FILE_NAME)
}

fn read(dir: &Path) -> Result<Told, Fault> {
    let path = path_of(dir);
    match fs::read_to_string(&path) {
        // What cannot be understood was told by nobody: it is told again.
        Ok(text) => Ok(serde_json::from_str(&text).unwrap_or_default()),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(Told::new()),
        Err(error) => Err(Error::system("read", &path, &error).into()),
    }
}

/// Whole or not at all.
fn write(dir: &Path, told: &Told) -> Result<(), Fault> {
    let (path, new) = (path_of(dir), dir.join(format!("{FILE_NAME}.new")));
    let text = serde_json::to_string(told).unwrap_or_default();
    let written = fs::write(&new, text).and_then(|()| fs::rename(&new, &path));
    Ok(written.map_err(|error| Error::system("write", &path, &error))?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_and_wrong_ones_refused() {
        assert_eq!(every("10s"), Ok(Duration::from_secs(10)));
        assert_eq!(every("0.5s"), Ok(Duration::from_millis(500)));
        assert_eq!(every("2m"), Ok(Duration::from_secs(120)));
        for wrong in ["", "s", "0s", "-1s", "2w", "1e9s", "2d", "1.2.3s"] {
            assert!(every(wrong).is_err(), "{wrong}");
        }
    }
}
