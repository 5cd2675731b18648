//! `cellar status --alert`: polls the status, and runs a command when something has changed.
//!
//! Each poll is a separate `cellar status`: another user of the database waits for one poll at most.
//! The last report is kept in DIR/alerts.json: a change while nobody polls is reported
//! by the next poll, and a failed command is run again.

use std::collections::BTreeMap;
use std::fs;
use std::io::{Read, Seek, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
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
/// A command that takes longer is stopped, and run again at the next poll.
const COMMAND_LIMIT: Duration = Duration::from_secs(60);
/// A status that takes longer is stopped; a hung disk may take its time.
const LOOK_LIMIT: Duration = Duration::from_secs(300);
const LOOK_EVERY: Duration = Duration::from_millis(20);
/// The error number of a database that another process has open and that does not answer.
const TAKEN: u32 = 70101;
/// The parts of a status that count as a change: not the progress of work, or the free space.
const TOLD: [&str; 7] =
    ["state", "states", "disks_missing", "disks_slow", "critical", "files_lost", "error"];

/// The last report of each group.
type KnownStates = BTreeMap<String, Value>;

/// Parses the time between two polls: 10s, 0.5s, 2m.
///
/// # Errors
/// Another text; the message names what is allowed.
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

/// Polls until it is stopped, or once.
///
/// # Errors
/// There is no such database; with `--once` also if a group is not well, or if the command failed.
pub async fn watch(args: &Args, command: &str, place: &Place) -> Result<(), Fault> {
    let dir = dir::resolve(args.dir.clone())?;
    let mut told = read(&dir)?;
    let mut first = true;
    loop {
        let looked = look(&dir, place).await;
        let (well, all) = match looked {
            Ok(seen) => seen,
            Err(fault) if args.once => return Err(fault),
            Err(fault) if first && !fault.has(TAKEN) => return Err(fault),
            // It may be back at the next poll.
            Err(fault) => {
                output::notice(&format!("Notice: {}", fault.first_line()));
                place.env.sleep(args.every).await;
                continue;
            }
        };
        first = false;
        let (mut failed, mut kept) = (None, Ok(()));
        for (group, was, is_news, status) in changes(&told, all) {
            if is_news && let Err(why) = alert(&dir, command, &status, &was, place).await {
                output::notice(&format!("Notice: the command of --alert {why}"));
                failed = Some(why);
                continue;
            }
            match status["state"] == "OPEN" {
                true => told.remove(&group),
                false => told.insert(group, key(&status)),
            };
            // At once: if stopped now, the report is not repeated.
            kept = write(&dir, &told);
        }
        if args.once {
            return match (failed, well) {
                (Some(why), _) => Err(Error::new(70110, format!("the command of --alert {why}"))
                    .hint("run it by hand; it is told again by the next status --alert")
                    .into()),
                (None, false) => kept.and(Err(Fault::NotWell)),
                (None, true) => kept,
            };
        }
        if let Err(fault) = kept {
            output::notice(&format!("Notice: {}", fault.first_line()));
        }
        place.env.sleep(args.every).await;
    }
}

/// A placeholder for a database that cannot be opened.
const NOBODY: &str = "-";

/// The changes: group, its previous state, whether to report it (a first state that is well is only
/// noted), and its current state.
fn changes(told: &KnownStates, all: Vec<Value>) -> Vec<(String, String, bool, Value)> {
    let was = |group: &str| {
        let state = told.get(group).and_then(|b| b["state"].as_str());
        state.unwrap_or("unknown").to_owned()
    };
    let name = |status: &Value| status["group"].as_str().unwrap_or(NOBODY).to_owned();
    let mut all: Vec<(String, Value)> = all.into_iter().map(|s| (name(&s), s)).collect();
    if all.iter().all(|(group, _)| group != NOBODY) {
        let made = |group: &str, state: &str, words: &str, action: &str| {
            let status = serde_json::json!({
                "group": group, "state": state, "words": words, "action": action,
            });
            (group.to_owned(), status)
        };
        let gone = told.keys().filter(|group| all.iter().all(|(g, _)| g != *group));
        let gone: Vec<(String, Value)> = gone
            .map(|group| match group == NOBODY {
                true => made(group, "OPEN", "the database can be opened again", "none"),
                false => made(group, "NOT FOUND", "no disk of it is found", "bring its disks back"),
            })
            .collect();
        all.extend(gone);
    }
    let mut out = Vec::new();
    for (group, status) in all {
        let before = told.get(&group);
        if before == Some(&key(&status)) {
            continue;
        }
        let is_news = before.is_some() || status["state"] != "WHOLE";
        out.push((group.clone(), was(&group), is_news, status));
    }
    out
}

/// The parts of a status that count as a change.
fn key(status: &Value) -> Value {
    TOLD.iter().map(|name| ((*name).to_owned(), status[*name].clone())).collect()
}

/// Input and output of a command, in RAM: a pipe would block a writer that fills it.
fn in_memory(bytes: &[u8]) -> std::io::Result<fs::File> {
    let file = rustix::fs::memfd_create("cellar-status", rustix::fs::MemfdFlags::CLOEXEC)?;
    let mut file = fs::File::from(file);
    file.write_all(bytes)?;
    file.rewind()?;
    Ok(file)
}

/// The states of the groups, and whether they are well.
async fn look(dir: &Path, place: &Place) -> Result<(bool, Vec<Value>), Fault> {
    let (out, err) = (in_memory(&[])?, in_memory(&[])?);
    // The running program itself, even if its file has been replaced.
    let child = Command::new("/proc/self/exe")
        .args(["status", "--format", "json", "--"])
        .arg(dir)
        .stdin(Stdio::null())
        .stdout(out.try_clone()?)
        .stderr(err.try_clone()?)
        .process_group(0)
        .spawn()?;
    let code = match ended(child, LOOK_LIMIT, place).await {
        Ok(code) => code,
        Err(why) => {
            let status = serde_json::json!({
                "group": null, "state": "NOT ANSWERING", "words": format!("cellar status {why}"),
                "action": "see whether a disk hangs: dmesg",
            });
            return Ok((false, vec![status]));
        }
    };
    let text = |mut file: fs::File| {
        let mut text = String::new();
        // Anything but text is not an answer.
        let _ = file.rewind().and_then(|()| file.read_to_string(&mut text));
        text
    };
    match serde_json::from_str::<Vec<Value>>(&text(out)) {
        // Another process is opening it: that is not a state of a group.
        Ok(all) if all.iter().any(is_taken) => {
            Err(Error::new(TAKEN, format!("another process has {}", dir.display())).into())
        }
        Ok(all) => Ok((code.success(), all)),
        Err(_) => {
            let why = text(err).trim_end().to_owned();
            Err(match code.code() {
                Some(2) => Fault::usage(why),
                _ => Fault::failed(why),
            })
        }
    }
}

/// Whether a status says that another process has the database open.
fn is_taken(status: &Value) -> bool {
    status["error_numbers"].as_array().is_some_and(|numbers| numbers.contains(&TAKEN.into()))
}

/// Runs the command; the error says how it failed.
async fn alert(
    dir: &Path,
    command: &str,
    status: &Value,
    was: &str,
    place: &Place,
) -> Result<(), String> {
    let word = |name: &str| status[name].as_str().unwrap_or_default().to_owned();
    let absolute = std::path::absolute(dir).unwrap_or_else(|_| dir.to_owned());
    let cannot = |error: std::io::Error| format!("cannot be run: {error}");
    let child = Command::new("/bin/sh")
        .args(["-c", command])
        .env("CELLAR_DIR", absolute)
        .env("CELLAR_GROUP", word("group"))
        .env("CELLAR_STATE", word("state"))
        .env("CELLAR_WAS", was)
        .env("CELLAR_WORDS", word("words"))
        .env("CELLAR_ACTION", word("action"))
        .env("CELLAR_SAFE", word("safe"))
        .stdin(in_memory(format!("{status}\n").as_bytes()).map_err(cannot)?)
        .process_group(0)
        .spawn()
        .map_err(cannot)?;
    match ended(child, COMMAND_LIMIT, place).await? {
        code if code.success() => Ok(()),
        code => Err(format!("failed: {code}")),
    }
}

/// How a process ended; one that takes too long is stopped, with its children.
async fn ended(mut child: Child, limit: Duration, place: &Place) -> Result<ExitStatus, String> {
    let began = place.env.now();
    loop {
        match child.try_wait() {
            Ok(Some(code)) => return Ok(code),
            Ok(None) if place.env.now().since(began) > limit => {
                if let Some(group) = rustix::process::Pid::from_raw(child.id().cast_signed()) {
                    // It ends now, or has ended.
                    let _ =
                        rustix::process::kill_process_group(group, rustix::process::Signal::KILL);
                }
                // A process waiting for a hung disk does not end: it is left alone.
                for _ in 0..50 {
                    if !matches!(child.try_wait(), Ok(None)) {
                        break;
                    }
                    place.env.sleep(LOOK_EVERY).await;
                }
                return Err(format!("did not end within {} s", limit.as_secs()));
            }
            Ok(None) => place.env.sleep(LOOK_EVERY).await,
            Err(error) => return Err(format!("cannot be waited for: {error}")),
        }
    }
}

fn path_of(dir: &Path) -> PathBuf {
    dir.join(FILE_NAME)
}

fn read(dir: &Path) -> Result<KnownStates, Fault> {
    let path = path_of(dir);
    match fs::read_to_string(&path) {
        // An unreadable record counts as no report: everything is reported again.
        Ok(text) => Ok(serde_json::from_str(&text).unwrap_or_default()),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(KnownStates::new()),
        Err(error) => Err(Error::system("read", &path, &error).into()),
    }
}

/// Writes atomically.
fn write(dir: &Path, told: &KnownStates) -> Result<(), Fault> {
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
