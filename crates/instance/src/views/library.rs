//! Rows about statements that are run by plans which sessions keep.

use super::row::view;

view! {
    /// A statement without its constants that sessions run by a plan they keep
    VSql = "v$sql" {
        sql_id: String = "sql_id", "Letters for its text";
        sql_text: String = "sql_text", "Its text, with $ and a number in place of each constant";
        executions: u64 = "executions", "How often it was run so";
        rows_processed: u64 = "rows_processed", "Rows that were returned or changed";
        elapsed_time: u64 = "elapsed_time", "Time that took, commits included, in microseconds";
        hits: u64 = "hits", "How often its plan was there";
        loads: u64 = "loads", "How often its plan was made";
    }
}

view! {
    /// What the caches of plans of all sessions have done
    VLibrarycache = "v$librarycache" {
        namespace: &'static str = "namespace", "What is kept";
        gets: u64 = "gets", "Plans that were looked for";
        hits: u64 = "gethits", "Of these the ones that were there";
        misses: u64 = "misses", "The others";
        evictions: u64 = "evictions", "Plans that went because there were too many";
        invalidations: u64 = "invalidations", "Plans that went because their table was changed";
    }
}
