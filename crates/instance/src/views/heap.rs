//! Rows about the heap: what was done to its tables and indexes, its buffer cache, its next opening.

use super::row::view;

view! {
    /// A statistic of a table or an index in the heap since that was opened
    VSegmentStatistics = "v$segment_statistics" {
        owner: String = "owner", "Its schema; SYS: what the database keeps for itself, or has no name";
        object: String = "object_name", "The table or index";
        part: Option<&'static str> = "subobject_name", "NULL: tables and indexes have no parts";
        number: u32 = "dataobj#", "Its number in the heap";
        object_type: Option<&'static str> = "object_type", "TABLE or INDEX; NULL: neither";
        statistic: &'static str = "statistic_name", "Name of the statistic; pages where it names nothing else";
        statistic_number: u32 = "statistic#", "Number of the statistic in this version";
        value: u64 = "value", "Its value";
    }
}

view! {
    /// The buffer cache, which has the pages of the heap, and what came of asking it since that was opened
    VBufferPoolStatistics = "v$buffer_pool_statistics" {
        name: &'static str = "name", "DEFAULT: there is one";
        block_size: u32 = "block_size", "Bytes of a page";
        capacity: u64 = "set_msize", "Pages that it is to hold";
        used: u64 = "used", "Pages that it holds: more only while more than that must stay";
        dirty: u64 = "dirty", "Pages of these that are newer than on disk";
        kept_images: u64 = "kept_images", "Older images of pages that snapshots may need, beside these";
        spilled_images: u64 = "spilled_images", "Older images that are in a TEMPFILE, as memory has no room for them";
        logical_reads: u64 = "logical_reads", "Times that somebody asked for a page";
        physical_reads: u64 = "physical_reads", "Pages that were read from disk";
        physical_writes: u64 = "physical_writes", "Pages that were written to disk, but for direct writes";
        changes: u64 = "db_block_change", "Changes that commits made to pages";
        busy_waits: u64 = "buffer_busy_wait", "Waits for a page that somebody else was reading";
        free_waits: u64 = "free_buffer_wait",
            "Waits since the instance began: for pages to be written, or older images to the TEMPFILE";
        hit_ratio: Option<f64> = "hit_ratio",
            "Share of logical_reads that found the page in memory, 0 to 1; NULL: nobody has asked";
    }
}

view! {
    /// What reading the heap back would take after a crash now
    VInstanceRecovery = "v$instance_recovery" {
        pages: u64 = "recovery_estimated_ios", "Pages that would be read, at most";
        redo: u64 = "actual_redo_blks", "Blocks of redo that would be read";
        redo_target: u64 = "target_redo_blks",
            "Blocks of redo that there may be: by recovery_target, or fewer as the log is short";
        target: u64 = "target_mttr", "Seconds that it may take: recovery_target";
        estimate: f64 = "estimated_mttr", "Seconds that it would take, as fast as the last time";
        written: u64 = "ckpt_block_writes", "Pages written so that it is no more, since the heap was opened";
    }
}
