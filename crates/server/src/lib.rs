//! The PostgreSQL wire protocol over an instance: connections, authentication, statements with and
//! without parameters, COPY.
//!
//! [`Server`] listens; each connection is a session of its own, with an engine of its own. Why messages
//! are parsed here and not by a library: docs/decisions/2026-11-28-the-wire.md.

#![cfg(feature = "engine")]

mod access;
mod cancel;
mod error;
mod listen;
mod login;
mod login_throttle;
mod peer;
mod secret;
mod session;
mod shared;
mod socket;
mod stop;
mod tls;
mod values;
mod wire;

pub use error::Error;
pub use listen::{Options, Server};
pub use tls::make as make_certificate;
