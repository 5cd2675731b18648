//! The experiment interface, for the command line.
//!
//! To add one: a module with a type that implements [`Experiment`], and a line in
//! [`ALL`](crate::experiments::ALL). Its options are declared here as texts ([`OptionSpec`]) and become options of
//! `cellar lab run NAME`; it gets them back as [`OptionTexts`], measures with the inputs of its [`Request`],
//! and returns a [`Run`]. Keeping, showing and comparing runs is common to all and uses only the
//! fields of [`Run`]: `arms` are the main table (any number of [`Run::layouts`]), `tables` further
//! figures, `raw` every measurement, `finding` the answer in words. A ratio within the A/A spread
//! gets [`Verdict::NotDistinguishable`](crate::Verdict) from [`verdict`](crate::verdict).

use std::collections::BTreeMap;

use crate::control::Control;
use crate::error::LabError;
use crate::run::{Head, Invocation, Run};

/// An option of an experiment: `--name VALUE`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OptionSpec {
    /// Without the dashes.
    pub name: &'static str,
    /// The placeholder of its value in the help: `SIZE`.
    pub value: &'static str,
    /// Its description for the help, with the allowed values.
    pub help: &'static str,
    /// The default, shown in the help.
    pub default: &'static str,
}

impl OptionSpec {
    /// An option, in the order of the help: name, value, default, description.
    pub const fn new(
        name: &'static str,
        value: &'static str,
        default: &'static str,
        help: &'static str,
    ) -> OptionSpec {
        OptionSpec { name, value, help, default }
    }
}

/// A question about disks, and how it is answered.
pub trait Experiment: Sync {
    /// Its name on the command line.
    fn name(&self) -> &'static str;

    /// The question, in one line.
    fn question(&self) -> &'static str;

    /// Examples for the end of its help: per line two blanks, a command and its description.
    fn examples(&self) -> &'static str;

    /// Its own options.
    fn options(&self) -> &'static [OptionSpec];

    /// Measures, and returns the result. [`LabError::Option`] before anything is touched if an
    /// option is unusable.
    ///
    /// # Errors
    /// An unusable option, a disk that fails, bytes that differ from those written.
    fn run(&self, request: &Request<'_>) -> Result<Run, LabError>;
}

/// The inputs of a run of an experiment.
pub struct Request<'a> {
    /// The request as typed.
    pub asked: Invocation,
    /// Date, machine and source.
    pub head: Head,
    /// Progress and cancellation.
    pub control: Control<'a>,
    /// The disks of `--disks`, checked: their contents may be lost. Empty without them.
    #[cfg(feature = "real")]
    pub disks: Vec<crate::place::given::Given>,
    /// Disks, time and tasks of this machine.
    #[cfg(feature = "real")]
    pub runtime: &'a cellar_io::real::Runtime,
}

impl Request<'_> {
    /// The options as texts.
    pub fn words(&self) -> OptionTexts<'_> {
        OptionTexts(&self.asked.options)
    }
}

/// Options as texts, to be parsed.
#[derive(Clone, Copy, Debug)]
pub struct OptionTexts<'a>(pub &'a BTreeMap<String, String>);

impl OptionTexts<'_> {
    /// The text of an option, if it was given.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }

    /// An integer.
    ///
    /// # Errors
    /// It is not one; `allowed` describes the valid values.
    pub fn number(
        &self,
        name: &'static str,
        default: u64,
        allowed: &'static str,
    ) -> Result<u64, LabError> {
        self.parsed(name, default, allowed, |text| text.parse().ok())
    }

    /// A size: `64M`, `1G`, `8192`, in units of 1024.
    ///
    /// # Errors
    /// It is not one; `allowed` describes the valid values.
    pub fn size(
        &self,
        name: &'static str,
        default: u64,
        allowed: &'static str,
    ) -> Result<u64, LabError> {
        self.parsed(name, default, allowed, parse_size)
    }

    /// The value parsed by `read`, or `default` if it was not given.
    ///
    /// # Errors
    /// `read` rejects it; `allowed` describes the valid values.
    pub fn parsed<T>(
        &self,
        name: &'static str,
        default: T,
        allowed: &'static str,
        read: impl Fn(&str) -> Option<T>,
    ) -> Result<T, LabError> {
        let Some(text) = self.get(name) else { return Ok(default) };
        read(text.trim()).ok_or_else(|| LabError::Option { name, value: text.to_owned(), allowed })
    }
}

/// Bytes of a size given as text.
fn parse_size(text: &str) -> Option<u64> {
    let text = text.trim_end_matches(['b', 'B']);
    let split = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (digits, unit) = text.split_at(split);
    let shift = match unit.trim().to_ascii_uppercase().as_str() {
        "" => 0,
        "K" => 10,
        "M" => 20,
        "G" => 30,
        "T" => 40,
        _ => return None,
    };
    digits.parse::<u64>().ok()?.checked_mul(1 << shift)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_and_others_refused() {
        assert_eq!(parse_size("64M"), Some(64 << 20));
        assert_eq!(parse_size("1 GB"), Some(1 << 30));
        assert_eq!(parse_size("512"), Some(512));
        for bad in ["", "M", "1X", "-1", "99999999T"] {
            assert_eq!(parse_size(bad), None, "{bad}");
        }
    }
}
