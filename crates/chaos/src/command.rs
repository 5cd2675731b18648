//! Commands of `chaosdisk`, one a line.

use std::str::FromStr;
use std::time::Duration;

use crate::cut::Cut;
use crate::disks::ChaosDisks;
use crate::error::ChaosError;
use crate::fault::Op;

/// A line for the program `chaosdisk`:
///
/// ```text
/// cut [SEED [PERCENT]]          power cut of all files; PERCENT of the unflushed sectors stay
/// cut-file NAME [SEED [PERCENT]]
/// on                            power on again
/// delay NAME OP MILLISECONDS    OP is read, write or flush
/// hang NAME OP                  no answer until release NAME
/// release NAME
/// fail NAME OP [FROM TO]        EIO, everywhere or in these bytes
/// lie NAME | honest NAME        flushes are acknowledged but not done
/// tear NAME                     the next write stores a random subset of its sectors
/// heal NAME                     ends the faults of a file
/// counters                      the work done so far
/// help
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Command {
    /// A power cut of everything, or of one file.
    Cut(Option<String>, Cut),
    /// Power on again.
    On,
    /// Late requests.
    Delay(String, Op, Duration),
    /// Requests without an answer.
    Hang(String, Op),
    /// Their release.
    Release(String),
    /// Failing requests.
    Fail(String, Op, std::ops::Range<u64>),
    /// Whether flushes lie.
    Lie(String, bool),
    /// A torn write.
    Tear(String),
    /// The end of all faults of a file.
    Heal(String),
    /// The counters since the file system was mounted.
    Counters,
    /// The commands.
    Help,
}

/// The output of `help`.
const HELP: &str = "cut [SEED [PERCENT]] | cut-file NAME [SEED [PERCENT]] | on
delay NAME OP MILLISECONDS | hang NAME OP | release NAME | fail NAME OP [FROM TO]
lie NAME | honest NAME | tear NAME | heal NAME | counters | help
OP: read, write, flush";

impl FromStr for Command {
    type Err = ChaosError;

    fn from_str(line: &str) -> Result<Command, ChaosError> {
        let words: Vec<&str> = line.split_whitespace().collect();
        parse(&words).ok_or_else(|| ChaosError::NoSuchCommand { line: line.to_owned() })
    }
}

fn parse(words: &[&str]) -> Option<Command> {
    let (verb, rest) = words.split_first()?;
    Some(match (*verb, rest) {
        ("cut", numbers) => Command::Cut(None, cut(numbers)?),
        ("cut-file", [name, numbers @ ..]) => Command::Cut(Some((*name).into()), cut(numbers)?),
        ("on", []) => Command::On,
        ("delay", [name, op, ms]) => {
            let delay = Duration::from_millis(ms.parse().ok()?);
            Command::Delay((*name).into(), op.parse().ok()?, delay)
        }
        ("hang", [name, op]) => Command::Hang((*name).into(), op.parse().ok()?),
        ("release", [name]) => Command::Release((*name).into()),
        ("fail", [name, op]) => Command::Fail((*name).into(), op.parse().ok()?, 0..u64::MAX),
        ("fail", [name, op, from, to]) => {
            let range = from.parse().ok()?..to.parse().ok()?;
            Command::Fail((*name).into(), op.parse().ok()?, range)
        }
        ("lie", [name]) => Command::Lie((*name).into(), true),
        ("honest", [name]) => Command::Lie((*name).into(), false),
        ("tear", [name]) => Command::Tear((*name).into()),
        ("heal", [name]) => Command::Heal((*name).into()),
        ("counters", []) => Command::Counters,
        ("help", []) => Command::Help,
        _ => return None,
    })
}

fn cut(numbers: &[&str]) -> Option<Cut> {
    let mut cut = Cut::new(0);
    match numbers {
        [] => {}
        [seed] => cut.seed = seed.parse().ok()?,
        [seed, percent] => {
            cut.seed = seed.parse().ok()?;
            cut.keep_percent = percent.parse().ok().filter(|percent| *percent <= 100)?;
        }
        _ => return None,
    }
    Some(cut)
}

impl Command {
    /// Runs the command; returns the text to print.
    ///
    /// # Errors
    /// There is no such file.
    pub fn run(self, disks: &ChaosDisks) -> Result<String, ChaosError> {
        let done = |()| String::new();
        match self {
            Command::Cut(name, cut) => {
                let lost = match name {
                    Some(name) => disks.cut_file(&name, &cut)?,
                    None => disks.cut(&cut)?,
                };
                Ok(format!("{} sectors kept, {} dropped", lost.kept, lost.dropped))
            }
            Command::On => {
                disks.power_on();
                Ok(String::new())
            }
            Command::Delay(name, op, delay) => disks.delay(&name, op, delay).map(done),
            Command::Hang(name, op) => disks.hang(&name, op).map(done),
            Command::Release(name) => disks.release(&name).map(done),
            Command::Fail(name, op, range) => disks.fail(&name, op, range).map(done),
            Command::Lie(name, lying) => disks.lie(&name, lying).map(done),
            Command::Tear(name) => disks.tear_next_write(&name).map(done),
            Command::Heal(name) => disks.heal(&name).map(done),
            Command::Counters => Ok(format!("{:?}", disks.counters())),
            Command::Help => Ok(HELP.to_owned()),
        }
    }
}
