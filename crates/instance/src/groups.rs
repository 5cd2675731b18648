//! Mounted disk groups, as the views show them and as the place of the catalog.

use std::collections::BTreeMap;

use cellar_diskgroup::state::Striping;
use cellar_diskgroup::{DiskInfo, DiskReturn, FileInfo, Group, PassProgress};
use cellar_io::WallTime;
use cellar_io::sched::{OpStats, SmallStats};
use cellar_storage::disks::OpenDisks;
use cellar_storage::words::{disk_state, first_pass, mode_status, pass_state};

pub use crate::catalog_file::{CATALOG_PATH, GroupCatalog};
use crate::instance::GroupViews;
use crate::views::asm::{
    VAsmAlias, VAsmAttribute, VAsmDisk, VAsmDiskIostat, VAsmDiskgroup, VAsmFile, VAsmOperation,
    VAsmTemplate, VIostatFile,
};

/// A mounted group under its number.
pub struct MountedGroup {
    group: Group,
    number: u32,
    instance: String,
    mounted: WallTime,
    disks: OpenDisks,
}

impl MountedGroup {
    /// `number` is the group's in this instance, from 1; `instance` its name for `v$` views.
    pub fn new(group: Group, number: u32, instance: &str) -> MountedGroup {
        let mounted = group.env().wall();
        MountedGroup {
            group,
            number,
            instance: instance.to_owned(),
            mounted,
            disks: OpenDisks::default(),
        }
    }

    /// Adds the disks as they are open here: what is in force on them, and what they did.
    #[must_use]
    pub fn with_disks(mut self, disks: OpenDisks) -> MountedGroup {
        self.disks = disks;
        self
    }

    /// The group.
    pub fn group(&self) -> &Group {
        &self.group
    }

    /// The number with the group's number in the highest 8 of 32 bits.
    fn compound(&self, number: u32) -> u64 {
        u64::from(self.number) << 24 | u64::from(number)
    }

    fn disk(&self, disk: &DiskInfo) -> VAsmDisk {
        let here = disk.path.is_some();
        let count = |name: &str| disk.counters.get(name).copied();
        VAsmDisk {
            group_number: self.number,
            disk_number: u32::from(disk.number),
            compound_index: self.compound(u32::from(disk.number)),
            mount_status: if here { "CACHED" } else { "MISSING" },
            header_status: if here { "MEMBER" } else { "UNKNOWN" },
            mode_status: mode_status(disk),
            state: self.disk_state(disk),
            repair_timer: self.repair_timer(disk),
            os_mb: None,
            total_mb: disk.total_mb,
            free_mb: disk.free_mb,
            name: Some(disk.name.clone()),
            failgroup: Some(disk.failgroup.clone()),
            path: disk.path.clone(),
            create_date: time(disk.created_ns),
            mount_date: here.then_some(self.mounted),
            reads: count("reads"),
            writes: count("writes"),
            read_errs: count("read_errs"),
            write_errs: count("write_errs"),
            read_timeout: count("read_timeout"),
            write_timeout: count("write_timeout"),
            read_time: count("read_ns").map(seconds),
            write_time: count("write_ns").map(seconds),
            bytes_read: count("bytes_read"),
            bytes_written: count("bytes_written"),
            sector_size: None,
            logical_sector_size: here.then_some(disk.logical_sector),
            failgroup_type: Some("REGULAR"),
        }
    }

    /// Seconds until a disk that is away is dropped; 0 for one that is not.
    fn repair_timer(&self, disk: &DiskInfo) -> u64 {
        self.group.drop_in(disk.number).map_or(0, |left| left.as_secs())
    }

    /// NORMAL, or what becomes of a disk that is leaving.
    fn disk_state(&self, disk: &DiskInfo) -> &'static str {
        disk_state(&self.group, disk)
    }

    /// The resync after a crash, if one is under way.
    fn resync_row(&self) -> Option<VAsmOperation> {
        let resync = self.group.resync();
        let left = resync.bytes_left;
        if left == 0 {
            return None;
        }
        let au = self.group.info().au_size;
        let done = resync.bytes_found.saturating_sub(left);
        let minutes = resync.since.as_secs_f64() / 60.0;
        // Until a little is done, nothing can be said about the rest.
        let per_minute = (done > 0 && minutes > 0.0).then(|| done as f64 / minutes);
        Some(VAsmOperation {
            group_number: self.number,
            operation: "REBAL",
            pass: "RESYNC",
            state: "RUN",
            power: None,
            actual: None,
            sofar: Some(done / au),
            est_work: Some(resync.bytes_found.div_ceil(au)),
            est_rate: per_minute.map(|rate| (rate / au as f64) as u64),
            bytes_left: Some(left),
            est_minutes: per_minute.map(|rate| (left as f64 / rate) as u64),
            error_code: None,
        })
    }

    /// Disks on their way back: a row for each.
    fn return_rows(&self) -> Vec<VAsmOperation> {
        let au = self.group.info().au_size;
        let row = |r: DiskReturn| VAsmOperation {
            group_number: self.number,
            operation: "REBAL",
            pass: "RESYNC",
            state: r.state(),
            power: Some(r.power),
            actual: None,
            sofar: Some(r.bytes_done / au),
            est_work: Some(r.bytes_total.div_ceil(au)),
            est_rate: r.rate().map(|rate| (rate * 60.0 / au as f64) as u64),
            bytes_left: Some(r.bytes_total.saturating_sub(r.bytes_done)),
            est_minutes: r.left.map(|left| left.as_secs().div_ceil(60)),
            error_code: r.error,
        };
        self.group.returns().into_iter().map(row).collect()
    }

    /// The scrub, if one is wanted.
    fn scrub_row(&self) -> Option<VAsmOperation> {
        let scrub = self.group.scrubbing()?;
        let au = self.group.info().au_size;
        Some(VAsmOperation {
            group_number: self.number,
            operation: "SCRUB",
            pass: "SCRUB",
            state: if scrub.waits.is_some() { "WAIT" } else { "RUN" },
            power: None,
            actual: None,
            sofar: Some(scrub.bytes_done / au),
            est_work: Some(scrub.bytes_total.div_ceil(au)),
            est_rate: scrub.rate.map(|rate| (rate * 60.0 / au as f64) as u64),
            bytes_left: Some(scrub.bytes_total.saturating_sub(scrub.bytes_done)),
            est_minutes: scrub.left().map(|left| left.as_secs().div_ceil(60)),
            error_code: None,
        })
    }

    /// The rebalance, if one is wanted: a row for each of its passes.
    fn rebalance_rows(&self) -> Vec<VAsmOperation> {
        let Some(operation) = self.group.operation() else { return Vec::new() };
        let minutes = |left: std::time::Duration| left.as_secs().div_ceil(60);
        let row = |pass: &'static str, now: Option<&PassProgress>| {
            let state = pass_state(&operation, now);
            let goes_on = state != "DONE";
            VAsmOperation {
                group_number: self.number,
                operation: "REBAL",
                pass,
                state,
                power: Some(operation.power),
                actual: Some(now.map_or(0, |now| now.actual)),
                sofar: now.map(|now| now.done),
                est_work: now.map(|now| now.total),
                est_rate: (goes_on && operation.rate > 0).then_some(operation.rate),
                bytes_left: now.map(|now| now.bytes_left),
                est_minutes: now.and_then(|now| now.left).map(minutes),
                error_code: operation.error.clone().filter(|_| goes_on),
            }
        };
        if operation.passes.is_empty() {
            // Before the first plan nothing is known of the work.
            return vec![row(first_pass(&self.group), None)];
        }
        operation.passes.iter().map(|now| row(now.pass.name(), Some(now))).collect()
    }

    fn iostat(&self, disk: &DiskInfo) -> Option<VAsmDiskIostat> {
        let count = |name: &str| disk.counters.get(name).copied();
        Some(VAsmDiskIostat {
            instance_name: self.instance.clone(),
            database_name: self.instance.clone(),
            group_number: self.number,
            disk_number: u32::from(disk.number),
            failgroup: disk.failgroup.clone(),
            reads: count("reads")?,
            writes: count("writes")?,
            read_errs: count("read_errs")?,
            write_errs: count("write_errs")?,
            read_timeout: count("read_timeout")?,
            write_timeout: count("write_timeout")?,
            read_time: count("read_ns").map(seconds)?,
            write_time: count("write_ns").map(seconds)?,
            bytes_read: count("bytes_read")?,
            bytes_written: count("bytes_written")?,
        })
    }

    fn file(&self, file: &FileInfo) -> VAsmFile {
        let unit = file.attributes.unit;
        VAsmFile {
            group_number: self.number,
            file_number: file.number,
            compound_index: self.compound(file.number),
            incarnation: u64::from(file.incarnation),
            block_size: unit,
            blocks: file.size.div_ceil(u64::from(unit.max(1))),
            bytes: file.size,
            space: file.space,
            kind: file.attributes.file_type.name().to_owned(),
            redundancy: match file.attributes.copies {
                0 | 1 => "UNPROT",
                2 => "MIRROR",
                _ => "HIGH",
            },
            striped: match file.attributes.striping {
                Striping::Coarse => "COARSE",
                Striping::Fine => "FINE",
            },
            creation_date: time(file.created_ns),
            modification_date: time(file.modified_ns),
            redundancy_lowered: if file.redundancy_lowered { "Y" } else { "N" },
        }
    }
}

impl GroupViews for MountedGroup {
    fn diskgroups(&self) -> Vec<VAsmDiskgroup> {
        let info = self.group.info();
        vec![VAsmDiskgroup {
            group_number: self.number,
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
        self.group.disks().iter().map(|disk| self.disk(disk)).collect()
    }

    fn disk_iostat(&self) -> Vec<VAsmDiskIostat> {
        self.group.disks().iter().filter_map(|disk| self.iostat(disk)).collect()
    }

    fn files(&self) -> Vec<VAsmFile> {
        self.group.files().iter().map(|file| self.file(file)).collect()
    }

    fn aliases(&self) -> Vec<VAsmAlias> {
        let incarnations: BTreeMap<u32, u64> = self
            .group
            .files()
            .iter()
            .map(|file| (file.number, u64::from(file.incarnation)))
            .collect();
        let mut listed = self.group.list("*", true);
        listed.sort_by(|a, b| a.path.cmp(&b.path));
        listed.dedup();
        let root = self.compound(0);
        let index: BTreeMap<&str, u64> =
            listed.iter().map(|entry| entry.path.as_str()).zip(root + 1..).collect();
        let row = |entry: &cellar_diskgroup::Listed| {
            let (parent, name) = entry.path.rsplit_once('/').unwrap_or(("", &entry.path));
            let own = index[entry.path.as_str()];
            VAsmAlias {
                name: name.to_owned(),
                group_number: self.number,
                file_number: entry.file,
                file_incarnation: entry.file.and_then(|file| incarnations.get(&file).copied()),
                alias_index: own,
                parent_index: index.get(parent).copied().unwrap_or(root),
                reference_index: if entry.file.is_none() { own } else { 0 },
                alias_directory: if entry.file.is_none() { "Y" } else { "N" },
                system_created: if entry.system { "Y" } else { "N" },
            }
        };
        listed.iter().map(row).collect()
    }

    fn attributes(&self) -> Vec<VAsmAttribute> {
        let attributes = self.group.attributes().into_iter();
        attributes
            .zip(1u64..)
            .map(|((name, (value, read_only)), index)| VAsmAttribute {
                name,
                value,
                group_number: self.number,
                attribute_index: index,
                read_only: if read_only { "Y" } else { "N" },
                system_created: "Y",
            })
            .collect()
    }

    fn templates(&self) -> Vec<VAsmTemplate> {
        let yes = |yes| if yes { "Y" } else { "N" };
        let rows = self.group.templates().into_iter().zip(1u64..);
        rows.map(|(template, entry_number)| VAsmTemplate {
            group_number: self.number,
            entry_number,
            name: template.name,
            redundancy: template.protection.name(),
            stripe: if template.striping == Striping::Fine { "FINE" } else { "COARSE" },
            unit: template.unit,
            checksums: yes(template.checksums),
            failgroup: template.failgroup,
            system: yes(template.system),
        })
        .collect()
    }

    fn operations(&self) -> Vec<VAsmOperation> {
        let resync = self.resync_row().into_iter().chain(self.return_rows());
        resync.chain(self.rebalance_rows()).chain(self.scrub_row()).collect()
    }

    /// How a disk was opened is known to whoever opened it, who shows it.
    fn iostat_files(&self) -> Vec<VIostatFile> {
        let disks = self.disks.all();
        disks
            .iter()
            .map(|d| {
                let stats = d.scheduled.stats();
                let (small_reads, large_reads) = by_size(&stats.read);
                let (small_writes, large_writes) = by_size(&stats.write);
                VIostatFile {
                    file_no: 0,
                    filetype_id: 0,
                    filetype_name: if d.below.is_file { "File Disk" } else { "Block Disk" }.into(),
                    file_name: Some(d.path.to_string_lossy().into_owned()),
                    small_read_megabytes: Some(small_reads.bytes >> 20),
                    small_write_megabytes: Some(small_writes.bytes >> 20),
                    large_read_megabytes: Some(large_reads.bytes >> 20),
                    large_write_megabytes: Some(large_writes.bytes >> 20),
                    small_read_reqs: Some(small_reads.requests),
                    small_write_reqs: Some(small_writes.requests),
                    large_read_reqs: Some(large_reads.requests),
                    large_write_reqs: Some(large_writes.requests),
                    small_read_servicetime: Some(small_reads.nanos / 1_000_000),
                    small_write_servicetime: Some(small_writes.nanos / 1_000_000),
                    large_read_servicetime: Some(large_reads.nanos / 1_000_000),
                    large_write_servicetime: Some(large_writes.nanos / 1_000_000),
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

/// What small requests came to, and all others.
fn by_size(all: &OpStats) -> (SmallStats, SmallStats) {
    let small = all.small;
    let large = SmallStats {
        requests: all.requests.saturating_sub(small.requests),
        bytes: all.bytes.saturating_sub(small.bytes),
        nanos: all.nanos.saturating_sub(small.nanos),
    };
    (small, large)
}

#[expect(clippy::cast_precision_loss, reason = "a time for people")]
fn seconds(nanos: u64) -> f64 {
    nanos as f64 / 1e9
}

fn time(unix_nanos: u64) -> Option<WallTime> {
    (unix_nanos > 0).then_some(WallTime { unix_nanos })
}
