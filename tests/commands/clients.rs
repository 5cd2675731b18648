//! Clients that people have, unmodified: each script of `tests/clients` against a server of its own, where the client
//! is installed and `CELLAR_CLIENTS` is 1, or names the beginning of the script. docs/clients.md says how.

#![cfg(feature = "sql")]

use std::path::Path;
use std::process::Command;

use crate::wire::served;

/// Python with the clients: that of `CELLAR_PYTHON`, else the first one.
fn python() -> String {
    std::env::var("CELLAR_PYTHON").unwrap_or_else(|_| "python3".to_owned())
}

/// Runs a script, whose last word is the port of the server; it must say that all is well. `needs`: a command that
/// ends well where the client is installed.
fn runs(script: &str, needs: (&str, &[&str]), program: (&str, &[&str])) {
    let wanted = std::env::var("CELLAR_CLIENTS").unwrap_or_default();
    if wanted != "1" && !wanted.split_whitespace().any(|client| script.starts_with(client)) {
        eprintln!("SKIPPED: {script}: CELLAR_CLIENTS, which is '{wanted}', does not name it");
        return;
    }
    let is_there = Command::new(needs.0).args(needs.1).output();
    if !is_there.is_ok_and(|output| output.status.success()) {
        eprintln!("SKIPPED: {script}: its client is not installed, see docs/clients.md");
        return;
    }
    let served = served();
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/clients");
    let mut command = Command::new(program.0);
    command.args(program.1).arg(folder.join(script)).arg(served.port.to_string());
    command.current_dir(served.dir.path()).env_remove("PGUSER").env_remove("PGDATABASE");
    let output = command.output().unwrap();
    let (told, errors) = (output.stdout, output.stderr);
    let (told, errors) = (String::from_utf8_lossy(&told), String::from_utf8_lossy(&errors));
    assert!(output.status.success() && told.starts_with("ok "), "{script}: {told}{errors}");
    served.end();
}

fn python_with(module: &str, script: &str) {
    let (python, import) = (python(), format!("import {module}"));
    runs(script, (&python, &["-c", &import]), (&python, &["-B"]));
}

#[test]
fn psycopg() {
    python_with("psycopg", "psycopg_types.py");
}

#[test]
fn asyncpg() {
    python_with("asyncpg", "asyncpg_types.py");
}

#[test]
fn sqlalchemy_and_alembic() {
    python_with("alembic, sqlalchemy, psycopg", "reflection.py");
}

#[test]
fn django() {
    python_with("django, psycopg", "django_apps.py");
}

#[test]
fn adbc() {
    python_with("adbc_driver_postgresql.dbapi, pyarrow", "adbc_types.py");
}

#[test]
fn sysbench() {
    runs("sysbench.sh", ("sysbench", &["--version"]), ("sh", &[]));
}

#[test]
fn node_pg() {
    runs("node_pg.js", ("node", &["-e", "require('pg')"]), ("node", &[]));
}

#[test]
fn pgjdbc() {
    let jar = std::env::var("CELLAR_PGJDBC");
    let jar = jar.unwrap_or_else(|_| "/usr/share/java/postgresql.jar".to_owned());
    let needs = ("sh", ["-c", "test -f \"$0\" && command -v java", &jar]);
    runs("Metadata.java", (needs.0, &needs.1), ("java", &["-cp", &jar]));
}
