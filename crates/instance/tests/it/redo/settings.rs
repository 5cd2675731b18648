//! Parameters about the log, and what is known of archives when their place changes.

use cellar_instance::Database;
use cellar_instance::parameters::Scope;
use cellar_instance::views::log_history;

use super::{MEDIA, commit, make, session};
use crate::machine::Machine;

/// Numbers of the refusal of SET, or of RESET where there is no value; nothing has changed.
async fn refused(database: &Database, value: Option<&str>, number: u32) {
    let name = "log_archive_dest";
    let before = database.instance().parameters().text(name);
    for scope in [None, Some(Scope::Memory), Some(Scope::Spfile)] {
        let set = match value {
            Some(value) => database.alter_system_set(name, value, scope).await,
            None => database.alter_system_reset(name, scope).await,
        };
        let error = set.unwrap_err();
        assert!(error.number() == number && error.has(2097), "{value:?} {scope:?}: {error}");
        assert!(error.next_step().is_some(), "{value:?}: {error}");
    }
    assert_eq!(database.instance().parameters().text(name), before);
}

/// The notices of SET.
async fn notices(database: &Database, name: &str, value: &str) -> Vec<String> {
    database.alter_system_set(name, value, None).await.unwrap().notices
}

/// Where the archive of each sequence is, which is there.
fn archives(database: &Database) -> Vec<String> {
    let shown = |path: &str| {
        let (group, inside) = path.strip_prefix('+').unwrap().split_once('/').unwrap();
        let group = database.group(group).unwrap().group;
        assert!(group.open(inside).is_ok(), "there is no {path}");
        path.split('/').next().unwrap().to_owned()
    };
    let rows = log_history(database.instance().redo());
    rows.iter().filter_map(|row| row.archive.as_deref()).map(shown).collect()
}

async fn archive(database: &Database, number: u64) {
    assert!(commit(&database.storage().redo().log().unwrap(), &session(database), number).await);
    database.storage().redo().archive_log_current(session(database).waits()).await.unwrap();
}

#[test]
fn what_a_parameter_cannot_do_for_the_log_is_refused_or_said() {
    let machine = Machine::new(80);
    machine.run(async {
        let database = machine.open().await;
        refused(&database, Some("+NOSUCH/arch"), 15001).await;
        refused(&database, Some(&format!("+DATA/{}", "d".repeat(200))), 96).await;
        assert!(notices(&database, "redo_quorum", "2").await.is_empty(), "there is no log");
        assert!(notices(&database, "log_archive_dest", "").await.is_empty());
        make(&database, &MEDIA).await;
        for (name, value) in
            [("log_archive_dest", "+DATA"), ("redo_quorum", "1"), ("log_block_size", "4096")]
        {
            let notices = notices(&database, name, value).await;
            let is_said = notices.len() == 1 && notices[0].contains(name);
            assert!(is_said && notices[0].contains("DROP LOGFILE ALL"), "{notices:?}");
        }
        let notices = database.alter_system_reset("redo_quorum", None).await.unwrap().notices;
        assert_eq!(notices.len(), 1, "{notices:?}");
        database.alter_system_reset("log_archive_dest", None).await.unwrap();
        let error = database
            .storage()
            .redo()
            .archive_log_current(session(&database).waits())
            .await
            .unwrap_err();
        assert_eq!(error.number(), 258, "it is not archived");

        database.storage().redo().drop_log().await.unwrap();
        database.alter_system_set("log_archive_dest", "+DATA", None).await.unwrap();
        make(&database, &MEDIA).await;
        refused(&database, Some(""), 96).await;
        refused(&database, None, 96).await;
        refused(&database, Some("+NOSUCH"), 15001).await;
        archive(&database, 1).await;
        assert_eq!(archives(&database), ["+DATA"]);
        database.storage().redo().drop_log().await.unwrap();
        database.alter_system_reset("log_archive_dest", None).await.unwrap();
        database.close().await.unwrap();
    });
}

#[test]
fn archives_are_known_where_they_are_and_a_change_for_the_next_start_is_in_force_then() {
    let machine = Machine::new(81);
    machine.run(async {
        let database = machine.open().await;
        database.alter_system_set("log_archive_dest", "+DATA", None).await.unwrap();
        make(&database, &MEDIA).await;
        archive(&database, 1).await;
        let spfile = Some(Scope::Spfile);
        database.alter_system_set("log_archive_dest", "+MORE/arch", spfile).await.unwrap();
        archive(&database, 2).await;
        assert_eq!(archives(&database), ["+DATA"; 2]);
        database.close().await.unwrap();

        let database = machine.open().await;
        archive(&database, 3).await;
        assert_eq!(archives(&database), ["+DATA", "+DATA", "+MORE"]);
        // As after a crash between the naming of an archive and the note that it is there.
        let control = database.storage().redo().log().unwrap().control().clone();
        control.note(|notes| notes.set_cleared(1, true)).await.unwrap();
        assert_eq!(archives(&database), ["+DATA", "+MORE"]);
        drop(control);
        database.alter_system_set("log_archive_dest", "+DATA", None).await.unwrap();
        archive(&database, 4).await;
        database.close().await.unwrap();

        let database = machine.open().await;
        assert_eq!(archives(&database), ["+DATA", "+DATA", "+MORE", "+DATA"]);
        assert_eq!(database.storage().redo().log().unwrap().gaps(), [0; 0]);
        database.close().await.unwrap();
    });
}

#[test]
fn archiving_goes_on_at_once_where_the_place_is_changed() {
    let machine = Machine::new(82);
    machine.run(async {
        let database = machine.open().await;
        database.alter_system_set("log_archive_dest", "+MORE", None).await.unwrap();
        make(&database, &MEDIA).await;
        archive(&database, 1).await;
        database.storage().groups().dismount("MORE", true).await.unwrap();
        let opened = database.storage().redo().log().unwrap();
        assert!(commit(&opened, &session(&database), 2).await);
        database
            .storage()
            .redo()
            .archive_log_current(session(&database).waits())
            .await
            .unwrap_err();
        assert!(opened.archive_error().is_some());
        let before = database.env().now();
        database.alter_system_set("log_archive_dest", "+DATA", None).await.unwrap();
        archive(&database, 3).await;
        let took = database.env().now().since(before);
        assert!(took < std::time::Duration::from_secs(2), "{took:?}");
        assert!(opened.archive_error().is_none());
        database.mount_group("MORE", false).await.unwrap();
        assert_eq!(archives(&database)[..2], ["+MORE", "+DATA"]);
        drop(opened);
        database.close().await.unwrap();
    });
}
