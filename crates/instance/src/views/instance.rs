//! Rows about the instance itself.

use cellar_io::WallTime;

use super::row::view;

view! {
    /// A parameter and what is in force
    VParameter = "v$parameter" {
        num: u64 = "num", "Number of the parameter in this version";
        name: &'static str = "name", "Name";
        kind: u32 = "type", "1 flag, 2 text, 3 integer, 6 size";
        value: String = "value", "Value in force; sizes in bytes";
        display_value: String = "display_value", "Value in force, for people";
        is_default: &'static str = "isdefault", "TRUE if nobody set it";
        is_session_modifiable: &'static str = "isses_modifiable", "FALSE: none belongs to a session";
        is_system_modifiable: &'static str = "issys_modifiable",
            "IMMEDIATE, or FALSE if a change needs SCOPE=SPFILE and a restart";
        is_modified: &'static str = "ismodified", "SYSTEM_MOD if changed since the start, else FALSE";
        description: &'static str = "description", "What it governs";
    }
}

view! {
    /// A consumer of the instance's memory
    VMemoryBudget = "v$memory_budget" {
        name: &'static str = "name", "Consumer";
        limit_bytes: u64 = "limit_bytes", "The most it may take";
        used_bytes: u64 = "used_bytes", "What it has now";
        peak_bytes: u64 = "peak_bytes", "The most it ever had";
        refused: u64 = "refused", "How often it asked for more than its limit";
    }
}

view! {
    /// A session: a user's or one of the instance's own
    VSession = "v$session" {
        sid: u32 = "sid", "Number of the session";
        serial: u32 = "serial#", "Tells apart the sessions that had the same number";
        user_name: Option<String> = "username", "Whose session it is; NULL for the instance's own";
        status: &'static str = "status", "ACTIVE while it executes a statement, else INACTIVE";
        program: String = "program", "What runs in it";
        kind: &'static str = "type", "USER, BACKGROUND";
        sql_text: Option<String> = "sql_text", "The statement it executes";
        logon_time: WallTime = "logon_time", "When it began";
        last_call_et: u64 = "last_call_et", "Seconds since it became active or inactive";
        event_number: Option<u32> = "event#", "Number of the present or last wait event";
        event: Option<&'static str> = "event", "What it waits for, or waited for last";
        p1_text: Option<&'static str> = "p1text", "What p1 is";
        p1: Option<u64> = "p1", "First parameter of the wait";
        p2_text: Option<&'static str> = "p2text", "What p2 is";
        p2: Option<u64> = "p2", "Second parameter of the wait";
        p3_text: Option<&'static str> = "p3text", "What p3 is";
        p3: Option<u64> = "p3", "Third parameter of the wait";
        wait_class_id: Option<u32> = "wait_class_id", "Identifier of the class";
        wait_class_number: Option<u32> = "wait_class#", "Number of the class";
        wait_class: Option<&'static str> = "wait_class", "Class of the event";
        wait_time: Option<i64> = "wait_time", "0 while it waits; else the last wait in cs, -1 below 1 cs";
        seconds_in_wait: Option<u64> = "seconds_in_wait", "Seconds of the present wait";
        state: Option<&'static str> = "state",
            "WAITING, WAITED SHORT TIME (below 1 cs), WAITED KNOWN TIME";
        wait_time_micro: Option<u64> = "wait_time_micro", "Present wait so far, or the last one, in us";
        time_since_last_wait_micro: Option<u64> = "time_since_last_wait_micro",
            "Since the last wait ended, in us; 0 while it waits";
    }
}
