//! Files outside the columnar tables: of the host and of groups, as queries read them and as COPY
//! and INSERT write them.

pub(crate) mod csv_format;
pub(crate) mod csv_options;
pub(crate) mod csv_sink;
pub(crate) mod diagnose;
pub(crate) mod host;
pub(crate) mod json_format;
pub(crate) mod parquet_check;
pub(crate) mod parquet_format;
pub(crate) mod parquet_trust;
pub(crate) mod partition;
pub(crate) mod place;
pub(crate) mod staged;
pub(crate) mod table;
pub(crate) mod temporary;
pub(crate) mod unchanged;
