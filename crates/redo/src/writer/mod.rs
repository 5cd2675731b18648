//! The open log: committers queue records, the first that finds a free slot writes for all.
//!
//! There is no log-writer task and no timer. A committer that finds a slot free takes what is
//! queued, forms the blocks without any lock and submits them to every medium in its own task.
//! Others wait; each completion acknowledges, in log order, what enough media have. Where the ring
//! is nearly full each commit is delayed a little, before all have to wait.

mod ahead;
mod clear;
mod commit;
mod control_writer;
mod flight;
mod groups;
mod idle_timer;
mod layout;
mod log;
mod media;
mod op;
mod queue;
mod reserve;
mod room;
mod skip;
mod state;
mod unit;
mod wait;

pub use commit::{Appended, Committed, Queued, Wait};
pub(crate) use control_writer::{forget_incarnations, header_of};
pub(crate) use layout::offset_of;
pub use log::Log;
pub(crate) use log::{Inner, Opening};
pub(crate) use op::may_pass;
pub use reserve::Reservation;
pub(crate) use reserve::Reserved;
pub(crate) use state::{GroupAt, Health, MediumAt, State};
