//! Rows about the health of disk groups.

use super::row::view;

view! {
    /// A disk group, how it is and what to do about it
    VHealth = "v$health" {
        name: Option<String> = "name", "Name of the group; NULL where it is not known";
        state: &'static str = "state",
            "WHOLE, or the worst of what holds: NOT MOUNTED, STOPPED, DAMAGED, DEGRADED, ..";
        states: String = "states", "All that holds, the worst first, with commas; empty: nothing";
        words: String = "words", "What that is, in words";
        action: Option<String> = "action", "What to do; NULL: nothing";
        work: Option<String> = "work", "Work under way; NULL: none";
        safe: String = "safe", "What another failure would cost";
        checked: String = "checked", "When all was read last, and when it will be";
        redo: Option<String> = "redo", "The redo log, in the row of the first group";
    }
}
