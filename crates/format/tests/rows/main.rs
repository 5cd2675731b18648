//! Laws that rows keep: what is written is read again, whatever the columns that are wanted; keys are in the
//! order of the values; damaged bytes are errors.

mod damage;
mod errors;
mod keys;
mod round_trip;
mod table;
