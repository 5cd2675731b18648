//! Lock modes, and which of them are compatible. Those of tables are PostgreSQL's.

/// How a lock is held.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum Mode {
    /// Of a table: it is read. DDL waits for it.
    AccessShare,
    /// Of a table: rows of it are locked.
    RowShare,
    /// Of a table: rows of it are changed.
    RowExclusive,
    /// Of a table: nobody else does what only one may do at a time while rows are changed.
    ShareUpdateExclusive,
    /// Of a table: nobody else changes rows. Of a row or key: nobody else changes it.
    Share,
    /// Of a table: nobody else changes rows or locks the table against changes.
    ShareRowExclusive,
    /// Of a table: others only read it. Of a row or key: nobody else changes or locks it.
    Exclusive,
    /// Of a table: nobody else has anything to do with it.
    AccessExclusive,
}

impl Mode {
    const ALL: [Mode; 8] = [
        Mode::AccessShare,
        Mode::RowShare,
        Mode::RowExclusive,
        Mode::ShareUpdateExclusive,
        Mode::Share,
        Mode::ShareRowExclusive,
        Mode::Exclusive,
        Mode::AccessExclusive,
    ];

    /// Its name, as people read it.
    pub fn name(self) -> &'static str {
        match self {
            Mode::AccessShare => "ACCESS SHARE",
            Mode::RowShare => "ROW SHARE",
            Mode::RowExclusive => "ROW EXCLUSIVE",
            Mode::ShareUpdateExclusive => "SHARE UPDATE EXCLUSIVE",
            Mode::Share => "SHARE",
            Mode::ShareRowExclusive => "SHARE ROW EXCLUSIVE",
            Mode::Exclusive => "EXCLUSIVE",
            Mode::AccessExclusive => "ACCESS EXCLUSIVE",
        }
    }

    /// The modes that another transaction must not hold, a bit for each. Source: PostgreSQL's manual,
    /// "Explicit Locking", table of conflicting lock modes.
    const fn conflicts(self) -> u8 {
        match self {
            Mode::AccessShare => 0b1000_0000,
            Mode::RowShare => 0b1100_0000,
            Mode::RowExclusive => 0b1111_0000,
            Mode::ShareUpdateExclusive => 0b1111_1000,
            Mode::Share => 0b1110_1100,
            Mode::ShareRowExclusive => 0b1111_1100,
            Mode::Exclusive => 0b1111_1110,
            Mode::AccessExclusive => 0b1111_1111,
        }
    }

    /// Whether two transactions may hold these at once.
    pub fn bears(self, other: Mode) -> bool {
        self.conflicts() & 1 << other as u8 == 0
    }

    /// Whether a holder of this mode has all rights that `other` gives.
    pub fn covers(self, other: Mode) -> bool {
        self.conflicts() & other.conflicts() == other.conflicts()
    }

    /// The weakest mode that gives the rights of both.
    pub fn with(self, other: Mode) -> Mode {
        let mut stronger = Mode::ALL.into_iter();
        let both = stronger.find(|mode| mode.covers(self) && mode.covers(other));
        both.unwrap_or(Mode::AccessExclusive)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conflicts_are_mutual_and_stronger_modes_cover_weaker_ones() {
        for a in Mode::ALL {
            for b in Mode::ALL {
                assert_eq!(a.bears(b), b.bears(a), "{a:?} {b:?}");
                let both = a.with(b);
                assert!(both.covers(a) && both.covers(b), "{a:?} {b:?} {both:?}");
                assert!(Mode::ALL.iter().all(|c| both.bears(*c) <= (a.bears(*c) && b.bears(*c))));
            }
        }
        assert_eq!(Mode::Share.with(Mode::RowExclusive), Mode::ShareRowExclusive);
        assert_eq!(Mode::Share.with(Mode::Exclusive), Mode::Exclusive);
        assert_eq!(Mode::Share.with(Mode::ShareUpdateExclusive), Mode::ShareRowExclusive);
        assert_eq!(Mode::RowExclusive.with(Mode::ShareUpdateExclusive), Mode::ShareUpdateExclusive);
    }
}
