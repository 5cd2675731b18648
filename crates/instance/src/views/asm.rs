//! Rows about disk groups. The group fills them; hot and cold regions do not exist here.

use cellar_io::WallTime;

use super::row::view;

view! {
    /// A disk group that was found or is mounted
    VAsmDiskgroup = "v$asm_diskgroup" {
        group_number: u32 = "group_number", "Number of the group in this instance; 0 if not mounted";
        name: String = "name", "Name, upper case";
        sector_size: u32 = "sector_size", "Physical sector size in bytes";
        logical_sector_size: u32 = "logical_sector_size", "Smallest legal request in bytes";
        block_size: u32 = "block_size", "Metadata block size in bytes";
        allocation_unit_size: u64 = "allocation_unit_size", "AU in bytes";
        state: &'static str = "state", "CONNECTED, BROKEN, UNKNOWN, DISMOUNTED, MOUNTED, QUIESCING";
        redundancy: &'static str = "type", "EXTERN, NORMAL, HIGH";
        total_mb: u64 = "total_mb", "Room of all disks, own metadata left out, in MB";
        free_mb: u64 = "free_mb", "Unallocated room of all disks in MB";
        required_mirror_free_mb: u64 = "required_mirror_free_mb",
            "Room that must stay free to mirror everything again after the worst failure, in MB";
        usable_file_mb: i64 = "usable_file_mb",
            "What can be written and still survive a failure group, mirrored, in MB; may be negative";
        offline_disks: u32 = "offline_disks", "Disks that do not serve";
    }
}

view! {
    /// A disk of a group, or one that could become one
    VAsmDisk = "v$asm_disk" {
        group_number: u32 = "group_number", "Group that has it mounted; 0 if none";
        disk_number: u32 = "disk_number", "Number in the group";
        compound_index: u64 = "compound_index", "Group number in the highest 8 of 32 bits, disk number";
        mount_status: &'static str = "mount_status", "MISSING, CLOSED, OPENED, CACHED, IGNORED, CLOSING";
        header_status: &'static str = "header_status",
            "UNKNOWN, CANDIDATE, INCOMPATIBLE, PROVISIONED, MEMBER, FORMER, CONFLICT, FOREIGN";
        mode_status: &'static str = "mode_status", "ONLINE, OFFLINE, SYNCING";
        state: &'static str = "state", "UNKNOWN, NORMAL, ADDING, DROPPING, HUNG, FORCING, DROPPED";
        os_mb: Option<u64> = "os_mb", "Size that the system tells in MB";
        total_mb: u64 = "total_mb", "Room for files, own metadata left out, in MB";
        free_mb: u64 = "free_mb", "Unallocated room in MB";
        name: Option<String> = "name", "Name in the group, upper case";
        failgroup: Option<String> = "failgroup", "Disks that fail together";
        path: Option<String> = "path", "Where it was found";
        create_date: Option<WallTime> = "create_date", "When it joined the group";
        mount_date: Option<WallTime> = "mount_date", "When its group was last mounted";
        reads: Option<u64> = "reads", "Reads since the mount";
        writes: Option<u64> = "writes", "Writes since the mount";
        read_errs: Option<u64> = "read_errs", "Reads that failed";
        write_errs: Option<u64> = "write_errs", "Writes that failed";
        read_timeout: Option<u64> = "read_timeout", "Reads that were not answered in time";
        write_timeout: Option<u64> = "write_timeout", "Writes that were not answered in time";
        read_time: Option<f64> = "read_time", "Time of all reads in s";
        write_time: Option<f64> = "write_time", "Time of all writes in s";
        bytes_read: Option<u64> = "bytes_read", "Bytes read";
        bytes_written: Option<u64> = "bytes_written", "Bytes written";
        sector_size: Option<u32> = "sector_size", "Physical sector size in bytes";
        logical_sector_size: Option<u32> = "logical_sector_size", "Smallest legal request in bytes";
        failgroup_type: Option<&'static str> = "failgroup_type", "REGULAR";
        repair_timer: u64 = "repair_timer", "Seconds until a disk that is away is dropped, else 0";
    }
}

view! {
    /// What one client of a group did on one disk
    VAsmDiskIostat = "v$asm_disk_iostat" {
        instance_name: String = "instname", "Instance";
        database_name: String = "dbname", "Client";
        group_number: u32 = "group_number", "Group";
        disk_number: u32 = "disk_number", "Number in the group";
        failgroup: String = "failgroup", "Disks that fail together";
        reads: u64 = "reads", "Reads";
        writes: u64 = "writes", "Writes";
        read_errs: u64 = "read_errs", "Reads that failed";
        write_errs: u64 = "write_errs", "Writes that failed";
        read_timeout: u64 = "read_timeout", "Reads that were not answered in time";
        write_timeout: u64 = "write_timeout", "Writes that were not answered in time";
        read_time: f64 = "read_time", "Time of all reads in s";
        write_time: f64 = "write_time", "Time of all writes in s";
        bytes_read: u64 = "bytes_read", "Bytes read";
        bytes_written: u64 = "bytes_written", "Bytes written";
    }
}

view! {
    /// A file of a group; its names are in v$asm_alias
    VAsmFile = "v$asm_file" {
        group_number: u32 = "group_number", "Group";
        file_number: u32 = "file_number", "Number in the group";
        compound_index: u64 = "compound_index", "Group number in the highest 8 of 32 bits, file number";
        incarnation: u64 = "incarnation", "Tells apart files that had the same number";
        block_size: u32 = "block_size", "The unit that is repaired as one, in bytes";
        blocks: u64 = "blocks", "Size in blocks";
        bytes: u64 = "bytes", "Size in bytes";
        space: u64 = "space", "Allocated bytes, all copies";
        kind: String = "type", "What it holds";
        redundancy: &'static str = "redundancy", "UNPROT, MIRROR, HIGH";
        striped: &'static str = "striped", "COARSE, FINE";
        creation_date: Option<WallTime> = "creation_date", "When it was made";
        modification_date: Option<WallTime> = "modification_date", "When it was last changed";
        redundancy_lowered: &'static str = "redundancy_lowered",
            "Y if a copy that should exist does not, N, or U: unknown";
    }
}

view! {
    /// A name in a group: directory, system name or alias
    VAsmAlias = "v$asm_alias" {
        name: String = "name", "The last part of the path";
        group_number: u32 = "group_number", "Group";
        file_number: Option<u32> = "file_number", "The file it names; NULL for a directory";
        file_incarnation: Option<u64> = "file_incarnation", "Incarnation of that file";
        alias_index: u64 = "alias_index", "Number of the entry";
        parent_index: u64 = "parent_index", "Number of the directory it is in";
        reference_index: u64 = "reference_index", "For a directory: parent_index of what is in it";
        alias_directory: &'static str = "alias_directory", "Y for a directory";
        system_created: &'static str = "system_created", "Y if no user chose the name";
    }
}

view! {
    /// An attribute of a mounted group
    VAsmAttribute = "v$asm_attribute" {
        name: String = "name", "Attribute";
        value: String = "value", "Value";
        group_number: u32 = "group_number", "Group";
        attribute_index: u64 = "attribute_index", "Number of the attribute";
        read_only: &'static str = "read_only", "Y if fixed when the group was created";
        system_created: &'static str = "system_created", "Y if it exists in every group";
    }
}

view! {
    /// What new files are, by type or by the template they name
    VAsmTemplate = "v$asm_template" {
        group_number: u32 = "group_number", "Group";
        entry_number: u64 = "entry_number", "Number of the template";
        name: String = "name", "Template";
        redundancy: &'static str = "redundancy", "UNPROT, MIRROR, HIGH";
        stripe: &'static str = "stripe", "COARSE, FINE";
        unit: u32 = "unit", "The smallest piece that is repaired as one, in bytes";
        checksums: &'static str = "checksums", "Y if each 4 KiB has a checksum";
        failgroup: Option<String> = "failgroup", "The failure group that files are confined to";
        system: &'static str = "system", "Y if it is that of a file type";
    }
}

view! {
    /// Long work in a group
    VAsmOperation = "v$asm_operation" {
        group_number: u32 = "group_number", "Group";
        operation: &'static str = "operation", "REBAL, REMIRROR, SCRUB";
        pass: &'static str = "pass", "RESYNC, REBUILD, REBALANCE, COMPACT, SCRUBBING";
        state: &'static str = "state", "WAIT: stopped by power 0; EST, RUN, ERRS";
        power: Option<u32> = "power", "Power asked for";
        actual: Option<u32> = "actual", "AUs in flight now";
        sofar: Option<u64> = "sofar", "AUs done";
        est_work: Option<u64> = "est_work", "AUs to be done in all";
        est_rate: Option<u64> = "est_rate", "AUs a minute";
        bytes_left: Option<u64> = "bytes_left", "Bytes still to be done";
        est_minutes: Option<u64> = "est_minutes", "Minutes left";
        error_code: Option<String> = "error_code", "Why it does not go on";
    }
}

view! {
    /// Requests and way of I/O of a file or a kind of files. Small is up to one block.
    VIostatFile = "v$iostat_file" {
        file_no: u32 = "file_no", "File number, 0 for a kind of files";
        filetype_id: u32 = "filetype_id", "Kind of files";
        filetype_name: String = "filetype_name", "Kind of files";
        file_name: Option<String> = "file_name", "Path of a disk that is a file, or of a device";
        small_read_megabytes: Option<u64> = "small_read_megabytes", "MB of small reads";
        small_write_megabytes: Option<u64> = "small_write_megabytes", "MB of small writes";
        large_read_megabytes: Option<u64> = "large_read_megabytes", "MB of large reads";
        large_write_megabytes: Option<u64> = "large_write_megabytes", "MB of large writes";
        small_read_reqs: Option<u64> = "small_read_reqs", "Small reads";
        small_write_reqs: Option<u64> = "small_write_reqs", "Small writes";
        large_read_reqs: Option<u64> = "large_read_reqs", "Large reads";
        large_write_reqs: Option<u64> = "large_write_reqs", "Large writes";
        small_read_servicetime: Option<u64> = "small_read_servicetime", "Time of small reads in ms";
        small_write_servicetime: Option<u64> = "small_write_servicetime", "Time of small writes in ms";
        large_read_servicetime: Option<u64> = "large_read_servicetime", "Time of large reads in ms";
        large_write_servicetime: Option<u64> = "large_write_servicetime", "Time of large writes in ms";
        asynch_io: &'static str = "asynch_io", "ASYNC_ON or ASYNC_OFF: what is in force";
        access_method: &'static str = "access_method", "ASM_MANAGED or OS_LIB";
        direct_io: Option<&'static str> = "direct_io", "DIRECT or BUFFERED: what is in force";
        engine: Option<&'static str> = "engine", "io_uring, libaio or sync: what is in force";
        note: Option<String> = "note", "Why it is not what was asked for";
    }
}
