//! The list of settings that exist.

/// A setting.
#[derive(Debug)]
pub(super) struct Definition {
    /// Its name, as SHOW writes it.
    pub name: &'static str,
    pub kind: Kind,
    pub default: &'static str,
    /// Its description.
    pub about: &'static str,
}

/// The values that a setting may have.
#[derive(Debug)]
pub(super) enum Kind {
    /// On or off.
    Flag,
    /// Milliseconds, or another unit after the number.
    Time,
    /// An integer between these.
    Number(i64, i64),
    /// Any text.
    Text,
    /// A time zone.
    Zone,
    /// One of these words.
    OneOf(&'static [&'static str]),
    /// Only the default, for which these are synonyms.
    Only(&'static [&'static str]),
    /// It cannot be set.
    ReadOnly,
}

impl Kind {
    /// PostgreSQL's word for the kind of its values.
    pub fn word(&self) -> &'static str {
        match self {
            Kind::Flag => "bool",
            Kind::Time | Kind::Number(..) => "integer",
            Kind::OneOf(_) => "enum",
            Kind::Text | Kind::Zone | Kind::Only(_) | Kind::ReadOnly => "string",
        }
    }
}

const fn one(
    name: &'static str,
    kind: Kind,
    default: &'static str,
    about: &'static str,
) -> Definition {
    Definition { name, kind, default, about }
}

const METHODS: Kind = Kind::OneOf(&["heap", "columnar"]);

/// Sorted by name.
static KNOWN: &[Definition] = &[
    one("application_name", Kind::Text, "", "the program that uses the session"),
    one("bytea_output", Kind::Only(&[]), "hex", "how bytes are written"),
    one("cellar.fast_path", Kind::Flag, "on", "statements by key run without DataFusion"),
    one(
        "check_function_bodies",
        Kind::Flag,
        "on",
        "of no effect: there are no functions to create",
    ),
    one("client_encoding", Kind::Only(&["UTF-8", "UNICODE"]), "UTF8", "the encoding of texts"),
    one(
        "client_min_messages",
        Kind::OneOf(&[
            "debug5", "debug4", "debug3", "debug2", "debug1", "debug", "log", "notice", "warning",
            "error",
        ]),
        "notice",
        "which notices are told",
    ),
    one(
        "DateStyle",
        Kind::Only(&["ISO", "ISO,MDY", "ISO, YMD"]),
        "ISO, MDY",
        "how dates are written",
    ),
    one("default_ctas_access_method", METHODS, "columnar", "how CREATE TABLE AS makes tables"),
    one("default_table_access_method", METHODS, "heap", "how CREATE TABLE makes tables"),
    one(
        "default_tablespace",
        Kind::Only(&[]),
        "",
        "tables are in the disk group that TABLESPACE names",
    ),
    one(
        "default_transaction_deferrable",
        Kind::Only(&["false", "0"]),
        "off",
        "of SERIALIZABLE alone",
    ),
    one(
        "default_transaction_isolation",
        Kind::OneOf(&["read uncommitted", "read committed", "repeatable read"]),
        "read committed",
        "what the statements of a transaction see",
    ),
    one("default_transaction_read_only", Kind::Flag, "off", "transactions change nothing"),
    one(
        "extra_float_digits",
        Kind::Number(-15, 3),
        "1",
        "numbers are written so that they are read again",
    ),
    one(
        "idle_in_transaction_session_timeout",
        Kind::Time,
        "0",
        "how long a transaction may be idle",
    ),
    one("in_hot_standby", Kind::ReadOnly, "off", "the database follows no other"),
    one("integer_datetimes", Kind::ReadOnly, "on", "times are whole microseconds"),
    one("IntervalStyle", Kind::Only(&["postgres"]), "postgres", "how lengths of time are written"),
    one("is_superuser", Kind::ReadOnly, "on", "the role that is in force may do everything"),
    one("jit", Kind::Flag, "off", "of no effect: plans are not compiled"),
    one("lc_collate", Kind::ReadOnly, "C", "texts are in the order of their bytes"),
    one("lc_ctype", Kind::ReadOnly, "C", "what the letters of a text are"),
    one("lc_messages", Kind::Only(&["", "en_US.UTF-8", "C.UTF-8"]), "C", "the language of errors"),
    one("lock_timeout", Kind::Time, "0", "how long a lock is waited for"),
    one("max_identifier_length", Kind::ReadOnly, "63", "bytes of a name that PostgreSQL keeps"),
    one("max_index_keys", Kind::ReadOnly, "32", "columns of a key that PostgreSQL keeps"),
    one("password_encryption", Kind::Only(&[]), "scram-sha-256", "how passwords are kept"),
    one(
        "quote_all_identifiers",
        Kind::Flag,
        "off",
        "names are written in quotes, also where they need none",
    ),
    one("role", Kind::ReadOnly, "none", "the role that SET ROLE has chosen"),
    one("row_security", Kind::Flag, "on", "of no effect: there are no policies"),
    one("server_encoding", Kind::ReadOnly, "UTF8", "the encoding of texts in the database"),
    // Clients ask what they may rely on: it is PostgreSQL 15's protocol and dialect.
    one("server_version", Kind::ReadOnly, "15.0", "the PostgreSQL that clients take this for"),
    one("server_version_num", Kind::ReadOnly, "150000", "the same as a number"),
    one("session_authorization", Kind::ReadOnly, "cellar", "the role of the session"),
    one(
        "standard_conforming_strings",
        Kind::Only(&["true", "yes", "1"]),
        "on",
        "a backslash is a character",
    ),
    one("statement_timeout", Kind::Time, "0", "how long a statement may take"),
    one(
        "synchronize_seqscans",
        Kind::Flag,
        "on",
        "of no effect: each scan begins where its table begins",
    ),
    one(
        "synchronous_commit",
        Kind::Only(&["true", "yes", "1"]),
        "on",
        "a COMMIT is durable when it is done",
    ),
    one("TimeZone", Kind::Zone, "UTC", "in which timestamps with a time zone are read and written"),
    one(
        "xmloption",
        Kind::OneOf(&["content", "document"]),
        "content",
        "of no effect: there is no XML",
    ),
];

/// All settings, by name.
pub(super) fn all() -> impl Iterator<Item = &'static Definition> {
    KNOWN.iter()
}

/// The setting with a name, in any case.
pub(super) fn find(name: &str) -> Option<&'static Definition> {
    KNOWN.iter().find(|own| own.name.eq_ignore_ascii_case(name))
}
