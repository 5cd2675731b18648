//! Health as rows.

use super::GroupHealth;
use crate::views::VHealth;

/// The rows of v$health.
pub fn rows(all: Vec<GroupHealth>) -> Vec<VHealth> {
    let row = |health: GroupHealth| VHealth {
        name: health.group,
        state: health.state,
        states: health.states.join(", "),
        words: health.words,
        action: health.action.map(|action| action.to_string()),
        work: health.work,
        safe: health.safe,
        checked: health.checked_words,
        redo: health.redo,
    };
    all.into_iter().map(row).collect()
}
