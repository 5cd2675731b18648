//! Logins: stored passwords, the authentication rules, and the counters of logins.

pub mod hba;
mod logins;
pub mod scram;

pub use logins::Logins;
