//! Reasons to refuse a disk that is present: its contents contradict what the group knows. Such a
//! disk counts as missing, for the data and for the proof of the newest history.

use std::fmt;

/// The reason why a disk is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// It is shorter than what the group uses of it.
    CutOff {
        /// Bytes that it has.
        bytes: u64,
        /// Bytes that the group uses.
        due: u64,
    },
    /// It is an older image of itself: the group's history continues past the end of the disk's.
    Older,
    /// It was used apart from the others: its history is another one.
    Apart,
    /// Either of these two: it holds no history that would tell which.
    OutOfDate,
}

impl Refused {
    /// In a word, as [`cellar_io::IoErrorKind::Gone`] has it.
    pub(crate) fn reason(self) -> &'static str {
        match self {
            Refused::CutOff { .. } => "it was cut off",
            Refused::Older => "an older image of the disk",
            Refused::Apart => "it was used apart from the others",
            Refused::OutOfDate => {
                "out of date: an older image of the disk, or it was used apart from the others"
            }
        }
    }

    /// Whether its content is consistent, though not the group's current content.
    pub fn is_of_another_time(self) -> bool {
        !matches!(self, Refused::CutOff { .. })
    }
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refused::CutOff { bytes, due } => {
                let size = |bytes: u64| match bytes.is_multiple_of(1 << 20) {
                    true => format!("{} MB", bytes >> 20),
                    false => format!("{bytes} bytes"),
                };
                write!(f, "it was cut off: it has {} of {}", size(*bytes), size(*due))
            }
            other => f.write_str(other.reason()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_disk_that_was_cut_off_tells_both_sizes() {
        let told = |bytes, due| Refused::CutOff { bytes, due }.to_string();
        assert_eq!(told(40 << 20, 64 << 20), "it was cut off: it has 40 MB of 64 MB");
        assert_eq!(told(513, 64 << 20), "it was cut off: it has 513 bytes of 64 MB");
    }
}
