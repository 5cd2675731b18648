//! `chaosdisk BACKING MOUNTPOINT`: serves the files of one directory at another, and reads commands,
//! one a line, until its standard input ends.

use std::io::BufRead;
use std::path::Path;
use std::process::ExitCode;

use cellar_chaos::{ChaosDisks, ChaosError, Command};

fn main() -> ExitCode {
    let words: Vec<_> = std::env::args_os().skip(1).collect();
    let [backing, at] = &words[..] else {
        eprintln!("usage: chaosdisk BACKING MOUNTPOINT, then a command a line; help lists them");
        return ExitCode::from(2);
    };
    match serve(Path::new(backing), Path::new(at)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn serve(backing: &Path, at: &Path) -> Result<(), ChaosError> {
    let disks = ChaosDisks::mount(backing, at)?;
    println!("serving {} at {}", backing.display(), at.display());
    for line in std::io::stdin().lock().lines() {
        let Ok(line) = line else { break };
        if line.trim().is_empty() {
            continue;
        }
        match line.parse::<Command>().and_then(|command| command.run(&disks)) {
            Ok(told) if told.is_empty() => println!("done"),
            Ok(told) => println!("{told}"),
            Err(error) => println!("{error}"),
        }
    }
    Ok(())
}
