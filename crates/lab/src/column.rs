//! The columns of a report.

use serde::{Deserialize, Serialize};

/// The column of a report that a measurement fills.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Column {
    /// Modelled disks, in virtual time.
    Model,
    /// Disks of this machine.
    Here,
}
