//! The logs that are tried.

use std::fmt;
use std::path::{Path, PathBuf};

use cellar_redo::Quorum;

#[derive(Clone, Debug)]
pub struct Shape {
    pub media: usize,
    pub quorum: Quorum,
    pub block_size: u32,
    pub groups: u32,
    /// Of a group.
    pub blocks: u64,
    pub archiving: bool,
    pub committers: u32,
    /// The first medium is in memory, if the machine allows: the others are always late.
    pub fast: bool,
}

impl Shape {
    pub fn file_size(&self) -> u64 {
        8192 + self.blocks * u64::from(self.block_size)
    }

    /// The longest record: it needs more than one group now and then.
    pub fn longest(&self) -> usize {
        (self.blocks as usize * self.block_size as usize * 5 / 4).min(1 << 20)
    }

    /// How many copies each acknowledged block has, of so many media that take part.
    pub fn copies(&self, active: usize) -> usize {
        match self.quorum {
            Quorum::Of(copies) => usize::from(copies).min(active),
            Quorum::Auto => active.min(2),
        }
    }
}

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Shape { media, block_size, groups, blocks, committers, .. } = self;
        let copies = self.copies(*media);
        write!(f, "{copies} of {media} media, {groups} groups of {blocks} x {block_size}")?;
        write!(f, ", {committers} committers")?;
        if self.archiving {
            f.write_str(", archiving")?;
        }
        if self.fast {
            f.write_str(", one in memory")?;
        }
        Ok(())
    }
}

pub fn shapes() -> Vec<Shape> {
    let base = Shape {
        media: 1,
        quorum: Quorum::Auto,
        block_size: 512,
        groups: 3,
        blocks: 256,
        archiving: false,
        committers: 16,
        fast: false,
    };
    vec![
        base.clone(),
        Shape { media: 2, quorum: Quorum::Of(1), fast: true, ..base.clone() },
        Shape { media: 2, quorum: Quorum::Of(1), block_size: 4096, committers: 64, ..base.clone() },
        Shape { media: 2, block_size: 4096, blocks: 64, archiving: true, ..base.clone() },
        Shape { media: 2, archiving: true, committers: 4, ..base.clone() },
        Shape { media: 3, fast: true, committers: 64, ..base.clone() },
        Shape {
            media: 3,
            block_size: 4096,
            groups: 4,
            fast: true,
            archiving: true,
            ..base.clone()
        },
        Shape { media: 3, block_size: 4096, blocks: 1024, committers: 64, ..base },
    ]
}

/// Where the files of one log are.
#[derive(Clone, Debug)]
pub struct Place {
    pub dir: PathBuf,
    /// Of the first medium, where that is another.
    pub fast: Option<PathBuf>,
}

impl Place {
    pub fn file(&self, medium: usize, group: u32) -> PathBuf {
        let dir = self.fast.as_ref().filter(|_| medium == 0).unwrap_or(&self.dir);
        dir.join(format!("medium{medium}-group{group}"))
    }

    pub fn control(&self) -> PathBuf {
        self.dir.join("control")
    }

    pub fn archives(&self) -> PathBuf {
        self.dir.join("archives")
    }
}

/// Memory that looks like a directory, if there is some.
pub fn memory() -> Option<&'static Path> {
    Some(Path::new("/dev/shm")).filter(|dir| dir.is_dir())
}
