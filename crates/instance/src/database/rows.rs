//! What a mounted group shows in the views.

use std::collections::BTreeMap;

use cellar_diskgroup::{DiskInfo, Group};
use cellar_io::{SharedEnv, WallTime};

use super::Mounted;
use crate::instance::GroupViews;
use crate::views::{
    VAsmAlias, VAsmAttribute, VAsmDisk, VAsmDiskIostat, VAsmDiskgroup, VAsmFile, VAsmOperation,
    VIostatFile,
};

/// A group in the views.
pub(super) struct GroupRows {
    mounted: Mounted,
    mounted_at: WallTime,
}

impl GroupRows {
    pub fn new(mounted: Mounted, env: &SharedEnv) -> GroupRows {
        GroupRows { mounted, mounted_at: env.wall() }
    }

    fn group(&self) -> &Group {
        &self.mounted.group
    }

    fn compound(&self, number: u32) -> u64 {
        u64::from(self.mounted.number) << 24 | u64::from(number)
    }
}

fn wall(unix_nanos: u64) -> Option<WallTime> {
    (unix_nanos != 0).then_some(WallTime { unix_nanos })
}

fn count(disk: &DiskInfo, name: &str) -> Option<u64> {
    disk.counters.get(name).copied()
}

fn seconds(disk: &DiskInfo, name: &str) -> Option<f64> {
    count(disk, name).map(|ns| ns as f64 / 1e9)
}

impl GroupViews for GroupRows {
    fn diskgroups(&self) -> Vec<VAsmDiskgroup> {
        let info = self.group().info();
        vec![VAsmDiskgroup {
            group_number: self.mounted.number,
            name: info.name,
            sector_size: info.sector_size,
            logical_sector_size: info.sector_size,
            block_size: 4096,
            allocation_unit_size: info.au_size,
            state: if info.stopped.is_some() { "BROKEN" } else { "MOUNTED" },
            redundancy: info.redundancy.short(),
            total_mb: info.total_mb,
            free_mb: info.free_mb,
            required_mirror_free_mb: info.required_mirror_free_mb,
            usable_file_mb: info.usable_file_mb,
            offline_disks: u32::try_from(info.offline_disks).unwrap_or(u32::MAX),
        }]
    }

    fn disks(&self) -> Vec<VAsmDisk> {
        let sector = self.group().info().sector_size;
        let rows = self.group().disks().into_iter().map(|d| VAsmDisk {
            group_number: self.mounted.number,
            disk_number: d.number.into(),
            compound_index: self.compound(d.number.into()),
            incarnation: None,
            mount_status: if d.path.is_some() { "CACHED" } else { "MISSING" },
            header_status: if d.path.is_some() { "MEMBER" } else { "UNKNOWN" },
            mode_status: if d.in_sync { "ONLINE" } else { "OFFLINE" },
            state: "NORMAL",
            os_mb: d.path.is_some().then_some(d.bytes >> 20),
            total_mb: d.total_mb,
            free_mb: d.free_mb,
            create_date: wall(d.created_ns),
            mount_date: d.path.is_some().then_some(self.mounted_at),
            reads: count(&d, "reads"),
            writes: count(&d, "writes"),
            read_errs: count(&d, "read_errs"),
            write_errs: count(&d, "write_errs"),
            read_timeout: count(&d, "read_timeout"),
            write_timeout: count(&d, "write_timeout"),
            read_time: seconds(&d, "read_ns"),
            write_time: seconds(&d, "write_ns"),
            bytes_read: count(&d, "bytes_read"),
            bytes_written: count(&d, "bytes_written"),
            sector_size: d.path.is_some().then_some(sector),
            logical_sector_size: (d.logical_sector != 0).then_some(d.logical_sector),
            failgroup_type: Some("REGULAR"),
            name: Some(d.name),
            failgroup: Some(d.failgroup),
            path: d.path,
        });
        rows.collect()
    }

    fn disk_iostat(&self) -> Vec<VAsmDiskIostat> {
        let disks = self.group().disks().into_iter().filter(|d| d.path.is_some());
        disks
            .map(|d| {
                let n = |name| count(&d, name).unwrap_or(0);
                let s = |name| seconds(&d, name).unwrap_or(0.0);
                VAsmDiskIostat {
                    instance_name: "cellar".to_owned(),
                    database_name: "cellar".to_owned(),
                    group_number: self.mounted.number,
                    disk_number: d.number.into(),
                    reads: n("reads"),
                    writes: n("writes"),
                    read_errs: n("read_errs"),
                    write_errs: n("write_errs"),
                    read_timeout: n("read_timeout"),
                    write_timeout: n("write_timeout"),
                    read_time: s("read_ns"),
                    write_time: s("write_ns"),
                    bytes_read: n("bytes_read"),
                    bytes_written: n("bytes_written"),
                    failgroup: d.failgroup.clone(),
                }
            })
            .collect()
    }

    fn files(&self) -> Vec<VAsmFile> {
        let files = self.group().files().into_iter();
        files
            .map(|f| VAsmFile {
                group_number: self.mounted.number,
                file_number: f.number,
                compound_index: self.compound(f.number),
                incarnation: f.incarnation.into(),
                block_size: f.attributes.unit,
                blocks: f.size.div_ceil(f.attributes.unit.into()),
                bytes: f.size,
                space: f.space,
                kind: f.attributes.file_type.name().to_owned(),
                redundancy: match f.attributes.copies {
                    1 => "UNPROT",
                    2 => "MIRROR",
                    _ => "HIGH",
                },
                striped: match f.attributes.striping {
                    cellar_diskgroup::state::Striping::Coarse => "COARSE",
                    cellar_diskgroup::state::Striping::Fine => "FINE",
                },
                creation_date: wall(f.created_ns),
                modification_date: wall(f.modified_ns),
                redundancy_lowered: if f.redundancy_lowered { "Y" } else { "N" },
            })
            .collect()
    }

    fn aliases(&self) -> Vec<VAsmAlias> {
        let incarnations: BTreeMap<u32, u32> =
            self.group().files().into_iter().map(|f| (f.number, f.incarnation)).collect();
        let listed = self.group().list("", true);
        // A directory's number is its place in the list; 0 is the root.
        let number_of: BTreeMap<&str, u64> = (1u64..)
            .zip(&listed)
            .filter(|(_, l)| l.file.is_none())
            .map(|(n, l)| (l.path.as_str(), n))
            .collect();
        let base = u64::from(self.mounted.number) << 24;
        (1u64..)
            .zip(&listed)
            .map(|(index, l)| {
                let (parent, name) = l.path.rsplit_once('/').unwrap_or(("", &l.path));
                let parent = number_of.get(parent).copied().unwrap_or(0);
                VAsmAlias {
                    name: name.to_owned(),
                    group_number: self.mounted.number,
                    file_number: l.file,
                    file_incarnation: l
                        .file
                        .and_then(|f| incarnations.get(&f))
                        .map(|i| u64::from(*i)),
                    alias_index: index,
                    parent_index: base | parent,
                    reference_index: base | if l.file.is_none() { index } else { 0xff_ffff },
                    alias_directory: if l.file.is_none() { "Y" } else { "N" },
                    system_created: if l.system { "Y" } else { "N" },
                }
            })
            .collect()
    }

    fn attributes(&self) -> Vec<VAsmAttribute> {
        let attributes = self.group().attributes();
        (1u64..)
            .zip(attributes)
            .map(|(index, (name, (value, read_only)))| VAsmAttribute {
                name,
                value,
                group_number: self.mounted.number,
                attribute_index: index,
                attribute_incarnation: 1,
                read_only: if read_only { "Y" } else { "N" },
                system_created: "Y",
            })
            .collect()
    }

    fn operations(&self) -> Vec<VAsmOperation> {
        let resync = self.group().resync();
        if resync.bytes_left == 0 {
            return Vec::new();
        }
        let au = self.group().info().au_size;
        vec![VAsmOperation {
            group_number: self.mounted.number,
            operation: "REBAL",
            pass: "RESYNC",
            state: "RUN",
            power: None,
            actual: None,
            sofar: 0,
            est_work: Some(resync.bytes_left.div_ceil(au)),
            est_rate: None,
            est_minutes: None,
            error_code: None,
        }]
    }

    fn iostat_files(&self) -> Vec<VIostatFile> {
        self.mounted
            .disks
            .iter()
            .map(|d| {
                let stats = d.scheduled.stats();
                // Sizes are counted by powers of two: up to 128 KiB is small.
                let split = |sizes: &[u64]| -> (u64, u64) {
                    let small: u64 = sizes.iter().take(18).sum();
                    (small, sizes.iter().skip(18).sum())
                };
                let (small_reads, large_reads) = split(&stats.read.sizes);
                let (small_writes, large_writes) = split(&stats.write.sizes);
                VIostatFile {
                    file_no: 0,
                    filetype_id: 0,
                    filetype_name: if d.below.is_file { "File Disk" } else { "Block Disk" }.into(),
                    file_name: Some(d.path.to_string_lossy().into_owned()),
                    small_read_megabytes: None,
                    small_write_megabytes: None,
                    large_read_megabytes: None,
                    large_write_megabytes: None,
                    small_read_reqs: Some(small_reads),
                    small_write_reqs: Some(small_writes),
                    large_read_reqs: Some(large_reads),
                    large_write_reqs: Some(large_writes),
                    small_read_servicetime: None,
                    small_write_servicetime: None,
                    large_read_servicetime: None,
                    large_write_servicetime: None,
                    asynch_io: if d.in_force.engine == "sync" { "ASYNC_OFF" } else { "ASYNC_ON" },
                    access_method: "ASM_MANAGED",
                    direct_io: Some(if d.in_force.direct { "DIRECT" } else { "BUFFERED" }),
                    engine: Some(match d.in_force.engine.as_str() {
                        "io_uring" => "io_uring",
                        "libaio" => "libaio",
                        _ => "sync",
                    }),
                    note: Some(d.in_force.remarks.join("; ")).filter(|r| !r.is_empty()),
                }
            })
            .collect()
    }
}
