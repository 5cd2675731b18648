//! Tests of the store on simulated disks.

#![expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]

mod arbitrary;
mod basic;
mod catalog;
mod counters;
mod filled;
mod found;
mod grow;
mod histories;
mod inspect;
mod isolation;
mod kept;
mod large;
mod life;
mod load;
mod long;
mod objects;
mod older;
mod on_group;
mod page_bytes;
mod prefix;
mod read_only;
mod refused;
mod ring;
mod rot;
mod small_scope;
mod spilled;
mod statement;
mod statistics;
mod support;
mod threads;
mod unlogged;
mod verify;
mod verify_long;
mod waits;
