//! Security: roles and passwords, TLS, rules, attempts to get in without them.

#![expect(clippy::disallowed_methods, reason = "a test of the program waits as a user would")]
#![cfg(feature = "sql")]

use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::program::command;
use crate::wire::{self, Served, Wire, first, message, query, served};

/// Another user of the machine.
const NOBODY: u32 = 65_534;

/// Whether there are psql and a right to be another user.
fn can_be_another() -> bool {
    let can = rustix::process::geteuid().is_root()
        && Command::new("psql").arg("--version").output().is_ok();
    if !can {
        eprintln!("SKIPPED: it takes root and psql (Debian package postgresql-client)");
    }
    can
}

/// What psql tells whom another user runs: rows, or errors.
fn psql(port: u16, user: &str, password: &str, more: &str, sql: &str) -> String {
    let target = format!("host=127.0.0.1 port={port} user={user} dbname=cellar {more}");
    let mut psql = Command::new("psql");
    psql.args([&target, "-X", "-A", "-t", "-w", "-c", sql]).current_dir("/");
    psql.env_remove("PGUSER").env("HOME", "/nonexistent").uid(NOBODY).gid(NOBODY);
    match password {
        "" => psql.env_remove("PGPASSWORD"),
        password => psql.env("PGPASSWORD", password),
    };
    let output = psql.output().unwrap();
    let told = [output.stdout, output.stderr].concat();
    String::from_utf8(told).unwrap().trim().to_owned()
}

/// The same without TLS.
fn plain(port: u16, user: &str, password: &str, sql: &str) -> String {
    psql(port, user, password, "sslmode=disable", sql)
}

/// What the owner's statements tell.
fn owner(served: &Served, statements: &[(&str, &str)]) {
    let mut client = served.client();
    for (sql, wanted) in statements {
        assert_eq!(client.sql(sql), *wanted, "{sql}");
    }
}

const WRONG: &str = "password authentication failed";

/// A password that is changed, taken away, and kept over a crash; of a role that is dropped.
fn passwords_are_changed(served: &mut Served) {
    owner(served, &[("alter role anna password 'second'", "ALTER ROLE")]);
    served.again();
    let port = served.port;
    assert_eq!(plain(port, "anna", "second", "select 1"), "1");
    assert!(plain(port, "anna", "first secret", "select 1").contains(WRONG));
    owner(served, &[("alter role anna rename to berta", "ALTER ROLE")]);
    assert_eq!(plain(port, "berta", "second", "select 1"), "1");
    assert!(plain(port, "anna", "second", "select 1").contains(WRONG));
    // The kept text is one for another role too, and not a password itself.
    let mut client = served.client();
    let kept = client.sql("select rolpassword from pg_authid where rolname = 'berta'");
    let kept = kept.trim_start_matches('(').split(')').next().unwrap().to_owned();
    assert!(kept.starts_with("SCRAM-SHA-256$4096:"), "{kept}");
    client.sql(&format!("create role carl login superuser password '{kept}'"));
    assert_eq!(plain(port, "carl", "second", "select 1"), "1");
    assert!(plain(port, "carl", &kept, "select 1").contains(WRONG));
    owner(
        served,
        &[
            ("alter role berta password null", "ALTER ROLE"),
            ("drop role carl", "DROP ROLE"),
            ("alter role cellar password 'mine'", "ALTER ROLE"),
        ],
    );
    for user in ["berta", "carl"] {
        assert!(plain(port, user, "second", "select 1").contains(WRONG), "{user}");
    }
    assert_eq!(plain(port, "cellar", "mine", "select current_user"), "cellar");
    // Letters beyond ASCII, as clients prepare them.
    owner(served, &[("alter role berta password 'p\u{e4}ss\u{2168}'", "ALTER ROLE")]);
    assert_eq!(plain(port, "berta", "p\u{e4}ssIX", "select 1"), "1");
    // Who was let in and is dropped meanwhile may do nothing more.
    let mut gone = Wire::connect(port);
    gone.send(&[first(3 << 16, b"user\0berta\0database\0cellar\0\0")]);
    gone.answers();
    assert_eq!(gone.sql("select current_user"), "(berta) SELECT 1");
    owner(served, &[("create table of_owner (a int) using heap", "CREATE TABLE")]);
    assert_eq!(gone.sql("select * from of_owner"), "SELECT 0");
    owner(served, &[("alter role berta nologin nosuperuser", "ALTER ROLE")]);
    assert_eq!(gone.sql("select 1"), "(1) SELECT 1");
    assert_eq!(gone.sql("select * from of_owner"), "42501");
    owner(served, &[("drop role berta", "DROP ROLE")]);
    assert_eq!(gone.sql("set role cellar"), "42501");
    assert_eq!(gone.kinds(&[wire::parse("", "select 1", &[]), wire::sync()]), "EZ");
}

#[test]
fn a_role_gets_in_with_its_password_and_nobody_without() {
    if !can_be_another() {
        return;
    }
    let mut served = served();
    owner(
        &served,
        &[
            ("create role anna login superuser password 'first secret'", "CREATE ROLE"),
            ("create user nopass superuser", "CREATE ROLE"),
            ("create role nologin superuser password 'x'", "CREATE ROLE"),
            (
                "create role late login superuser password 'x' valid until '2020-01-01'",
                "CREATE ROLE",
            ),
            (
                "create role soon login superuser password 'x' valid until '2999-01-01'",
                "CREATE ROLE",
            ),
            (
                "begin; create role never login superuser password 'x'; rollback",
                "BEGIN CREATE ROLE ROLLBACK",
            ),
        ],
    );
    let port = served.port;
    let who = "select current_user, session_user";
    assert_eq!(plain(port, "anna", "first secret", who), "anna|anna");
    assert_eq!(plain(port, "soon", "x", who), "soon|soon");
    for (user, password) in [
        ("anna", "first"),
        ("anna", "first secrets"),
        ("nopass", "x"),
        ("nologin", "x"),
        ("late", "x"),
        ("never", "x"),
        ("nosuch", "x"),
        ("cellar", "x"),
        ("root", "x"),
    ] {
        let told = plain(port, user, password, who);
        assert!(told.contains(WRONG) && told.contains(user), "{user}: {told}");
        // Else each would cost more than the one before.
        assert_eq!(plain(port, "anna", "first secret", "select 1"), "1");
    }
    for user in ["anna", "cellar", "nobody"] {
        let told = plain(port, user, "", who);
        assert!(told.contains("password") && !told.contains('|'), "{user}: {told}");
    }
    // The owner is any role without one; and not one that may not log in.
    for (user, wanted) in [("anna", b'R'), ("nologin", b'E'), ("nosuch", b'E')] {
        let mut wire = Wire::connect(port);
        wire.send(&[first(3 << 16, format!("user\0{user}\0\0").as_bytes())]);
        assert_eq!(wire.next().unwrap().kind, wanted, "{user}");
    }
    let mut counted = served.client();
    let failed = counted.sql("select value >= 9 from v$sysstat where name = 'logons failed'");
    assert_eq!(failed, "(t) SELECT 1");
    passwords_are_changed(&mut served);
    served.end();
}

#[test]
fn statements_about_roles_say_what_is_wrong() {
    let served = served();
    owner(
        &served,
        &[
            ("create role a", "CREATE ROLE"),
            ("create role a", "42710"),
            ("create role b in role a", "CREATE ROLE"),
            ("create role \"Q r\" with nologin connection limit 3 noinherit", "CREATE ROLE"),
            ("grant a to b", "GRANT"),
            ("grant b to a", "0LP01"),
            ("grant a to a", "0LP01"),
            ("grant a to nosuch", "42704"),
            ("grant b to \"Q r\" with admin option", "GRANT"),
            (
                "select r.rolname, m.rolname, admin_option from pg_auth_members x join pg_roles r on r.oid = x.roleid \
                 join pg_roles m on m.oid = x.member order by 1",
                "(a,b,f) (b,Q r,t) SELECT 2",
            ),
            ("revoke admin option for b from \"Q r\"", "REVOKE"),
            ("revoke b from \"Q r\"", "REVOKE"),
            ("select count(*) from pg_auth_members", "(1) SELECT 1"),
            ("alter role a rename to z", "ALTER ROLE"),
            ("select 'z'::regrole::text, pg_get_userbyid(10)", "(z,cellar) SELECT 1"),
            ("drop role b", "DROP ROLE"),
            ("drop role b", "42704"),
            ("drop role if exists b, z", "DROP ROLE"),
            ("create role none", "42939"),
            ("create role pg_x", "42939"),
            ("create role public", "42939"),
            ("create role current_user", "42939"),
            ("create role \"\"", "42601"),
            ("create role x createdb", "0A000"),
            ("create role x replication", "0A000"),
            ("create role x nocreatedb noreplication nobypassrls", "CREATE ROLE"),
            ("create role y password 'md5c8b1b2f4f0e6b0c8b1b2f4f0e6b0c8b1'", "0A000"),
            ("create role y password ''", "22023"),
            ("create role y unencrypted password 'x'", "0A000"),
            ("create role y login nologin", "42601"),
            ("create role y valid until 'tomorrow'", "22007"),
            ("create role y connection limit -2", "22023"),
            ("create role y password secret", "42601"),
            ("alter role nosuch login", "42704"),
            ("alter role x set search_path to a", "0A000"),
            ("alter role cellar nosuperuser", "2BP01"),
            ("alter role cellar rename to x", "2BP01"),
            ("drop role cellar", "2BP01"),
            ("grant cellar to x", "0LP01"),
            (
                "select rolname from pg_roles order by 1",
                "(Q r) (cellar) (pg_database_owner) (x) SELECT 4",
            ),
        ],
    );
    served.end();
}

#[test]
fn sessions_act_as_roles() {
    let served = served();
    owner(
        &served,
        &[
            ("create role x", "CREATE ROLE"),
            ("create role s superuser", "CREATE ROLE"),
            (
                "begin; set local role s; select current_user, session_user",
                "BEGIN SET (s,cellar) SELECT 1 T",
            ),
            ("commit; select current_user", "COMMIT (cellar) SELECT 1"),
            ("set role s; show role", "SET (s) SHOW"),
            ("drop role s", "55006"),
            (
                "begin; reset role; rollback; select current_user",
                "BEGIN RESET ROLLBACK (s) SELECT 1",
            ),
            ("discard all", "DISCARD ALL"),
            ("select current_user", "(cellar) SELECT 1"),
            ("set session authorization s; select session_user", "SET (s) SELECT 1"),
            ("reset session authorization; select session_user", "RESET (cellar) SELECT 1"),
            ("set role nosuch", "42704"),
            ("set role s; create table mine (a int)", "SET CREATE TABLE"),
            ("show password_encryption", "(scram-sha-256) SHOW"),
            ("grant select on mine to x", "GRANT"),
            ("revoke all on mine from public", "REVOKE"),
            ("alter default privileges grant select on tables to s", "0A000"),
            ("set role x; select count(*) from mine", "SET (0) SELECT 1"),
            ("drop table mine", "42501"),
            ("reset role; reassign owned by s to x", "RESET REASSIGN OWNED"),
            ("drop owned by s, x", "DROP OWNED"),
            ("select count(*) from mine", "42P01"),
            ("select set_config('role', 's', false)", "55P02"),
        ],
    );
    served.end();
}

#[test]
fn nothing_tells_a_password() {
    let served = served();
    let mut client = served.client();
    const SECRET: &str = "Hunter2Hunter2";
    client.sql(&format!("create role r login superuser password '{SECRET}'"));
    client.sql(&format!("alter user r with encrypted password $${SECRET}$$"));
    // One at work shows its text to others: up to the word.
    let mut waits = served.client();
    assert_eq!(client.sql("begin; alter role r connection limit 5"), "BEGIN ALTER ROLE T");
    waits.send(&[query(&format!("/* {} */ alter role r password '{SECRET}'", "x".repeat(50)))]);
    std::thread::sleep(Duration::from_millis(300));
    let mut looks = served.client();
    let seen = looks.sql("select query from pg_stat_activity where query like '%alter role r%'");
    assert!(seen.contains("password ***"), "{seen}");
    for (table, column) in
        [("v$session", "sql_text"), ("v$sql", "sql_text"), ("pg_stat_activity", "query")]
    {
        let sql = format!("select count(*) from {table} where {column} like '%unter2H%'");
        let told = looks.sql(&sql);
        // Which asks for it, and says so itself.
        assert!(told == "(0) SELECT 1" || told == "(1) SELECT 1", "{table}: {told}");
    }
    assert_eq!(client.sql("commit"), "COMMIT");
    for wrong in ["passwort 'S'", "password 'S' 'S'", "password \"S\"", "password S", "login 'S'"] {
        let sql = format!("create role w {}", wrong.replace('S', SECRET));
        client.send(&[query(&sql)]);
        let told = client.answers();
        let error = told.iter().find(|own| own.kind == b'E').unwrap();
        let said = String::from_utf8_lossy(&error.body).into_owned();
        assert!(!said.contains(SECRET), "{wrong}: {said}");
    }
    let dir = served.end();
    for file in ["db/disks/disk1", "db/disks/disk2", "db/cellar.toml"] {
        let path = dir.path().join(file);
        let found = Command::new("grep").args(["-q", "-a", SECRET]).arg(&path).status().unwrap();
        assert_eq!(found.code(), Some(1), "{file} holds the password");
    }
    let mode = |name: &str| {
        std::fs::metadata(dir.path().join("db").join(name)).unwrap().permissions().mode() & 0o777
    };
    assert_eq!((mode("server.key"), mode("login.secret")), (0o600, 0o600));
}

/// A connection of another user, who says what he likes.
struct Nobody(Child);

impl Nobody {
    fn connect(port: u16) -> Nobody {
        // What reads for the test ends with the connection.
        let script =
            format!("exec 3<>/dev/tcp/127.0.0.1/{port} 4<&0; cat <&4 >&3 & exec cat <&3 4<&-");
        let mut bash = Command::new("bash");
        bash.args(["-c", &script]).stdin(Stdio::piped()).stdout(Stdio::piped());
        Nobody(bash.uid(NOBODY).gid(NOBODY).current_dir("/").spawn().unwrap())
    }

    fn send(&mut self, bytes: &[u8]) {
        let stdin = self.0.stdin.as_mut().unwrap();
        // The server may have closed it already.
        let _ = stdin.write_all(bytes).and_then(|()| stdin.flush());
    }

    /// The next message; `None`: the connection is over.
    fn next(&mut self) -> Option<wire::Message> {
        let stdout = self.0.stdout.as_mut().unwrap();
        let mut head = [0u8; 5];
        stdout.read_exact(&mut head).ok()?;
        let length = u32::from_be_bytes(head[1..].try_into().unwrap()) as usize;
        let mut body = vec![0; length - 4];
        stdout.read_exact(&mut body).unwrap();
        Some(wire::Message { kind: head[0], body })
    }
}

impl Drop for Nobody {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// More and more, and nobody else: the owner waits for nothing.
fn failures_cost_time(served: &Served) {
    for _ in 0..2 {
        assert!(plain(served.port, "anna", "wrong", "select 1").contains(WRONG));
    }
    let (begun, port) = (Instant::now(), served.port);
    let slow = std::thread::spawn(move || plain(port, "anna", "wrong", "select 1"));
    assert_eq!(served.client().sql("select 1"), "(1) SELECT 1");
    assert!(begun.elapsed() < Duration::from_secs(1));
    assert!(slow.join().unwrap().contains(WRONG));
    assert!(begun.elapsed() > Duration::from_millis(1500), "{:?}", begun.elapsed());
    assert_eq!(plain(port, "anna", "x", "select 1"), "1");
}

#[test]
fn who_proves_nothing_is_told_nothing() {
    if !can_be_another() {
        return;
    }
    let served = served();
    owner(&served, &[("create role anna login superuser password 'x'", "CREATE ROLE")]);
    let startup =
        |user: &str| first(3 << 16, format!("user\0{user}\0database\0cellar\0\0").as_bytes());
    let chosen = |method: &str, said: &str| {
        let length = (said.len() as u32).to_be_bytes();
        message(b'p', &[method.as_bytes(), b"\0", &length, said.as_bytes()].concat())
    };
    let asked = |user: &str| {
        let mut nobody = Nobody::connect(served.port);
        nobody.send(&startup(user));
        let methods = nobody.next().unwrap();
        assert_eq!((methods.kind, &methods.body[..]), (b'R', &b"\0\0\0\x0aSCRAM-SHA-256\0\0"[..]));
        nobody.send(&chosen("SCRAM-SHA-256", "n,,n=,r=abcdef"));
        let said = nobody.next().unwrap();
        assert_eq!((said.kind, &said.body[..4]), (b'R', &[0, 0, 0, 11][..]));
        let text = String::from_utf8(said.body[4..].to_vec()).unwrap();
        (nobody, text)
    };
    let salt = |text: &str| text.split(",s=").nth(1).unwrap().to_owned();
    // A role that there is not has a salt of its own too, always the same.
    assert_eq!(salt(&asked("nosuch").1), salt(&asked("nosuch").1));
    assert_ne!(salt(&asked("nosuch").1), salt(&asked("other").1));
    assert_eq!(salt(&asked("anna").1), salt(&asked("anna").1));
    let nonces: Vec<String> =
        (0..2).map(|_| asked("anna").1.split(',').next().unwrap().to_owned()).collect();
    assert_ne!(nonces[0], nonces[1]);
    // Messages that are none, at each step.
    for bytes in [
        query("select 1"),
        message(b'P', b"\0select 1\0\0\0"),
        message(b'X', b""),
        message(b'p', b"x"),
        message(b'p', b"md50123456789\0"),
        message(b'p', b"SCRAM-SHA-256\0\x7f\xff\xff\xff"),
        chosen("SCRAM-SHA-256-PLUS", "p=tls-server-end-point,,n=,r=a"),
        chosen("SCRAM-SHA-256", "y,,"),
        chosen("SCRAM-SHA-256", ",,,,,,"),
        chosen("SCRAM-SHA-256", "n,a=cellar,n=,r=abc"),
        chosen("PLAIN", "\u{0}anna\u{0}x"),
        vec![b'Q', 0x3f, 0xff, 0xff, 0xff, 0],
        vec![b'p', 0x3f, 0xff, 0xff, 0xff, 0],
    ] {
        let mut nobody = Nobody::connect(served.port);
        nobody.send(&startup("anna"));
        assert_eq!(nobody.next().unwrap().kind, b'R');
        nobody.send(&bytes);
        let told = nobody.next();
        assert!(told.as_ref().is_none_or(|own| own.kind == b'E'), "{bytes:?}: {told:?}");
        assert_eq!(nobody.next(), None, "{bytes:?}");
    }
    for last in ["", "c=biws", "c=biws,r=abcdef,p=AAAA", "p=", "c=biws,r=X,p=Y", "c=eSws,r=X,p=Y"] {
        let (mut nobody, said) = asked("anna");
        let nonce = said.split(',').next().unwrap().trim_start_matches("r=").to_owned();
        let proof = format!("{}=", "A".repeat(43));
        let last = last.replace('X', &nonce).replace('Y', &proof);
        nobody.send(&message(b'p', last.as_bytes()));
        nobody.send(&query("select 1"));
        let told = nobody.next().unwrap();
        assert_eq!((told.kind, &*told.field(b'S')), (b'E', "FATAL"), "{last}");
        assert_eq!(nobody.next(), None, "{last}");
    }
    failures_cost_time(&served);
    served.end();
}

/// What a client of another user is told with TLS.
fn with_tls(served: &Served, more: &str) -> String {
    let mode = if more.contains("sslmode") { "" } else { "sslmode=require" };
    psql(served.port, "anna", "x", &format!("{mode} {more}"), "select 1")
}

fn mode(path: &Path, mode: u32) {
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
}

/// A server does not start with a certificate or a key that is not as it must be.
fn wrong_files_are_told(served: &Served, old: &(PathBuf, PathBuf), kept: &(Vec<u8>, Vec<u8>)) {
    let start = || {
        let output =
            command(served.dir.path(), &["start", "db", "--listen", "127.0.0.1:0"]).output();
        let output = output.unwrap();
        assert!(!output.status.success());
        String::from_utf8(output.stderr).unwrap()
    };
    assert!(start().contains("server.crt holds no certificate"));
    std::fs::write(&old.0, &kept.0).unwrap();
    assert!(start().contains("do not fit"));
    std::fs::write(&old.1, &kept.1).unwrap();
    mode(&old.1, 0o640);
    let told = start();
    assert!(told.contains("others can read") && told.contains("Next: chmod 600"), "{told}");
    mode(&old.1, 0o600);
}

#[test]
fn tls_is_there_from_the_start_and_its_files_can_be_replaced() {
    if !can_be_another() {
        return;
    }
    let mut served = served();
    owner(&served, &[("create role anna login superuser password 'x'", "CREATE ROLE")]);
    let dir = served.dir.path().join("db");
    // Where another user can read it.
    let public = tempfile::tempdir().unwrap();
    mode(public.path(), 0o755);
    let root = public.path().join("root.crt");
    std::fs::copy(dir.join("server.crt"), &root).unwrap();
    let verified = format!("sslmode=verify-ca sslrootcert={}", root.display());
    assert_eq!(with_tls(&served, ""), "1");
    assert_eq!(with_tls(&served, "channel_binding=require"), "1");
    assert_eq!(with_tls(&served, &verified), "1");
    assert_eq!(with_tls(&served, "sslmode=disable"), "1");
    let told = with_tls(&served, "sslmode=disable channel_binding=require");
    assert!(told.contains("channel binding"), "{told}");
    // What is sent before the answer was not encrypted.
    for more in [query("select 1"), first(3 << 16, b"user\0cellar\0\0"), vec![0x16, 3, 1]] {
        let mut wire = Wire::connect(served.port);
        wire.send(&[first(80_877_103, b""), more]);
        let told = wire.next().unwrap();
        assert_eq!((told.kind, &*told.field(b'C')), (b'E', "08P01"));
        assert_eq!(wire.next(), None);
    }
    // And bytes that are none of TLS end their connection alone.
    for bytes in [vec![0x16; 300], [first(80_877_103, b""), vec![]].concat()] {
        let mut wire = Wire::connect(served.port);
        wire.send(&[bytes]);
        std::thread::sleep(Duration::from_millis(50));
        let _ = wire.socket.write_all(&[0; 100]);
        let mut rest = Vec::new();
        let _ = wire.socket.read_to_end(&mut rest);
        assert!(!rest.contains(&b'Z'));
    }
    // Other files, and HUP: who is there stays, who comes sees them.
    let mut stays = served.client();
    let old = (dir.join("server.crt"), dir.join("server.key"));
    let kept = (std::fs::read(&old.0).unwrap(), std::fs::read(&old.1).unwrap());
    std::fs::remove_file(&old.0).unwrap();
    std::fs::remove_file(&old.1).unwrap();
    served.signal("-HUP");
    let until = Instant::now() + Duration::from_secs(10);
    while with_tls(&served, &verified) == "1" {
        assert!(Instant::now() < until, "the old certificate is still shown");
    }
    assert_ne!(std::fs::read(&old.0).unwrap(), kept.0);
    assert_eq!(with_tls(&served, "channel_binding=require"), "1");
    assert_eq!(stays.sql("select 1"), "(1) SELECT 1");
    // What is wrong is told, and all stays as it was.
    std::fs::write(&old.0, "nothing").unwrap();
    served.signal("-HUP");
    std::thread::sleep(Duration::from_millis(300));
    assert_eq!(with_tls(&served, ""), "1");
    served.signal("-TERM");
    drop(stays);
    assert!(served.child.wait().unwrap().success());
    wrong_files_are_told(&served, &old, &kept);
    (served.child, served.port) = wire::start(served.dir.path());
    assert_eq!(with_tls(&served, &verified), "1");
    served.end();
}

#[test]
fn rules_say_who_needs_what() {
    if !can_be_another() {
        return;
    }
    let mut served = served();
    owner(
        &served,
        &[
            ("create role anna login superuser password 'x'", "CREATE ROLE"),
            ("create role nobody login superuser", "CREATE ROLE"),
            ("create role eve login superuser password 'x'", "CREATE ROLE"),
        ],
    );
    let file = served.dir.path().join("db/cellar.toml");
    let before = std::fs::read_to_string(&file).unwrap();
    let rules = "hba = [\n  { type = 'host', user = 'eve', method = 'reject' },\n  \
                 { type = 'host', user = 'nobody', address = 'loopback', method = 'peer' },\n  \
                 { type = 'hostssl', user = 'anna', method = 'scram-sha-256' },\n]\n";
    std::fs::write(&file, format!("{before}{rules}")).unwrap();
    served.signal("-HUP");
    let until = Instant::now() + Duration::from_secs(10);
    while plain(served.port, "eve", "x", "select 1") == "1" {
        assert!(Instant::now() < until, "the rules are not in force");
    }
    let port = served.port;
    assert_eq!(plain(port, "nobody", "", "select current_user"), "nobody");
    assert!(plain(port, "anna", "x", "select 1").contains("no hba rule"));
    assert_eq!(psql(port, "anna", "x", "sslmode=require", "select 1"), "1");
    // The owner is let in whatever they say, and a parameter that is set leaves them as they are.
    owner(&served, &[("alter system set scan_depth = 8 scope = spfile", "ALTER SYSTEM")]);
    served.again();
    assert_eq!(plain(served.port, "nobody", "", "select current_user"), "nobody");
    assert!(plain(served.port, "eve", "x", "select 1").contains("no hba rule"));
    // One that is wrong is told with its line, and nothing changes.
    let now = std::fs::read_to_string(&file).unwrap();
    std::fs::write(
        &file,
        format!("# one\n{before}hba = [{{ type = 'host', method = 'trust' }}]\n"),
    )
    .unwrap();
    served.signal("-HUP");
    std::thread::sleep(Duration::from_millis(300));
    assert!(plain(served.port, "eve", "x", "select 1").contains("no hba rule"));
    served.signal("-TERM");
    assert!(served.child.wait().unwrap().success());
    let output = command(served.dir.path(), &["start", "db"]).output().unwrap();
    let told = String::from_utf8(output.stderr).unwrap();
    assert!(
        !output.status.success() && told.contains("\"trust\"") && told.contains("line "),
        "{told}"
    );
    std::fs::write(&file, now).unwrap();
    (served.child, served.port) = wire::start(served.dir.path());
    served.end();
}

#[test]
fn another_machine_needs_tls_and_a_password() {
    if !can_be_another() {
        return;
    }
    let output = Command::new("hostname").arg("-I").output();
    let addresses = output.map(|own| String::from_utf8_lossy(&own.stdout).into_owned());
    let Some(address) = addresses.unwrap_or_default().split(' ').next().map(str::to_owned) else {
        return;
    };
    if address.trim().is_empty() || address.starts_with("127.") {
        eprintln!("SKIPPED: this machine has no address of its own");
        return;
    }
    let mut served = served();
    owner(&served, &[("create role anna login superuser password 'x'", "CREATE ROLE")]);
    served.signal("-TERM");
    assert!(served.child.wait().unwrap().success());
    let mut child = command(served.dir.path(), &["start", "db", "--listen", "0.0.0.0:0"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    let stdout = child.stdout.take().unwrap();
    std::io::BufRead::read_line(&mut std::io::BufReader::new(stdout), &mut line).unwrap();
    served.port = line.trim().rsplit(' ').next().unwrap().parse().unwrap();
    served.child = child;
    let from = |more: &str, password: &str| {
        let more = format!("hostaddr={} {more}", address.trim());
        psql(served.port, "anna", password, &more, "select 1")
    };
    assert!(from("sslmode=disable", "x").contains("by TLS alone"));
    assert_eq!(from("sslmode=require", "x"), "1");
    assert!(from("sslmode=require", "y").contains(WRONG));
    // Also who would be the owner: nobody knows who is at the other end.
    let mut wire = Wire::connect(served.port);
    wire.socket = std::net::TcpStream::connect((address.trim(), served.port)).unwrap();
    wire.send(&[first(3 << 16, b"user\0cellar\0\0")]);
    let told = wire.next().unwrap();
    assert_eq!((told.kind, &*told.field(b'C')), (b'E', "28000"));
    served.end();
}

/// Runs openssl in a directory.
fn openssl(dir: &Path, words: &str) -> bool {
    let output = Command::new("openssl").args(words.split(' ')).current_dir(dir).output();
    output.is_ok_and(|output| output.status.success())
}

#[test]
fn a_certificate_is_one_for_its_name_alone() {
    if !can_be_another() || !openssl(Path::new("/"), "version") {
        return;
    }
    let served = served();
    owner(
        &served,
        &[
            ("create role anna login superuser password 'x'", "CREATE ROLE"),
            ("create role bob login superuser password 'x'", "CREATE ROLE"),
        ],
    );
    let public = tempfile::tempdir().unwrap();
    let at = public.path();
    std::fs::set_permissions(at, std::fs::Permissions::from_mode(0o755)).unwrap();
    for ca in ["root", "other"] {
        let made = format!(
            "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout {ca}.key -out {ca}.crt -days 30 \
             -subj /CN={ca}"
        );
        assert!(openssl(at, &made));
        let asked = format!(
            "req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout {ca}_c.key -out {ca}_c.csr -subj /CN=anna"
        );
        assert!(openssl(at, &asked));
        std::fs::write(at.join("ext"), "basicConstraints=CA:FALSE\n").unwrap();
        let signed = format!(
            "x509 -req -in {ca}_c.csr -CA {ca}.crt -CAkey {ca}.key -CAcreateserial -extfile ext -out {ca}_c.crt \
             -days 30"
        );
        assert!(openssl(at, &signed));
        let key = at.join(format!("{ca}_c.key"));
        std::os::unix::fs::chown(&key, Some(NOBODY), Some(NOBODY)).unwrap();
        std::fs::set_permissions(&key, std::fs::Permissions::from_mode(0o600)).unwrap();
    }
    let db = served.dir.path().join("db");
    std::fs::copy(at.join("root.crt"), db.join("root.crt")).unwrap();
    let rules = "hba = [{ type = 'hostssl', method = 'cert' }]\n";
    let file = db.join("cellar.toml");
    let before = std::fs::read_to_string(&file).unwrap();
    std::fs::write(&file, format!("{before}{rules}")).unwrap();
    served.signal("-HUP");
    let until = Instant::now() + Duration::from_secs(10);
    while plain(served.port, "anna", "x", "select 1") == "1" {
        assert!(Instant::now() < until, "the rules are not in force");
    }
    let by = |ca: &str, user: &str| {
        let more =
            format!("sslmode=require sslcert={0}/{ca}_c.crt sslkey={0}/{ca}_c.key", at.display());
        psql(served.port, user, "x", &more, "select current_user")
    };
    assert_eq!(by("root", "anna"), "anna");
    assert!(by("root", "bob").contains("certificate authentication failed"));
    assert!(!by("other", "anna").starts_with("anna"));
    let without = psql(served.port, "anna", "x", "sslmode=require sslcert=/nosuch", "select 1");
    assert!(without.contains("certificate authentication failed"), "{without}");
    served.end();
}
