//! Integration tests of the disk group crate.

#![expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]

mod basic;
mod cancelled_calls;
mod crash_points;
mod dirty;
mod fixtures;
mod forecast;
mod fuzz;
mod golden;
mod images;
mod inspect;
mod joining;
mod labels;
mod leaving;
mod log;
mod membership;
mod model;
mod mount_quorum;
mod moves;
mod older;
mod rescue;
mod reserve;
mod resize;
mod returning;
mod scrub;
mod simulation;
mod slow;
mod store;
mod templates;

/// The exhaustive model allocates all the time: with this one it takes two thirds of it.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;
