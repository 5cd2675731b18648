//! Errors as users see them: a stack of Oracle's numbers, an SQLSTATE, and the next step.

use std::path::Path;

pub use cellar_io::NextStep;
use cellar_io::{IoError, IoErrorKind, MEMORY, OPEN_FILES, OPEN_FILES_OF_ALL, Op, shell};
use rustix::io::Errno;
use rustix::process::{Resource, getrlimit};

/// What every fallible function of this crate returns.
pub type Result<T> = std::result::Result<T, Error>;

/// One line of a stack.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Oracle's number where the meaning is the same, one of ours from 70001 where not.
    pub number: u32,
    /// What happened, with the value and the allowed values.
    pub message: String,
    /// The same without the disk group's name at its beginning, if it has one there.
    pub reason: Option<String>,
}

impl Entry {
    fn new(number: u32, message: impl Into<String>) -> Entry {
        Entry { number, message: message.into(), reason: None }
    }

    /// What happened, for a reader who knows the disk group.
    pub fn reason(&self) -> &str {
        self.reason.as_deref().unwrap_or(&self.message)
    }
}

impl std::fmt::Display for Entry {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "CELLAR-{:05}: {}", self.number, self.message)
    }
}

/// The clause that would let a refused statement go on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Remedy {
    /// FORCE, for a mount that cannot prove that nothing newer exists elsewhere.
    Force,
    /// The serial number of a disk whose content is given up.
    Erase(String),
}

/// What went wrong, outermost first.
///
/// ```
/// use cellar_storage::Error;
///
/// let error = Error::new(15041, "disk group \"DATA\" has no room for 4 MB")
///     .under(15032, "not all alterations performed")
///     .hint("add a disk or delete files");
/// assert_eq!(
///     error.to_string(),
///     "CELLAR-15032: not all alterations performed\n\
///      CELLAR-15041: disk group \"DATA\" has no room for 4 MB\n\
///      Next: add a disk or delete files"
/// );
/// assert_eq!(error.sqlstate(), "53100");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error {
    /// Never empty; the last entry is the cause.
    stack: Vec<Entry>,
    hint: Option<NextStep>,
    /// Another process holds the lock, and may be about to release it.
    busy: bool,
    denied: bool,
    remedy: Option<Remedy>,
    /// The disk group that it is about.
    group: Option<String>,
}

impl Error {
    /// An error with one entry.
    pub fn new(number: u32, message: impl Into<String>) -> Error {
        let stack = vec![Entry::new(number, message)];
        Error { stack, hint: None, busy: false, denied: false, remedy: None, group: None }
    }

    /// Puts the statement or step that failed on top of the stack.
    #[must_use]
    pub fn under(mut self, number: u32, message: impl Into<String>) -> Error {
        self.stack.insert(0, Entry::new(number, message));
        self
    }

    /// Adds what lies below the present cause.
    #[must_use]
    pub fn over(mut self, cause: Error) -> Error {
        self.stack.extend(cause.stack);
        self.hint = self.hint.or(cause.hint);
        self
    }

    /// Says which disk group it is about.
    #[must_use]
    pub fn of_group(mut self, name: &str) -> Error {
        self.group = Some(name.to_owned());
        self
    }

    /// Records the clause that would let the statement go on.
    #[must_use]
    pub fn with_remedy(mut self, remedy: Remedy) -> Error {
        self.remedy = Some(remedy);
        self
    }

    /// Offers the next step; replaces one that was offered before.
    #[must_use]
    pub fn hint(mut self, next: impl Into<NextStep>) -> Error {
        self.hint = Some(next.into());
        self
    }

    /// Marks the error as a lack of permission to open a path.
    #[cfg(feature = "real")]
    #[must_use]
    pub(crate) fn of_rights(mut self) -> Error {
        self.denied = true;
        self
    }

    /// Whether this process lacked permission to open a path, which says nothing about what is there.
    pub fn is_denied(&self) -> bool {
        self.denied
    }

    /// Whether a retry may succeed soon: another process holds the lock on the disk.
    pub fn is_busy(&self) -> bool {
        self.busy
    }

    /// The clause that would let the statement go on, if that is known.
    pub fn remedy(&self) -> Option<&Remedy> {
        self.remedy.as_ref()
    }

    /// Whether it is a refused mount that FORCE would carry out with the disks at hand.
    pub fn force_helps(&self) -> bool {
        self.remedy == Some(Remedy::Force)
    }

    /// The disk group that it is about, where it is one.
    pub fn group(&self) -> Option<&str> {
        self.group.as_deref()
    }

    /// The lines, outermost first.
    pub fn stack(&self) -> &[Entry] {
        &self.stack
    }

    /// The next step, if there is one.
    pub fn next_step(&self) -> Option<&NextStep> {
        self.hint.as_ref()
    }

    /// The same error, its next step changed by `change`.
    #[must_use]
    pub fn map_next_step(self, change: impl FnOnce(NextStep) -> NextStep) -> Error {
        Error { hint: self.hint.map(change), ..self }
    }

    /// The number of the cause, the last line.
    pub fn number(&self) -> u32 {
        self.stack.last().map_or(INTERNAL, |entry| entry.number)
    }

    /// Whether a line of the stack has this number.
    pub fn has(&self, number: u32) -> bool {
        self.stack.iter().any(|entry| entry.number == number)
    }

    /// The SQLSTATE of the cause, five characters.
    pub fn sqlstate(&self) -> &'static str {
        sqlstate_of(self.number())
    }

    /// Whether this process or machine had run out of a resource. That says nothing about the object it
    /// was needed for.
    pub fn is_exhausted(&self) -> bool {
        self.has(EXHAUSTED)
    }

    /// A failed system call on a path.
    pub fn system(what: &str, path: &Path, error: &std::io::Error) -> Error {
        let lacks = match error.raw_os_error() {
            Some(code) if code == Errno::MFILE.raw_os_error() => Some(OPEN_FILES),
            Some(code) if code == Errno::NFILE.raw_os_error() => Some(OPEN_FILES_OF_ALL),
            Some(code) if code == Errno::NOMEM.raw_os_error() => Some(MEMORY),
            _ => None,
        };
        if let Some(lacks) = lacks {
            return exhausted(format!("cannot {what} {}: {lacks}", path.display()), lacks);
        }
        let made = Error::new(70110, format!("cannot {what} {}: {error}", path.display()));
        match error.kind() {
            std::io::ErrorKind::PermissionDenied => made
                .hint(format!("run as the owner of {}, or give this user access", path.display())),
            std::io::ErrorKind::StorageFull => made.hint("make room on that file system"),
            std::io::ErrorKind::NotFound => made.hint("check the path"),
            _ => made,
        }
    }
}

impl std::fmt::Display for Error {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for (at, entry) in self.stack.iter().enumerate() {
            let line_break = if at == 0 { "" } else { "\n" };
            write!(f, "{line_break}{entry}")?;
        }
        match &self.hint {
            Some(hint) => write!(f, "\nNext: {hint}"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for Error {}

/// The number for a request refused because this process or machine had run out of a resource.
pub const EXHAUSTED: u32 = 70130;

/// The error for a resource that this process or machine has run out of, with what helps.
fn exhausted(text: String, lacks: &str) -> Error {
    let next = match lacks {
        OPEN_FILES => {
            let limit = getrlimit(Resource::Nofile);
            let shown =
                |limit: Option<u64>| limit.map_or("unlimited".to_owned(), |l| l.to_string());
            format!(
                "nothing was changed. The limit is {}, at most {} for this user, and each disk \
                 needs one: ulimit -n 1024, by root where that is refused (a service: \
                 LimitNOFILE=1024), then try again",
                shown(limit.current),
                shown(limit.maximum)
            )
        }
        OPEN_FILES_OF_ALL => "nothing was changed. Raise the limit of the machine as root: sysctl \
                              fs.file-max tells it; then try again"
            .to_owned(),
        _ => "nothing was changed. End other programs, or give this one more memory, and try again"
            .to_owned(),
    };
    Error::new(EXHAUSTED, text).hint(next)
}

impl From<IoError> for Error {
    fn from(error: IoError) -> Error {
        if let IoErrorKind::Exhausted { what } = error.kind {
            return exhausted(error.to_string(), what);
        }
        let opening = error.op == Op::Open;
        let number = match error.kind {
            IoErrorKind::Permission | IoErrorKind::Busy | IoErrorKind::NotFound => 15025,
            IoErrorKind::NoSpace => 70111,
            IoErrorKind::Misaligned { .. } | IoErrorKind::OutOfRange { .. } => 15081,
            IoErrorKind::Unsupported { .. } => 70112,
            _ if opening => 15025,
            _ => 15080,
        };
        let made = Error::new(number, error.to_string());
        let device = &error.device;
        match error.kind {
            IoErrorKind::Permission => {
                made.hint(format!("give this user read and write access to {device}"))
            }
            IoErrorKind::Busy => {
                let made =
                    made.hint(format!("find who uses it: fuser -v {}", shell::quoted(device)));
                Error { busy: true, ..made }
            }
            IoErrorKind::NotFound => made.hint("check the path and disk_string"),
            IoErrorKind::NoSpace => made.hint("make room on the file system below the disk"),
            IoErrorKind::Media | IoErrorKind::Timeout { .. } | IoErrorKind::Gone { .. } => made
                .hint(
                    NextStep::from("see which disk it is: ")
                        .cellar("status", "")
                        .then("; what the device said: dmesg"),
                ),
            _ => made,
        }
    }
}

impl From<cellar_redo::Error> for Error {
    fn from(error: cellar_redo::Error) -> Error {
        Error::new(error.number(), error.to_string()).hint(error.next_step())
    }
}

impl From<cellar_diskgroup::Error> for Error {
    fn from(error: cellar_diskgroup::Error) -> Error {
        match error {
            cellar_diskgroup::Error::Io(error) => error.into(),
            error => {
                let not_proven = matches!(error, cellar_diskgroup::Error::NotProven { .. });
                let entry = Entry {
                    reason: error.reason(),
                    ..Entry::new(error.number(), error.to_string())
                };
                let made = Error::new(entry.number, "").hint(error.next_step());
                let remedy = not_proven.then_some(Remedy::Force);
                Error { stack: vec![entry], remedy, ..made }
            }
        }
    }
}

/// An error that only a bug can cause; not a panic, because the input came from outside.
pub const INTERNAL: u32 = 600;

/// The SQLSTATE that goes with a number; `58000` (system error) for any that has none of its own.
pub fn sqlstate_of(number: u32) -> &'static str {
    NUMBERS.binary_search_by_key(&number, |known| known.0).map_or("58000", |at| NUMBERS[at].1)
}

/// What a number means, for the manual; `None` if it is not used.
pub fn meaning_of(number: u32) -> Option<&'static str> {
    let at = NUMBERS.binary_search_by_key(&number, |known| known.0).ok()?;
    Some(NUMBERS[at].2)
}

/// Every number in use, in order: number, SQLSTATE, meaning.
pub const NUMBERS: &[(u32, &str, &str)] = &[
    (1, "23505", "another row has the key"),
    (26, "22023", "this is not the number of a session"),
    (27, "55006", "a session cannot end itself"),
    (29, "55000", "the session is not that of a client"),
    (30, "42704", "session does not exist"),
    (54, "55P03", "somebody else has the lock"),
    (60, "40P01", "transactions wait for each other"),
    (68, "22023", "value of a parameter outside its range"),
    (96, "22023", "value of a parameter not among those allowed"),
    (227, "XX001", "the control data of the redo log are damaged"),
    (258, "55000", "the redo log is not archived"),
    (272, "58030", "an archive of redo cannot be written or read"),
    (301, "22023", "redo cannot be kept there"),
    (308, "58P01", "an archive of redo is not there"),
    (313, "58030", "media of the redo log are missing"),
    (334, "XX001", "an archive of redo is damaged"),
    (336, "22023", "size of a log file not possible"),
    (338, "55000", "the control data are older than the redo log"),
    (340, "58000", "the redo log has stopped"),
    (341, "XX001", "a log file belongs elsewhere"),
    (345, "58030", "I/O on the redo log failed"),
    (350, "55006", "log group needs to be archived"),
    (353, "XX001", "acknowledged redo is damaged"),
    (354, "XX001", "a block of the redo log contradicts itself"),
    (359, "42704", "log group does not exist"),
    (360, "42704", "redo medium does not exist"),
    (361, "55000", "too few redo media would be left"),
    (363, "XX001", "an archive belongs elsewhere"),
    (600, "XX000", "internal error"),
    (900, "42601", "statement not understood"),
    (902, "42704", "there is no type of that name"),
    (922, "42601", "option missing or not understood"),
    (942, "42P01", "table or view does not exist"),
    (955, "42P07", "name already used by a table"),
    (972, "42622", "name too long"),
    (1013, "57014", "cancelled by the user"),
    (1092, "58000", "the store of rows has stopped"),
    (1113, "55000", "a file is older than the redo log"),
    (1115, "58030", "I/O on the heap failed"),
    (1130, "58P02", "the heap is of another database"),
    (1184, "42710", "log group exists already"),
    (1210, "XX001", "the head of the heap is damaged"),
    (1378, "22023", "block size of redo not possible there"),
    (1410, "42704", "no such row"),
    (1435, "3F000", "schema does not exist"),
    (1450, "54000", "value too long for a key"),
    (1531, "55000", "the redo log is open already"),
    (1555, "72000", "snapshot too old"),
    (1567, "55000", "a redo log has at least two groups"),
    (1577, "42710", "redo would be kept twice in one place"),
    (1578, "XX001", "a page of rows is damaged"),
    (1623, "55006", "log group is the current one"),
    (1624, "55006", "log group is needed for crash recovery"),
    (1652, "53100", "no room for temporary data"),
    (1653, "53100", "no room for the heap"),
    (1918, "42704", "role does not exist"),
    (1920, "42P06", "schema exists already"),
    (1922, "2BP01", "something is in the schema"),
    (2017, "22023", "integer needed"),
    (2065, "42704", "no such parameter"),
    (2095, "55P02", "parameter cannot be changed while running"),
    (2097, "22023", "parameter not changed: the value is not valid"),
    (2289, "42P01", "sequence does not exist"),
    (3001, "0A000", "not in this version"),
    (4031, "53200", "memory budget used up"),
    (8004, "2200H", "a sequence has no value left"),
    (8177, "40001", "others have changed the same"),
    (15001, "42704", "disk group missing or not mounted"),
    (15005, "42710", "name already used by an alias"),
    (15006, "42704", "there is no template of that name"),
    (15007, "42710", "template name already used"),
    (15008, "42809", "a template of the system stays"),
    (15010, "42710", "disk name already used"),
    (15012, "58P01", "file does not exist"),
    (15013, "55006", "disk group already mounted"),
    (15014, "55006", "disk_string would not find a disk in use"),
    (15017, "58000", "disk group cannot be mounted"),
    (15018, "58000", "disk group cannot be created"),
    (15020, "42710", "one disk found under two paths"),
    (15025, "58030", "disk could not be opened"),
    (15027, "55006", "dismount refused: files are open"),
    (15028, "55006", "file in use, not dropped"),
    (15029, "55006", "disk already mounted"),
    (15030, "42710", "disk group name already used"),
    (15031, "58P01", "disk path matches nothing"),
    (15032, "58000", "not all alterations performed"),
    (15033, "55006", "disk belongs to another group"),
    (15034, "22023", "FORCE not needed for this disk"),
    (15036, "58030", "disk is truncated"),
    (15038, "22023", "disk does not match its group: AU, sector or block size"),
    (15039, "55000", "disk group not dropped"),
    (15040, "58000", "disk group incomplete"),
    (15041, "53100", "no room in the disk group"),
    (15042, "58030", "a disk of the group is missing"),
    (15049, "XX001", "check found errors"),
    (15053, "55006", "disk group has files: INCLUDING CONTENTS needed"),
    (15054, "42704", "disk is not in this group"),
    (15063, "58000", "too few disks found for the group"),
    (15066, "55000", "taking the disk offline may lose data"),
    (15067, "22023", "not possible with this redundancy"),
    (15071, "55000", "disk is being dropped already"),
    (15072, "22023", "more failure groups needed"),
    (15075, "42704", "disk is not found, or is not the one that left"),
    (15078, "58000", "disk group was dismounted by force"),
    (15080, "58030", "I/O failed"),
    (15081, "58030", "I/O could not be submitted"),
    (15084, "55000", "disk is offline: DROP DISK needs FORCE"),
    (15121, "42602", "bad disk group name"),
    (15124, "42602", "bad file or alias name"),
    (15130, "55006", "disk group is being dismounted"),
    (15131, "58030", "no copy can be read or written"),
    (15173, "58P01", "directory entry does not exist"),
    (15177, "55006", "directory is not empty"),
    (15196, "XX001", "metadata block is damaged"),
    (15238, "22023", "value of an attribute or option not allowed"),
    (15242, "55P02", "attribute is fixed when the group is created"),
    (15281, "55000", "disk is not away"),
    (15335, "XX001", "metadata is damaged"),
    (22922, "XX001", "a long value is missing"),
    (27038, "58P02", "file already exists"),
    (27041, "58030", "file cannot be opened"),
    (27048, "58P02", "file is of another database"),
    (27072, "58030", "temporary data cannot be written or read"),
    (30006, "55P03", "a lock was waited for too long"),
    (32001, "55000", "no cellar.toml in use"),
    (70040, "XX001", "a structure of a disk group is damaged"),
    (70041, "25006", "the database is open read-only"),
    (70101, "55006", "another process has the directory and does not answer"),
    (70102, "58P02", "directory exists already"),
    (70103, "58P01", "not a Cellar directory"),
    (70104, "08P01", "the process that has the directory speaks another version"),
    (70105, "08006", "the process that has the directory went away"),
    (70106, "42501", "the socket belongs to another user"),
    (70107, "F0000", "cellar.toml is damaged"),
    (70108, "XX001", "the catalog is damaged"),
    (70109, "0A000", "written by a newer version"),
    (70110, "58030", "the system refused"),
    (70111, "53100", "no room on the file system below"),
    (70112, "0A000", "not supported here"),
    (70113, "08P01", "request not understood"),
    (70114, "55000", "disk is not being dropped"),
    (70115, "55000", "rebalance is stopped"),
    (70116, "55000", "a scrub is under way"),
    (70117, "XX001", "not a file of md_backup"),
    (70118, "42809", "not possible with a table of this kind"),
    (70119, "XX001", "a file of a columnar table is missing"),
    (70120, "55000", "the disk group of a table is not mounted"),
    (70123, "58030", "a segment cannot be written"),
    (70124, "XX001", "a row group is damaged on every copy"),
    (70125, "58030", "a row group cannot be read"),
    (70126, "58000", "a scan cannot be carried out"),
    (70130, "53000", "this process or machine has nothing left of what is needed"),
    (70131, "XX001", "disks of a group tell different histories"),
    (70150, "54000", "record longer than the redo log takes"),
    (70151, "22023", "value for the redo log out of its range"),
    (70152, "40003", "whether a record is durable is not known"),
    (70153, "XX001", "the redo log is divergent"),
    (70154, "54000", "the redo log has been opened too often within one group"),
    (70155, "55006", "redo medium is in use"),
    (70156, "58030", "redo medium failed while it caught up"),
    (70160, "55000", "there is no redo log"),
    (70161, "58000", "the redo log cannot be opened"),
    (70162, "55000", "the heap is not open"),
    (70163, "58P01", "the file of the heap is missing"),
    (70164, "40001", "the catalog was changed meanwhile"),
    (70200, "54000", "row too long"),
    (70201, "22023", "file too small for the heap"),
    (70202, "58000", "no object of this kind in the heap"),
    (70203, "58000", "record of redo unfit for the heap"),
    (70204, "XX001", "row too short"),
    (70205, "22023", "shape of the heap not possible"),
    (70206, "54000", "value too long"),
    (70207, "54000", "transaction too large"),
    (70208, "58000", "a load into the heap was broken off"),
    (70209, "XX001", "sorted keys are damaged"),
    (70214, "25006", "tables can only be read after RECOVER FORCE"),
    (70218, "0A000", "not within a snapshot"),
];

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    #[test]
    fn numbers_are_in_order_and_sqlstates_have_five_characters() {
        assert!(NUMBERS.windows(2).all(|pair| pair[0].0 < pair[1].0));
        assert!(NUMBERS.iter().all(|(_, state, _)| state.len() == 5));
        assert_eq!(sqlstate_of(15041), "53100");
        assert_eq!(sqlstate_of(2), "58000");
        assert_eq!(meaning_of(2), None);
    }

    #[test]
    fn a_stack_prints_outermost_first_with_five_digits_and_the_next_step() {
        let error = Error::new(96, "value \"x\" not allowed").under(2097, "not changed").hint("y");
        let text = "CELLAR-02097: not changed\nCELLAR-00096: value \"x\" not allowed\nNext: y";
        assert_eq!(error.to_string(), text);
        assert_eq!((error.number(), error.sqlstate()), (96, "22023"));
        assert!(error.has(2097));
    }

    #[test]
    fn an_io_error_keeps_device_and_place() {
        let device: Arc<str> = "/dev/sdz".into();
        let error: Error = IoError::new(IoErrorKind::Media, &device, Op::Read, 8192, 4096).into();
        assert_eq!(error.number(), 15080);
        let text = error.to_string();
        assert!(text.contains("4096 bytes at 8192 on /dev/sdz"), "{text}");
        let error: Error = IoError::new(IoErrorKind::Permission, &device, Op::Open, 0, 0).into();
        assert_eq!(error.number(), 15025);
        assert!(error.next_step().unwrap().to_string().contains("/dev/sdz"));
    }

    #[test]
    fn a_process_without_descriptors_is_told_its_limit() {
        let device: Arc<str> = "/dev/sdz".into();
        let kind = IoErrorKind::Exhausted { what: OPEN_FILES };
        let of_disk: Error = IoError::new(kind, &device, Op::Open, 0, 0).into();
        let system = std::io::Error::from_raw_os_error(24);
        let of_file = Error::system("lock", std::path::Path::new("d"), &system);
        for error in [of_disk, of_file] {
            assert!(error.is_exhausted(), "{error}");
            assert!(error.to_string().contains("EMFILE, error 24"), "{error}");
            assert!(error.to_string().contains("ulimit -n 1024"), "{error}");
        }
    }
}
