//! A view as the catalog keeps it: its query as it was written.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

/// A view. The names and types of its columns are fixed: they are the schema of its table.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct View {
    /// Its query, as it was written.
    pub query: String,
    /// The names that the query gave its columns when the view was made.
    pub columns: Vec<String>,
    /// All tables and views that it reads, also through other views, and the columns of each that it needs.
    pub uses: BTreeMap<String, BTreeSet<String>>,
}
