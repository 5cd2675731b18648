//! Runs of fio on the raw device, and on rivals.

use std::process::Command;

/// A run of fio.
#[derive(Clone, Debug)]
pub struct Fio {
    /// The files, each with its own jobs.
    pub files: Vec<String>,
    /// `randread`, `read`, `randwrite`.
    pub how: &'static str,
    /// Bytes of a request.
    pub block: u64,
    /// Requests in flight per job.
    pub depth: usize,
    /// Jobs per file.
    pub jobs: usize,
    /// First byte used.
    pub offset: u64,
    /// Bytes used.
    pub size: u64,
    /// Seconds; 0: one pass through the file.
    pub seconds: u64,
    /// fdatasync after each write.
    pub sync: Sync,
    /// fio's engine.
    pub engine: &'static str,
}

/// The sync after each write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sync {
    /// Nothing.
    No,
    /// fdatasync.
    Data,
    /// fsync.
    Full,
}

/// The results of fio.
#[derive(Clone, Copy, Debug)]
pub struct Result {
    /// Requests a second.
    pub iops: f64,
    /// Mean time of a request with its sync, in microseconds.
    pub mean_us: f64,
    /// Bytes a second.
    pub bandwidth: f64,
}

impl Fio {
    /// 4 KB requests of one job on one file.
    pub fn new(file: &str, how: &'static str, depth: usize, seconds: u64) -> Fio {
        Fio {
            files: vec![file.to_owned()],
            how,
            block: 4096,
            depth,
            jobs: 1,
            offset: 0,
            size: 0,
            seconds,
            sync: Sync::No,
            engine: "io_uring",
        }
    }

    /// Runs it.
    pub fn run(&self) -> Result {
        let mut command = Command::new("fio");
        command
            .args(["--direct=1", "--output-format=json", "--group_reporting"])
            .args(["--randrepeat=0", "--thread"])
            .arg(format!("--ioengine={}", self.engine))
            .arg(format!("--rw={}", self.how))
            .arg(format!("--bs={}", self.block))
            .arg(format!("--iodepth={}", self.depth))
            .arg(format!("--numjobs={}", self.jobs))
            .arg(format!("--offset={}", self.offset));
        if self.size > 0 {
            command.arg(format!("--size={}", self.size));
        }
        // One pass visits each block once; a timed run visits random blocks.
        if self.seconds > 0 {
            command.args(["--time_based", &format!("--runtime={}", self.seconds)]);
            command.arg("--norandommap");
        }
        match self.sync {
            Sync::No => {}
            Sync::Data => drop(command.arg("--fdatasync=1")),
            Sync::Full => drop(command.arg("--fsync=1")),
        }
        for (i, file) in self.files.iter().enumerate() {
            command.arg(format!("--name=j{i}")).arg(format!("--filename={file}"));
        }
        let output = command.output().expect("fio must be installed");
        assert!(output.status.success(), "fio: {}", String::from_utf8_lossy(&output.stderr));
        let json: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        let job = &json["jobs"][0];
        let side = &job[if self.how.contains("write") { "write" } else { "read" }];
        let iops = side["iops"].as_f64().unwrap();
        let in_flight = (self.depth * self.jobs * self.files.len()) as f64;
        Result {
            iops,
            // Little's law includes the sync, and fio's overhead in between.
            mean_us: match self.sync {
                Sync::No => side["lat_ns"]["mean"].as_f64().unwrap() / 1000.0,
                _ => in_flight * 1e6 / iops,
            },
            bandwidth: side["bw_bytes"].as_f64().unwrap(),
        }
    }
}
