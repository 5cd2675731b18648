//! Integration tests of storage alone, as whoever is above it opens it.

#![expect(clippy::unwrap_used, reason = "a test that cannot be set up has failed")]

mod machine;
mod opened;
