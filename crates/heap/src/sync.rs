//! The locks of what is also run in all orders of its steps: `checks/schedules` has the same sources with locks of
//! its own here.

pub(crate) use std::sync::{Mutex, MutexGuard};
