//! The register of wait events: Oracle's names where the meaning is the same, our own where not.

/// What kind of trouble a wait points to. Names and numbers are Oracle's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum WaitClass {
    /// Waits that should be rare in a healthy instance.
    Other = 0,
    /// Locks that the application takes.
    Application = 1,
    /// Something is too small or too slow for the load: log files, buffers.
    Configuration = 2,
    /// An administrator's command makes users wait.
    Administrative = 3,
    /// Internal structures.
    Concurrency = 4,
    /// Durability of a commit.
    Commit = 5,
    /// Nothing to do; left out of every percentage.
    Idle = 6,
    /// Bytes on their way to or from somebody else.
    Network = 7,
    /// Somebody waits for data.
    UserIo = 8,
    /// The instance's own reads and writes.
    SystemIo = 9,
    /// Held back on purpose by a scheduler.
    Scheduler = 10,
    /// Other members of a cluster.
    Cluster = 11,
    /// Waiting in a queue between parts.
    Queueing = 12,
}

impl WaitClass {
    /// Oracle's name of the class.
    pub const fn name(self) -> &'static str {
        match self {
            WaitClass::Other => "Other",
            WaitClass::Application => "Application",
            WaitClass::Configuration => "Configuration",
            WaitClass::Administrative => "Administrative",
            WaitClass::Concurrency => "Concurrency",
            WaitClass::Commit => "Commit",
            WaitClass::Idle => "Idle",
            WaitClass::Network => "Network",
            WaitClass::UserIo => "User I/O",
            WaitClass::SystemIo => "System I/O",
            WaitClass::Scheduler => "Scheduler",
            WaitClass::Cluster => "Cluster",
            WaitClass::Queueing => "Queueing",
        }
    }

    /// `WAIT_CLASS#`.
    pub const fn number(self) -> u8 {
        self as u8
    }

    /// `WAIT_CLASS_ID`: a hash of the name, the same in every version.
    pub const fn id(self) -> u32 {
        stable_hash(self.name())
    }
}

/// What is known of an event before it ever happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EventDef {
    /// The name that users see.
    pub name: &'static str,
    /// What kind of trouble it points to.
    pub class: WaitClass,
    /// What P1, P2 and P3 mean; empty where one has no meaning.
    pub parameters: [&'static str; 3],
}

/// A wait event. The number may change between versions; [`id`](Event::id) does not.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Event(u16);

impl Event {
    /// How many events there are.
    pub const COUNT: usize = EVENTS.len();

    /// Every event, by number.
    pub fn all() -> impl ExactSizeIterator<Item = Event> {
        (0..EVENTS.len()).map(|number| Event(u16::try_from(number).unwrap_or(u16::MAX)))
    }

    /// The event of that name, in any case.
    pub fn by_name(name: &str) -> Option<Event> {
        Event::all().find(|event| event.name().eq_ignore_ascii_case(name))
    }

    /// `EVENT#`.
    pub const fn number(self) -> u16 {
        self.0
    }

    /// The entry of the register.
    pub const fn def(self) -> &'static EventDef {
        &EVENTS[self.0 as usize]
    }

    /// The name that users see.
    pub const fn name(self) -> &'static str {
        self.def().name
    }

    /// What kind of trouble it points to.
    pub const fn class(self) -> WaitClass {
        self.def().class
    }

    /// `EVENT_ID`: a hash of the name, the same in every version.
    pub const fn id(self) -> u32 {
        stable_hash(self.name())
    }

    /// The event with that number, for numbers that come from a slot.
    pub(crate) fn from_number(number: u64) -> Option<Event> {
        let number = u16::try_from(number).ok()?;
        (usize::from(number) < EVENTS.len()).then_some(Event(number))
    }
}

impl std::fmt::Display for Event {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

/// FNV-1a, 32 bits: short, and fixed for ever by its definition.
const fn stable_hash(text: &str) -> u32 {
    let bytes = text.as_bytes();
    let mut hash = 0x811c_9dc5_u32;
    let mut at = 0;
    while at < bytes.len() {
        hash = (hash ^ bytes[at] as u32).wrapping_mul(0x0100_0193);
        at += 1;
    }
    hash
}

macro_rules! events {
    ($($(#[$doc:meta])* $constant:ident = $name:literal, $class:ident, $parameters:expr;)*) => {
        #[expect(non_camel_case_types, reason = "the variants only number the constants of Event")]
        #[repr(u16)]
        enum Number { $($constant,)* }

        impl Event {
            $($(#[$doc])* pub const $constant: Event = Event(Number::$constant as u16);)*
        }

        /// The register, by `EVENT#`.
        static EVENTS: [EventDef; [$($name),*].len()] = [$(EventDef {
            name: $name,
            class: WaitClass::$class,
            parameters: $parameters,
        },)*];
    };
}

const BLOCK: [&str; 3] = ["file#", "block#", "blocks"];
const DIRECT: [&str; 3] = ["file number", "first dba", "block cnt"];
const BATCH: [&str; 3] = ["files", "blocks", "requests"];
const CELL: [&str; 3] = ["cellhash#", "diskhash#", "bytes"];
const DISK: [&str; 3] = ["disk#", "offset", "bytes"];
const GROUP: [&str; 3] = ["group#", "", ""];
const NONE: [&str; 3] = ["", "", ""];

events! {
    /// A read of one block into the cache that somebody waits for.
    DB_FILE_SEQUENTIAL_READ = "db file sequential read", UserIo, BLOCK;
    /// One read of many blocks into scattered buffers of the cache.
    DB_FILE_SCATTERED_READ = "db file scattered read", UserIo, BLOCK;
    /// A batch of reads that are not neighbours; waits for all.
    DB_FILE_PARALLEL_READ = "db file parallel read", UserIo, ["files", "blocks", "requests"];
    /// The write of one block by the session that needs it, such as a header.
    DB_FILE_SINGLE_WRITE = "db file single write", UserIo, BLOCK;
    /// A batch of writes of changed pages.
    DB_FILE_PARALLEL_WRITE = "db file parallel write", SystemIo,
        ["requests", "interrupt", "timeout"];
    /// The submission of a batch of writes, which should take no time.
    DB_FILE_ASYNC_IO_SUBMIT = "db file async I/O submit", SystemIo,
        ["requests", "interrupt", "timeout"];
    /// A read in flight that bypasses the cache.
    DIRECT_PATH_READ = "direct path read", UserIo, DIRECT;
    /// A write in flight that bypasses the cache.
    DIRECT_PATH_WRITE = "direct path write", UserIo, DIRECT;
    /// As direct path read, from a spill file.
    DIRECT_PATH_READ_TEMP = "direct path read temp", UserIo, DIRECT;
    /// As direct path write, to a spill file.
    DIRECT_PATH_WRITE_TEMP = "direct path write temp", UserIo, DIRECT;
    /// A session waits for its commit to be durable.
    LOG_FILE_SYNC = "log file sync", Commit, ["buffer#", "sync scn", ""];
    /// Redo on its way to all media.
    LOG_FILE_PARALLEL_WRITE = "log file parallel write", SystemIo, BATCH;
    /// The write of a log header.
    LOG_FILE_SINGLE_WRITE = "log file single write", SystemIo, ["log#", "block#", "blocks"];
    /// Reading the log: recovery, archiving.
    LOG_FILE_SEQUENTIAL_READ = "log file sequential read", SystemIo, ["log#", "block#", "blocks"];
    /// No room for more redo in memory.
    LOG_BUFFER_SPACE = "log buffer space", Configuration, NONE;
    /// Waiting for the next log to be usable.
    LOG_FILE_SWITCH_COMPLETION = "log file switch completion", Configuration, NONE;
    /// The next log still protects pages that have not been written.
    LOG_FILE_SWITCH_CHECKPOINT_INCOMPLETE = "log file switch (checkpoint incomplete)",
        Configuration, NONE;
    /// The next log has not been archived.
    LOG_FILE_SWITCH_ARCHIVING_NEEDED = "log file switch (archiving needed)", Configuration, NONE;
    /// A read of control data.
    CONTROL_FILE_SEQUENTIAL_READ = "control file sequential read", SystemIo, BLOCK;
    /// A write of all copies of control data.
    CONTROL_FILE_PARALLEL_WRITE = "control file parallel write", SystemIo, BATCH;
    /// No clean buffer in the cache.
    FREE_BUFFER_WAITS = "free buffer waits", Configuration, ["file#", "block#", "set-id#"];
    /// The page is being written; it may be changed afterwards.
    WRITE_COMPLETE_WAITS = "write complete waits", Configuration, ["file#", "block#", ""];
    /// Another session is already reading the same block.
    READ_BY_OTHER_SESSION = "read by other session", UserIo, ["file#", "block#", "class#"];
    /// Backup, restore, or validation of files.
    RMAN_BACKUP_RECOVERY_IO = "RMAN backup & recovery I/O", SystemIo, ["count", "intr", "timeout"];
    /// Opening, closing, measuring or resizing a file.
    DISK_FILE_OPERATIONS_IO = "Disk file operations I/O", UserIo,
        ["FileOperation", "fileno", "filetype"];
    /// More slots for I/O in the kernel.
    ASYNCH_DESCRIPTOR_RESIZE = "asynch descriptor resize", Other,
        ["outstanding #aio", "current aio limit", "new aio limit"];
    /// A change of names, sizes or places of files in a disk group.
    ASM_FILE_METADATA_OPERATION = "ASM file metadata operation", Other, ["msgop", "locn", ""];
    /// The background worker of disk groups has nothing to do.
    ASM_BACKGROUND_TIMER = "ASM background timer", Idle, NONE;
    /// Mounting a disk group.
    ASM_MOUNT_DISKGROUP = "ASM mount : wait for open", Administrative, ["disk group", "", ""];
    /// A row is locked by another transaction.
    ENQ_TX_ROW_LOCK = "enq: TX - row lock contention", Application,
        ["name|mode", "usn<<16 | slot", "sequence"];
    /// A table is locked by another transaction.
    ENQ_TM_CONTENTION = "enq: TM - contention", Application,
        ["name|mode", "object #", "table/partition"];
    /// A page in the cache is pinned in an incompatible mode.
    BUFFER_BUSY_WAITS = "buffer busy waits", Concurrency, ["file#", "block#", "class#"];
    /// Waiting for an internal lock of the catalog.
    LIBRARY_CACHE_LOCK = "library cache lock", Concurrency, ["handle address", "lock address", ""];
    /// The client has sent no request.
    SQLNET_MESSAGE_FROM_CLIENT = "SQL*Net message from client", Idle,
        ["driver id", "#bytes", ""];
    /// Results on their way to the client.
    SQLNET_MESSAGE_TO_CLIENT = "SQL*Net message to client", Network, ["driver id", "#bytes", ""];
    /// More of a long result on its way to the client.
    SQLNET_MORE_DATA_TO_CLIENT = "SQL*Net more data to client", Network,
        ["driver id", "#bytes", ""];
    /// More of a long request on its way from the client.
    SQLNET_MORE_DATA_FROM_CLIENT = "SQL*Net more data from client", Network,
        ["driver id", "#bytes", ""];
    /// A background worker has nothing to do.
    RDBMS_IPC_MESSAGE = "rdbms ipc message", Idle, ["timeout", "", ""];
    /// A session asked to sleep.
    PL_SQL_LOCK_TIMER = "PL/SQL lock timer", Idle, ["duration", "", ""];
    /// One block read from a cell.
    CELL_SINGLE_BLOCK_READ = "cell single block physical read", UserIo, CELL;
    /// Many blocks read from a cell at once.
    CELL_MULTIBLOCK_READ = "cell multiblock physical read", UserIo, CELL;
    /// Blocks that are not neighbours read from a cell.
    CELL_LIST_OF_BLOCKS_READ = "cell list of blocks physical read", UserIo,
        ["cellhash#", "diskhash#", "blocks"];
    /// Results of a scan that cells perform next to the data.
    CELL_SMART_TABLE_SCAN = "cell smart table scan", UserIo, ["cellhash#", "", ""];
    /// As cell smart table scan, over an index.
    CELL_SMART_INDEX_SCAN = "cell smart index scan", UserIo, ["cellhash#", "", ""];
    /// The plan of the resource manager holds the session back.
    RESMGR_CPU_QUANTUM = "resmgr:cpu quantum", Scheduler, ["location", "consumer group id", ""];
    /// The consumer of a queue between parts is slower than its producer.
    PX_DEQ_CREDIT_SEND_BLKD = "PX Deq Credit: send blkd", Queueing,
        ["sleeptime/senderid", "passes", "qref"];

    // Our own: what Oracle does not have, or means differently.

    /// A request waits in the scheduler of its disk before the kernel gets it.
    DISK_QUEUE = "disk queue", Scheduler, ["disk#", "class", "bytes"];
    /// A request is at the device.
    DISK_READ = "disk read", SystemIo, DISK;
    /// A request is at the device.
    DISK_WRITE = "disk write", SystemIo, DISK;
    /// A flush of a device's cache.
    DISK_FLUSH = "disk flush", SystemIo, ["disk#", "", ""];
    /// A discard of a range, or writing zeros to it.
    DISK_DISCARD = "disk discard", SystemIo, DISK;
    /// Regions are marked dirty before they are written.
    DIRTY_REGION_LOG_WRITE = "dirty region log write", SystemIo, ["group#", "regions", ""];
    /// The copies of a region are made equal again.
    MIRROR_RESYNC = "mirror resync", SystemIo, ["file#", "region", "bytes"];
    /// A write waits until a resync has left its region.
    MIRROR_RESYNC_REGION = "mirror resync region", Concurrency, ["file#", "region", ""];
    /// A bad copy is rewritten from a good one.
    MIRROR_REPAIR = "mirror repair", SystemIo, ["file#", "extent", "bytes"];
    /// A copy could not be read, and another one is read instead.
    MIRROR_READ_OTHER_COPY = "mirror read other copy", UserIo, ["file#", "extent", "bytes"];
    /// A block of checksums is read.
    CHECKSUM_BLOCK_READ = "checksum block read", SystemIo, ["disk#", "checksum block#", ""];
    /// Blocks of checksums are written.
    CHECKSUM_BLOCK_WRITE = "checksum block write", SystemIo, ["disk#", "blocks", ""];
    /// A record of a disk group's metadata becomes durable.
    METADATA_LOG_WRITE = "metadata log write", SystemIo, ["group#", "sequence", "bytes"];
    /// The whole state of a disk group's metadata is written.
    METADATA_CHECKPOINT = "metadata checkpoint", SystemIo, ["group#", "sequence", "bytes"];
    /// No room in the metadata log until a checkpoint is done.
    METADATA_LOG_SPACE = "metadata log space", Configuration, GROUP;
    /// A disk leaves: its absence must be durable before anything is acknowledged without it.
    DISK_OFFLINE_EPOCH_COMMIT = "disk offline (epoch commit)", Administrative,
        ["group#", "disk#", "epoch"];
    /// Pieces of a file are noted as written before their first write is acknowledged.
    PIECE_MAP_COMMIT = "piece map commit", SystemIo, ["group#", "pieces", ""];
    /// A freed extent waits for readers that may still use it.
    EXTENT_LEASE = "extent lease", Concurrency, ["disk#", "au", ""];
    /// Reading labels, superblocks and logs to mount a disk group.
    GROUP_RECOVERY_READ = "disk group recovery read", Administrative, GROUP;
    /// A rebalance holds back for foreground work.
    REBALANCE_PAUSE = "rebalance pause", Idle, GROUP;
    /// A statement waits for room in its memory budget.
    MEMORY_BUDGET = "memory budget", Configuration, ["consumer", "bytes", ""];
    /// A command waits for the process that has the directory.
    DIRECTORY_LOCK = "directory lock", Administrative, NONE;
    /// The catalog is replaced in its disk group.
    CATALOG_WRITE = "catalog write", SystemIo, ["serial", "bytes", ""];
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn names_and_ids_are_unique_and_fit_the_views() {
        let names: BTreeSet<String> = Event::all().map(|e| e.name().to_lowercase()).collect();
        assert_eq!(names.len(), Event::COUNT);
        let ids: BTreeSet<u32> = Event::all().map(Event::id).collect();
        assert_eq!(ids.len(), Event::COUNT);
        assert!(Event::all().all(|e| e.name().len() <= 64), "V$EVENT_NAME has V64");
    }

    #[test]
    fn an_event_is_found_by_name_in_any_case() {
        assert_eq!(Event::by_name("LOG FILE SYNC"), Some(Event::LOG_FILE_SYNC));
        assert_eq!(Event::by_name("no such wait"), None);
        assert_eq!(Event::LOG_FILE_SYNC.class().name(), "Commit");
    }

    #[test]
    fn ids_stay_what_they_were_in_the_first_version() {
        assert_eq!(stable_hash(""), 0x811c_9dc5);
        assert_eq!(stable_hash("a"), 0xe40c_292c);
        assert_eq!(stable_hash("foobar"), 0xbf9c_f968);
    }
}
