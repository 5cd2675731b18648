//! Access to a disk as it is in force: the engine, and whether the page cache is bypassed.

use std::fmt;

/// How operations are handed to the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum EngineChoice {
    /// The first of those below that works.
    #[default]
    Auto,
    /// io_uring.
    IoUring,
    /// `io_submit`, as Oracle does.
    LibAio,
    /// A pool of threads that block in `preadv` and `pwritev`.
    Sync,
}

/// The engine and the access that a disk really has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EffectiveAccess {
    /// Never [`EngineChoice::Auto`].
    pub engine: EngineChoice,
    /// Whether the page cache is bypassed.
    pub direct: bool,
    /// Why this is not what was asked for, in words; empty if it is.
    pub remarks: Vec<String>,
}

impl fmt::Display for EngineChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            EngineChoice::Auto => "auto",
            EngineChoice::IoUring => "io_uring",
            EngineChoice::LibAio => "libaio",
            EngineChoice::Sync => "sync",
        })
    }
}

impl fmt::Display for EffectiveAccess {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let access = if self.direct { "direct" } else { "buffered" };
        write!(f, "{}, {access}", self.engine)?;
        for remark in &self.remarks {
            write!(f, "; {remark}")?;
        }
        Ok(())
    }
}
