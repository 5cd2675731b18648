//! The benchmark of one store: for some seconds it commits records, each durable before the next, or reads
//! them, and prints the result as a line of JSON. `../commit.py` runs it; each arm is a separate process.

#![expect(clippy::disallowed_methods, reason = "rivals know no clock but the real one")]

mod arms;
mod device;
mod group;
mod load;
mod reads;

use std::path::PathBuf;
use std::time::Duration;

use load::Load;

/// Any error, as text; it ends the program.
pub type Error = Box<dyn std::error::Error + Send + Sync>;

const USAGE: &str = "commit-rivals ARM --dir DIR [--committers N] [--bytes N] [--seconds S]
    [--warm S] [--block 512|4096] [--workers N] [--rows N] [--readers N]
    [--cache MIB]
commit-rivals list | list-reads";

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    if words.first().is_some_and(|word| word == "list") {
        println!("{}", arms::NAMES.join(" "));
        return;
    }
    if words.first().is_some_and(|word| word == "list-reads") {
        println!("{}", arms::READS.join(" "));
        return;
    }
    match parse(&words).and_then(|(arm, load)| arms::run(&arm, &load)) {
        Ok(line) => println!("{line}"),
        Err(error) => {
            eprintln!("commit-rivals: {error}");
            std::process::exit(1);
        }
    }
}

fn parse(words: &[String]) -> Result<(String, Load), Error> {
    let mut words = words.iter();
    let arm = words.next().ok_or(USAGE)?.clone();
    let mut load = Load {
        dir: PathBuf::new(),
        committers: 1,
        bytes: 1024,
        time: Duration::from_secs(2),
        warm: Duration::from_millis(500),
        block: 4096,
        workers: 2,
        rows: 0,
        readers: 0,
        cache: 0,
    };
    while let Some(word) = words.next() {
        let value = words.next().ok_or_else(|| format!("{word} needs a value\n{USAGE}"))?;
        match word.as_str() {
            "--dir" => load.dir = value.into(),
            "--committers" => load.committers = value.parse()?,
            "--bytes" => load.bytes = value.parse()?,
            "--seconds" => load.time = Duration::try_from_secs_f64(value.parse()?)?,
            "--warm" => load.warm = Duration::try_from_secs_f64(value.parse()?)?,
            "--block" => load.block = value.parse()?,
            "--workers" => load.workers = value.parse()?,
            "--rows" => load.rows = value.parse()?,
            "--cache" => load.cache = value.parse::<usize>()? << 20,
            "--readers" => load.readers = value.parse()?,
            _ => return Err(format!("what is {word}?\n{USAGE}").into()),
        }
    }
    if load.dir.as_os_str().is_empty() || load.committers == 0 || load.bytes < 8 {
        return Err(format!("--dir is needed, a committer, and 8 bytes\n{USAGE}").into());
    }
    if load.readers > 0 && load.rows == 0 {
        return Err(format!("--readers need --rows\n{USAGE}").into());
    }
    Ok((arm, load))
}
