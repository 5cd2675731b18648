//! A PostgreSQL server of our own, where its programs are installed, and sessions of it: psql as a child process.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

/// What a statement told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Seen {
    /// Rows, NULL as that word; `None`: of so many columns there is no row.
    Rows(Vec<Vec<String>>),
    /// So many rows were changed.
    Count(u64),
    /// The SQLSTATE.
    Failed(String),
}

/// A server, which stops with this.
pub struct Postgres {
    programs: PathBuf,
    directory: tempfile::TempDir,
}

impl Postgres {
    /// A new server; `None`, and a line that says so: there is no PostgreSQL.
    pub fn start() -> Option<Postgres> {
        let Some(programs) = programs() else {
            println!("SKIPPED: no PostgreSQL 15 in /usr/lib/postgresql/15/bin or PATH");
            return None;
        };
        // Its socket's name must be short.
        let directory = tempfile::tempdir_in("/tmp").unwrap();
        let everybody = std::fs::Permissions::from_mode(0o777);
        std::fs::set_permissions(directory.path(), everybody).unwrap();
        let postgres = Postgres { programs, directory };
        let data = postgres.data();
        postgres.own(
            "initdb",
            &["-D", &data, "-A", "trust", "-U", "test", "-E", "UTF8", "--locale=C", "-N"],
        );
        let options = format!(
            "-c listen_addresses= -c fsync=off -c max_connections=20 -k {}",
            postgres.socket()
        );
        let log = format!("{}/log", postgres.socket());
        postgres.own("pg_ctl", &["-D", &data, "-l", &log, "-o", &options, "-w", "start"]);
        Some(postgres)
    }

    fn socket(&self) -> String {
        self.directory.path().to_string_lossy().into_owned()
    }

    fn data(&self) -> String {
        format!("{}/data", self.socket())
    }

    /// Runs one of its programs as somebody who is not root: it refuses him.
    fn own(&self, program: &str, args: &[&str]) {
        let path = self.programs.join(program);
        let as_postgres = is_root();
        let mut command = match as_postgres {
            true => Command::new("setpriv"),
            false => Command::new(&path),
        };
        if as_postgres {
            command.args(["--reuid", "postgres", "--regid", "postgres", "--clear-groups"]);
            command.arg(&path);
        }
        command.args(args).current_dir(self.directory.path());
        let status = command.stdout(Stdio::null()).stderr(Stdio::null()).status().unwrap();
        assert!(status.success(), "{program} {args:?}");
    }

    /// A new database of that name.
    pub fn database(&self, name: &str) {
        assert_eq!(
            self.session("postgres").run(&format!("create database {name}")),
            Seen::Count(0)
        );
    }

    /// A session of a database.
    pub fn session(&self, database: &str) -> Psql {
        let mut command = Command::new(self.programs.join("psql"));
        let args =
            ["-X", "-q", "-A", "-F", "\u{1f}", "-P", "footer=off", "-P", "null=NULL", "-U", "test"];
        command.args(args).args(["-h", &self.socket(), database]);
        let command = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().unwrap();
        let (input, output) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        Psql { child, input: Some(input), output: BufReader::new(output) }
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        let data = self.data();
        if Path::new(&data).join("postmaster.pid").exists() {
            self.own("pg_ctl", &["-D", &data, "-m", "immediate", "-w", "stop"]);
        }
    }
}

fn is_root() -> bool {
    Command::new("id").arg("-u").output().is_ok_and(|output| output.stdout == b"0\n")
}

fn programs() -> Option<PathBuf> {
    let known = PathBuf::from("/usr/lib/postgresql/15/bin");
    let path = std::env::var_os("PATH").unwrap_or_default();
    let all = std::iter::once(known).chain(std::env::split_paths(&path));
    let has = |at: &Path| ["initdb", "pg_ctl", "psql"].iter().all(|own| at.join(own).is_file());
    let found = all.into_iter().find(|at| has(at))?;
    let version = Command::new(found.join("pg_ctl")).arg("--version").output().ok()?;
    String::from_utf8_lossy(&version.stdout).contains(" 15.").then_some(found)
}

/// A session.
pub struct Psql {
    child: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
}

impl Psql {
    /// Runs a statement.
    pub fn run(&mut self, sql: &str) -> Seen {
        let asked = format!("{sql}\n;\n\\echo \u{2} :ERROR :SQLSTATE :ROW_COUNT\n");
        self.input.as_mut().unwrap().write_all(asked.as_bytes()).unwrap();
        let mut lines = Vec::new();
        loop {
            let mut line = String::new();
            assert!(self.output.read_line(&mut line).unwrap() > 0, "psql has gone: {sql}");
            let line = line.trim_end_matches('\n');
            let Some(end) = line.strip_prefix("\u{2} ") else {
                lines.push(line.to_owned());
                continue;
            };
            let [failed, sqlstate, count] = end.split(' ').collect::<Vec<_>>()[..] else {
                panic!("{sql}: {line}");
            };
            if failed == "true" {
                return Seen::Failed(sqlstate.to_owned());
            }
            if lines.is_empty() {
                return Seen::Count(count.parse().unwrap());
            }
            // What COPY gives has no names of columns.
            let head = if sql.to_ascii_lowercase().starts_with("copy") { 0 } else { 1 };
            let row = |line: &String| line.split('\u{1f}').map(str::to_owned).collect();
            return Seen::Rows(lines.iter().skip(head).map(row).collect());
        }
    }
}

impl Drop for Psql {
    fn drop(&mut self) {
        drop(self.input.take());
        let _ = self.child.wait();
    }
}
