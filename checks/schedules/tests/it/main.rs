//! The lock manager and the lane's hand-over in many orders of their steps. `CELLAR_SCHEDULES` says how many each.

#![expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]

mod env;
mod lane;
mod line;

// What follows is the store's own source.
#[allow(dead_code, reason = "the store uses more of it")]
#[path = "../../../../crates/heap/src/lane/handover.rs"]
mod handover;
#[allow(dead_code, unused_imports, unreachable_pub, reason = "the store uses more of it")]
#[path = "../../../../crates/heap/src/locks/mod.rs"]
mod locks;
#[allow(dead_code, reason = "the store uses more of it")]
#[path = "../../../../crates/heap/src/row_id.rs"]
mod row_id;
#[allow(dead_code, reason = "the store uses more of it")]
#[path = "../../../../crates/heap/src/statistics.rs"]
mod statistics;

/// Locks at which shuttle decides who goes on.
mod sync {
    pub(crate) use shuttle::sync::{Mutex, MutexGuard};
}

/// Runs it in many orders of its steps: by chance, and with few changes of who runs, which finds what needs a
/// certain one.
fn in_many_orders(run: fn()) {
    let orders = std::env::var("CELLAR_SCHEDULES").ok().and_then(|n| n.parse().ok());
    let orders = orders.unwrap_or(1000usize);
    shuttle::check_random(run, orders);
    shuttle::check_pct(run, orders, 3);
}
