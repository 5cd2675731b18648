//! The report of a scan on each condition: pushed down, or why not.

/// A condition of a query, and its outcome.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FilterOutcome {
    /// The condition, as DataFusion writes it.
    pub conjunct: String,
    /// Why it is evaluated on decoded rows; `None`: it is not.
    pub reason: Option<String>,
}
