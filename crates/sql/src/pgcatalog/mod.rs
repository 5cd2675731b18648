//! `pg_catalog` and `information_schema`: what PostgreSQL's clients ask a server's catalogs, answered
//! from the catalog as of the statement. See docs/pg-catalog.md.

mod acl;
mod ask;
mod calls;
mod constants;
mod definition;
mod expanded;
mod object;
mod provider;
mod qualified;
mod quoting;
mod relations;
mod rows;
mod said;
mod snapshot;
mod types;
mod value;
mod words;

pub(crate) use ask::Ask;
pub(crate) use calls::udfs;
pub(crate) use expanded::Expanded;

pub(crate) use provider::{INFORMATION, PG_CATALOG, System};
pub(crate) use rows::language::fits_class;
pub(crate) use words::rewrite;
