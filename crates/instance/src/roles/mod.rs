//! Logins: passwords as they are kept, the rules of who needs one, and what is counted of logins.

pub mod hba;
mod logins;
pub mod scram;

pub use logins::Logins;
