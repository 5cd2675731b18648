//! Wait events: each wait has a name, is counted in a log-linear histogram, and can be seen from
//! outside while it lasts.
//!
//! [`Waits`] is the registry of one instance, [`Session`] a handle on which waits begin, [`Wait`]
//! one wait. Nothing here reads a clock: the caller gives `now` in nanoseconds of a clock that
//! only goes forward.
//!
//! ```
//! use cellar_wait::{Event, Kind, Waits};
//!
//! let waits = Waits::new();
//! let session = waits.session("query", Kind::User);
//! let wait = session.begin(Event::DB_FILE_SEQUENTIAL_READ, [7, 42, 1], 1_000);
//! wait.end(81_000);
//!
//! let totals = waits.totals();
//! assert_eq!(totals[0].event, Event::DB_FILE_SEQUENTIAL_READ);
//! assert_eq!(totals[0].nanos, 80_000);
//! ```

pub mod events;
pub mod histogram;
mod registry;
mod session;
mod slot;

pub use events::{Event, EventDef, WaitClass};
pub use histogram::Histogram;
pub use registry::{EventTotals, Waits};
pub use session::{Session, Wait};
pub use slot::{Kind, SessionEventTotals, SessionView, WaitState};
