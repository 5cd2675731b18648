//! Storage that is made, opened, changed and closed without a database above it.

use bytes::Bytes;
use cellar_storage::request::NewLogfile;

use crate::machine::Machine;

fn names(storage: &cellar_storage::Storage) -> Vec<String> {
    storage.groups().all().iter().map(|mounted| mounted.group.name().to_owned()).collect()
}

#[test]
fn what_was_made_is_found_again_and_the_host_is_told() {
    let machine = Machine::new(1);
    machine.run(async {
        let storage = machine.init().await;
        assert_eq!(machine.told(), ["mounted 1 DATA"]);
        assert!(machine.disk_string().is_empty(), "those in the directory are found without it");
        storage.groups().create(&machine.more()).await.unwrap();
        assert_eq!(machine.told(), ["mounted 2 MORE"]);
        assert_eq!(machine.disk_string(), ["/sim/more0", "/sim/more1"]);
        storage.close().await.unwrap();
        assert_eq!(machine.told(), ["let go DATA", "gone DATA", "let go MORE", "gone MORE"]);

        let storage = machine.open(false).await;
        assert_eq!(names(&storage), ["DATA", "MORE"]);
        assert_eq!(machine.told(), ["mounted 1 DATA", "mounted 2 MORE"], "the catalog's first");
        let kept = storage.groups().check_drop("data").err().unwrap();
        assert_eq!(kept.number(), 15039, "it holds the catalog");
        let more = storage.groups().check_drop("more").unwrap();
        storage.groups().drop_group(&more, false).await.unwrap();
        assert_eq!(machine.told(), ["gone MORE"]);
        assert!(machine.disk_string().is_empty(), "another database may take them");
        storage.close().await.unwrap();
    });
}

#[test]
fn a_group_that_was_dismounted_is_named_and_mounts_again() {
    let machine = Machine::new(2);
    machine.run(async {
        let storage = machine.init().await;
        storage.groups().create(&machine.more()).await.unwrap();
        storage.groups().dismount("more", false).await.unwrap();
        assert_eq!(storage.groups().get("more").err().map(|error| error.number()), Some(15001));
        assert_eq!(storage.groups().unmounted_names().await, ["MORE"]);
        assert!(storage.groups().take_forced("more").is_none());
        storage.groups().mount("more", false).await.unwrap();
        let again = storage.groups().mount("more", true).await;
        assert_eq!(again.err().map(|error| error.number()), Some(15013));
        storage.close().await.unwrap();
    });
}

#[test]
fn the_redo_log_opens_with_its_storage_and_not_read_only() {
    let machine = Machine::new(3);
    machine.run(async {
        let storage = machine.init().await;
        let size = Some(1 << 20);
        let logfile = |number| NewLogfile { number: Some(number), size, ..NewLogfile::default() };
        let new = [logfile(1), logfile(2)];
        storage.redo().add_logfiles(&new, &|_, _| {}).await.unwrap();
        let session = machine.above.session("test");
        let log = storage.redo().log().unwrap();
        log.commit(&session, 1, Bytes::from_static(b"record")).await.unwrap();
        drop(log);
        storage.close().await.unwrap();

        let storage = machine.open(true).await;
        storage.redo().open().await;
        assert!(storage.redo().shared().is_there());
        let refused = storage.redo().add_logfiles(&new, &|_, _| {}).await;
        assert_eq!(refused.unwrap_err().number(), 70041);
        assert_eq!(storage.redo().log().unwrap_err().number(), 70041);
        let refused = storage.groups().create(&machine.more()).await;
        assert_eq!(refused.err().map(|error| error.number()), Some(70041));
        storage.close().await.unwrap();

        let storage = machine.open(false).await;
        storage.redo().open().await;
        assert_eq!(storage.redo().log().unwrap().log().groups().len(), 2);
        storage.close().await.unwrap();
    });
}
