//! The parameters that exist: name, type, allowed values, default, when a change takes effect.

use cellar_storage::settings;
use cellar_storage::size;

use crate::error::{Error, Result};

/// What a parameter may hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// TRUE or FALSE.
    Bool,
    /// A whole number in a range, both ends included; `unit` is for people.
    Integer {
        /// The least allowed.
        min: u64,
        /// The most allowed.
        max: u64,
        /// What is counted: "s", "ms", or nothing.
        unit: &'static str,
    },
    /// Bytes, typed as `4M` or `2G`.
    Size {
        /// The least allowed, in bytes.
        min: u64,
        /// The most allowed, in bytes.
        max: u64,
        /// Whether 0 is allowed, too: it stands for what the instance finds right.
        zero: bool,
    },
    /// One of a few words.
    Choice(&'static [&'static str]),
    /// A place in a disk group, `+DATA` or `+DATA/dir`; empty: none.
    GroupPath,
    /// Paths from the root on, separated by commas, each of which may be quoted; `*` and `?` may
    /// stand in the last part of one.
    List,
}

/// A parameter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Definition {
    /// Lower case. A leading `_` hides it from `v$parameter` unless it was set.
    pub name: &'static str,
    /// What it may hold.
    pub kind: Kind,
    /// What holds if nobody sets it, as text.
    pub default: &'static str,
    /// Whether a change takes effect at once; if not it needs SCOPE=SPFILE and a restart.
    pub dynamic: bool,
    /// One line for `v$parameter`.
    pub description: &'static str,
}

/// The value of a parameter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    /// Of [`Kind::Bool`].
    Bool(bool),
    /// Of [`Kind::Integer`].
    Integer(u64),
    /// Of [`Kind::Size`], in bytes.
    Size(u64),
    /// Of [`Kind::Choice`], spelled as in the definition.
    Choice(&'static str),
    /// Of [`Kind::GroupPath`].
    Text(String),
    /// Of [`Kind::List`].
    List(Vec<String>),
}

impl std::fmt::Display for Value {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Value::Bool(true) => f.write_str("TRUE"),
            Value::Bool(false) => f.write_str("FALSE"),
            Value::Integer(number) => write!(f, "{number}"),
            Value::Size(bytes) => f.write_str(&size::exact(*bytes)),
            Value::Choice(word) => f.write_str(word),
            Value::Text(text) => f.write_str(text),
            Value::List(parts) => f.write_str(&parts.join(", ")),
        }
    }
}

impl Definition {
    /// Whether it is left out of `v$parameter` until it is set.
    pub fn is_hidden(&self) -> bool {
        self.name.starts_with('_')
    }

    /// The default.
    pub fn default_value(&self) -> Value {
        self.parse(self.default).expect("a test parses every default")
    }

    /// Reads a value as typed.
    ///
    /// # Errors
    /// 00068, 00096 or 02017, naming the value and what is allowed.
    pub fn parse(&self, text: &str) -> Result<Value> {
        let text = unquoted(text.trim());
        let name = self.name;
        match self.kind {
            Kind::Bool => match text.to_ascii_lowercase().as_str() {
                "true" | "on" | "yes" => Ok(Value::Bool(true)),
                "false" | "off" | "no" => Ok(Value::Bool(false)),
                _ => Err(self.not_among(text, &["TRUE", "FALSE"])),
            },
            Kind::Integer { min, max, unit } => {
                let value: u64 = text.parse().map_err(|_| {
                    let allowed = self.allowed();
                    let message = format!(
                        "value \"{text}\" for parameter {name} is no integer, must be {allowed}"
                    );
                    Error::new(2017, message).hint(format!("allowed: {allowed}"))
                })?;
                let unit = if unit.is_empty() { String::new() } else { format!(" {unit}") };
                self.in_range(value, min, max, &format!("{min} and {max}{unit}"))?;
                Ok(Value::Integer(value))
            }
            Kind::Size { min, max, zero } => {
                let value = size::parse(text).ok_or_else(|| {
                    let message = format!(
                        "value \"{text}\" for parameter {name} is no size, must be {}",
                        self.allowed()
                    );
                    Error::new(2017, message).hint("write bytes, or a number with K, M, G or T")
                })?;
                let or_zero = if zero { ", or 0" } else { "" };
                let bounds = format!("{} and {}{or_zero}", size::exact(min), size::exact(max));
                if !(zero && value == 0) {
                    self.in_range(value, min, max, &bounds)?;
                }
                Ok(Value::Size(value))
            }
            Kind::Choice(words) => words
                .iter()
                .find(|word| word.eq_ignore_ascii_case(text))
                .map(|word| Value::Choice(word))
                .ok_or_else(|| self.not_among(text, words)),
            Kind::GroupPath => {
                let named = text.strip_prefix('+').is_some_and(|rest| !rest.is_empty());
                let legal = text.is_empty() || (named && !text.chars().any(char::is_control));
                if legal {
                    return Ok(Value::Text(text.to_owned()));
                }
                let (what, allowed) = (format!("invalid value \"{text}\" for"), self.allowed());
                Err(Error::new(96, format!("{what} parameter {name}, must be {allowed}"))
                    .hint(format!("write {name} = '+DATA'")))
            }
            Kind::List => {
                let parts = text.split(',').map(|part| unquoted(part.trim()));
                let parts = parts.filter(|part| !part.is_empty());
                parts.map(|part| self.path(part)).collect::<Result<_>>().map(Value::List)
            }
        }
    }

    /// Checks one path of a list: a relative one would mean another place for each who starts the
    /// program, and a pattern above the last part would match nothing, silently.
    ///
    /// # Errors
    /// 00096, naming the path and what is allowed.
    pub(super) fn path(&self, text: &str) -> Result<String> {
        let above = text.rsplit_once('/').map_or("", |(above, _)| above);
        let legal = text.starts_with('/')
            && !above.contains(['*', '?'])
            && !text.chars().any(char::is_control);
        if legal {
            return Ok(text.to_owned());
        }
        let name = self.name;
        let message =
            format!("invalid value \"{text}\" for parameter {name}, must be {}", self.allowed());
        Err(Error::new(96, message).hint(format!(
            "write {name} = '/dev/disk/by-id/*', or several such with commas between them"
        )))
    }

    /// What is allowed, for people.
    pub fn allowed(&self) -> String {
        match self.kind {
            Kind::Bool => "TRUE, FALSE".to_owned(),
            Kind::Integer { min, max, unit } => format!("{min} to {max} {unit}").trim_end().into(),
            Kind::Size { min, max, zero } => {
                let or_zero = if zero { ", or 0" } else { "" };
                format!("{} to {}{or_zero}", size::exact(min), size::exact(max))
            }
            Kind::Choice(words) => words.join(", "),
            Kind::GroupPath => "a disk group such as +DATA or +DATA/dir, or empty".to_owned(),
            Kind::List => "paths from / on, * and ? in their last part only".to_owned(),
        }
    }

    fn in_range(&self, value: u64, min: u64, max: u64, bounds: &str) -> Result<()> {
        if (min..=max).contains(&value) {
            return Ok(());
        }
        let name = self.name;
        let message =
            format!("invalid value {value} for parameter {name}, must be between {bounds}");
        Err(Error::new(68, message).hint(format!("allowed: {}", self.allowed())))
    }

    fn not_among(&self, text: &str, words: &[&str]) -> Error {
        let (name, words) = (self.name, words.join(", "));
        let message =
            format!("invalid value \"{text}\" for parameter {name}, must be from among {words}");
        Error::new(96, message)
    }
}

/// Without the quotes around it, unless those are the first and the last of several texts.
fn unquoted(text: &str) -> &str {
    let inside = |quote: char| text.strip_prefix(quote)?.strip_suffix(quote);
    ['\'', '"']
        .into_iter()
        .find_map(|quote| inside(quote).filter(|inside| !inside.contains(quote)))
        .unwrap_or(text)
}

const fn integer(min: u64, max: u64, unit: &'static str) -> Kind {
    Kind::Integer { min, max, unit }
}

macro_rules! parameters {
    ($($(#[doc = $doc:literal])* $constant:ident = $name:expr, $kind:expr, $default:literal,
        $when:ident;)*) => {
        $(
            $(#[doc = $doc])*
            pub const $constant: &str = $name;
        )*

        /// Every parameter, by name.
        pub static DEFINITIONS: &[Definition] = &[$(Definition {
            name: $name,
            kind: $kind,
            default: $default,
            dynamic: parameters!(@ $when),
            description: concat!($($doc),*).trim_ascii_start(),
        },)*];
    };
    (@ dynamic) => { true };
    (@ fixed) => { false };
}

// `fixed`: in force after a restart.
parameters! {
    /// Milliseconds between looks at whether a file disk is still the file that was opened
    DISK_WATCH_INTERVAL = "_disk_watch_interval", integer(10, 60_000, "ms"), "250", fixed;
    /// Power of a rebalance that names none; 0 stops it
    ASM_POWER_LIMIT = settings::ASM_POWER_LIMIT, integer(0, 1024, ""), "1", dynamic;
    /// Processors to use; 0 means all there are
    CPU_COUNT = "cpu_count", integer(0, 4096, ""), "0", fixed;
    /// Whether block devices and disk groups are read and written asynchronously
    DISK_ASYNCH_IO = settings::DISK_ASYNCH_IO, Kind::Bool, "true", fixed;
    /// Seconds before an unresponsive disk is taken offline if the group can run without it
    DISK_DETACH_TIMEOUT = settings::DISK_DETACH_TIMEOUT, integer(1, 3600, "s"), "10", dynamic;
    /// The way to the kernel for asynchronous I/O; auto takes the best that works here
    DISK_IO_ENGINE = settings::DISK_IO_ENGINE, Kind::Choice(&["auto", "io_uring", "libaio", "sync"]),
        "auto", fixed;
    /// Where disks are looked for: paths, with * and ? in the last part
    DISK_STRING = settings::DISK_STRING, Kind::List, "", dynamic;
    /// Seconds after which a disk that does not answer is taken offline
    DISK_TIMEOUT = settings::DISK_TIMEOUT, integer(1, 3600, "s"), "30", dynamic;
    /// How disks that are files are opened: asynchronous, direct, both or neither
    FILESYSTEMIO_OPTIONS = settings::FILESYSTEMIO_OPTIONS,
        Kind::Choice(&["none", "asynch", "directio", "setall"]), "setall", fixed;
    /// Seconds after which a hot spare takes the place of a disk that failed
    HOT_SPARE_DELAY = settings::HOT_SPARE_DELAY, integer(1, 2592000, "s"), "600", dynamic;
    /// Disks that wait to take the place of one that fails: paths, with * and ? in the last part
    HOT_SPARES = settings::HOT_SPARES, Kind::List, "", dynamic;
    /// Where finished redo groups are archived: a disk group; a log made while it is empty never is
    LOG_ARCHIVE_DEST = settings::LOG_ARCHIVE_DEST, Kind::GroupPath, "", dynamic;
    /// Bytes of a block of a redo log made afterwards; auto measures which is faster
    LOG_BLOCK_SIZE = settings::LOG_BLOCK_SIZE, Kind::Choice(&["auto", "512", "4096"]), "auto", dynamic;
    /// Bytes of redo that may wait to be written before a commit waits for room
    LOG_BUFFER = settings::LOG_BUFFER, Kind::Size { min: 1 << 20, max: 1 << 30, zero: false }, "16M", fixed;
    /// Memory of the instance; 0 means a quarter of what this machine or container has
    MEMORY_TARGET = "memory_target", Kind::Size { min: 16 << 20, max: 1 << 50, zero: true }, "0", dynamic;
    /// Seconds that reading tables back may take after a crash: pages are written and checkpoints move as it asks for
    RECOVERY_TARGET = "recovery_target", integer(1, 3600, "s"), "5", dynamic;
    /// Media that must have a commit, of a redo log made afterwards, or all that are left; auto: 1 of 1, else 2
    REDO_QUORUM = settings::REDO_QUORUM, Kind::Choice(&["auto", "1", "2", "3"]), "auto", dynamic;
    /// Seconds of copying that are enough to make all mirrors agree after a crash
    RESYNC_TARGET = settings::RESYNC_TARGET, integer(1, 3600, "s"), "5", dynamic;
    /// Reads of 1 MB that a scan keeps in flight on each disk
    SCAN_DEPTH = settings::SCAN_DEPTH, integer(1, 1024, ""), "32", dynamic;
    /// Parts of a query that run at the same time; 0 means cpu_count
    TARGET_PARTITIONS = "target_partitions", integer(0, 4096, ""), "0", dynamic;
}

/// The parameter of that name, in any case.
pub fn find(name: &str) -> Option<&'static Definition> {
    DEFINITIONS.iter().find(|definition| definition.name.eq_ignore_ascii_case(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_default_is_a_legal_value_and_names_are_in_order() {
        for definition in DEFINITIONS {
            let value = definition.default_value();
            assert_eq!(definition.parse(&value.to_string()).unwrap(), value, "{definition:?}");
            assert!(!definition.description.is_empty() && definition.description.len() <= 255);
        }
        assert!(DEFINITIONS.windows(2).all(|pair| pair[0].name < pair[1].name));
    }

    #[test]
    fn bad_values_are_told_what_is_allowed() {
        let bad = |name: &str, text: &str| find(name).unwrap().parse(text).unwrap_err();
        let error = bad(FILESYSTEMIO_OPTIONS, "fast");
        assert_eq!(error.number(), 96);
        let text = error.to_string();
        assert!(text.contains("\"fast\"") && text.contains("none, asynch, directio, setall"));
        assert_eq!(bad(SCAN_DEPTH, "0").number(), 68);
        assert!(bad(SCAN_DEPTH, "0").to_string().contains("between 1 and 1024"));
        assert_eq!(bad(SCAN_DEPTH, "-1").number(), 2017);
        assert_eq!(bad(MEMORY_TARGET, "much").number(), 2017);
        assert_eq!(bad(MEMORY_TARGET, "1K").number(), 68);
        let told = bad(MEMORY_TARGET, "1K").to_string();
        assert!(told.contains("must be between 16M and 1024T, or 0"), "{told}");
        assert!(bad(DISK_ASYNCH_IO, "maybe").to_string().contains("TRUE, FALSE"));
    }

    #[test]
    fn values_are_read_in_any_case_and_quoted_or_not() {
        let parse = |name: &str, text: &str| find(name).unwrap().parse(text).unwrap();
        assert_eq!(parse("FILESYSTEMIO_OPTIONS", "'SETALL'"), Value::Choice("setall"));
        assert_eq!(parse(MEMORY_TARGET, "2g"), Value::Size(2 << 30));
        let list = Value::List(vec!["/a/*".into(), "/b".into()]);
        assert_eq!(parse(DISK_STRING, "'/a/*', '/b'"), list);
    }
}
